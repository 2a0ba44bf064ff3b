"""A monitor of whether an arm does what it is told: measured against commanded motion.

Encoders can stand still with fresh stamps (a joint_state_publisher goes on repeating what a dead driver said last), and
a driver can move in other units, with another sign or in another frame. Every limit on commands is then void. So while
somebody drives, the way of the TCP over the last fifth of a second is compared with the way that was commanded:

- stuck: not one joint has changed by a bit while the command has moved the TCP, and no contact explains it;
- gain: the TCP has gone clearly further than any command of that time would take it;
- direction: the TCP has gone another way than commanded, and no contact has bent it.

A contact is a force that was not there before: what an arm feels while it stands may be the weight of a gripper that
nobody told its sensor of, so it is learned then, slowly, and taken off.

An arm of five joints goes where it is told and turns its hand as it does: by at most 1 / ROTATION_M radians per metre
on top of the commanded turn, as joint speeds of the least weighted error do not exceed the weighted twist.

An arm follows late, by an unknown time up to `LAGS_S`: what is measured is judged against the command at the lag that
fits best. An arm that follows too slowly is no fault: drivers slow down for good reasons. What is found: a planted gain
of 2.5, a sign, a swapped axis or a stuck encoder within 0.3 s from 0.1 m/s or 0.4 rad/s on; slower motion later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np

from robot_stack.control.kinematics.joint_motion import ROTATION_M
from robot_stack.types.pose import turn_between
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState

LAGS_S = (0.0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2)
WINDOWS_S = (0.2, 0.8)
"""A short one finds what is fast, a long one what is slow."""
KEPT = 128
"""Commands and states that are remembered: of more than a second, since those of faster streams are thinned."""
APART_NS = 9_000_000
"""Remembered commands and states are so far apart, the newest aside."""
WAY = 8
"""Numbers of a commanded way: 3 of translation, 3 of rotation, base frame, and the length of either path."""
DEAD_S = 0.12
"""A command may be on its way to the motors, and their answer on the way back, for so long."""
CONTACT_N = 3.0
"""From this force on something may be touched."""
FOLLOW_S = 10.0
"""Time constant by which the force of an arm that stands is learned: a pause in a contact is shorter."""
STILL_S = 0.15
"""Encoders that have not changed by a bit for so long are judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingLimits:
    """Limits on how far an honest arm may be from its command.

    Attributes:
        gain: The TCP may go this many times as far as commanded.
        slack_m: And this much further: what an impedance lets go of when a contact ends.
        slack_rad: The same for rotation.
        least_m: A shorter way says nothing of a direction.
        least_rad: The same for rotation.
        cosine: Of the angle between the commanded and the measured way, at least.
        stuck_m: Commanded way after which encoders must have moved.
        stuck_rad: The same for rotation.
        contact_n: From this force on, and so far from what was felt at rest, a contact may stop or bend the motion.
            It makes no motion longer, but for twice the slack: what it holds back it may let go of in steps.
        turns: Whether the arm can follow every rotation; one of five joints cannot, and turns its hand as it moves.
    """

    gain: float = 1.5
    slack_m: float = 0.012
    slack_rad: float = 0.08
    least_m: float = 0.008
    least_rad: float = 0.06
    cosine: float = 0.4
    stuck_m: float = 0.004
    stuck_rad: float = 0.03
    contact_n: float = CONTACT_N
    turns: bool = True


