"""The SO-101's files and faces: kinematics against the maker's URDF, an arm and a leader on emulated servos."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML
from scipy.spatial.transform import Rotation

from robot_stack.config.feetech import So101Robot
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.robot import RobotConfig
from robot_stack.config.schema import MODELS
from robot_stack.config.teleop import So101LeaderTeleop
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.driver_health import DriverHealth
from robot_stack.control.drivers.feetech import RAD_PER_TICK
from robot_stack.control.drivers.joint_trajectory import TrajectoryPoint
from robot_stack.nodes.drivers.feetech import LeaderPort, ServoArm
from robot_stack.teleop.build import build_teleop
from robot_stack.teleop.messages import Chain, Link
from robot_stack.teleop.sources import Machine
from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import FaultKind
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build_arm import build_chain
from tests.servos.sts_emulator import STATUS, StsBus

URDF: dict[str, Any] = YAML(typ="safe").load(Path(__file__).parent / "so101_new_calib.yaml")
TICK_S = 0.02


def robot(bus: StsBus, calibration: Path, *overrides: str) -> So101Robot:
    where = (f"servos.port={bus.port}", f"servos.calibration={calibration}", "servos.reply_s=0.1")
    found = load(config_root() / "robots" / "so101_bus.yaml", MODELS["robots"], [*where, *overrides])
    assert isinstance(found, RobotConfig)
    assert isinstance(found, So101Robot)
    return found


def leader(bus: StsBus, calibration: Path) -> So101LeaderTeleop:
    where = (f"servos.port={bus.port}", f"servos.calibration={calibration}", "servos.reply_s=0.1", "timeout_s=0.3")
    keys = ("pedal=null", "keyboard={match: {name: keypad}}", "deadman=keyboard")
    found = load(config_root() / "teleop" / "so101_leader.yaml", TELEOPS, [*where, *keys])
    assert isinstance(found, So101LeaderTeleop)
    return found


def urdf_pose(angles: np.ndarray) -> np.ndarray:
    """T_base_tcp of the maker's description, computed without the project's code."""
    found = np.eye(4)
    for joint, angle in zip([*URDF["joints"], URDF["tcp"]], [*angles, 0.0]):
        step = np.eye(4)
        step[:3, :3] = (Rotation.from_euler("xyz", joint["rpy"]) * Rotation.from_rotvec([0, 0, angle])).as_matrix()
        step[:3, 3] = joint["xyz"]
        found = found @ step
    return found


FINGER = [
    (-0.0125, -0.0115, 0.0, -0.1044),
    (-0.0163, -0.0079, 0.006, -0.1),
    (-0.0235, -0.0099, 0.0081, -0.08),
    (-0.0345, -0.0133, 0.0121, -0.05),
]
JAW = [
    (0.0115, 0.0125, 0.0, -0.1054),
    (0.0079, 0.0178, 0.006, -0.1),
    (0.0119, 0.0247, 0.0079, -0.08),
    (0.0104, 0.028, 0.0196, -0.05),
]
"""Slices across either jaw of the maker's meshes, the jaw at zero: from and to x, half of y, and z, in gripper_link."""
JAW_AXIS_M = np.array([0.0202, 0.0, -0.0234])


def rims(slices: list[tuple[float, float, float, float]], turn_rad: float = 0.0) -> np.ndarray:
    """Points on the rims of slices, turned about the jaw's axis, shape (N, 3)."""
    points = []
    for low, high, half, z in slices:
        points += [(low, 0.0, z), (high, 0.0, z), ((low + high) / 2, half, z), ((low + high) / 2, -half, z)]
    turn = Rotation.from_rotvec([0.0, -turn_rad, 0.0])
    return np.asarray(turn.apply(np.array(points) - JAW_AXIS_M) + JAW_AXIS_M)


