"""Taking over and handing back, as often and as fast as anybody likes: no step in velocity, no tick of two drivers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.types.command import Decision, Mode, Source
from tests.control.filter_rig import LIMITS, TICK_NS, Rig, twist
from tests.examples import examples

TICK_S = TICK_NS / 1e9
HANDS = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(lambda part: np.array([0.0, 0.0, 0.0, *part]))
POLICIES = st.lists(st.floats(-1, 1), min_size=3, max_size=3).map(lambda part: np.array([*part, 0.0, 0.0, 0.0]))
PHASES = st.lists(st.tuples(st.integers(1, 40), st.booleans(), HANDS, POLICIES), min_size=2, max_size=12)


def steps(decisions: list[Decision]) -> np.ndarray:
    """Change of the linear and of the angular velocity from tick to tick, shape (N - 1, 2)."""
    changes = np.diff([d.command.twist for d in decisions], axis=0)
    return np.stack([np.linalg.norm(changes[:, :3], axis=1), np.linalg.norm(changes[:, 3:], axis=1)], axis=1)


@pytest.mark.long
@settings(max_examples=examples(20), deadline=None)
@given(phases=PHASES)
def test_toggling_the_deadman_never_steps_and_never_mixes(phases):
    """The policy only ever asks to move, the hand only ever to turn: whoever asks for both is two."""
    rig = Rig().armed()
    rig.policy, rig.hand = twist(x=0.1), np.zeros(6)
    rig.run(0.2)
    decisions = []
    for ticks, pressed, hand, policy in phases:
        rig.deadman, rig.hand, rig.policy = pressed, hand, policy
        decisions += [rig.tick() for _ in range(ticks)]
    largest = np.array([LIMITS.max_acceleration_m_s2, LIMITS.max_rotation_acceleration_rad_s2]) * TICK_S
    assert (steps(decisions) <= largest * (1 + 1e-9)).all()
    for decision in decisions:
        moves, turns = decision.requested[:3].any(), decision.requested[3:].any()
        assert not (moves and turns)
        assert not moves or decision.source is Source.POLICY
        assert not turns or decision.source in (Source.HUMAN, Source.IDLE)
        assert decision.mode in (Mode.POLICY, Mode.HUMAN)
    assert check_log(rig.log, LIMITS) == []


@pytest.mark.parametrize("start", [twist(x=0.25), twist(y=-0.2, rz=0.9)])
def test_handing_back_starts_from_what_the_arm_does(start: np.ndarray):
    rig = Rig().armed()
    rig.policy, rig.hand = start, np.zeros(6)
    rig.run(0.5)
    rig.deadman, rig.hand = True, twist(x=-1.0, ry=0.5)
    rig.run(0.4)
    rig.deadman = False
    decisions = rig.run(0.8)
    back = [n for n, d in enumerate(decisions) if d.source is Source.POLICY]
    assert back
    assert back == list(range(back[0], len(decisions)))
    assert (steps(decisions)[:, 0] <= LIMITS.max_acceleration_m_s2 * TICK_S * (1 + 1e-9)).all()
