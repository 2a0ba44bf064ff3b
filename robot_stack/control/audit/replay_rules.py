"""The rules of `replay_checker`, one function each: a log and limits in, violations out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import SupportsInt

import numpy as np

from robot_stack.control.audit.logged import MODES, LogArrays, LoggedTick
from robot_stack.control.audit.replay_links import approaches, depths, turns
from robot_stack.control.audit.replay_tracking import strays
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.command import MOVING_MODES, Mode, Source

SOURCES = {Mode.POLICY: (Source.POLICY, Source.HOLD), Mode.HUMAN: (Source.HUMAN, Source.IDLE, Source.HOLD)}
"""Whose motion a mode may execute; in every other mode nobody's."""
BRAKING = (int(Source.HOLD), int(Source.IDLE))
"""Sources of which an arm comes to rest."""
LINEAR, ANGULAR = slice(0, 3), slice(3, 6)
HALVES = (("", LINEAR), ("rotation_", ANGULAR))
ZERO = 1e-9
ROUNDED = 1e-5
"""What a recorded pose and a float32 twist may make of a velocity of zero along an axis, m/s or rad/s."""
RETRACT_S = 0.5
RESTART_S = 0.02
"""After a gap the arm stands; its first command may be this much acceleration away from rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule: which tick, its stamp, which rule, and a sentence with the numbers."""

    index: int
    stamp_ns: int
    rule: str
    text: str


def finite(ticks: Sequence[LoggedTick]) -> Iterator[Violation]:
    """Yield ticks whose twist is not six finite numbers.

    Judged first: nothing else can be said of a log that breaks this rule.
    """
    for index, tick in enumerate(ticks):
        twist = tick.decision.command.twist
        if twist.shape != (6,) or not np.isfinite(twist).all():
            text = f"twist is {twist}, must be finite of shape (6,)"
            yield Violation(index=index, stamp_ns=tick.stamp_ns, rule="finite", text=text)


