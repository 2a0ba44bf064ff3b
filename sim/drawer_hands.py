"""Hands that open a drawer, put a block in and close it, from whatever state they find."""

from __future__ import annotations

import numpy as np

from robot_stack.config.teleop_parts import OperatorConfig
from sim.hands import FAR_M, NEAR_M, Seen, in_tool
from sim.peg_hands import GAIN_HZ
from sim.pick_hands import CLOSE, OPEN
from sim.tasks.drawer import Stage

_TO_HANDLE, _PULL, _TO_BLOCK, _CARRY, _SHUT = range(5)
"""The motions of the task, one after the other."""
_AFTER_M = (0.95, 0.80, 0.50, 0.30, 0.0)
"""Way that the motions after each of them count as: more than any of them has left when it begins."""
_SHUT_HAND, _WIDE_HAND, _OPEN_HAND = 0.1, 0.5, 0.9
"""Openings: less is shut on nothing, more holds nothing any longer, and still more is open."""
_OF_HANDLE, _OF_BLOCK = (0.12, 0.28), (0.28, 0.55)
"""Openings of a hand that is closed around the bar and around the block."""
_AROUND_M, _AROUND_Z_M = 0.016, 0.014
"""What is nearer than this to the middle of the hand, to the side and in height, is between the fingers."""
_CENTRED_M = (0.012, 0.0, 0.010, 0.016, 0.012)
_ALIGNED_RAD = (0.20, 0.0, 0.20, 0.30, 0.35)
"""From here the hand goes down on its target, in each motion."""
_LOOKS_AGAIN_M = 0.016
_AT_GRASP_M, _AT_GRASP_Z_M = 0.008, 0.008
_OVER_M = (0.038, 0.038, 0.040, 0.030, 0.028)
"""How far above its target the hand travels, in each motion."""
_RAMP_M = (0.012, 0.012, 0.012, 0.020, 0.010)
"""Below that height by as much, the hand only goes up."""
_FAR_RAMP_M, _FAR_CARRY_M = 0.036, 0.07
"""The same for a block that is carried, as long as the drawer is further away than this."""
_CLEAR_M = 0.020
"""Above its target by so much, open fingers are above the part, and a carried block is above the rim of the drawer."""
_DROP_XY_M, _DROP_Z_M = 0.012, 0.009
"""From here a block falls into the middle of the drawer."""
_BEFORE_M = 0.016
"""How far before the front of the drawer the open hand goes down."""
_PUT_DOWN_M = 0.004
"""A part that is not wanted now is let go this near to the height of the handle."""
_PUSH_N = 6.0
"""A hand that feels this much stands on something."""
_PRESS_M = 0.020
"""How far into the cabinet the drawer is pushed, so that it closes."""
_LIFTED_M = 0.015
"""A block that is carried this much above where it is dropped has been lifted."""
_UNGRIPPED_M = 0.03
"""Way that a grasp counts as."""
_RADIAN_M = 0.05
_LONGEST_PRESS_NS = 1_500_000_000
"""Fingers that have closed on neither nothing nor what was aimed at are opened again after this long."""


