"""What is recorded of a control step is what was executed."""

from __future__ import annotations

from collections.abc import Sized

import numpy as np
import pytest

from robot_stack.control.executed import ExecutedAccumulator
from robot_stack.types.command import Command, Decision, Mode, Source
from tests.control.filter_rig import Rig, twist


def decision(
    source: Source, motion: np.ndarray, *, clamped: tuple[str, ...] = (), gripper: float | None = None
) -> Decision:
    command = Command(arm="arm", twist=motion, stamp_ns=1, source=source, gripper=gripper)
    return Decision(command=command, mode=Mode.POLICY, source=source, requested=2 * motion, clamped=clamped)


def window(*decisions: Decision):
    accumulator = ExecutedAccumulator()
    for one in decisions:
        accumulator.add(one)
    return accumulator.take()


@pytest.mark.parametrize(
    ("sources", "dominant"),
    [
        ([Source.POLICY, Source.POLICY], Source.POLICY),
        ([Source.POLICY, Source.HOLD], Source.HOLD),
        ([Source.HOLD, Source.IDLE, Source.POLICY], Source.IDLE),
        ([Source.IDLE, Source.HUMAN, Source.POLICY], Source.HUMAN),
    ],
)
def test_the_dominant_source_of_a_window(sources: list[Source], dominant: Source):
    assert window(*[decision(source, np.zeros(6)) for source in sources]).source is dominant


def test_twists_are_means_over_the_whole_window():
    result = window(decision(Source.POLICY, twist(x=0.1)), decision(Source.HUMAN, twist(x=0.3)))
    np.testing.assert_allclose(result.twist, twist(x=0.2))
    np.testing.assert_allclose(result.human_twist, twist(x=0.3))


def test_a_single_cut_marks_the_window():
    result = window(decision(Source.POLICY, np.zeros(6)), decision(Source.POLICY, np.zeros(6), clamped=("speed",)))
    assert (result.clipped, result.clamped) == (True, ("speed",))


def test_the_policys_gripper_is_no_press_of_the_human():
    result = window(decision(Source.HUMAN, np.zeros(6)), decision(Source.POLICY, np.zeros(6), gripper=1.0))
    assert (result.gripper, result.human_gripper) == (1.0, 0)
    assert window(decision(Source.HUMAN, np.zeros(6), gripper=0.0)).human_gripper == -1


def test_taking_empties_the_window():
    accumulator = ExecutedAccumulator()
    accumulator.add(decision(Source.POLICY, twist(x=0.1)))
    accumulator.take()
    empty = accumulator.take()
    assert empty.source is Source.HOLD
    assert not empty.twist.any()


def test_executed_is_what_was_cut_not_what_was_asked():
    rig = Rig().armed()
    rig.policy = twist(x=2.0)
    rig.run(0.5)
    result = window(*rig.run(0.1))
    assert result.twist[0] == pytest.approx(rig.limits.max_speed_m_s, abs=1e-6)
    assert result.clipped
    assert "speed" in result.clamped


def test_hours_of_waiting_fill_no_memory():
    def kept() -> int:
        return sum(len(value) for value in vars(accumulator).values() if isinstance(value, Sized))

    accumulator = ExecutedAccumulator()
    one = decision(Source.POLICY, np.full(6, 0.1))
    accumulator.add(one)
    before = kept()
    for _ in range(5_000):
        accumulator.add(one)
    assert kept() == before
    np.testing.assert_allclose(accumulator.take().twist, 0.1)
