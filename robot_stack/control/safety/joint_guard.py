r"""Joint limits of an arm that is commanded by twists, without a model of it.

Near its configuration an arm's joint speeds are linear in the twist of its TCP, :math:`\dot q = G v`. G is learned from
what the robot reports anyway, joint speeds and twist of one instant, by Kaczmarz' projection: each sample is fitted
exactly, with the smallest change of G. The direction in which the arm moves is therefore always known after one
sample, and only that one matters for where the arm is going.

Source: Kaczmarz, 1937; as an adaptive filter it is NLMS with step size 1 (Haykin, Adaptive Filter Theory, ch. 6).
"""

from __future__ import annotations

import numpy as np

from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState

STILL = 0.02
"""Measured twist, as a share of the highest, below which the ratio of joint speed to twist is mostly noise."""


class JointGuard:
    """Slows a twist before a joint reaches the end of the range it may use; at the end only the way back passes."""

    def __init__(self, limits: SafetyLimits) -> None:
        self._names = [joint.name for joint in limits.joints]
        self._scale = np.array([limits.max_speed_m_s] * 3 + [limits.max_rotation_speed_rad_s] * 3)
        self._gain = np.zeros((len(limits.joints), 6))
        self.limit(limits)

    def limit(self, limits: SafetyLimits) -> None:
        """Set other limits of the same joints from now on; how they follow is known already."""
        self._hard = np.array([(joint.min_rad, joint.max_rad) for joint in limits.joints]).reshape(-1, 2)
        middle = self._hard.mean(axis=1, keepdims=True)
        self._soft = middle + limits.joint_range_share * (self._hard - middle)
        self._max_speed = np.array([joint.max_speed_rad_s for joint in limits.joints])
        self._approach_s = max(limits.approach_s, limits.tilt_approach_s)

    def watch(self, state: RobotState) -> None:
        """Learn how the joints follow a twist from a state whose joints are finite and of the right number."""
        moved = state.twist / self._scale
        size = float(moved @ moved)
        if self._names and size > STILL**2:
            self._gain += np.outer(state.joint_speeds_rad_s - self._gain @ moved, moved) / size

    def slowed(self, twist: np.ndarray, last: np.ndarray, state: RobotState, age_s: float) -> np.ndarray:
        """Shorten a twist in its own direction so that no joint moves out faster than its room allows.

        Args:
            twist: Shape (6,), m/s and rad/s, tcp frame.
            last: Twist that was let through before; what it takes of the room since the state is gone.
            state: Where the joints were.
            age_s: Age of the state.

        Returns:
            Shape (6,).
        """
        if not self._names:
            return twist
        speeds = self._gain @ (twist / self._scale)
        since = self._gain @ (last / self._scale) * age_s
        up = self._soft[:, 1] - state.joints_rad - np.maximum(since, 0.0)
        down = state.joints_rad - self._soft[:, 0] + np.minimum(since, 0.0)
        room = np.where(speeds > 0, up, down)
        allowed = np.minimum(np.maximum(room, 0.0) / self._approach_s, self._max_speed)
        wanted = np.abs(speeds)
        fast = wanted > np.maximum(allowed, 1e-6)
        return twist * float((allowed[fast] / wanted[fast]).min()) if fast.any() else twist

    def beyond(self, state: RobotState) -> Refusal | None:
        """Return a refusal that names a joint outside the robot's own limits, or None."""
        if not self._names:
            return None
        outside = (state.joints_rad < self._hard[:, 0]) | (state.joints_rad > self._hard[:, 1])
        if not outside.any():
            return None
        index = int(np.argmax(outside))
        low, high = self._hard[index]
        return Refusal(
            kind=RefusalKind.JOINT_RANGE,
            text=f"{self._names[index]} is at {state.joints_rad[index]:.3f} rad, must be within {low:g} to {high:g}; "
            "move it back by the robot's own means, resume",
        )