@pytest.mark.parametrize("file", ["so101", "so101_bus"])
@pytest.mark.parametrize("opened_rad", [-0.17, 0.0, 0.2, 0.4, 0.6])
def test_the_capsules_cover_both_jaws_of_the_makers_meshes(file: str, opened_rad: float) -> None:
    points = np.concatenate([rims(FINGER), rims(JAW, opened_rad)])
    if file == "so101_bus":  # its last row's frame: turned a little, and 61.1 mm nearer to the fingers
        points = Rotation.from_euler("z", -0.04875).apply(points) - [0.0, 0.0, 0.0611]
    found = load(config_root() / "robots" / f"{file}.yaml", MODELS["robots"])
    assert isinstance(found, RobotConfig)
    assert found.collision is not None
    depths = []
    for each in (capsule for capsule in found.collision.capsules if capsule.link == 5):
        start, along = np.array(each.from_m), np.subtract(each.to_m, each.from_m)
        share = np.clip((points - start) @ along / (along @ along), 0.0, 1.0)
        depths.append(each.radius_m - np.linalg.norm(points - start - share[:, None] * along, axis=1))
    assert np.max(depths, axis=0).min() > -1e-3


POSES = np.random.default_rng(5).uniform(-1.5, 1.5, (50, 5))


def test_the_table_of_the_arm_is_the_makers_urdf(bus: StsBus, calibration: Path):
    chain = build_chain(robot(bus, calibration))
    assert chain is not None
    for angles in POSES:
        pose, wanted = chain.pose(angles), urdf_pose(angles)
        np.testing.assert_allclose(pose.position_m, wanted[:3, 3], atol=2e-5)
        np.testing.assert_allclose(pose.rotation.as_matrix(), wanted[:3, :3], atol=2e-5)


def test_joints_and_ranges_are_the_makers(bus: StsBus, calibration: Path):
    for ours, theirs in zip(robot(bus, calibration).joints, URDF["joints"], strict=True):
        assert ours.name == theirs["name"]
        assert (ours.min_rad, ours.max_rad) == pytest.approx((theirs["lower"], theirs["upper"]), abs=1e-3)


def test_the_leaders_handle_turns_as_the_arms_hand_and_moves_as_a_point_beside_it(bus: StsBus, calibration: Path):
    config = leader(bus, calibration)
    chain = Chain([Link(**joint.model_dump()) for joint in config.joints], config.tip_m)
    first, wanted_first = chain.pose(POSES[0]), urdf_pose(POSES[0])
    for angles in POSES[1:]:
        pose, wanted = chain.pose(angles), urdf_pose(angles)
        turned = (pose.rotation * first.rotation.inv()).as_matrix()
        np.testing.assert_allclose(turned, wanted[:3, :3] @ wanted_first[:3, :3].T, atol=3e-5)
        np.testing.assert_allclose(
            pose.position_m - first.position_m, wanted[:3, 3] - wanted_first[:3, 3], atol=0.017
        )  # the tip of the handle is 8 mm beside the gripper's frame


