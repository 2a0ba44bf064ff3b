"""Cores for controllers of joints: trajectories (JTC) that end at rest, or speeds (forward velocity).

There is a trajectory per tick, of two points:
at HORIZON the target with its speeds, and STOP later the point where those speeds have come to zero evenly.
Each trajectory replaces the one before. If none follows, the arm comes to rest by itself HORIZON + STOP later, whoever
has died; and no trajectory that the controller could refuse for ending in motion is ever sent.

Nothing in a controller of speeds stops an arm whose commander has died. So it is only used where the cell says that
something below it does (`downstream_timeout_s`), and speeds are sent at every tick, zeros included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.control.drivers.core import DriverCommand, Fading
from robot_stack.control.kinematics.joint_motion import JointLimits, JointMotionSolver


class ForwardVelocityCore:
    """The core for a forward velocity controller: joint speeds that make the TCP follow the twist."""

    def __init__(self, solver: JointMotionSolver, joints: int) -> None:
        self.held_by = ""
        """The joint that slows the motion down, or ""."""
        self._solver = solver
        self._joints = joints

    def step(self, command: DriverCommand) -> np.ndarray:
        """Return the joint speeds of this tick, shape (J,), rad/s, always: a speed that is not replaced goes on."""
        if not command.live or command.angles is None:
            return np.zeros(self._joints)
        motion = self._solver.solve(command.angles, command.twist * command.speed_share)
        self.held_by = motion.held_by
        return motion.speeds


STOP_S = 0.06
HOLD_S = 0.5
"""A target that does not move any more is sent for this long; then the controller holds it."""
REST_S = 0.1
"""Without leave to move, the point of rest is sent for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryPoint:
    """A point of a trajectory: angles and speeds, float64, shape (J,), rad and rad/s, due `at_s` after its start."""

    angles: np.ndarray
    speeds: np.ndarray
    at_s: float


class JointTarget:
    """Target angles of an arm's joints that joint speeds move."""

    def __init__(self, lead_rad: float, limits: JointLimits) -> None:
        self._lead_rad = lead_rad
        self._limits = limits
        self.angles: np.ndarray | None = None
        """Shape (J,), or None before the first `move` and after `forget`."""

    def forget(self) -> None:
        """Forget the target: the next `move` starts at the measured angles."""
        self.angles = None

    def move(self, speeds: np.ndarray, measured: np.ndarray, dt_s: float) -> np.ndarray:
        """Move the target for `dt_s`, and return it, shape (J,); `speeds` (J,) in rad/s, `measured` angles (J,).

        The angle of a joint that turns without end may jump by a turn as measured; the target goes on without a jump.
        """
        before = measured if self.angles is None else self.angles
        measured = before + self._limits.way(before, measured)
        ahead = np.clip(before + speeds * dt_s - measured, -self._lead_rad, self._lead_rad)
        self.angles = self.inside(measured + ahead, measured)
        return self.angles

    def inside(self, angles: np.ndarray, measured: np.ndarray) -> np.ndarray:
        """Clamp angles (J,) to the joints' ranges; an arm that stands outside is not thrown back into them."""
        limits = self._limits
        clamped: np.ndarray = np.clip(angles, np.minimum(limits.lower, measured), np.maximum(limits.upper, measured))
        return clamped


class JointTrajectoryCore:
    """The core for a joint trajectory controller: target angles, moved so that the TCP follows the twist."""

    def __init__(self, solver: JointMotionSolver, limits: JointLimits, lead_rad: float, rate_hz: float) -> None:
        """Set up the core; nothing is sent before the first motion.

        Args:
            solver: Of the arm.
            limits: Of its joints.
            lead_rad: How far the target may be ahead of what is measured.
            rate_hz: How often `step` is called.
        """
        self.held_by = ""
        """The joint that slows the motion down, or ""."""
        self._solver = solver
        self._limits = limits
        self._target = JointTarget(lead_rad, limits)
        self._horizon_s = 2.0 / rate_hz
        self._lead_rad = lead_rad
        self._fading = Fading(HOLD_S)
        self._resting = Fading(REST_S)
        self._speeds: np.ndarray | None = None
        self._rest: np.ndarray | None = None
        self._stop_left_s = 0.0

    def step(self, command: DriverCommand) -> tuple[TrajectoryPoint, ...] | None:
        """Return the trajectory of this tick, or None while the controller already holds what it shall."""
        if not command.live or command.angles is None:
            return self._come_to_rest(command)
        motion = self._solver.solve(command.angles, command.twist * command.speed_share)
        self.held_by = motion.held_by
        if motion.speeds.any():
            self._fading.renew()
        elif self._target.angles is None or not self._fading.lasts(command.dt_s):
            return None  # it stays where it is, wherever that is, until somebody wants it to move
        target = self._target.move(motion.speeds, command.angles, command.dt_s)
        self._speeds, self._rest, self._stop_left_s = motion.speeds, None, STOP_S
        self._resting.renew()
        if not motion.speeds.any():
            return (TrajectoryPoint(angles=target, speeds=np.zeros_like(target), at_s=self._horizon_s),)
        ahead = self._target.inside(target + motion.speeds * self._horizon_s, command.angles)
        rest = self._target.inside(ahead + motion.speeds * STOP_S / 2.0, command.angles)
        return (
            TrajectoryPoint(angles=ahead, speeds=motion.speeds, at_s=self._horizon_s),
            TrajectoryPoint(angles=rest, speeds=np.zeros_like(rest), at_s=self._horizon_s + STOP_S),
        )

    def _come_to_rest(self, command: DriverCommand) -> tuple[TrajectoryPoint, ...] | None:
        """Return for a moment the point where the last speeds come to zero, then None.

        An arm that stood is told to stay where it is: it may be blocked, and would spring to its target once it is
        freed. The next motion starts at what is measured then. A driver that is not heard gets nothing: what it holds
        ends at rest by itself, and the arm behind the one that takes its place may stand elsewhere.
        """
        target = self._target.angles
        if target is not None and self._speeds is not None:
            moving = bool(self._speeds.any())
            self._rest = self._target.inside(target + self._speeds * STOP_S / 2.0, target) if moving else command.angles
        self._target.forget()
        if (
            self._rest is None
            or command.angles is None
            or not self._resting.lasts(command.dt_s)
            or self._is_elsewhere(self._rest, command.angles)
        ):
            self._rest = None
            return None
        at_s = max(self._horizon_s, self._stop_left_s)
        self._stop_left_s -= command.dt_s
        return (TrajectoryPoint(angles=self._rest, speeds=np.zeros_like(self._rest), at_s=at_s),)

    def _is_elsewhere(self, rest: np.ndarray, measured: np.ndarray) -> bool:
        """Return whether going to the point of rest would be a motion of its own."""
        return float(np.abs(self._limits.way(measured, rest)).max()) > 2.0 * self._lead_rad
