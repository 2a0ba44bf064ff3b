"""The filter of one arm, from the wanted twist to the one it may execute: handover, contact force, limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from robot_stack.control.safety.bounds import norm
from robot_stack.control.safety.clearance import Clearance
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.motion import MotionShaper
from robot_stack.control.safety.tracking import TrackingLimits
from robot_stack.types.command import Command, Decision, Intent, Mode, Source
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState

RETRACT_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedArm:
    """The settings of one arm in a safety filter.

    Attributes:
        limits: Of this arm.
        teleop_scale: Twist at full deflection, shape (6,), m/s and rad/s: `ActionSpace.full_scale(arm)`.
        release_s: From letting go of the deadman to letting go of the arm.
        blend_s: Length of the blend at each change of source.
        clearance: Watches its links, from `clearances_of`; None: they are not watched.
        tracking: How far from its command it may be.
    """

    limits: SafetyLimits
    teleop_scale: np.ndarray
    release_s: float = 0.3
    blend_s: float = 0.2
    clearance: Clearance | None = None
    tracking: TrackingLimits = field(default_factory=TrackingLimits)


class _HardContact(NamedTuple):
    """A force or a torque at its hard limit, as a refusal says it and as a HOLD does."""

    refusal: Refusal
    hold: Refusal


class ArmFilter:
    """The filter of one arm, which remembers what the arm was told last.

    Args:
        name: Of the arm.
        guarded: Its limits.
        prefix: Of its counters.
        counters: Takes clamped_<limit>, how often each limit changed something.
    """

    def __init__(self, name: str, guarded: GuardedArm, prefix: str, counters: Counter[str]) -> None:
        self._name = name
        self._limits = guarded.limits
        self._clearance = guarded.clearance
        self._prefix = prefix
        self._counters = counters
        self._blend_ns = int(guarded.blend_s * 1e9)
        self._motion = MotionShaper(guarded.limits, guarded.clearance)
        self._source = Source.HOLD
        self._blend_from = np.zeros(6)
        self._blend_start_ns = 0
        self._retract_until_ns = 0

    @property
    def joints(self) -> int:
        """Return how many joints a state of this arm must have; 0: any number."""
        return len(self._limits.joints)

    @property
    def standing(self) -> bool:
        """Return whether the arm was told to stand still."""
        return not self._motion.last.any()

    def limit(self, limits: SafetyLimits) -> None:
        """Set other limits from now on; only while the arm stands."""
        self._limits = limits
        self._motion.limit(limits)

    def watch(self, state: RobotState) -> None:
        """Learn from a checked state where the arm is, and how its joints follow."""
        self._motion.watch(state)

    def joint_beyond(self, state: RobotState | None) -> Refusal | None:
        """Return a refusal that names a joint outside the robot's own limits, or None."""
        return None if state is None else self._motion.joints.beyond(state)

    def inside(self, state: RobotState | None) -> Refusal | None:
        """Name two parts of which one is inside the other, by the newest states: nobody may arm or resume then."""
        return None if state is None or self._clearance is None else self._clearance.inside()

    def rest(self) -> None:
        """Start again from standstill."""
        self._motion.rest()

    def hard_contact(self, state: RobotState | None) -> Refusal | None:
        """Say why the arm must not move into its contact any more, if it is a hard one."""
        found = self._hard(state)
        return None if found is None else found.refusal

    def hit(self, state: RobotState | None, now_ns: int) -> Refusal | None:
        """Begin to back out of a hard contact, if configured; return what happened, None if there is none."""
        found = self._hard(state)
        if found is None:
            return None
        self._retract_until_ns = now_ns + int(RETRACT_S * 1e9)
        return found.hold

    def _hard(self, state: RobotState | None) -> _HardContact | None:
        if state is None:
            return None
        force_n, most_n = norm(state.wrench[:3]), self._limits.hard_force_n
        torque_nm, most_nm = norm(state.wrench[3:]), self._limits.hard_torque_nm
        if force_n >= most_n:
            kind, refused = RefusalKind.FORCE, f"contact force is {force_n:.0f} N, must be below {most_n:g} N"
            held = f"contact force {force_n:.0f} N (limit {most_n:g}); free the arm, resume"
        elif torque_nm >= most_nm:
            kind, refused = RefusalKind.TORQUE, f"contact torque is {torque_nm:.1f} Nm, must be below {most_nm:g} Nm"
            held = f"contact torque {torque_nm:.1f} Nm (limit {most_nm:g}); free the arm, resume"
        else:
            return None
        return _HardContact(Refusal(kind=kind, text=f"{refused}; free the arm"), Refusal(kind=kind, text=held))

    def decide(
        self,
        intent: Intent,
        state: RobotState | None,
        *,
        mode: Mode,
        reason: Refusal | None,
        backs_out: bool,
        now_ns: int,
        dt_s: float,
    ) -> Decision:
        """Return the decision of this tick.

        Args:
            intent: What is wanted.
            state: Newest state of the arm.
            mode: Of the cell after this tick.
            reason: Of a HOLD or STOP.
            backs_out: Whether a HOLD is of nothing but a hard contact.
            now_ns: Now.
            dt_s: Seconds to move the velocity by.
        """
        wanted = self._blend(intent, now_ns)
        age_s = 0.0 if state is None else min(max(0.0, (now_ns - state.stamp_ns) / 1e9), self._limits.state_timeout_s)
        holding = intent.source is Source.HOLD
        if holding:
            wanted = self._retract(state, backs_out=backs_out and mode is Mode.HOLD, now_ns=now_ns)
        brake = holding or intent.source is Source.IDLE
        twist, clamped = self._motion.shape(wanted, state, age_s, dt_s, brake=brake)
        if holding:
            clamped = ()
        for name in clamped:
            self._counters[f"{self._prefix}clamped_{name}"] += 1
        return Decision(
            command=Command(arm=self._name, twist=twist, gripper=intent.gripper, stamp_ns=now_ns, source=intent.source),
            mode=mode,
            source=intent.source,
            requested=intent.twist.copy(),
            clamped=clamped,
            reason=reason,
        )

    def _blend(self, intent: Intent, now_ns: int) -> np.ndarray:
        """Blend from the last executed twist to the new driver's, over the blend time. IDLE is the same human."""
        driver = Source.HUMAN if intent.source is Source.IDLE else intent.source
        if driver is not self._source:
            self._source, self._blend_from, self._blend_start_ns = driver, self._motion.last.copy(), now_ns
        since_ns = now_ns - self._blend_start_ns
        if since_ns >= self._blend_ns or self._blend_ns <= 0:  # a clock may go back
            return intent.twist
        share = max(0.0, since_ns / self._blend_ns)
        return np.asarray((1.0 - share) * self._blend_from + share * intent.twist)

    def _retract(self, state: RobotState | None, *, backs_out: bool, now_ns: int) -> np.ndarray:
        """Return zeros; or, shortly after a hard force and if configured, the twist that backs out along the force."""
        force = 0.0 if state is None else norm(state.wrench[:3])
        away = self._limits.retract_m_s > 0.0 and backs_out and now_ns < self._retract_until_ns
        if state is None or not away or force <= self._limits.soft_force_n:
            return np.zeros(6)
        return np.concatenate([state.wrench[:3] / force * self._limits.retract_m_s, np.zeros(3)])
