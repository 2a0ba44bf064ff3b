"""Hands that put a peg into its hole: one arm goes down, wiggles on the rim, takes it out; or two, one with a block."""

from __future__ import annotations

import numpy as np

from robot_stack.config.teleop_parts import OperatorConfig
from sim.hands import FAR_M, NEAR_M, PegHandsBase, Seen, in_tool

BLOCK, PEG = 0, 1
"""Rows of the arms in what is seen."""
GAIN_HZ = 1.9
_RIM_M = 0.026
"""Way that is left to the goal when the tip is at the rim."""
_OUTSIDE_M = 0.024
"""From here on, the tip is outside the hole."""
_ALIGNED_M = 0.003
_ALIGNED_RAD = 0.05
_HELD_M = 0.012
"""The block is near enough to the middle to go for its hole."""


class TwoHands(PegHandsBase):
    """The hands of a scripted operator with a block on the left and a peg on the right; implements `Hands`.

    Args:
        config: Skill.
        rng: The operator's.
        scales: Full deflections, m/s and rad/s, shape (2, 6).
    """

    def __init__(self, config: OperatorConfig, rng: np.random.Generator, scales: np.ndarray) -> None:
        super().__init__(config, rng, wiggle=3, shape=(2, 4), let_go_m=(0.005, 0.009), hover_m=(0.006, 0.014))
        self._scales = np.where(scales > 0, scales, np.inf)  # an axis that the task does not move is not deflected

    def draw_bias(self, position_m: float, yaw_rad: float) -> np.ndarray:
        """Draw a misjudgement of both goals, shape (2, 4)."""
        return np.column_stack([self._rng.normal(0, position_m, (2, 3)), self._rng.normal(0, yaw_rad, 2)])

    def left_m(self, seen: Seen) -> float:
        """Return the way along the peg that is left to its goal, in metres."""
        return _way(seen.goal[PEG] - seen.tcp[PEG], seen.goal[PEG, 3])[0]

    def is_far(self, seen: Seen) -> bool:
        """Return True if the peg is far to the side of its goal."""
        _, aside = _way(seen.goal[PEG] - seen.tcp[PEG], seen.goal[PEG, 3])
        return bool(np.linalg.norm(aside) > FAR_M)

    def distance(self, seen: Seen) -> float:
        """Return the sum of both tools' distances to their goals, m; a radian of the peg's yaw counts as 5 cm."""
        error = seen.goal - seen.tcp
        return float(np.linalg.norm(error[:, :3], axis=1).sum() + 0.05 * abs(_turn(error[PEG, 3])))

    def drive(self, seen: Seen) -> np.ndarray:
        """Return deflections that move the block to the middle, and the peg before its hole and into it.

        The peg goes in once it is aligned and the block is held.
        """
        error = seen.goal + self._bias + self._far_bias - seen.tcp
        held = float(np.linalg.norm(error[BLOCK, :3])) < _HELD_M
        wanted = np.zeros((2, 6))
        wanted[BLOCK, :3] = error[BLOCK, :3]
        wanted[PEG] = self._aim(error[PEG], seen.goal[PEG, 3], held=held)
        deflections = np.clip(GAIN_HZ * wanted / self._scales, -1, 1) * self._speed
        deflections[PEG, :3] += self._push(error[PEG], seen)
        shaky = np.isfinite(self._scales) * [1, 1, 1, 0, 0, 1]
        deflections += self._rng.normal(0, self._config.tremor, (2, 6)) * shaky
        return np.array([in_tool(row, yaw) for row, yaw in zip(deflections, seen.tcp[:, 3])])

    def _aim(self, error: np.ndarray, yaw: float, *, held: bool) -> np.ndarray:
        """Compute the way of the peg from here: outside the rim until it is aligned. Base frame, shape (6,)."""
        left, aside = _way(error, yaw)
        turn = _turn(error[3])
        aligned = np.linalg.norm(aside) < _ALIGNED_M and abs(turn) < _ALIGNED_RAD
        if aligned and left < NEAR_M:
            self._far_bias = np.zeros((2, 4))  # near enough to look again
        ahead = left
        if left > _OUTSIDE_M and not (aligned and held):
            ahead = left - _RIM_M - self._hover_m
        return np.array([*(ahead * _axis(yaw) + aside), 0.0, 0.0, turn])

    def _push(self, error: np.ndarray, seen: Seen) -> np.ndarray:
        """Compute an extra push on the rim and in the hole: forward a little, and to and fro. Shape (3,)."""
        left, aside = _way(error, seen.goal[PEG, 3])
        if left > _OUTSIDE_M + 0.002 or np.linalg.norm(aside) > 0.006 or seen.done:
            return np.zeros(3)
        axis = _axis(seen.goal[PEG, 3])
        self._wiggle = 0.9 * self._wiggle + self._rng.normal(0, 0.12, 3)
        sideways = self._wiggle - (self._wiggle @ axis) * axis
        return np.asarray(sideways + 0.2 * self._speed * axis)


def _axis(yaw: float) -> np.ndarray:
    """Return the direction in which the peg points, base frame, shape (3,)."""
    return np.array([np.cos(yaw), np.sin(yaw), 0.0])


