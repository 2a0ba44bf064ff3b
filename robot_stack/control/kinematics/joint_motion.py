"""Joint speeds that follow a twist of the TCP within the limits of the joints.

What exceeds a joint's speed or runs into its end slows the whole motion: direction is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.damped_inverse import damped_inverse
from robot_stack.types.pose import Pose, rotate_twist

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
        speeds = inverse @ rotate_twist(twist, pose.rotation)
        if len(angles) > 6:
            pull = POSTURE_PER_S * (self._limits.home - angles)
            pull = pull - rows.T @ (rows @ pull)
            largest, most = float(np.abs(pull).max()), POSTURE_SHARE * float(np.abs(speeds).max())
            speeds = speeds + pull * min(1.0, most / max(largest, STILL))
        return self._within_limits(angles, speeds, pose)

    def _within_limits(self, angles: np.ndarray, speeds: np.ndarray, pose: Pose) -> JointMotion:
        limits = self._limits
        room = np.where(speeds > 0.0, limits.upper - angles, angles - limits.lower)
        allowed = np.minimum(limits.speed, np.maximum(room, 0.0) / APPROACH_S)
        sizes = np.abs(speeds)
        shares = np.divide(allowed, sizes, out=np.ones_like(sizes), where=sizes > STILL)
        tightest = int(np.argmin(shares))
        share = float(shares[tightest])
        if share >= 1.0:
            return JointMotion(speeds=speeds, pose=pose)
        return JointMotion(speeds=speeds * share, pose=pose, share=share, held_by=self._chain.names[tightest])
