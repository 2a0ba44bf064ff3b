"""An arm that follows every twist exactly, by the drivers' own way to joint speeds, with its links watched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.robot import RobotConfig
from robot_stack.control.kinematics.body import ArmBody, Capsule, HalfSpace
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.control.safety.clearance import Clearance, clearances_of
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.motion import MotionShaper
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build_arm import build_chain, build_limits
from robot_stack.workcell.build_safety import body_of

TICK_S, TICK_NS = 0.01, 10_000_000
TABLE = HalfSpace(name="table", normal=(0.0, 0.0, 1.0), offset_m=0.0)
WIDE = SafetyLimits(
    box_min_m=(-3.0, -3.0, -3.0),
    box_max_m=(3.0, 3.0, 3.0),
    max_acceleration_m_s2=5.0,
    braking_m_s2=5.0,
    max_rotation_acceleration_rad_s2=20.0,
    rotation_braking_rad_s2=20.0,
    max_jerk_m_s3=300.0,
    max_rotation_jerk_rad_s3=1000.0,
    tilt_cone_rad=np.pi,
)


def shipped(name: str) -> tuple[RobotConfig, Chain]:
    """A robot file and its kinematics."""
    robot = load(config_root() / "robots" / f"{name}.yaml", ROBOTS)
    chain = build_chain(robot)
    assert chain is not None
    return robot, chain


def shipped_body(name: str, **other: object) -> ArmBody:
    """The capsules of a robot file, at the origin of the cell."""
    robot, chain = shipped(name)
    assert robot.collision is not None
    capsules = [Capsule(**capsule.model_dump()) for capsule in robot.collision.capsules]
    body = body_of(chain, capsules, margin_m=robot.collision.margin_m)
    return replace(body, unwatched=robot.collision.unwatched, **other)


class KinematicArm:
    """Moves by what its shaper lets through.

    Args:
        name: Of the robot file.
        shaper: Of its limits.
        clearance: Of its links.
        angles: At the start; None: home.
    """

    def __init__(
        self, name: str, shaper: MotionShaper, clearance: Clearance | None = None, angles: np.ndarray | None = None
    ) -> None:
        robot, self.chain = shipped(name)
        self.shaper, self.clearance, self._limits = shaper, clearance, build_limits(robot)
        self._solver = JointMotionSolver(self.chain, self._limits)
        self.angles = self._limits.home.copy() if angles is None else angles
        self.speeds = np.zeros(len(self.angles))
        self.twist = np.zeros(6)
        self.now_ns = 0

    def state(self) -> RobotState:
        return RobotState(
            arm="arm",
            stamp_ns=self.now_ns,
            T_base_tcp=self.chain.pose(self.angles),
            twist=self.twist,
            wrench=np.zeros(6),
            joints_rad=self.angles.copy(),
            joint_speeds_rad_s=self.speeds,
            gripper=0.0,
        )

    def tick(self, wanted: np.ndarray) -> tuple[str, ...]:
        """One period; returns what was cut."""
        state = self.state()
        self.shaper.watch(state)
        self.twist, cut = self.shaper.shape(wanted, state, 0.0, TICK_S, brake=False)
        self.speeds = self._solver.solve(self.angles, self.twist).speeds
        self.angles = self.angles + self.speeds * TICK_S
        self.now_ns += TICK_NS
        return cut

    def nearest_m(self) -> float:
        """Smallest watched distance where it is now."""
        assert self.clearance is not None
        self.clearance.hear(self.state())
        distances = self.clearance.distances()
        assert distances is not None
        return float(distances.left_m.min())


def watched_arm(name: str, body: ArmBody, angles: np.ndarray | None = None) -> KinematicArm:
    """One arm alone in its cell."""
    limits = replace(WIDE, body=body)
    clearance = clearances_of({"arm": limits})["arm"]
    return KinematicArm(name, MotionShaper(limits, clearance), clearance, angles)
