"""What never reaches a limit, because it is refused first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from robot_stack.types.command import Mode, Source
from tests.control.filter_rig import MS, Rig, twist

BROKEN = [
    ({"twist": np.full(6, np.nan)}, "must be finite"),
    ({"twist": np.array([np.inf, 0, 0, 0, 0, 0])}, "must be finite"),
    ({"twist": np.full(6, 1e30)}, "must be within"),
    ({"twist": np.zeros(5)}, "shape"),
    ({"twist": np.zeros((6, 1))}, "shape"),
    ({"twist": [0.0] * 6}, "list"),
    ({"frame": ""}, "frame"),
    ({"frame": "world"}, "frame"),
    ({"arm": "other"}, "arm"),
    ({"source": Source.HUMAN}, "source"),
    ({"gripper": 1.5}, "gripper"),
    ({"gripper": float("nan")}, "gripper"),
]


@pytest.mark.parametrize(("fields", "word"), BROKEN)
def test_a_broken_command_is_refused_and_counted(fields: dict[str, object], word: str):
    rig = Rig().armed()
    refusal = rig.offer(rig.command(**{"motion": np.zeros(6), **_as_motion(fields)}))
    assert word in str(refusal)
    assert rig.filter.counters["rejected_policy"] == 1
    assert not rig.tick().command.twist.any()


def _as_motion(fields: dict[str, object]) -> dict[str, object]:
    return {("motion" if name == "twist" else name): value for name, value in fields.items()}


@pytest.mark.parametrize(("age_ms", "passes"), [(150, True), (151, False), (-5, True), (-6, False)])
def test_command_age_is_checked_at_its_exact_bounds(age_ms: int, passes: bool):
    rig = Rig().armed()
    refusal = rig.offer(rig.command(np.zeros(6), stamp_ns=rig.now_ns - age_ms * MS))
    assert (refusal is None) is passes


def test_an_unset_stamp_is_refused():
    rig = Rig().armed()
    assert "must be set" in str(rig.offer(rig.command(np.zeros(6), stamp_ns=0)))


def test_a_republished_command_does_not_stay_fresh():
    rig = Rig().armed()
    old = rig.command(twist(x=0.1))
    for _ in range(15):
        rig.offer(old)
        assert rig.tick().mode is Mode.POLICY
    rig.offer(old)
    assert rig.tick().mode is Mode.HOLD
    assert rig.filter.counters["repeated"] == 15


@pytest.mark.parametrize(("gap_ms", "mode"), [(500, Mode.HOLD), (501, Mode.POLICY)])
def test_three_broken_messages_in_a_second_hold(gap_ms: int, mode: Mode):
    rig = Rig().armed()
    for _ in range(3):
        rig.offer(rig.command(np.full(6, np.nan)))
        rig.now_ns += gap_ms * MS
    assert rig.filter.mode is mode


def test_the_caller_may_reuse_its_array_after_offering():
    rig = Rig().armed()
    motion = np.zeros(6)
    rig.offer(rig.command(motion))
    motion[:] = np.nan
    assert not rig.tick().command.twist.any()


@pytest.mark.parametrize("twist_value", [np.full(6, np.nan), np.full(6, 1.5), np.zeros(3)])
def test_a_broken_teleop_sample_never_engages(twist_value: np.ndarray):
    rig = Rig().armed()
    rig.offer_teleop(rig.sample())
    rig.now_ns += MS
    assert rig.offer_teleop(rig.sample(deadman=True, twist=twist_value)) is not None
    assert rig.tick().mode is Mode.POLICY


@pytest.mark.parametrize("part", ["twist", "wrench", "joints_rad", "joint_speeds_rad_s", "gripper"])
def test_a_non_finite_state_is_refused_and_then_stale(part: str) -> None:
    rig = Rig().armed()
    heard = rig.state
    rig.state = lambda: replace(heard(), **{part: getattr(heard(), part) * np.nan})
    assert rig.run(0.2)[-1].mode is Mode.HOLD
    assert rig.filter.counters["rejected_state"] == 20