class DrawerHands:
    """The hand of a scripted operator that fills a drawer with one arm; implements `Hands`.

    What is done next depends only on what is seen, so that the operator can take over at any moment. A key of the
    gripper stays pressed until its effect is seen, as in `PickHands`.

    Args:
        config: Skill.
        rng: The operator's.
        scales: Full deflection, m/s and rad/s, shape (1, 6).
    """

    def __init__(self, config: OperatorConfig, rng: np.random.Generator, scales: np.ndarray) -> None:
        self._config = config
        self._rng = rng
        self._scale = np.array([scales[0, 0]] * 3 + [scales[0, 5]] * 3)
        self._bias, self._far_bias = np.zeros(4), np.zeros(4)
        self._speed = config.speed
        self._motion: int | None = None
        self._first: int | None = None
        """The motion with which a correction began."""
        self._pressed, self._pressed_ns = 0, 0
        self._wedged = False
        """The fingers push against something and do not open: they are closed a little while the hand goes up."""

    def begin(self) -> None:
        """Prepare for a new episode, with an empty hand."""
        self.misjudge(far=True)

    def misjudge(self, *, far: bool = False) -> None:
        """Draw anew how places are misjudged and how the hand moves; no key is pressed, a correction begins."""
        self._pressed, self._wedged, self._motion, self._first = 0, False, None, None
        self._aim(far=far)

    def look_again(self, seen: Seen) -> None:
        """Aim anew when the next motion begins, or an earlier one again."""
        motion = _motion_of(seen)
        if self._first is None:
            self._first = self._motion = motion
        elif motion != self._motion:
            self._motion = motion
            self._aim(far=self.is_far(seen))

    def is_far(self, seen: Seen) -> bool:
        """Return True if the tool is far to the side of what it goes for; a drawer in hand shows where it slides."""
        if _motion_of(seen) == _PULL or (_motion_of(seen) == _SHUT and _at_front(seen)):
            return False
        return bool(np.linalg.norm((_target(seen) - seen.tcp[0])[:2]) > FAR_M)

    def distance(self, seen: Seen) -> float:
        """Return the way that is left in metres, all motions to come counted; a radian of yaw counts as 5 cm."""
        motion = _motion_of(seen)
        left = _way(_target(seen) - seen.tcp[0]) + _AFTER_M[motion]
        if motion in (_TO_HANDLE, _TO_BLOCK):
            left += _UNGRIPPED_M
        elif motion == _SHUT:
            left += float(np.linalg.norm((seen.goal - seen.grasp)[0, :3]))
        return left

    def going_in(self, seen: Seen) -> bool:
        """Return True if the drawer is being pushed closed."""
        return _motion_of(seen) == _SHUT and _at_front(seen)

    def all_but_done(self, seen: Seen) -> bool:
        """Return True if a motion has been done that the operator stepped in for: the policy goes on from there."""
        motion = _motion_of(seen)
        if self._first is None or motion <= self._first:
            return False
        if motion in (_TO_BLOCK, _SHUT):
            return bool(seen.opening[0] > _OPEN_HAND)
        return motion == _PULL or bool(seen.tcp[0, 2] - seen.goal[0, 2] > _LIFTED_M)

    def grip(self, seen: Seen) -> np.ndarray:
        """Return the key that is pressed: close at the handle and at the block, open where the fingers shall be."""
        opening, motion = seen.opening[0], _motion_of(seen)
        late = seen.stamp_ns - self._pressed_ns > _LONGEST_PRESS_NS
        if self._pressed == OPEN:
            if opening > _OPEN_HAND:
                self._press(0, seen)
            elif late:
                self._wedged = True
                self._press(CLOSE, seen)
        elif self._pressed == CLOSE:
            if self._wedged and opening < _WIDE_HAND:
                self._press(OPEN, seen)
            elif not self._wedged and motion in (_PULL, _CARRY):
                self._press(0, seen)
            elif opening < _SHUT_HAND or late:
                self._aim(far=False)
                self._press(OPEN, seen)
        elif self._lets_go(seen):
            self._press(OPEN, seen)
        elif opening > _OPEN_HAND and motion in (_TO_HANDLE, _TO_BLOCK) and self._at_grasp(seen):
            self._press(CLOSE, seen)
        return np.array([self._pressed])

    def _press(self, key: int, seen: Seen) -> None:
        self._wedged = self._wedged and key == CLOSE
        self._pressed, self._pressed_ns = key, seen.stamp_ns

    def drive(self, seen: Seen) -> np.ndarray:
        """Return a deflection: still while the fingers close or let go, else on with the present motion."""
        motion = _motion_of(seen)
        if self._wedged:
            way = np.array([0.0, 0.0, _OVER_M[motion], 0.0, 0.0, 0.0])
        elif self._pressed == CLOSE or (motion != _PULL and motion != _CARRY and seen.opening[0] < _WIDE_HAND):
            way = self._put_down(seen) if self._carries_block(seen) else np.zeros(6)
        elif self._pressed == OPEN and motion == _CARRY:
            way = np.zeros(6)
        elif motion == _PULL:
            way = _twist(self._error(seen))
        elif motion == _SHUT and _at_front(seen):
            way = self._push(seen)
        else:
            way = self._over_and_down(motion, seen)
        twist = np.clip(GAIN_HZ * way / self._scale, -1, 1) * self._speed
        twist += self._rng.normal(0, self._config.tremor, 6) * [1, 1, 1, 0, 0, 1]
        return in_tool(twist, seen.tcp[0, 3])[None]

    def _aim(self, *, far: bool) -> None:
        config = self._config
        self._far_bias = np.zeros(4)
        if far:
            self._far_bias = self._draw_bias(config.far_position_noise_m, config.far_yaw_noise_rad)
        self._bias = self._draw_bias(config.position_noise_m, config.yaw_noise_rad)
        self._speed = config.speed * self._rng.uniform(0.75, 1.0)

    def _draw_bias(self, position_m: float, yaw_rad: float) -> np.ndarray:
        return np.array([*self._rng.normal(0, position_m, 2), 0.0, self._rng.normal(0, yaw_rad)])

    def _error(self, seen: Seen) -> np.ndarray:
        """Return the way from the tool to what it goes for, as the operator judges it, shape (4,)."""
        error = _target(seen) + self._bias + self._far_bias - seen.tcp[0]
        error[3] = _wrapped(error[3])
        return np.asarray(error)

    def _at_grasp(self, seen: Seen) -> bool:
        error = self._error(seen)
        return bool(np.linalg.norm(error[:2]) < _AT_GRASP_M and abs(error[2]) < _AT_GRASP_Z_M)

    def _lets_go(self, seen: Seen) -> bool:
        """Return True where the fingers shall open: over the drawer, or closed around what is not wanted now."""
        motion = _motion_of(seen)
        if motion == _PULL:
            return False
        if motion == _CARRY:
            error = self._error(seen)
            return bool(np.linalg.norm(error[:2]) < _DROP_XY_M and abs(error[2]) < _DROP_Z_M)
        return bool(seen.opening[0] < _OPEN_HAND and (not self._carries_block(seen) or _on_something(seen)))

    def _carries_block(self, seen: Seen) -> bool:
        """Return True if the block seems to be in the hand although the drawer must be opened first."""
        low, high = _OF_BLOCK
        return _motion_of(seen) == _TO_HANDLE and self._pressed == 0 and bool(low < seen.opening[0] < high)

    def _put_down(self, seen: Seen) -> np.ndarray:
        return np.array([0.0, 0.0, seen.grasp[0, 2] - seen.tcp[0, 2], 0.0, 0.0, 0.0])

    def _push(self, seen: Seen) -> np.ndarray:
        """Compute the way of open fingers that push the front of the drawer until it is closed."""
        error = seen.goal[0] + self._bias + self._far_bias - seen.tcp[0]
        error[:2] -= _PRESS_M * _outwards(seen)
        return _twist(np.array([*error[:3], self._error(seen)[3]]))

    def _over_and_down(self, motion: int, seen: Seen) -> np.ndarray:
        """Compute the way to a place: up where the hand is low and elsewhere, then across, and down as in a funnel."""
        error = self._error(seen)
        beside, above, over = float(np.linalg.norm(error[:2])), -error[2], _OVER_M[motion]
        if beside < _LOOKS_AGAIN_M and above < over + NEAR_M:
            self._far_bias = np.zeros(4)  # near enough to look again
        astray = max(0.0, beside - _CENTRED_M[motion])
        if astray == 0.0 and (abs(error[3]) < _ALIGNED_RAD[motion] or above < _CLEAR_M):
            return _twist(error)
        if above > _CLEAR_M and astray < over - _CLEAR_M:
            return _twist(np.array([error[0], error[1], error[2] + _CLEAR_M + astray, error[3]]))
        ramp = _FAR_RAMP_M if motion == _CARRY and beside > _FAR_CARRY_M else _RAMP_M[motion]
        lifted = float(np.clip((above - over + ramp) / ramp, 0.0, 1.0))
        return _twist(np.array([lifted * error[0], lifted * error[1], error[2] + over, lifted * error[3]]))


