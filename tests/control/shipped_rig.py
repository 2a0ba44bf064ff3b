"""The arm of a shipped run behind its own safety filter: joints that follow their driver's targets 50 ms late."""

from __future__ import annotations

import numpy as np

from robot_stack.config.resolve import load_run
from robot_stack.control.audit.replay_checker import LoggedTick
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.joint_trajectory import JointTrajectoryCore
from robot_stack.control.kinematics.joint_motion import JointMotionSolver
from robot_stack.types.command import Command, Decision, Mode, Source
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.robot import RobotState, TeleopSample
from robot_stack.workcell.build_arm import build_chain, build_limits
from robot_stack.workcell.build_safety import build_safety, limits_of

MS = 1_000_000
TICK_NS = 10 * MS
TICKS_A_TARGET = 2
LAG_S = 0.05


class ShippedRig:
    """The only arm of a run, in POLICY; its driver is called at 50 Hz."""

    def __init__(self, run: str, angles: np.ndarray | None = None) -> None:
        resolved = load_run(run)
        self.name, arm = next(iter(resolved.arms.items()))
        chain = build_chain(arm.robot)
        assert chain is not None
        self.chain, joints = chain, build_limits(arm.robot)
        self.limits = limits_of(resolved)[self.name]
        self.filter = build_safety(resolved, attended=False)
        self.angles = joints.home.copy() if angles is None else angles.copy()
        self.speeds = np.zeros_like(self.angles)
        self.scale = np.ones(6)
        """What its driver makes of the twist."""
        self.log: list[LoggedTick] = []
        self.now_ns = 1_000 * MS
        self._target = self.angles
        self._core = JointTrajectoryCore(JointMotionSolver(chain, joints), joints, 0.2, 50.0)
        self._hear()
        assert self.filter.arm(self.now_ns) is None
        assert self.filter.start(self.now_ns) is None

    @property
    def pose(self) -> Pose:
        return self.chain.pose(self.angles)

    def state(self) -> RobotState:
        pose, jacobian = self.chain.jacobian(self.angles)
        return RobotState(
            arm=self.name,
            stamp_ns=self.now_ns - 2 * MS,
            T_base_tcp=pose,
            twist=rotate_twist(jacobian @ self.speeds, pose.matrix.T),
            wrench=np.zeros(6),
            joints_rad=self.angles,
            joint_speeds_rad_s=self.speeds,
            gripper=0.5,
        )

    def tick(self, twist: np.ndarray) -> Decision:
        """One period in which the policy asks for a twist in the tcp frame."""
        self.now_ns += TICK_NS
        state = self._hear()
        command = Command(arm=self.name, twist=twist, stamp_ns=self.now_ns, source=Source.POLICY)
        self.filter.offer([command], self.now_ns)
        decision = self.filter.decide(self.now_ns)[self.name]
        self.log.append(LoggedTick(decision=decision, state=state))
        if len(self.log) % TICKS_A_TARGET == 0:
            self._drive(decision.command.twist, state)
        before = self.angles
        self.angles = before + (self._target - before) * TICK_NS / 1e9 / LAG_S
        self.speeds = (self.angles - before) / (TICK_NS / 1e9)
        return decision

    def go(
        self, seconds: float, *, base_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0), roll_rad_s: float = 0.0
    ) -> Mode:
        """Ask for a velocity in the base frame and a turn about the tool's axis, from rest on; the last mode."""
        for tick in range(round(seconds * 1e9 / TICK_NS)):
            twist = rotate_twist(np.array([*base_m_s, 0, 0, 0]), self.pose.matrix.T)
            twist[5] += roll_rad_s
            decision = self.tick(min(1.0, tick / 20) * twist)
            if decision.mode is not Mode.POLICY:
                break
        return decision.mode

    def _hear(self) -> RobotState:
        state = self.state()
        self.filter.offer_state(state, self.now_ns)
        self.filter.offer_teleop(self.name, TeleopSample(stamp_ns=self.now_ns, twist=np.zeros(6)), self.now_ns)
        return state

    def _drive(self, twist: np.ndarray, state: RobotState) -> None:
        dt_s = TICKS_A_TARGET * TICK_NS / 1e9
        points = self._core.step(
            DriverCommand(twist=self.scale * twist, live=True, pose=state.T_base_tcp, angles=self.angles, dt_s=dt_s)
        )
        if points is not None:
            self._target = points[0].angles
