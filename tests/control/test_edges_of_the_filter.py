"""Where limits meet: at an edge, in a contact, near a joint's end, in a HOLD for a silent policy, at other rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.control.kinematics.body import HalfSpace
from robot_stack.control.safety.arm_filter import GuardedArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.control.safety.limits import JointLimit
from robot_stack.control.safety.motion import MotionShaper
from robot_stack.control.safety.tracking import TrackingMonitor
from robot_stack.types.command import Clamp, Mode
from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import RefusalKind
from robot_stack.types.robot import RobotState
from tests.control.clearance_arm import shipped_body
from tests.control.filter_rig import DOWN, LIMITS, MS, Rig, twist


def at(*position_m: float) -> Rig:
    rig = Rig()
    rig.pose = Pose.from_rotation(np.array(position_m), DOWN)
    return rig.armed()


def in_base(rig: Rig, *vector: float) -> np.ndarray:
    """A linear motion or a force, given in the base frame, in the tcp frame; nothing turns."""
    return np.concatenate([rig.pose.rotation.inv().apply(vector), np.zeros(3)])


def velocity(rig: Rig) -> np.ndarray:
    return rig.pose.rotation.apply(rig.velocity[:3])


@pytest.mark.parametrize("wish", [(0.2, -0.15, 0.0), (0.2, 0.0, 0.0)])
def test_another_wish_is_followed_also_while_the_arm_glides_into_a_wall(wish: tuple[float, ...]) -> None:
    rig = at(0.05, -0.15, 0.15)
    rig.policy = in_base(rig, 0.2, 0.15, 0.0)
    while Clamp.WORKSPACE not in rig.tick().clamped:
        pass
    rig.policy = in_base(rig, *wish)
    rig.run(0.5)
    assert velocity(rig)[1] == pytest.approx(wish[1], abs=0.01)
    assert rig.pose.position_m[0] <= LIMITS.box_max_m[0] + 1e-6


@pytest.mark.long
def test_after_any_glide_into_a_wall_the_next_wish_along_it_is_followed() -> None:
    random = np.random.default_rng(0)
    for _ in range(30):
        rig = at(0.1, *random.uniform((-0.05, 0.1), (0.05, 0.2)))
        rig.policy = in_base(rig, 0.25, *random.uniform(-0.1, 0.1, 2))
        while Clamp.WORKSPACE not in rig.tick().clamped:
            pass
        along = random.uniform(-0.1, 0.1, 2)
        rig.policy = in_base(rig, 0.25, *along)
        rig.run(0.4)
        np.testing.assert_allclose(velocity(rig)[1:], along, atol=0.005)


def test_a_push_is_scaled_down_also_along_an_edge() -> None:
    rig = at(-0.18, 0.0, 0.0)
    rig.policy = in_base(rig, 0.25, 0.0, 0.0)
    rig.run(0.2)
    rig.wrench = in_base(rig, *(np.array([-1.0, 0.0, -0.05]) * 34.0 / np.hypot(1.0, 0.05)))
    rig.run(0.6)
    assert velocity(rig)[0] < 0.25 * (35 - 34) / (35 - 15) + 1e-3
    assert rig.filter.mode is Mode.POLICY


def test_a_hard_contact_at_the_floor_throws_no_arm_through_it() -> None:
    rig = at(-0.1, 0.0, 0.0003)
    rig.policy = in_base(rig, 0.25, 0.0, 0.0)
    rig.run(0.5)
    rig.wrench = in_base(rig, *(np.array([-1.0, 0.0, -1.0]) * 40.0 / np.sqrt(2.0)))
    rig.run(0.3)
    assert rig.pose.position_m[2] > -1e-4


@pytest.mark.long
def test_a_fast_wish_near_the_end_of_a_joint_replaces_the_motion_before() -> None:
    random = np.random.default_rng(1)
    ends = tuple(JointLimit(name=f"j{i}", min_rad=-1.0, max_rad=1.0, max_speed_rad_s=2.0) for i in range(7))
    limits, beyond = replace(LIMITS, joints=ends), 0

    def state(joints: np.ndarray, motion: np.ndarray, speeds: np.ndarray) -> RobotState:
        return RobotState(
            arm="arm", stamp_ns=1, T_base_tcp=Pose.from_rotation(np.array([0.0, 0.0, 0.15]), DOWN), twist=motion,
            wrench=np.zeros(6), joints_rad=joints, joint_speeds_rad_s=speeds, gripper=0.0,
        )  # fmt: skip

    for _ in range(150):
        shaper, gain = MotionShaper(limits), random.normal(size=(7, 6)) * [3, 3, 3, 1, 1, 1]
        joints = random.uniform(-0.9, 0.9, 7)
        joints[random.integers(7)] = random.choice([-1, 1]) * random.uniform(0.9, 1.0)
        for motion in 0.5 * np.eye(6):
            shaper.watch(state(joints, motion, gain @ motion))
        here = state(joints, np.zeros(6), np.zeros(7))
        fast = random.uniform(-1, 1, 6) * np.repeat([0.5, 2.0], 3)
        for wish in (0.5 * random.uniform(-1, 1, 6) * np.repeat([0.5, 2.0], 3), fast):
            for _ in range(80):
                executed, _ = shaper.shape(wish, here, 0.0, 0.01, brake=False)
        beyond += bool(executed[:3] @ fast[:3] < -1e-4 or executed[3:] @ fast[3:] < -1e-3)
    assert beyond == 0


@pytest.mark.parametrize("late_ticks", [0, 4, 9])
@pytest.mark.parametrize("axis", ["rx", "rz"])
def test_tilt_and_turn_end_within_a_hundredth_of_their_limit_however_late_the_states_are(
    axis: str, late_ticks: int
) -> None:
    rates = {"max_rotation_acceleration_rad_s2": 20.0, "max_rotation_jerk_rad_s3": 1000.0}
    limits = replace(LIMITS, **rates, rotation_braking_rad_s2=20.0, tilt_cone_rad=0.35, yaw_range_rad=1.5)
    shaper, states, turn_rad = MotionShaper(limits), [replace(Rig().state(), stamp_ns=0)], 0.0
    for tick in range(300):
        seen = states[max(0, tick - late_ticks)]
        shaper.watch(seen)
        age_s = min(tick, late_ticks) * 0.01
        executed, _ = shaper.shape(twist(**{axis: 1.0}), seen, age_s, 0.01, brake=False)
        turned = states[-1].T_base_tcp.rotation * Rotation.from_rotvec(executed[3:] * 0.01)
        turn_rad += executed[5] * 0.01
        pose = Pose.from_rotation(states[-1].T_base_tcp.position_m, turned)
        states.append(replace(states[-1], stamp_ns=tick + 1, T_base_tcp=pose))
    tilt_rad = np.arccos(min(1.0, -states[-1].T_base_tcp.matrix[2, 2]))
    reached, end = (turn_rad, 1.5) if axis == "rz" else (tilt_rad, 0.35)
    assert end - 0.01 < reached < end + 0.01


@pytest.mark.parametrize("late_ticks", [0, 4, 9])
def test_no_tool_goes_through_the_floor_however_late_the_states_are(late_ticks: int) -> None:
    shaper, states = MotionShaper(LIMITS), [replace(Rig().state(), stamp_ns=0)]
    for tick in range(300):
        seen = states[max(0, tick - late_ticks)]
        shaper.watch(seen)
        executed, _ = shaper.shape(twist(z=1.0), seen, min(tick, late_ticks) * 0.01, 0.01, brake=False)
        here = states[-1].T_base_tcp
        pose = Pose.from_rotation(here.position_m + here.rotation.apply(executed[:3] * 0.01), here.rotation)
        states.append(replace(states[-1], stamp_ns=tick + 1, T_base_tcp=pose))
    heights_m = [state.T_base_tcp.position_m[2] for state in states]
    assert -1e-3 < min(heights_m) < 0.01


@pytest.mark.parametrize("what", ["hold key", "second sender", "robot silent"])
def test_a_hold_for_a_silent_policy_gives_way_to_one_that_no_deadman_ends(what: str) -> None:
    rig = Rig().armed()
    rig.policy, rig.hand = twist(x=0.05), np.zeros(6)
    rig.run(0.3)
    rig.policy = None
    rig.run(0.4)
    assert rig.filter.reason is not None
    assert rig.filter.mode is Mode.HOLD
    silent = rig.filter.reason
    if what == "hold key":
        rig.offer_teleop(rig.sample(stamp_ns=rig.now_ns + 1, events=("hold",)))
    elif what == "second sender":
        rig.offer(rig.command(twist(x=0.05), session="a"))
        rig.now_ns += MS
        rig.offer(rig.command(twist(x=0.05), session="b"))
    else:
        rig.robot_alive = False
        rig.run(0.3)
        rig.robot_alive = True
    rig.tick()
    assert rig.filter.reason != silent
    rig.deadman, rig.hand = True, twist(x=1.0)
    assert not any(decision.command.twist.any() for decision in rig.run(0.2))
    assert rig.filter.mode is Mode.HOLD


def test_without_a_blend_a_clock_may_go_back() -> None:
    rig = Rig()
    rig.filter = SafetyFilter({"arm": GuardedArm(limits=LIMITS, teleop_scale=np.full(6, 0.2), blend_s=0.0)})
    rig.armed()
    rig.policy = twist(x=0.1)
    rig.run(0.2)
    for _ in range(2):
        rig.now_ns -= 5 * MS
        assert np.isfinite(rig.decide().command.twist).all()


def test_a_plane_without_a_direction_is_refused() -> None:
    nowhere = HalfSpace(name="table", normal=(float("nan"), 0.0, 1.0), offset_m=0.0)
    with pytest.raises(ConfigError, match="normal of table"):
        shipped_body("ur5e", half_spaces=(nowhere,))


def judged(rate_hz: int, states_every: int, speed_m_s: float, measured: float = 1.0) -> float | None:
    """Seconds until a monitor at this rate finds an arm astray that goes `measured` times as far; None if never."""
    monitor = TrackingMonitor()
    for tick in range(round(1.5 * rate_hz)):
        now_ns, x = 1_000_000_000 + round(tick * 1e9 / rate_hz), measured * speed_m_s * tick / rate_hz
        if tick % states_every == 0:
            pose = Pose(position_m=np.array([x, 0.0, 0.0]), quaternion_xyzw=np.array([0.0, 0.0, 0.0, 1.0]))
            monitor.measure(
                RobotState(
                    arm="arm", stamp_ns=now_ns, T_base_tcp=pose, twist=np.zeros(6), wrench=np.zeros(6),
                    joints_rad=np.array([x]), joint_speeds_rad_s=np.zeros(1), gripper=0.0,
                )
            )  # fmt: skip
        refusal = monitor.fault(now_ns)
        if refusal is not None:
            assert refusal.kind is RefusalKind.TRACKING
            return tick / rate_hz
        monitor.tell(np.array([speed_m_s, 0.0, 0.0, 0.0, 0.0, 0.0]), np.eye(3), now_ns)
    return None


RATES = [(50, 1), (100, 1), (250, 1), (250, 5), (500, 1), (500, 5), (700, 7), (1000, 1), (1000, 10)]


@pytest.mark.long
@pytest.mark.parametrize(("rate_hz", "states_every"), RATES)
def test_at_every_rate_an_honest_arm_is_left_alone(rate_hz: int, states_every: int) -> None:
    assert all(judged(rate_hz, states_every, speed) is None for speed in (0.05, 0.25))


@pytest.mark.long
@pytest.mark.parametrize("measured", [0.0, -1.0, 2.5])
@pytest.mark.parametrize(("rate_hz", "states_every"), RATES)
def test_at_every_rate_a_fault_is_found_within_three_tenths(rate_hz: int, states_every: int, measured: float) -> None:
    for speed_m_s in (0.1, 0.25):
        found_s = judged(rate_hz, states_every, speed_m_s, measured)
        assert found_s is not None
        assert found_s <= 0.3 + 1e-6


def test_two_decisions_at_one_instant_say_nothing_of_the_arm() -> None:
    rig = Rig().armed()
    rig.policy = twist(x=0.2)
    rig.tick()
    rig.decide()
    rig.run(0.4)
    assert rig.filter.mode is Mode.POLICY