def _way(error: np.ndarray, yaw: float) -> tuple[float, np.ndarray]:
    """Split an error into the way left along the peg [m], and that beside it [m], shape (3,)."""
    axis = _axis(yaw)
    left = float(error[:3] @ axis)
    return left, error[:3] - left * axis


def _turn(error_rad: float) -> float:
    """Return an angle [rad] as the shorter way round, in [-pi, pi)."""
    return float((error_rad + np.pi) % (2 * np.pi) - np.pi)


_STILL_IN_M = 0.042
"""Height of the tool below its goal, on the way out, down to which the tip is well over the rim."""


class PegHands(PegHandsBase):
    """The hand of a scripted operator that inserts a peg with one arm; implements `Hands`.

    Args:
        config: Skill.
        rng: The operator's.
        scales: Full deflection, m/s and rad/s, shape (1, 6).
    """

    def __init__(self, config: OperatorConfig, rng: np.random.Generator, scales: np.ndarray) -> None:
        super().__init__(config, rng, wiggle=6, shape=(4,), let_go_m=(0.002, 0.008), hover_m=(0.004, 0.012))
        self._scale = np.array([scales[0, 0]] * 3 + [scales[0, 5]] * 3)

    def draw_bias(self, position_m: float, yaw_rad: float) -> np.ndarray:
        """Draw a misjudgement of the hole in x, y and yaw, shape (4,)."""
        return np.array([*self._rng.normal(0, position_m, 2), 0.0, self._rng.normal(0, yaw_rad)])

    def left_m(self, seen: Seen) -> float:
        """Return the height of the tool above its goal, in metres."""
        return float(seen.tcp[0, 2] - seen.goal[0, 2])

    def is_far(self, seen: Seen) -> bool:
        """Return True if the tool is far to the side of its goal."""
        return bool(np.linalg.norm((seen.goal - seen.tcp)[0, :2]) > FAR_M)

    def distance(self, seen: Seen) -> float:
        """Return the distance of the tool to its goal, in metres; a radian of yaw counts as 5 cm."""
        error = (seen.goal - seen.tcp)[0]
        return float(np.linalg.norm(error[:3]) + 0.05 * abs(error[3]))

    def drive(self, seen: Seen) -> np.ndarray:
        """Return a deflection: align above the socket, go down, wiggle when the peg sits on the rim."""
        error = seen.goal[0] + self._bias + self._far_bias - seen.tcp[0]
        error[3] = (error[3] + np.pi) % (2 * np.pi) - np.pi
        if np.linalg.norm(error[:2]) < 0.003 and abs(error[3]) < 0.05 and -error[2] < NEAR_M:
            self._far_bias = np.zeros(4)  # near enough to look again
        lateral = float(np.linalg.norm(error[:2]))
        above = -error[2] > 0.024  # tip above the rim
        wanted_z = error[2]
        if above and (lateral > 0.003 or abs(error[3]) > 0.05):
            wanted_z = error[2] + 0.026 + self._hover_m  # stay above the rim until aligned
        twist = np.array([error[0], error[1], wanted_z, 0.0, 0.0, error[3]])
        gain = np.array([1.9, 1.9, 1.9, 0.0, 0.0, 1.9]) / self._scale
        twist = np.clip(twist * gain, -1, 1) * self._speed
        if above is False and lateral < 0.006 and not seen.done:
            self._wiggle = 0.9 * self._wiggle + self._rng.normal(0, 0.12, 6) * [1, 1, 0, 0, 0, 1]
            twist += self._wiggle
            twist[2] = min(twist[2], -0.25 * self._speed)
        twist += self._rng.normal(0, self._config.tremor, 6) * [1, 1, 1, 0, 0, 1]
        return in_tool(twist, seen.tcp[0, 3])[None]


class PegWithdrawHands(PegHands):
    """The hand that takes the peg out: straight up until the tip is over the rim, then to the goal."""

    def going_in(self, seen: Seen) -> bool:
        """Return False: nothing goes in on the way out."""
        return False

    def all_but_done(self, seen: Seen) -> bool:
        """Return True if the tool is near enough to its goal to let go."""
        return self.distance(seen) < self._let_go_m

    def look_again(self, seen: Seen) -> None:
        """Do nothing: no misjudgement matters on the way out."""

    def drive(self, seen: Seen) -> np.ndarray:
        """Return a deflection that moves up, and sideways once the tip is out."""
        error = seen.goal[0] + self._bias - seen.tcp[0]
        error[3] = (error[3] + np.pi) % (2 * np.pi) - np.pi
        if error[2] > _STILL_IN_M:
            error[[0, 1, 3]] = 0.0
        wanted = np.array([error[0], error[1], error[2], 0.0, 0.0, error[3]])
        twist = np.clip(1.9 * wanted / self._scale, -1, 1) * self._speed
        twist += self._rng.normal(0, self._config.tremor, 6) * [1, 1, 1, 0, 0, 1]
        return in_tool(twist, seen.tcp[0, 3])[None]
