"""Hands that take a peg from the table and put it into its hole: over it, down, close, up, across and in."""

from __future__ import annotations

import numpy as np

from robot_stack.config.teleop_parts import OperatorConfig
from sim.hands import FAR_M, NEAR_M, Seen, in_tool
from sim.peg_hands import GAIN_HZ, PegHands

_OVER_M = 0.03
"""How far above the grasp the fingers are turned and centred: they clear the top of the peg."""
_BESIDE_M = 0.022
"""Below this height the fingers are beside the peg."""
_CENTRED_M = 0.003
_ALIGNED_RAD = 0.05
_AT_GRASP_M = 0.004
_AROUND_M = 0.012
"""A peg this near to the middle of the hand, to either side, is between the fingers."""
_CLOSED, _GRIPPED, _OPEN = 0.1, 0.5, 0.9
"""Openings: shut on nothing, closed around a peg at most, and open."""
_OVER_RIM_M = 0.024
"""Way left to the goal with the tip about at the rim."""
_OVER_HOLE_M = 0.015
"""A tip nearer than this to the hole's axis is over it, or in it."""
_DRAG_M = 0.008
"""A tip that is lifted less is not moved sideways."""
_UNGRIPPED_M = 0.03
"""Way that a grasp counts as."""
_RADIAN_M = 0.05
CLOSE, OPEN = -1, 1
"""What is pressed."""


