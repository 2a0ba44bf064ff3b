"""Whatever is offered, in whatever order, what comes out is safe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.command import Mode, Source
from robot_stack.types.reason import Refusal, RefusalKind
from tests.control.filter_rig import LIMITS, MS, TICK_NS, Rig
from tests.examples import examples

TEST = Refusal(kind=RefusalKind.SERVICE, text="test")


def entries(largest: float, size: int = 6) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.floats(-largest, largest), min_size=size, max_size=size).map(np.array)


SAME_M = 2e-11
"""What the filter's tolerance of 1e-9 m/s amounts to in one tick."""

NASTY = st.one_of(
    st.floats(-2, 2), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1e308, 5e-324, -1e30])
)
TWISTS = st.lists(NASTY, min_size=6, max_size=6).map(lambda entries: np.array(entries))
OFFSETS = st.sampled_from([0, -20 * MS, -200 * MS, 3 * MS, 10_000 * MS, -(10**15)])

ACTIONS = st.one_of(
    st.tuples(st.just("policy"), TWISTS, OFFSETS, st.sampled_from(["tcp", "base", "", "world"])),
    st.tuples(st.just("teleop"), TWISTS, OFFSETS, st.booleans()),
    st.tuples(
        st.just("hand"), st.lists(st.floats(-1, 1), min_size=6, max_size=6).map(np.array), st.just(0), st.booleans()
    ),
    st.tuples(
        st.just("drive"), st.lists(st.floats(-2, 2), min_size=6, max_size=6).map(np.array), st.just(0), st.just("tcp")
    ),
    st.tuples(st.sampled_from(["arm", "start", "demo", "end", "hold", "resume", "stop", "clear", "disarm"])),
    st.tuples(st.just("force"), st.floats(0, 60), st.integers(0, 2)),
    st.tuples(st.just("mute"), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


def apply(rig: Rig, action: tuple) -> None:
    kind, *rest = action
    now = rig.now_ns
    if kind == "policy":
        rig.offer(rig.command(rest[0], stamp_ns=now + rest[1], frame=rest[2]))
    elif kind == "drive":
        rig.policy = rest[0]
    elif kind == "teleop":
        rig.offer_teleop(rig.sample(twist=rest[0], stamp_ns=now + rest[1], deadman=rest[2]))
    elif kind == "hand":
        rig.hand, rig.deadman = rest[0], rest[2]
    elif kind == "force":
        rig.wrench = np.zeros(6)
        rig.wrench[rest[1]] = rest[0]
    elif kind == "mute":
        rig.robot_alive = rest[0]
    elif kind == "wait":
        rig.run(rest[0] * TICK_NS / 1e9)
    else:
        switch(rig, kind)


def switch(rig: Rig, kind: str) -> None:
    f, now = rig.filter, rig.now_ns
    {
        "arm": lambda: f.arm(now),
        "start": lambda: f.start(now),
        "demo": lambda: f.start(now, policy_expected=False),
        "end": f.end_episode,
        "hold": lambda: f.hold(TEST),
        "resume": lambda: f.resume(now),
        "stop": lambda: f.stop(TEST, who="test"),
        "clear": lambda: f.clear_stop(now),
        "disarm": f.disarm,
    }[kind]()


@settings(max_examples=examples(60), deadline=None)
@given(actions=st.lists(ACTIONS, max_size=25))
def test_whatever_is_offered_the_decision_is_within_every_limit(actions: list[tuple]):
    rig = Rig().armed()
    for action in actions:
        apply(rig, action)
        decision = rig.tick()
        assert decision.command.frame == "tcp"
        assert (decision.reason is not None) is (decision.mode in (Mode.HOLD, Mode.STOP))
    assert check_log(rig.log, LIMITS) == []
    rig.filter.stop(TEST, who="test")
    assert not rig.run(0.2)[-1].command.twist.any()


@settings(max_examples=examples(60), deadline=None)
@given(actions=st.lists(ACTIONS, max_size=25), deadman=st.booleans())
def test_whatever_came_before_a_lost_device_never_drives_and_in_control_its_loss_is_a_hold(
    actions: list[tuple], deadman: bool
):
    rig = Rig().armed()
    source = rig.tick().source
    for action in actions:
        apply(rig, action)
        source = rig.tick().source
    rig.hand = None
    rig.now_ns += TICK_NS
    rig.offer_teleop(rig.sample(deadman=deadman, lost=True))
    decision = rig.tick()
    assert decision.source not in (Source.HUMAN, Source.IDLE)
    if source in (Source.HUMAN, Source.IDLE):
        assert decision.mode in (Mode.HOLD, Mode.STOP)


@settings(max_examples=examples(60), deadline=None)
@given(
    times=st.lists(st.integers(-(10**10), 10**10), min_size=1, max_size=20),
    motion=entries(5),
)
def test_whatever_the_clock_says_the_decision_is_finite_and_not_too_fast(times: list[int], motion: np.ndarray):
    rig = Rig().armed()
    for step in times:
        rig.now_ns += step
        rig.offer(rig.command(motion))
        rig.filter.offer_state(rig.state(), rig.now_ns)
        result = rig.decide().command.twist
        assert np.isfinite(result).all()
        assert np.linalg.norm(result[:3]) <= LIMITS.max_speed_m_s + 1e-9
        assert np.linalg.norm(result[3:]) <= LIMITS.max_rotation_speed_rad_s + 1e-9


@pytest.mark.long
@settings(max_examples=examples(25), deadline=None)
@given(pushes=st.lists(entries(2), min_size=1, max_size=6))
def test_the_arm_stays_in_box_and_cone_under_any_policy(pushes: list[np.ndarray]):
    rig = Rig().armed()
    for push in pushes:
        rig.policy = push
        rig.run(1.0)
        position, tool = rig.pose.position_m, rig.pose.rotation.apply([0, 0, 1.0])
        assert (position >= np.array(LIMITS.box_min_m) - 2e-3).all()
        assert (position <= np.array(LIMITS.box_max_m) + 2e-3).all()
        assert np.arccos(np.clip(-tool[2], -1, 1)) <= LIMITS.tilt_cone_rad + 0.01
    assert check_log(rig.log, LIMITS) == []


@settings(max_examples=examples(25), deadline=None)
@given(depth=st.floats(0.003, 0.1), push=entries(1, 3))
def test_from_outside_only_inward_motion_passes(depth: float, push: np.ndarray):
    rig = Rig().armed()
    rig.pose = type(rig.pose)(position_m=np.array([0.0, 0.0, -depth]), quaternion_xyzw=rig.pose.quaternion_xyzw)
    rig.policy = np.concatenate([push, np.zeros(3)])
    for _ in range(30):
        before = rig.pose.position_m.copy()
        rig.tick()
        if before[2] < -0.0021:
            moved = rig.pose.position_m - before
            assert moved[2] >= -SAME_M
            np.testing.assert_allclose(moved[:2], 0.0, atol=SAME_M)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("way", [-1.0, 1.0])
def test_no_face_of_the_box_is_passed(axis: int, way: float):
    rig = Rig().armed()
    rig.policy = np.concatenate([rig.pose.rotation.inv().apply(2.0 * way * np.eye(3)[axis]), np.zeros(3)])
    decisions = rig.run(2.5)
    face = (LIMITS.box_max_m if way > 0 else LIMITS.box_min_m)[axis]
    assert rig.pose.position_m[axis] == pytest.approx(face, abs=2e-3), "it was driven there, and no further"
    assert "workspace" in decisions[-1].clamped


@pytest.mark.parametrize("axis", [3, 4])
@pytest.mark.parametrize("way", [-1.0, 1.0])
def test_the_tool_is_tilted_no_further_than_the_cone(axis: int, way: float):
    rig = Rig().armed()
    rig.policy = 2.0 * way * np.eye(6)[axis]
    rig.run(2.5)
    tilt = np.arccos(np.clip(-rig.pose.rotation.apply([0, 0, 1.0])[2], -1, 1))
    assert tilt == pytest.approx(LIMITS.tilt_cone_rad, abs=0.01), "it was tilted so far, and no further"


@pytest.mark.long
def test_a_limit_of_exactly_zero_is_a_limit():
    rig = Rig(SafetyLimits(box_min_m=(-1.0, -1.0, 0.0), box_max_m=(0.0, 1.0, 1.0))).armed()
    rig.policy = np.array([1.0, 0, 1.0, 0, 0, 0])
    decisions = rig.run(4.0)
    assert -1e-9 <= rig.pose.position_m[2] < 1e-3
    assert rig.pose.position_m[0] < 1e-9
    assert "workspace" in decisions[-1].clamped
    assert decisions[-1].source is Source.POLICY
    assert rig.filter.counters["clamped_workspace"] > 100
