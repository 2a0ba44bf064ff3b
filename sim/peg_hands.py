"""One hand that inserts a peg downwards: align above the socket, go down, wiggle on the rim; and takes it out again."""

from __future__ import annotations

import numpy as np

from robot_stack.config.teleop_parts import OperatorConfig
from sim.hands import FAR_M, NEAR_M, PegHandsBase, Seen, in_tool

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
