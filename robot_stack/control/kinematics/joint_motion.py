"""Joint speeds that follow a twist of the TCP within the limits of the joints.

What exceeds a joint's speed or runs into its end slows the whole motion: direction is kept.

Differential inverse kinematics is by damped least squares.
With the singular value decomposition J = U S V^T, speeds are V diag(s / (s^2 + l^2)) U^T v. Damping l is zero while the
smallest singular value is above EPSILON and grows to MAX_DAMPING at a singularity: l^2 = (1 - (s_min / EPSILON)^2)
MAX_DAMPING^2. Source: Chiaverini, Siciliano, Egeland, 1994, "Review of the damped least-squares inverse kinematics".

Rotation counts ROTATION_M metres per radian, so that where both cannot be had (an arm of five joints) the TCP's
position is followed first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from robot_stack.control.kinematics.chain import Chain
from robot_stack.types.pose import Pose, rotate_twist

TURN_RAD = 2.0 * math.pi
ENDLESS_RAD = 2.5 * TURN_RAD
"""A joint whose range is wider turns without an end: in a robot file it has four turns. Wide ranges with real ends, a
UR's or an xArm's, have two."""
EPSILON = 0.02
MAX_DAMPING = 0.05
ROTATION_M = 0.1
WEIGHTS = np.array([1.0, 1.0, 1.0, ROTATION_M, ROTATION_M, ROTATION_M])


def damped_inverse(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Invert a Jacobian (6, J) by damped least squares.

    Returns:
        The inverse, shape (J, 6), and orthonormal rows that span the joint speeds which move the TCP, shape
        (min(6, J), J).
    """
    left, values, right = np.linalg.svd(WEIGHTS[:, None] * jacobian, full_matrices=False)
    damping = MAX_DAMPING**2 * max(0.0, 1.0 - (float(values[-1]) / EPSILON) ** 2)
    gains = values / (values**2 + damping + 1e-12)
    return (right.T * gains) @ (left.T * WEIGHTS), right


POSTURE_PER_S = 0.5
"""How fast a redundant arm's elbow goes home while the TCP moves."""
POSTURE_SHARE = 0.5
"""Of the fastest joint's speed that the motion itself needs: a slow motion has a slow elbow."""
APPROACH_S = 0.1
"""Towards a joint's end, its speed is at most the angle left divided by this."""
STILL = 1e-9
"""A twist below this moves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLimits:
    """Range, highest speed and home of all joints, from base to flange; each float64, shape (J,), radians and rad/s."""

    lower: np.ndarray
    upper: np.ndarray
    speed: np.ndarray
    home: np.ndarray

    @property
    def endless(self) -> np.ndarray:
        """Return which joints turn without an end, bool, shape (J,): a driver may tell their angles a turn apart."""
        return np.asarray(self.upper - self.lower > ENDLESS_RAD)

    def way(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """Return the way from one set of angles to another, (J,), rad: the short one where a joint has no end."""
        straight = goal - start
        return np.asarray(straight - np.where(self.endless, np.round(straight / TURN_RAD), 0.0) * TURN_RAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointMotion:
    """The joint speeds of one tick that follow a twist of the TCP.

    Attributes:
        speeds: float64, shape (J,), rad/s, finite and within the limits.
        pose: T_base_tcp at the angles they were found for.
        share: Of the asked twist that is left, in [0, 1].
        held_by: The joint that slowed it down, or "".
    """

    speeds: np.ndarray
    pose: Pose
    share: float = 1.0
    held_by: str = ""


class JointMotionSolver:
    """A solver for the joint speeds of one arm."""

    def __init__(self, chain: Chain, limits: JointLimits) -> None:
        self._chain = chain
        self._limits = limits

    def solve(self, angles: np.ndarray, twist: np.ndarray) -> JointMotion:
        """Return the joint speeds that move the TCP by `twist`, slowed to the limits of the joints.

        Args:
            angles: Measured, shape (J,), finite.
            twist: Shape (6,), m/s and rad/s, tcp frame, finite.
        """
        pose, jacobian = self._chain.jacobian(angles)
        if float(np.abs(twist).max()) <= STILL:
            return JointMotion(speeds=np.zeros(len(angles)), pose=pose)
        inverse, rows = damped_inverse(jacobian)
        speeds = inverse @ rotate_twist(twist, pose.matrix)
        if len(angles) > 6:
            pull = POSTURE_PER_S * self._limits.way(angles, self._limits.home)
            pull = pull - rows.T @ (rows @ pull)
            largest, most = float(np.abs(pull).max()), POSTURE_SHARE * float(np.abs(speeds).max())
            share = min(1.0, most / max(largest, STILL))
            speeds = speeds + pull * min(share, self._left_for(pull, angles, speeds))
        return self._within_limits(angles, speeds, pose)

    def _left_for(self, pull: np.ndarray, angles: np.ndarray, speeds: np.ndarray) -> float:
        """Return the share of a pull that slows no joint down: the motion itself goes before the way home."""
        pulled = np.abs(pull) > STILL
        left = self._allowed(angles, pull) - np.sign(pull) * speeds
        return max(0.0, float((left[pulled] / np.abs(pull[pulled])).min())) if pulled.any() else 0.0

    def _allowed(self, angles: np.ndarray, speeds: np.ndarray) -> np.ndarray:
        """Return how fast each joint may be, in the directions of these speeds, shape (J,)."""
        limits = self._limits
        room = np.where(speeds > 0.0, limits.upper - angles, angles - limits.lower)
        return np.asarray(np.minimum(limits.speed, np.maximum(room, 0.0) / APPROACH_S))

    def _within_limits(self, angles: np.ndarray, speeds: np.ndarray, pose: Pose) -> JointMotion:
        allowed = self._allowed(angles, speeds)
        sizes = np.abs(speeds)
        shares = np.divide(allowed, sizes, out=np.ones_like(sizes), where=sizes > STILL)
        tightest = int(np.argmin(shares))
        share = float(shares[tightest])
        if share >= 1.0:
            return JointMotion(speeds=speeds, pose=pose)
        return JointMotion(speeds=speeds * share, pose=pose, share=share, held_by=self._chain.names[tightest])