def _motion_of(seen: Seen) -> int:
    """Return which motion the scene asks for now."""
    opening = float(seen.opening[0])
    if seen.stage == Stage.CLOSE:
        return _SHUT
    away = np.abs(seen.grasp - seen.tcp)[0, :3]
    around = bool((away < [_AROUND_M, _AROUND_M, _AROUND_Z_M]).all())
    if seen.stage == Stage.OPEN:
        return _PULL if around and _OF_HANDLE[0] < opening < _OF_HANDLE[1] else _TO_HANDLE
    return _CARRY if around and _OF_BLOCK[0] < opening < _OF_BLOCK[1] else _TO_BLOCK


def _target(seen: Seen) -> np.ndarray:
    """Return where the tool goes in the present motion, shape (4,)."""
    motion = _motion_of(seen)
    if motion in (_PULL, _CARRY):
        return np.asarray(seen.goal[0])
    before = _BEFORE_M if motion == _SHUT else 0.0
    return np.asarray(seen.grasp[0] + [*(before * _outwards(seen)), 0.0, 0.0])


def _outwards(seen: Seen) -> np.ndarray:
    """Return the direction in which the drawer opens, shape (2,); the front of the drawer must be what is gone for."""
    yaw = seen.goal[0, 3]
    return np.array([np.cos(yaw), np.sin(yaw)])


def _at_front(seen: Seen) -> bool:
    """Return True if the open hand is low before the front of the drawer, or touches it."""
    away = (seen.tcp - seen.grasp)[0]
    ahead = float(away[:2] @ _outwards(seen))
    aside = float(np.linalg.norm(away[:2] - ahead * _outwards(seen)))
    return bool(-0.01 < ahead < 2 * _BEFORE_M and aside < _AROUND_M and abs(away[2]) < 0.008 and seen.opening[0] > 0.5)


def _on_something(seen: Seen) -> bool:
    """Return True if a part that shall be put down has come down."""
    return bool(seen.tcp[0, 2] - seen.grasp[0, 2] < _PUT_DOWN_M or seen.force_n > _PUSH_N)


def _twist(error: np.ndarray) -> np.ndarray:
    return np.array([error[0], error[1], error[2], 0.0, 0.0, error[3]])


def _wrapped(angle_rad: float) -> float:
    return float((angle_rad + np.pi) % (2 * np.pi) - np.pi)


def _way(between: np.ndarray) -> float:
    """Return the way between two poses of one tool, shape (4,), in metres."""
    return float(np.linalg.norm(between[:3]) + _RADIAN_M * abs(_wrapped(between[3])))
