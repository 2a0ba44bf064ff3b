"""A run that asks for an operator at the page holds while nobody is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.safety.publisher_guard import ABSENT_S
from robot_stack.types.command import Mode
from tests.control.filter_rig import MS, Rig
from tests.examples import examples


def attended(rig: Rig, seconds: float) -> None:
    """Ticks with somebody at the page, five times a second."""
    for tick in range(round(seconds * 100)):
        if tick % 20 == 0:
            rig.filter.offer_operator(rig.now_ns)
        rig.tick()


def test_without_a_person_at_the_page_the_cell_is_not_armed():
    rig = Rig(operator_required=True)
    rig.filter.offer_state(rig.state(), rig.now_ns)
    assert "nobody has the operator's page open" in str(rig.filter.arm(rig.now_ns))
    rig.filter.offer_operator(rig.now_ns)
    assert rig.filter.arm(rig.now_ns) is None


def test_a_page_that_is_lost_is_a_hold_that_only_its_return_and_a_person_end():
    rig = Rig(operator_required=True)
    rig.filter.offer_operator(rig.now_ns)
    rig.armed()
    rig.policy = np.array([0.02, 0, 0, 0, 0, 0])
    attended(rig, 1.0)
    assert rig.filter.mode is Mode.POLICY
    rig.run(ABSENT_S + 0.3)
    assert rig.filter.mode is Mode.HOLD
    assert "operator's page is lost or out of view" in str(rig.filter.reason)
    assert "operator's page" in str(rig.filter.resume(rig.now_ns))
    attended(rig, 0.5)
    assert rig.filter.mode is Mode.HOLD, "its return alone resumes nothing"
    assert rig.filter.resume(rig.now_ns) is None


def test_a_run_that_asks_for_nobody_goes_on_alone():
    rig = Rig().armed()
    rig.policy = np.zeros(6)
    rig.run(3 * ABSENT_S)
    assert rig.filter.mode is Mode.POLICY


@pytest.mark.long
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=3))
def test_nothing_moves_later_than_the_limit_after_the_last_word(gaps_ticks):
    rig = Rig(operator_required=True)
    rig.filter.offer_operator(rig.now_ns)
    rig.armed()
    rig.policy = np.array([0.02, 0, 0, 0, 0, 0])
    for gap in gaps_ticks:
        heard_ns = rig.now_ns
        rig.filter.offer_operator(heard_ns)
        for _ in range(gap):
            decision = rig.tick()
            if rig.now_ns - heard_ns > ABSENT_S * 1e9 + 10 * MS:
                assert decision.mode is Mode.HOLD
                assert np.abs(decision.command.twist).max() == pytest.approx(0.0)
