"""The way of the arm to the start of an episode: up, across, down. Wishes only: the safety filter may cut them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.rates import limit_norm
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.robot import RobotState

ARRIVED_M, ARRIVED_RAD = 0.002, 0.02
OVER_M = 0.005
"""So near the line above the goal, the arm goes down."""
GAIN_PER_S = 3.0
"""Speed wanted per distance left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSettings:
    """How the arm goes.

    Attributes:
        clearance_m: How far it rises before it moves sideways; at its goal, how far it comes down.
        speed_m_s: Of the TCP.
        rotation_speed_rad_s: Of the TCP.
    """

    clearance_m: float
    speed_m_s: float
    rotation_speed_rad_s: float


class Leg(StrEnum):
    """Where on its way the arm is."""

    RISE = "rise"
    CROSS = "cross"
    DESCEND = "descend"


def random_start(goal: Pose, rng: np.random.Generator, range_m: np.ndarray, yaw_rad: float) -> Pose:
    """A start near the goal: shifted by up to half of `range_m`, shape (3,), and turned about the vertical of base.

    Args:
        goal: T_base_tcp.
        rng: Draws it.
        range_m: Full width of the shift in x, y and z.
        yaw_rad: Full width of the turn.
    """
    shift = (rng.random(3) - 0.5) * range_m
    turn = Rotation.from_euler("z", (rng.random() - 0.5) * yaw_rad)
    return Pose.from_rotation(goal.position_m + shift, turn * goal.rotation)


class ResetMotion:
    """One way to one goal; ask it for a twist at every control tick."""

    def __init__(self, goal: Pose, settings: ResetSettings) -> None:
        self._goal = goal
        self._settings = settings
        self._height_m: float | None = None
        self.leg = Leg.RISE

    def twist(self, state: RobotState) -> np.ndarray | None:
        """What is wanted now, float64, shape (6,), m/s and rad/s, tcp frame; None once the goal is reached."""
        position, rotation = state.T_base_tcp.position_m, state.T_base_tcp.rotation
        goal = self._goal.position_m
        if self._height_m is None:
            beside = float(np.linalg.norm((goal - position)[:2])) > OVER_M
            rise = self._settings.clearance_m if beside else 0.0
            self._height_m = max(float(position[2]), float(goal[2])) + rise
        left = self._way_left(position, goal, self._height_m)
        turn = (self._goal.rotation * rotation.inv()).as_rotvec()
        if self.leg is Leg.DESCEND and np.linalg.norm(left) < ARRIVED_M and np.linalg.norm(turn) < ARRIVED_RAD:
            return None
        base = np.concatenate(
            [
                limit_norm(GAIN_PER_S * left, self._settings.speed_m_s),
                limit_norm(GAIN_PER_S * turn, self._settings.rotation_speed_rad_s),
            ]
        )
        return rotate_twist(base, rotation.inv())

    def _way_left(self, position: np.ndarray, goal: np.ndarray, height_m: float) -> np.ndarray:
        """To the end of this leg, in base; goes on to the next one where this one is done."""
        if self.leg is Leg.RISE:
            up = np.array([0.0, 0.0, height_m - position[2]])
            if up[2] > OVER_M:
                return up
            self.leg = Leg.CROSS
        if self.leg is Leg.CROSS:
            across = np.array([goal[0] - position[0], goal[1] - position[1], height_m - position[2]])
            if np.linalg.norm(across[:2]) > OVER_M:
                return across
            self.leg = Leg.DESCEND
        return np.asarray(goal - position)