class TrackingMonitor:
    """A monitor that remembers about a second of commands and states of one arm, and judges the newest.

    Args:
        limits: How far from its command the arm may be.
    """

    def __init__(self, limits: TrackingLimits = TrackingLimits()) -> None:
        self._limits = limits
        self._told_ns: deque[int] = deque(maxlen=KEPT)
        self._ways: deque[np.ndarray] = deque(maxlen=KEPT)
        self._seen: deque[RobotState] = deque(maxlen=KEPT)
        self._command = np.zeros(WAY)
        self._still_ns = 0
        self._felt_ns = 0
        self._rest_n: np.ndarray | None = None

    @property
    def rest_n(self) -> np.ndarray:
        """Return the force that the arm feels while it stands, shape (3,), N, base frame."""
        return np.zeros(3) if self._rest_n is None else self._rest_n

    def forget(self) -> None:
        """Begin anew: nobody drives, or the arm was moved by other means. What it feels at rest stays."""
        self._told_ns.clear()
        self._ways.clear()
        self._seen.clear()

    def tell(self, twist: np.ndarray, rotation: np.ndarray, now_ns: int) -> None:
        """Note what the arm is told from now on.

        Args:
            twist: Shape (6,), m/s and rad/s, tcp frame.
            rotation: Of the tool in the base frame, newest, shape (3, 3).
            now_ns: Steady clock.
        """
        way = np.zeros(WAY)
        if self._told_ns:
            way = self._ways[-1] + self._command * (max(0, now_ns - self._told_ns[-1]) / 1e9)
        linear, angular = rotation @ twist[:3], rotation @ twist[3:]
        self._command = np.concatenate([linear, angular, [_size(linear), _size(angular)]])
        told_ns = self._told_ns
        if told_ns and (now_ns <= told_ns[-1] or (len(told_ns) > 1 and told_ns[-1] - told_ns[-2] < APART_NS)):
            now_ns = max(now_ns, told_ns.pop())
            self._ways.pop()
        self._told_ns.append(now_ns)
        self._ways.append(way)

    def measure(self, state: RobotState) -> None:
        """Note a state that the arm reports."""
        if not self._seen or not _same(state, self._seen[-1]):
            self._still_ns = state.stamp_ns
        if len(self._seen) > 1 and self._seen[-1].stamp_ns - self._seen[-2].stamp_ns < APART_NS:
            self._seen.pop()
        self._seen.append(state)
        force_n = _force(state)
        if self._rest_n is None:
            self._rest_n = force_n
        elif not self._told_ns or not self._command.any():
            share = min(max(0.0, (state.stamp_ns - self._felt_ns) / 1e9 / FOLLOW_S), 1.0)
            self._rest_n = self._rest_n + share * (force_n - self._rest_n)
        self._felt_ns = state.stamp_ns

    def fault(self, now_ns: int) -> Refusal | None:
        """Say how the arm departs from its command, by its newest state."""
        if len(self._told_ns) < 2 or len(self._seen) < 2:
            return None
        told_ns, ways = np.array(self._told_ns), np.array(self._ways)
        force_n, contact_n = _force(self._seen[-1]), self._limits.contact_n
        touches = _size(force_n) >= contact_n and _size(force_n - self.rest_n) >= contact_n
        stuck = None if touches else self._stuck(now_ns, told_ns, ways)
        return stuck or self._astray(told_ns, ways, touches=touches)

    def _stuck(self, now_ns: int, told_ns: np.ndarray, ways: np.ndarray) -> Refusal | None:
        limits, still_ms = self._limits, (self._seen[-1].stamp_ns - self._still_ns) / 1e6
        if still_ms < STILL_S * 1e3:
            return None
        due_ns = np.array([max(self._still_ns, told_ns[0]), now_ns - DEAD_S * 1e9])
        before, after = _at(due_ns, told_ns, ways)
        way_m, way_rad = after[6:] - before[6:]
        if way_m < limits.stuck_m and (way_rad < limits.stuck_rad or not limits.turns):
            return None
        text = (
            f"no joint has moved for {still_ms:.0f} ms while {way_m * 1e3:.0f} mm and {way_rad:.2f} rad were "
            "commanded, must follow; look after the encoders and the driver"
        )
        return Refusal(kind=RefusalKind.TRACKING, text=text)

    def _astray(self, told_ns: np.ndarray, ways: np.ndarray, *, touches: bool) -> Refusal | None:
        stamps_ns, last = [state.stamp_ns for state in self._seen], self._seen[-1]
        for window_s in WINDOWS_S:
            first = self._seen[bisect_left(stamps_ns, last.stamp_ns - round(window_s * 1e9))]
            if first is last:
                continue
            lags_ns = np.array(LAGS_S) * 1e9
            asked = _at(last.stamp_ns - lags_ns, told_ns, ways) - _at(first.stamp_ns - lags_ns, told_ns, ways)
            before, after = first.T_base_tcp, last.T_base_tcp
            went_m, went_rad = after.position_m - before.position_m, turn_between(before, after)
            over = f"in {(last.stamp_ns - first.stamp_ns) / 1e6:.0f} ms"
            paths_rad = asked[:, 7] if self._limits.turns else asked[:, 7] + asked[:, 6] / ROTATION_M
            halves = ((went_m, asked[:, :3], asked[:, 6], "m"), (went_rad, asked[:, 3:6], paths_rad, "rad"))
            for went, way, paths, unit in halves:
                refusal = self._too_far(went, paths, unit, over, slacks=2.0 if touches else 1.0)
                if refusal is None and not touches:
                    refusal = self._off_the_way(went, way, unit, over)
                if refusal:
                    return refusal
        return None

    def _too_far(self, went: np.ndarray, paths: np.ndarray, unit: str, over: str, *, slacks: float) -> Refusal | None:
        """Judge how far the TCP went, (3,), m or rad, by the length that was commanded at each lag, (L,)."""
        limits = self._limits
        slack = slacks * (limits.slack_m if unit == "m" else limits.slack_rad)
        size, path = _size(went), float(paths.max())
        if size > limits.gain * path + slack:
            text = (
                f"TCP went {size:.3f} {unit} {over} where {path:.3f} were commanded, too far; compare units and scale "
                "of the driver and the robot file"
            )
            return Refusal(kind=RefusalKind.TRACKING, text=text)
        return None

    def _off_the_way(self, went: np.ndarray, asked: np.ndarray, unit: str, over: str) -> Refusal | None:
        """Judge the direction of the way that was measured, (3,), by what was commanded at each lag, (L, 3)."""
        limits, metres = self._limits, unit == "m"
        least = limits.least_m if metres else limits.least_rad
        size, straight = _size(went), np.linalg.norm(asked, axis=1)
        if size < least or float(straight.min()) < least or not (metres or limits.turns):
            return None
        cosine = float((asked @ went / (straight * size)).max())
        if cosine >= limits.cosine:
            return None
        text = (
            f"TCP went {size:.3f} {unit} {over}, {np.degrees(np.arccos(max(-1.0, cosine))):.0f} degrees off the "
            "commanded way; compare frames and signs of the driver and the robot file"
        )
        return Refusal(kind=RefusalKind.TRACKING, text=text)


def _at(when_ns: np.ndarray, told_ns: np.ndarray, ways: np.ndarray) -> np.ndarray:
    """Return the commanded ways up to some instants, (L, 8): straight between ticks, at rest before and after them."""
    after = np.clip(np.searchsorted(told_ns, when_ns), 1, len(told_ns) - 1)
    share = np.clip((when_ns - told_ns[after - 1]) / (told_ns[after] - told_ns[after - 1]), 0.0, 1.0)
    return np.asarray(ways[after - 1] + (ways[after] - ways[after - 1]) * share[:, None])


def _same(one: RobotState, other: RobotState) -> bool:
    """Return whether two states are equal to the bit in their joints, or in their position where there are none."""
    if len(one.joints_rad):
        return np.array_equal(one.joints_rad, other.joints_rad)
    return np.array_equal(one.T_base_tcp.position_m, other.T_base_tcp.position_m)


def _force(state: RobotState) -> np.ndarray:
    """Return the force on the TCP from outside, shape (3,), N, base frame: where a weight stays as it is."""
    return np.asarray(state.T_base_tcp.matrix @ state.wrench[:3])


def _size(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector))
