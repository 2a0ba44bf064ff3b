"""The shaping of a wanted twist into one that is safe to execute, tick after tick.

Order: workspace box, tilt cone and yaw, joints, clearance of the links, contact force and torque, then speed,
acceleration and jerk. Soft contacts come before the rates on purpose: cutting after them would break the acceleration
limit they are meant to live with. At a hard one the part that pushes is taken out at once, whatever the rates say.

Rates are kept in the tcp frame, where the command is followed; position and tilt are judged in the base frame.
"""

from __future__ import annotations

import math

import numpy as np

from robot_stack.config.safety import CAPS
from robot_stack.control.kinematics.posed_arm import cross
from robot_stack.control.safety.bounds import (
    inside_box,
    inside_cone,
    limit_acceleration,
    limit_jerk,
    limit_norm,
    norm,
    soften_push,
)
from robot_stack.control.safety.clearance import Clearance
from robot_stack.control.safety.joint_guard import JointGuard
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.tool_turns import TurnCounter, inside_turn
from robot_stack.types.command import Clamp
from robot_stack.types.robot import RobotState

CHANGED = 1e-9
"""Twists closer than this are the same."""


class MotionShaper:
    """Applies `SafetyLimits` to a stream of twists; remembers the last one and its acceleration.

    Args:
        limits: Of the arm.
        clearance: Of its links; None does not watch them.
    """

    def __init__(self, limits: SafetyLimits, clearance: Clearance | None = None) -> None:
        self._clearance = clearance
        self._turns = TurnCounter(limits.yaw_zero_xyzw)
        self.joints = JointGuard(limits)
        self.limit(limits)
        self.last = np.zeros(6)
        """Twist let through at the previous tick, tcp frame."""
        self._acceleration = np.zeros(6)
        self._state: RobotState | None = None
        self._R_base_tcp = np.eye(3)

    def limit(self, limits: SafetyLimits) -> None:
        """Set other limits from now on; only while nothing moves, or the change itself would break a rate."""
        self._limits = limits
        self._low_m = np.array(limits.box_min_m, dtype=np.float64)
        self._high_m = np.array(limits.box_max_m, dtype=np.float64)
        self.joints.limit(limits)
        if self._clearance is not None:
            self._clearance.limit(limits)

    def watch(self, state: RobotState) -> None:
        """Learn from a checked state where the arm is, and how its joints follow."""
        self.joints.watch(state)
        self._turns.watch(state.T_base_tcp.quaternion_xyzw)
        if self._clearance is not None:
            self._clearance.hear(state)

    def rest(self) -> None:
        """Start again from standstill, as after a gap in which the robot's own watchdog stopped it."""
        self.last = np.zeros(6)
        self._acceleration = np.zeros(6)

    def shape(
        self, wanted: np.ndarray, state: RobotState | None, age_s: float, dt_s: float, *, brake: bool
    ) -> tuple[np.ndarray, tuple[Clamp, ...]]:
        """Turn the wanted twist of one tick into one that is safe to execute.

        Args:
            wanted: Shape (6,), m/s and rad/s, tcp frame, finite.
            state: Newest state; without one, only braking is possible.
            age_s: Its age; where the arm is by now is carried forward by that much.
            dt_s: Since the previous tick.
            brake: The arm shall stop, by the shortest way: with the limits' braking, without the jerk limit, and
                straight towards `wanted`. From within the bounds that ends within them: it takes at most a quarter of
                the room that the approach leaves.

        Returns:
            The twist to execute and the limits that changed it.
        """
        if state is None:
            wanted, brake = np.zeros(6), True
        elif state is not self._state:
            self._state, self._R_base_tcp = state, state.T_base_tcp.matrix
            self._turns.watch(state.T_base_tcp.quaternion_xyzw)
        bounded, clamped = self._within(wanted, state, age_s)
        softened, contacts = (bounded, []) if state is None else self._soften(bounded, state, age_s)
        clamped += contacts
        bounded, too_fast = self._slow(softened)
        if too_fast and not self._fits(bounded, state, age_s):  # its halves were not shortened alike
            bounded = softened * self._share(softened)
        jerked = not brake
        if dt_s <= 0.0:
            shaped = self.last
        elif brake:
            shaped = self._braked(bounded, dt_s)
        else:
            shaped = self._step(bounded, dt_s, jerk=True)
            if not self._fits(shaped, state, age_s):
                shaped, jerked = self._step(bounded, dt_s, jerk=False), False
                if not self._fits(shaped, state, age_s):
                    shaped = self._turned(bounded, state, age_s, dt_s)
        names = [*clamped, *too_fast]
        if _differ(shaped, bounded):
            names.append(Clamp.JERK if jerked else Clamp.ACCELERATION)
        if state is not None and is_hard(state, self._limits):
            shaped, _ = self._soften(shaped, state, age_s)
        if dt_s > 0.0:
            self._acceleration = (shaped - self.last) / dt_s if jerked else np.zeros(6)
        self.last = shaped
        return shaped.copy(), tuple(names)

    def _within(self, twist: np.ndarray, state: RobotState | None, age_s: float) -> tuple[np.ndarray, list[Clamp]]:
        """Bound a twist by box, cone, yaw, joints and links; name each that changed it. Once more changes nothing."""
        if state is None:
            return twist, []
        limits, rotation = self._limits, self._R_base_tcp
        velocity, turn = rotation @ twist[:3], rotation @ twist[3:]
        position = state.T_base_tcp.position_m + rotation @ self.last[:3] * age_s
        linear = inside_box(velocity, position, self._low_m, self._high_m, limits.approach_s)
        tool = rotation[:, 2] + cross(rotation @ self.last[3:], rotation[:, 2]) * age_s
        angular = inside_cone(turn, tool / norm(tool), limits.tilt_cone_rad, limits.tilt_approach_s)
        names: list[Clamp] = []
        if _differ(linear, velocity):
            names.append(Clamp.WORKSPACE)
        if _differ(angular, turn):
            names.append(Clamp.TILT)
        bounded = np.concatenate([linear @ rotation, angular @ rotation]) if names else twist  # v @ R is R.T v
        turned = self._within_turn(bounded[3:], age_s)
        if _differ(turned, bounded[3:]):
            names.append(Clamp.YAW)
            bounded = np.concatenate([bounded[:3], turned])
        within = self.joints.slowed(bounded, self.last, state, age_s)
        if _differ(within, bounded):
            names.append(Clamp.JOINTS)
            bounded = within
        clear = bounded if self._clearance is None else self._clearance.slowed(bounded, self.last, age_s)
        if _differ(clear, bounded):
            names.append(Clamp.CLEARANCE)
            bounded = clear
        return bounded, names

    def _within_turn(self, angular: np.ndarray, age_s: float) -> np.ndarray:
        limits, turns, last = self._limits, self._turns, self.last
        if limits.yaw_range_rad >= CAPS["yaw_range_rad"]:
            return angular
        rate = float(last[5]) + turns.by_tilt[0] * float(last[3]) + turns.by_tilt[1] * float(last[4])
        turn_rad = turns.turn_rad + rate * age_s
        return inside_turn(angular, turn_rad, turns.by_tilt, limits.yaw_range_rad, limits.tilt_approach_s)

    def _soften(self, twist: np.ndarray, state: RobotState, age_s: float) -> tuple[np.ndarray, list[Clamp]]:
        """Scale down push and turn into a contact; where the rest alone would leave the bounds, all of the twist.

        Name what was too much, force or torque.
        """
        limits, names, share, softened = self._limits, [], 1.0, twist.copy()
        for half, soft, hard, name in (
            (slice(0, 3), limits.soft_force_n, limits.hard_force_n, Clamp.FORCE),
            (slice(3, 6), limits.soft_torque_nm, limits.hard_torque_nm, Clamp.TORQUE),
        ):
            moving, load = twist[half], state.wrench[half]
            left = soften_push(moving, load, soft, hard)
            if _differ(left, moving):
                names.append(name)
                softened[half] = left
                share = min(share, max(0.0, float(left @ load) / float(moving @ load)))
        if not names:
            return twist, names
        return (softened if self._fits(softened, state, age_s) else twist * share), names

    def _turned(self, target: np.ndarray, state: RobotState | None, age_s: float, dt_s: float) -> np.ndarray:
        """Brake as the bounds ask for, and go on towards a target within them by the acceleration that is left.

        Between two twists within the bounds all are, because the bounds are convex.
        """
        limits, brake = self._limits, self._within(self.last, state, age_s)[0]
        onward, shares = target - brake, np.ones(6)
        for half, largest in (
            (slice(0, 3), limits.max_acceleration_m_s2 * dt_s),
            (slice(3, 6), limits.max_rotation_acceleration_rad_s2 * dt_s),
        ):
            share = _share_of_way(brake[half] - self.last[half], onward[half], largest)
            if share is None:
                return self._step(brake, dt_s, jerk=False)
            shares[half] = share
        turned: np.ndarray = brake + shares * onward
        return turned if self._fits(turned, state, age_s) else np.asarray(brake + float(shares.min()) * onward)

    def _share(self, twist: np.ndarray) -> float:
        """Return by how much a twist has to be shortened as a whole to be no faster than allowed."""
        limits = self._limits
        slow = limits.max_speed_m_s / max(norm(twist[:3]), CHANGED)
        slow_turn = limits.max_rotation_speed_rad_s / max(norm(twist[3:]), CHANGED)
        return min(1.0, slow, slow_turn)

    def _slow(self, twist: np.ndarray) -> tuple[np.ndarray, list[Clamp]]:
        limits = self._limits
        linear, angular = twist[:3], twist[3:]
        slow = limit_norm(linear, limits.max_speed_m_s), limit_norm(angular, limits.max_rotation_speed_rad_s)
        if slow[0] is linear and slow[1] is angular:
            return twist, []
        slowed = np.concatenate(slow)
        return slowed, [Clamp.SPEED] if _differ(slowed, twist) else []

    def _step(self, target: np.ndarray, dt_s: float, *, jerk: bool) -> np.ndarray:
        limits = self._limits
        halves = (
            (slice(0, 3), limits.max_acceleration_m_s2, limits.max_jerk_m_s3),
            (slice(3, 6), limits.max_rotation_acceleration_rad_s2, limits.max_rotation_jerk_rad_s3),
        )
        stepped = [
            limit_jerk(target[half], self.last[half], self._acceleration[half], largest, largest_jerk, dt_s)
            if jerk
            else limit_acceleration(target[half], self.last[half], largest, dt_s)
            for half, largest, largest_jerk in halves
        ]
        # Behind a moving target the jerk limit can overshoot; projecting on the speed ball never adds acceleration.
        return self._slow(np.concatenate(stepped))[0]

    def _braked(self, target: np.ndarray, dt_s: float) -> np.ndarray:
        limits, last = self._limits, self.last
        return np.concatenate(
            [
                limit_acceleration(target[:3], last[:3], limits.braking_m_s2, dt_s),
                limit_acceleration(target[3:], last[3:], limits.rotation_braking_rad_s2, dt_s),
            ]
        )

    def _fits(self, twist: np.ndarray, state: RobotState | None, age_s: float) -> bool:
        return not self._within(twist, state, age_s)[1]


def is_hard(state: RobotState, limits: SafetyLimits) -> bool:
    """Return whether force or torque on the TCP is at its hard limit."""
    return norm(state.wrench[:3]) >= limits.hard_force_n or norm(state.wrench[3:]) >= limits.hard_torque_nm


def _share_of_way(start: np.ndarray, way: np.ndarray, largest: float) -> float | None:
    """Return the largest share, up to 1, by which `start + share * way` is no longer than `largest`.

    None says that `start` is longer already. It is the root of a quadratic equation.
    """
    along, size2, left2 = float(start @ way), float(way @ way), largest * largest - float(start @ start)
    if left2 < 0.0:
        return None
    if size2 + 2.0 * along <= left2:
        return 1.0
    return (math.sqrt(along * along + size2 * left2) - along) / size2


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    return a is not b and float(np.abs(a - b).max()) > CHANGED