def speed(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks whose linear or angular speed, as a norm, is above its limit."""
    for (prefix, half), largest in zip(HALVES, (limits.max_speed_m_s, limits.max_rotation_speed_rad_s)):
        sizes = np.linalg.norm(log.twist[:, half], axis=1)
        for index in np.flatnonzero(sizes > largest * (1.0 + slack)):
            yield _at(log, index, f"{prefix}speed", f"{prefix}speed is {sizes[index]:.4f}, must be at most {largest}")


def acceleration(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks whose twist differs from the one before by more than the largest acceleration allows.

    Where nobody drives or the hand rests, by more than the brakes do. After a gap the arm starts from rest. At a hard
    contact it must let go at once: those ticks are exempt.
    """
    dt_s = np.diff(log.stamp_ns) / 1e9
    gap = dt_s > limits.output_timeout_s
    start = np.where(gap[:, None], 0.0, log.twist[:-1])
    dt_s = np.where(gap, RESTART_S, dt_s)
    hard = np.zeros(len(log.stamp_ns), np.bool_)
    for half, most in ((LINEAR, limits.hard_force_n), (ANGULAR, limits.hard_torque_nm)):
        hard[log.stated] |= (_size(log.wrench, half) >= most) | (_size(log.heard_wrench, half) >= most)
    judged = (dt_s > 0.0) & ~hard[1:]
    changes = (log.twist[1:] - start) / np.where(judged, dt_s, np.inf)[:, None]
    brakes = np.isin(log.source[1:], BRAKING)
    for (prefix, half), largest, braking in (
        (HALVES[0], limits.max_acceleration_m_s2, limits.braking_m_s2),
        (HALVES[1], limits.max_rotation_acceleration_rad_s2, limits.rotation_braking_rad_s2),
    ):
        sizes, rates = np.linalg.norm(changes[:, half], axis=1), np.where(brakes, braking, largest)
        for index in np.flatnonzero(sizes > rates * (1.0 + slack)):
            text = f"{prefix}acceleration is {sizes[index]:.3f}, must be at most {rates[index]}"
            yield _at(log, index + 1, f"{prefix}acceleration", text)


def workspace(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks that move towards a wall too fast to stop before it, and that do not brake.

    Braking means slowing down with at least a tenth of the largest acceleration.
    """
    velocity = log.rotation.apply(log.twist[log.stated, :3]) if len(log.stated) else np.zeros((0, 3))
    stamp_ns = log.stamp_ns[log.stated]
    before = np.concatenate([np.zeros((1, 3)), velocity[:-1]])[: len(velocity)]
    dt_s = np.minimum(np.diff(stamp_ns, prepend=0) / 1e9, limits.output_timeout_s)
    room = np.where(
        velocity > 0, np.array(limits.box_max_m) - log.position_m, log.position_m - np.array(limits.box_min_m)
    )
    stoppable = np.sqrt(2.0 * limits.max_acceleration_m_s2 * np.maximum(room + slack, 0.0)) + ROUNDED
    slowing = np.abs(velocity) < np.abs(before) - 0.1 * limits.max_acceleration_m_s2 * dt_s[:, None]
    for row, axis in np.argwhere((np.abs(velocity) > stoppable) & ~slowing):
        where = f"{velocity[row, axis]:.4f} m/s on {'xyz'[axis]} at {log.position_m[row, axis]:.4f} m"
        yield _at(log, log.stated[row], "workspace", f"{where}, cannot stop before the wall")


def tilt(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks that tilt the tool too fast to stop within the cone around straight down, and that do not brake."""
    if limits.tilt_cone_rad >= math.pi or not len(log.stated):
        return
    axis = log.rotation.apply([0.0, 0.0, 1.0])
    lean_rad = np.arccos(np.clip(-axis[:, 2], -1.0, 1.0))
    turn = log.rotation.apply(log.twist[log.stated, 3:])
    inward = np.cross(axis, [0.0, 0.0, -1.0])
    size = np.linalg.norm(inward, axis=1)
    sideways = np.linalg.norm(turn - np.sum(turn * axis, axis=1, keepdims=True) * axis, axis=1)
    upright = size < ZERO
    outward = np.where(upright, sideways, -np.sum(turn * inward, axis=1) / np.where(upright, 1.0, size))
    room = np.maximum(0.0, limits.tilt_cone_rad + 10.0 * slack - lean_rad)
    stoppable = np.sqrt(2.0 * limits.max_rotation_acceleration_rad_s2 * room) + ROUNDED
    braking = np.diff(outward, prepend=0.0) < -ZERO
    for row in np.flatnonzero((outward > stoppable) & ~braking):
        text = f"{outward[row]:.4f} rad/s outward at a tilt of {lean_rad[row]:.3f} rad, cannot stop within the cone"
        yield _at(log, log.stated[row], "tilt", text)


def force(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks that push into a contact at the hard force, by the newest state and by the newest one heard."""
    for row, push, size in _pushes(log, LINEAR, limits.hard_force_n, slack * limits.max_speed_m_s):
        yield _at(log, log.stated[row], "force", f"pushes with {push:.4f} m/s against {size:.0f} N")


def torque(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks that turn into a contact at the hard torque, by the newest state and by the newest one heard."""
    for row, turn, size in _pushes(log, ANGULAR, limits.hard_torque_nm, slack * limits.max_rotation_speed_rad_s):
        yield _at(log, log.stated[row], "torque", f"turns with {turn:.4f} rad/s against {size:.0f} Nm")


def joints(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks that move with a joint outside the robot's own limits, once the brakes had their time.

    States with another number of joints than the limits are one violation, at the first tick with a state.
    """
    if not limits.joints or not len(log.stated):
        return
    if log.joints_rad.shape[1] != len(limits.joints):
        text = f"states have {log.joints_rad.shape[1]} joints, must have {len(limits.joints)}"
        yield _at(log, log.stated[0], "joints", text)
        return
    low, high = (np.array([getattr(joint, end) for joint in limits.joints]) for end in ("min_rad", "max_rad"))
    outside = (log.joints_rad < low) | (log.joints_rad > high)
    beyond = np.zeros(len(log.stamp_ns), np.bool_)
    beyond[log.stated] = outside.any(axis=1)
    late = log.since_ns(beyond) > _ramp_ns(limits, slack)
    for index in np.flatnonzero(late & _moves(log)):
        yield _at(log, index, "joints", "moves with a joint outside its limits")


def standstill(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks outside POLICY and HUMAN that move the gripper, or the arm once the brakes had their time.

    A HOLD may retract, if configured.
    """
    still = ~np.isin(log.mode, [MODES.index(mode) for mode in MOVING_MODES])
    for index in np.flatnonzero(still & log.grips):
        yield _at(log, index, "standstill", f"moves the gripper in {MODES[log.mode[index]]}")
    late_ns, due_ns = log.since_ns(still), _ramp_ns(limits, slack)
    slowly = np.linalg.norm(log.twist[:, :3], axis=1) <= limits.retract_m_s * (1.0 + slack)
    turns = np.abs(log.twist[:, 3:]).max(axis=1, initial=0.0) > ZERO
    in_time = late_ns <= due_ns + RETRACT_S * 1e9
    retracts = (log.mode == MODES.index(Mode.HOLD)) & slowly & ~turns & in_time
    for index in np.flatnonzero(still & (late_ns > due_ns) & _moves(log) & ~retracts):
        text = f"moves {late_ns[index] / 1e6:.0f} ms into {MODES[log.mode[index]]}"
        yield _at(log, index, "standstill", text)


def source(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks whose source may not drive in their mode, or whose command names another source."""
    wrong = log.source != log.command_source
    for number, mode in enumerate(MODES):
        legal = [int(each) for each in SOURCES.get(mode, (Source.HOLD,))]
        wrong = wrong | ((log.mode == number) & ~np.isin(log.source, legal))
    for index in np.flatnonzero(wrong):
        mode, ours, theirs = MODES[log.mode[index]], Source(log.source[index]), Source(log.command_source[index])
        names = [each.name for each in SOURCES.get(mode, (Source.HOLD,))]
        text = f"source is {ours.name}, of the command {theirs.name}, must both be one of {names} in {mode}"
        yield _at(log, index, "source", text)


def tracking(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks at which the arm did not do what was commanded: a stuck encoder, another scale, sign or frame."""
    for index, text in strays(log):
        yield _at(log, index, "tracking", text)


def clearance(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks at which a part of the arm comes nearer to something than its margin, or too fast to stop before."""
    for judge in (approaches, depths):
        for index, text in judge(log, limits, slack):
            yield _at(log, index, "clearance", text)


def yaw(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[Violation]:
    """Yield ticks that turn the tool about its own axis too fast to stop within its range, and that do not brake.

    Turns count from `yaw_zero_xyzw`, else from the first tick with a state.
    """
    for index, text in turns(log, limits, slack):
        yield _at(log, index, "yaw", text)


Rule = Callable[[LogArrays, SafetyLimits, float], Iterator[Violation]]
RULES: tuple[Rule, ...] = (
    speed,
    acceleration,
    workspace,
    tilt,
    force,
    torque,
    joints,
    standstill,
    source,
    tracking,
    clearance,
    yaw,
)


def _at(log: LogArrays, index: SupportsInt, rule: str, text: str) -> Violation:
    return Violation(index=int(index), stamp_ns=int(log.stamp_ns[int(index)]), rule=rule, text=text)


def _size(wrench: np.ndarray, half: slice) -> np.ndarray:
    """Return the size of the force or the torque of wrenches (M, 6), shape (M,)."""
    return np.asarray(np.linalg.norm(wrench[:, half], axis=1))


def _pushes(log: LogArrays, half: slice, hard: float, slack: float) -> Iterator[tuple[int, float, float]]:
    """Yield the ticks with a state that move into a load from `hard` on, with the speed into it and its size."""
    loads = (log.wrench, log.heard_wrench)
    sizes = [_size(load, half) for load in loads]
    speeds = [
        -np.sum(log.twist[log.stated, half] * load[:, half], axis=1) / np.maximum(size, ZERO)
        for load, size in zip(loads, sizes)
    ]
    into = (np.minimum(*speeds) > slack) & (np.minimum(*sizes) >= hard)
    for row in np.flatnonzero(into):
        yield int(row), float(speeds[0][row]), float(sizes[0][row])


def _moves(log: LogArrays) -> np.ndarray:
    """Return for each tick whether its twist is not zero, shape (N,)."""
    return np.asarray(np.abs(log.twist).max(axis=1, initial=0.0) > ZERO)


def _ramp_ns(limits: SafetyLimits, slack: float) -> int:
    """Return the time to brake from the highest speed, plus three ticks, in ns."""
    ramp_s = max(
        limits.max_speed_m_s / limits.braking_m_s2,
        limits.max_rotation_speed_rad_s / limits.rotation_braking_rad_s2,
    )
    return math.ceil((ramp_s + 0.03) * (1.0 + slack) * 1e9)