class PickHands(PegHands):
    """The hand of a scripted operator that picks a peg and inserts it with one arm; implements `Hands`.

    The operator keeps a key of the gripper pressed until they see what it was pressed for: a peg between closed
    fingers, or open ones.

    Args:
        config: Skill.
        rng: The operator's.
        scales: Full deflection, m/s and rad/s, shape (1, 6).
    """

    def __init__(self, config: OperatorConfig, rng: np.random.Generator, scales: np.ndarray) -> None:
        super().__init__(config, rng, scales)
        self._pressed = 0
        self._held = self._fetched = False

    def begin(self) -> None:
        """Prepare for a new episode, with an empty hand."""
        self._held = False
        super().begin()

    def misjudge(self, *, far: bool = False) -> None:
        """Draw anew how peg and hole are misjudged and how the hand moves; no key is pressed."""
        self._pressed, self._fetched = 0, False
        super().misjudge(far=far)

    def look_again(self, seen: Seen) -> None:
        """Aim anew once the peg is in the hand, or no longer is, and on the rim of the hole."""
        held = in_hand(seen)
        if held is not self._held:
            self._held = held
            super().misjudge(far=self.is_far(seen))
        if held and _beside(seen) < _OVER_HOLE_M:
            super().look_again(seen)

    def is_far(self, seen: Seen) -> bool:
        """Return True if the tool is far to the side of what it goes for: the peg, or with it the hole."""
        wanted = seen.goal if in_hand(seen) else seen.grasp
        return bool(np.linalg.norm((wanted - seen.tcp)[0, :2]) > FAR_M)

    def distance(self, seen: Seen) -> float:
        """Return the way that is left in metres, to the peg and then to its goal; a radian of yaw counts as 5 cm."""
        if in_hand(seen):
            return _way(seen.goal - seen.tcp)
        return _way(seen.grasp - seen.tcp) + _UNGRIPPED_M + _way(seen.goal - seen.grasp)

    def going_in(self, seen: Seen) -> bool:
        """Return True if the tip of the peg is in the hole."""
        return in_hand(seen) and _beside(seen) < _OVER_HOLE_M and super().going_in(seen)

    def all_but_done(self, seen: Seen) -> bool:
        """Return True if the peg is almost in, or if the operator has fetched it: the policy carries it on."""
        if not in_hand(seen):
            return False
        if _beside(seen) < _OVER_HOLE_M:
            return super().all_but_done(seen)
        return self._fetched and self.left_m(seen) > _OVER_RIM_M

    def grip(self, seen: Seen) -> np.ndarray:
        """Return the key that is pressed: close at the peg, open where the fingers are closed on nothing."""
        opening = seen.opening[0]
        missed = self._pressed == CLOSE and opening < _CLOSED
        if in_hand(seen) or (self._pressed == OPEN and opening > _OPEN):
            self._pressed = 0
        elif missed or (self._pressed == 0 and opening < _OPEN):
            super().misjudge()
            self._pressed = OPEN
        elif self._pressed == 0 and self._at_peg(seen):
            self._pressed = CLOSE
        return np.array([self._pressed])

    def drive(self, seen: Seen) -> np.ndarray:
        """Return a deflection: to the peg with an empty hand, else up with it, and then as in an insertion."""
        if not in_hand(seen):
            self._fetched = True
            return self._deflection(self._to_peg(seen), seen)
        if self.left_m(seen) < _OVER_RIM_M and _beside(seen) > _OVER_HOLE_M:
            return self._deflection(self._up(seen), seen)
        return super().drive(seen)

    def _error(self, seen: Seen) -> np.ndarray:
        """Return the way from the tool to the peg as the operator judges it, shape (4,)."""
        return np.asarray(seen.grasp[0] + self._bias + self._far_bias - seen.tcp[0])

    def _at_peg(self, seen: Seen) -> bool:
        error = self._error(seen)
        return bool(np.linalg.norm(error[:2]) < _AT_GRASP_M and abs(error[2]) < _AT_GRASP_M)

    def _to_peg(self, seen: Seen) -> np.ndarray:
        """Compute the way of an empty hand: over the peg until it is aligned, then down; still while it closes."""
        if self._pressed == CLOSE:
            return np.zeros(6)
        error = self._error(seen)
        beside, above = float(np.linalg.norm(error[:2])), -error[2]
        aligned = beside < _CENTRED_M and abs(error[3]) < _ALIGNED_RAD
        if aligned and above < NEAR_M:
            self._far_bias = np.zeros(4)  # near enough to look again
        down = aligned or (above < _BESIDE_M and beside < _AROUND_M)
        wanted_z = error[2] if down and self._pressed == 0 else error[2] + _OVER_M
        return np.array([error[0], error[1], wanted_z, 0.0, 0.0, error[3]])

    def _up(self, seen: Seen) -> np.ndarray:
        """Compute the way of a held peg up over the rim, and sideways as soon as it is off the table."""
        error = seen.goal[0] + self._bias + self._far_bias - seen.tcp[0]
        lifted = self.left_m(seen)
        share = float(np.clip((lifted - _DRAG_M) / (_OVER_RIM_M - _DRAG_M), 0.0, 1.0))
        up = _OVER_RIM_M + self._hover_m - lifted
        return np.array([share * error[0], share * error[1], up, 0.0, 0.0, share * error[3]])

    def _deflection(self, way: np.ndarray, seen: Seen) -> np.ndarray:
        twist = np.clip(GAIN_HZ * way / self._scale, -1, 1) * self._speed
        twist += self._rng.normal(0, self._config.tremor, 6) * [1, 1, 1, 0, 0, 1]
        return in_tool(twist, seen.tcp[0, 3])[None]


def in_hand(seen: Seen) -> bool:
    """Return True if the fingers are closed around the peg."""
    away = np.abs(seen.grasp - seen.tcp)[0, :3]
    return bool(_CLOSED < seen.opening[0] < _GRIPPED and (away < [_AROUND_M, _AROUND_M, 0.02]).all())


def _beside(seen: Seen) -> float:
    """Return how far the tool is to the side of its goal, in metres."""
    return float(np.linalg.norm((seen.goal - seen.tcp)[0, :2]))


def _way(between: np.ndarray) -> float:
    """Return the way between two poses of one tool, shape (1, 4), in metres."""
    return float(np.linalg.norm(between[0, :3]) + _RADIAN_M * abs(between[0, 3]))