def until(fact: Callable[[], object], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not fact():
        assert time.monotonic() < deadline, "it has not happened in time"
        time.sleep(0.005)


class Rig:
    """An arm that is ticked as the robot process does."""

    def __init__(self, bus: StsBus, config: So101Robot) -> None:
        self.bus = bus
        self.health = DriverHealth("/recover")
        self.arm = ServoArm(self.health, "so101", config)

    def tick(self, twist: np.ndarray, opening: float | None = None) -> RobotState | None:
        now_ns = time.monotonic_ns()
        self.arm.sense.poll(now_ns)
        self.health.report(self.arm.driver.fault(), now_ns)
        state = self.arm.sense.arm.state()
        live = state is not None and self.health.reason(now_ns) is None
        self.arm.driver.send(
            DriverCommand(
                twist=twist if live else np.zeros(6),
                live=live,
                pose=state.T_base_tcp if state is not None else None,
                angles=state.joints_rad if state is not None else None,
                dt_s=TICK_S,
            )
        )
        assert self.arm.gripper is not None
        if live and opening is not None:
            self.arm.gripper.follow(opening)
        else:
            self.arm.gripper.halt(self.arm.sense.arm.moving_opening())
        time.sleep(TICK_S)
        return state

    def kind(self) -> FaultKind | None:
        self.tick(np.zeros(6))
        reason = self.health.reason(time.monotonic_ns())
        return None if reason is None else reason.kind

    def text(self) -> str:
        self.tick(np.zeros(6))
        reason = self.health.reason(time.monotonic_ns())
        return "" if reason is None else reason.text

    def ready(self) -> Rig:
        until(lambda: self.kind() is None)
        return self


@pytest.fixture
def rig(bus: StsBus, calibration: Path) -> Iterator[Rig]:
    made = Rig(bus, robot(bus, calibration))
    yield made
    made.arm.close()


def along(rig: Rig, axis: int, speed: float) -> np.ndarray:
    """A twist in the tool's frame that moves along an axis of the base."""
    state = rig.arm.sense.arm.state()
    assert state is not None
    wanted = np.zeros(3)
    wanted[axis] = speed
    return np.concatenate([state.T_base_tcp.rotation.inv().apply(wanted), np.zeros(3)])


def test_the_state_is_that_of_the_servos(rig: Rig):
    rig.bus.servos[1].put(56, 2100, 2)
    rig.bus.servos[6].put(56, 3200, 2)
    rig.ready()
    state = rig.tick(np.zeros(6))
    assert state is not None
    np.testing.assert_allclose(state.joints_rad, np.array([100, 48, 48, 48, 48]) * RAD_PER_TICK, atol=1e-9)
    assert state.gripper == 1.0
    wanted = urdf_pose(state.joints_rad)
    np.testing.assert_allclose(state.T_base_tcp.position_m, wanted[:3, 3], atol=2e-5)


def test_a_twist_moves_the_servos_so_that_the_tool_goes_that_way_and_nothing_moves_before(rig: Rig):
    rig.ready()
    for _ in range(10):
        rig.tick(np.zeros(6))
    assert not rig.bus.goals
    before = rig.tick(np.zeros(6))
    for _ in range(40):
        rig.tick(along(rig, 2, 0.05))
    after = rig.tick(np.zeros(6))
    assert before is not None
    assert after is not None
    moved = after.T_base_tcp.position_m - before.T_base_tcp.position_m
    assert moved[2] > 0.015
    assert np.abs(moved[:2]).max() < 0.3 * moved[2]


def test_the_gripper_goes_where_it_is_wished(rig: Rig):
    rig.ready()
    for opening, ticks in ((0.0, 800), (1.0, 3200)):
        for _ in range(15):
            rig.tick(np.zeros(6), opening)
        assert rig.bus.servos[6].position == ticks


def test_a_halt_before_the_gripper_moves_stops_it_once_it_does(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    assert rig.arm.gripper is not None
    wanted: list[int] = []
    monkeypatch.setattr(rig.arm.gripper, "_bus", SimpleNamespace(want=lambda goals: wanted.extend(goals.values())))
    rig.arm.gripper.follow(0.0)
    for moving_at in (None, None, 0.9, 0.9):
        rig.arm.gripper.halt(moving_at)
    assert wanted == [800, 2960]


def test_a_goal_that_is_not_finite_is_a_fault_and_is_never_sent(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    rig.ready()
    for _ in range(10):
        rig.tick(along(rig, 2, 0.05))
    sent = len(rig.bus.goals)
    broken = TrajectoryPoint(angles=np.full(5, np.nan), speeds=np.zeros(5), at_s=0.04)
    monkeypatch.setattr(rig.arm.driver._core, "step", lambda command: (broken,))
    time.sleep(0.1)
    sent = len(rig.bus.goals)
    for _ in range(10):
        rig.tick(np.zeros(6))
    assert rig.kind() is FaultKind.INPUT_INVALID
    assert len(rig.bus.goals) == sent


@pytest.mark.parametrize(("start", "turn", "end"), [(3180, -0.5, 3200), (820, 0.5, 800)])
def test_goals_stay_inside_the_calibrated_range(rig: Rig, start: int, turn: float, end: int):
    for each, servo in rig.bus.servos.items():
        servo.put(56, start if each == 5 else 2000, 2)
    rig.ready()
    for _ in range(20):
        rig.tick(np.array([0.0, 0.0, 0.0, 0.0, 0.0, turn]))
    rolled = [each[5] for each in rig.bus.goals if 5 in each]
    assert end in rolled, "the joint's own limit is beyond"
    assert all(800 <= ticks <= 3200 for each in rig.bus.goals for ticks in each.values())


def test_a_bus_that_stalls_is_a_stale_input_and_comes_back(rig: Rig):
    rig.ready()
    rig.bus.silent = {4}
    until(lambda: "wrist_flex (id 4)" in rig.text())  # on a busy machine all are silent for a moment before
    assert rig.kind() is FaultKind.INPUT_STALE
    rig.bus.silent = set()
    until(lambda: rig.kind() is None)


def test_servos_that_never_answered_are_a_missing_input(rig: Rig):
    rig.bus.silent = set(rig.bus.servos)
    assert rig.kind() in (FaultKind.INPUT_MISSING, FaultKind.INPUT_STALE)


def test_an_overload_is_latched_until_a_person_recovers(rig: Rig):
    rig.ready()
    rig.bus.servos[2].put(STATUS, 0x20, 1)
    until(lambda: rig.kind() is FaultKind.PROTECTIVE_STOP)
    rig.bus.servos[2].put(STATUS, 0, 1)
    for _ in range(20):
        assert rig.kind() is FaultKind.PROTECTIVE_STOP
    until(lambda: rig.arm.driver.fault() is None)
    asked = rig.arm.driver.recover()
    assert rig.health.recover(time.monotonic_ns(), asked_driver=asked) is None
    until(lambda: rig.kind() is None)


def test_a_calibration_that_is_not_there_is_refused_at_the_start(bus: StsBus, calibration: Path):
    config = robot(bus, calibration.with_name("none.json"))
    with pytest.raises(ConfigError, match=r"calibration .*none.json cannot be read"):
        ServoArm(DriverHealth("/recover"), "so101", config)


def test_a_leader_moves_the_tool_and_its_handle_closes_the_gripper(bus: StsBus, calibration: Path):
    config = leader(bus, calibration)
    port = LeaderPort(config)
    chain = Chain([Link(**joint.model_dump()) for joint in config.joints], config.tip_m)
    until(lambda: bus.packets)
    bus.servos[1].put(56, 2000 + 512, 2)
    bus.servos[6].put(56, 800, 2)
    time.sleep(0.2)
    newest = port.read()[-1]
    by_name = dict(zip(newest.names, newest.positions))
    assert by_name["shoulder_pan"] == pytest.approx(np.pi / 4)
    assert by_name["gripper"] == 0.0
    assert isinstance(chain.pose([by_name[name] for name in chain.names]), Pose)
    port.close()


def test_the_teleop_process_reads_a_leader_through_the_servos(bus: StsBus, calibration: Path):
    config = leader(bus, calibration)
    built = build_teleop(config, np.full(6, 0.1), Machine(evdev=lambda: None, servos=LeaderPort))
    reader = built.device._readers[0]
    until(lambda: (heard := reader.poll(time.monotonic_ns())) is not None and heard.pose is not None)
    first = reader.poll(time.monotonic_ns())
    assert first is not None
    assert first.pose is not None
    bus.servos[2].put(56, 2068, 2)
    time.sleep(0.2)
    moved = reader.poll(time.monotonic_ns())
    assert moved is not None
    assert moved.pose is not None
    assert np.linalg.norm(moved.pose.position_m - first.pose.position_m) > 0.002
    bus.silent = {5}
    until(lambda: reader.poll(time.monotonic_ns()) is None)
    assert "so101 leader" in reader.problem
