"""Motions of an arm to the start of an episode: into its box, up, across and down, or along its joints.

They only ask for twists of the TCP: the safety filter may clamp them, and every limit acts on them as on a policy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.config.safety import CAPS
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.joint_motion import JointLimits
from robot_stack.control.safety.bounds import OUTSIDE_M, limit_norm
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.tool_turns import TURN_RAD, TurnCounter
from robot_stack.types.pose import Pose, rotate_twist, turn_between
from robot_stack.types.robot import RobotState

ARRIVED_M, ARRIVED_RAD = 0.002, 0.02
OVER_M = 0.005
"""So near the line above the goal, the arm goes down."""
WITHIN_M = 0.005
"""An arm that stood beside its box is in it so far from the wall."""
ASIDE_M = 0.02
"""So far off its leg, below the way across or beside the way down, an arm was moved by others: it rises anew."""
GAIN_PER_S = 3.0
"""Speed wanted per distance left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSettings:
    """Clearance and speeds of the motion that brings an arm to the start of an episode.

    Attributes:
        clearance_m: How far it rises before it moves sideways; at its goal, how far it comes down.
        speed_m_s: Of the TCP.
        rotation_speed_rad_s: Of the TCP.
    """

    clearance_m: float
    speed_m_s: float
    rotation_speed_rad_s: float


class Leg(StrEnum):
    """The leg of an up-across-down motion that the arm is on."""

    ENTER = "enter"
    RISE = "rise"
    CROSS = "cross"
    DESCEND = "descend"


def random_start(
    goal: Pose, rng: np.random.Generator, range_m: np.ndarray, yaw_rad: float, limits: SafetyLimits
) -> Pose:
    """Draw a start near the goal: shifted by up to half of `range_m`, shape (3,), and turned about the base's vertical.

    Args:
        goal: T_base_tcp.
        rng: Draws it.
        range_m: Full width of the shift in x, y and z.
        yaw_rad: Full width of the turn.
        limits: Of the arm; a shift out of their box ends at its wall.
    """
    shift = (rng.random(3) - 0.5) * range_m
    turn = Rotation.from_euler("z", (rng.random() - 0.5) * yaw_rad)
    position = np.clip(goal.position_m + shift, limits.box_min_m, limits.box_max_m)
    return Pose.from_rotation(position, turn * goal.rotation)


class Motion(Protocol):
    """A motion to one goal; ask it for a twist at every control tick."""

    def twist(self, state: RobotState) -> np.ndarray | None:
        """Return the twist wanted now, float64, shape (6,), m/s and rad/s, tcp frame; None once the goal is reached."""
        ...


class Chained:
    """A sequence of motions that are carried out one after the other."""

    def __init__(self, motions: Sequence[Motion]) -> None:
        self._left = list(motions)

    def twist(self, state: RobotState) -> np.ndarray | None:
        """Return the twist of the first motion that is not done; None once all are."""
        while self._left:
            wanted = self._left[0].twist(state)
            if wanted is not None or len(self._left) == 1:
                return wanted  # the last one is asked each time: somebody may have moved the arm away since
            del self._left[0]
        return None


class WayIn:
    """The way straight into the box from beside it: outside, only motion back in is let through."""

    def __init__(self, limits: SafetyLimits) -> None:
        """Keep the box of an arm's limits."""
        self._low_m, self._high_m = np.array(limits.box_min_m), np.array(limits.box_max_m)
        self._entering = False

    def left(self, position: np.ndarray) -> np.ndarray | None:
        """Return the way left, shape (3,), m, base frame; None unless the arm stands beside the box."""
        spare_m = 0.0 if self._entering else OUTSIDE_M
        inside = (position >= self._low_m - spare_m) & (position <= self._high_m + spare_m)
        self._entering = not inside[:2].all()
        if not self._entering:
            return None
        within_m = np.minimum(WITHIN_M, (self._high_m - self._low_m) / 2.0)
        return np.asarray(np.clip(position, self._low_m + within_m, self._high_m - within_m) - position)


class JointResetMotion:
    """A motion straight in the angles of the joints, given as a twist of the TCP: v = J(q) k (q* - q).

    What the driver makes of the twist decides where the joints go. An arm of six joints goes back along the line: away
    from singularities there is one answer only. One of seven ends with its elbow where its driver leaves it. The motion
    ends where the TCP has nothing left to go; a small rest, and all of a random start, are for a motion after it.
    From beside the box the TCP comes straight in first, without a turn.
    """

    def __init__(
        self, goal_rad: np.ndarray, chain: Chain, limits: JointLimits, settings: ResetSettings, safety: SafetyLimits
    ) -> None:
        """Set the goal and the speeds; the motion begins when it is first asked for a twist.

        Args:
            goal_rad: Angles, shape (J,).
            chain: Of the arm.
            limits: Of its joints: one without an end goes the short way.
            settings: Speeds of the TCP.
            safety: Limits of the arm, which its safety filter keeps.
        """
        self._goal_rad = goal_rad
        self._chain = chain
        self._limits = limits
        self._settings = settings
        self._way_in = WayIn(safety)

    def twist(self, state: RobotState) -> np.ndarray | None:
        """Return the twist wanted now, shape (6,), m/s and rad/s, tcp frame; None once the TCP has arrived.

        Both speeds are kept by slowing the whole motion, so that it stays on its line.
        """
        way_in = self._way_in.left(state.T_base_tcp.position_m)
        if way_in is not None:
            base = np.concatenate([limit_norm(GAIN_PER_S * way_in, self._settings.speed_m_s), np.zeros(3)])
            return rotate_twist(base, state.T_base_tcp.matrix.T)
        pose, jacobian = self._chain.jacobian(state.joints_rad)
        left = jacobian @ self._limits.way(state.joints_rad, self._goal_rad)
        far_m, far_rad = float(np.linalg.norm(left[:3])), float(np.linalg.norm(left[3:]))
        if far_m < ARRIVED_M and far_rad < ARRIVED_RAD:
            return None
        most = max(
            GAIN_PER_S * far_m / self._settings.speed_m_s, GAIN_PER_S * far_rad / self._settings.rotation_speed_rad_s
        )
        return rotate_twist(GAIN_PER_S / max(1.0, most) * left, pose.matrix.T)


class ResetMotion:
    """A motion to a goal pose of the TCP: up, across, down; and up again where an operator has moved it meanwhile.

    From beside the box it comes straight in first: outside only motion back in is let through, and rising is none.
    Under the ceiling of the box it rises by what is left. Where the shorter turn of the tool about its own axis ends
    beyond its range, it takes the longer.
    """

    def __init__(self, goal: Pose, settings: ResetSettings, limits: SafetyLimits, turns: TurnCounter) -> None:
        """Set the goal and the speeds; the motion begins when it is first asked for a twist.

        Args:
            goal: T_base_tcp.
            settings: Clearance, and speeds of the TCP.
            limits: Of the arm, which its safety filter keeps.
            turns: Counts those of the tool; who asks for twists shows it every state, as the safety filter sees them.
        """
        self._goal = goal
        self._settings = settings
        self._way_in = WayIn(limits)
        self._ceiling_m = float(limits.box_max_m[2])
        self._yaw_range_rad = limits.yaw_range_rad
        self._turns = turns
        self._height_m: float | None = None
        self.leg = Leg.RISE

    def twist(self, state: RobotState) -> np.ndarray | None:
        """Return the twist wanted now, float64, shape (6,), m/s and rad/s, tcp frame; None once the goal is reached."""
        position = state.T_base_tcp.position_m
        goal = self._goal.position_m
        left = self._way_in.left(position)
        if left is None:
            left = self._way_inside(position, goal)
        else:
            self.leg = Leg.ENTER
        turn = self._turn_left(state.T_base_tcp)
        if self.leg is Leg.DESCEND and np.linalg.norm(left) < ARRIVED_M and np.linalg.norm(turn) < ARRIVED_RAD:
            return None
        base = np.concatenate(
            [
                limit_norm(GAIN_PER_S * left, self._settings.speed_m_s),
                limit_norm(GAIN_PER_S * turn, self._settings.rotation_speed_rad_s),
            ]
        )
        return rotate_twist(base, state.T_base_tcp.matrix.T)

    def _turn_left(self, pose: Pose) -> np.ndarray:
        """Return the turn left as a rotation vector, shape (3,), rad, base frame."""
        turn = turn_between(pose, self._goal)
        if self._yaw_range_rad >= CAPS["yaw_range_rad"]:
            return turn
        axis = pose.matrix[:, 2]
        way_rad = self._turns.way_to(self._goal.quaternion_xyzw, self._yaw_range_rad + ARRIVED_RAD)
        return np.asarray(turn + TURN_RAD * round((way_rad - float(turn @ axis)) / TURN_RAD) * axis)

    def _way_inside(self, position: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """Return the way left inside the box, shape (3,), m, base frame; a rise begins anew where the arm was moved."""
        if self.leg is Leg.ENTER or self._height_m is None or self._moved_away(position, goal, self._height_m):
            self.leg = Leg.RISE
            beside = float(np.linalg.norm((goal - position)[:2])) > OVER_M
            rise = self._settings.clearance_m if beside else 0.0
            self._height_m = min(max(float(position[2]), float(goal[2])) + rise, self._ceiling_m)
        return self._way_left(position, goal, self._height_m)

    def _moved_away(self, position: np.ndarray, goal: np.ndarray, height_m: float) -> bool:
        """Return whether the arm is where this leg does not lead: going on would be a diagonal."""
        if self.leg is Leg.CROSS:
            return height_m - float(position[2]) > ASIDE_M
        return self.leg is Leg.DESCEND and float(np.linalg.norm((goal - position)[:2])) > ASIDE_M

    def _way_left(self, position: np.ndarray, goal: np.ndarray, height_m: float) -> np.ndarray:
        """Return the way left on this leg, shape (3,), m, base frame; go on to the next leg where this one is done."""
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
