"""The safety filter of one arm: messages in at any time, one safe decision out per tick.

Not a safety-rated function: hardware e-stop, the robot's own limits and an enabling device stay mandatory.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from robot_stack.control.arbiter import Arbiter, ArbiterTiming, Intent
from robot_stack.control.checks import check_age, check_command, check_state, check_teleop
from robot_stack.control.limits import SafetyLimits
from robot_stack.control.motion import MotionShaper
from robot_stack.types.command import Command, Decision, Mode, Source
from robot_stack.types.robot import RobotState, TeleopSample

STRIKES = 3
STRIKE_WINDOW_NS = 1_000_000_000
LONGEST_STEP_S = 0.02
"""A late tick may change the velocity by no more than two regular ones."""
RETRACT_S = 0.5


class SafetyFilter:
    """Checks, arbitrates and limits; `decide` never raises and never returns an unsafe command."""

    def __init__(
        self,
        limits: SafetyLimits,
        arm_name: str,
        *,
        teleop_scale: np.ndarray,
        release_s: float = 0.3,
        blend_s: float = 0.2,
        auto_resume_ticks: int = 0,
    ) -> None:
        """Nothing moves before `arm` and `start`.

        Args:
            limits: Of this arm.
            arm_name: Messages of another arm are refused.
            teleop_scale: Twist at full deflection, shape (6,), m/s and rad/s: `ActionSpace.full_scale(arm)`.
            release_s: From letting go of the deadman to the policy's turn.
            blend_s: Length of the blend at each change of source.
            auto_resume_ticks: See `Arbiter`.
        """
        timing = ArbiterTiming(
            policy_s=limits.policy_timeout_s,
            teleop_s=limits.teleop_timeout_s,
            state_s=limits.state_timeout_s,
            release_s=release_s,
            auto_resume_ticks=auto_resume_ticks,
        )
        self._limits = limits
        self._arm = arm_name
        self._blend_ns = int(blend_s * 1e9)
        self._arbiter = Arbiter(timing, np.asarray(teleop_scale, dtype=np.float64))
        self._motion = MotionShaper(limits)
        self._strikes: deque[int] = deque(maxlen=STRIKES)
        self._decided_ns: int | None = None
        self._source = Source.HOLD
        self._blend_from = np.zeros(6)
        self._blend_start_ns = 0
        self._retract_until_ns = 0
        self.counters = self._arbiter.counters
        """How often each thing happened: rejected_policy, rejected_teleop, rejected_state, repeated, cut_<limit>,
        hold, stop, take_over, auto_resume."""
        self.last_rejection = ""
        """Sentence about the newest refused message."""

    @property
    def mode(self) -> Mode:
        """State of control."""
        return self._arbiter.mode

    @property
    def reason(self) -> str:
        """Why it holds or is stopped, else ""."""
        return self._arbiter.reason

    def offer(self, command: Command, now_ns: int) -> str:
        """A policy command; returns why it was refused, or ""."""
        refusal = check_command(command, self._arm)
        if not self._admit("policy", refusal, command.stamp_ns, now_ns, self._limits.policy_timeout_s):
            return self.last_rejection
        self._arbiter.take_policy(replace(command, twist=command.twist.copy()))
        return ""

    def offer_teleop(self, sample: TeleopSample, now_ns: int) -> str:
        """What the person does; returns why it was refused, or "". The events stop and hold count even then."""
        if "stop" in sample.events:
            self.stop("stop pressed", who="teleop")
        if "hold" in sample.events:
            self.hold("hold pressed by teleop")
        refusal = check_teleop(sample)
        if not self._admit("teleop", refusal, sample.stamp_ns, now_ns, self._limits.teleop_timeout_s):
            return self.last_rejection
        self._arbiter.take_teleop(replace(sample, twist=sample.twist.copy()))
        if "arm" in sample.events:
            return self.resume(now_ns) if self.mode is Mode.HOLD else self.arm(now_ns)
        return ""

    def offer_state(self, state: RobotState, now_ns: int) -> str:
        """What the robot reports; returns why it was refused, or ""."""
        refusal = check_state(state, self._arm)
        if not self._admit("state", refusal, state.stamp_ns, now_ns, self._limits.state_timeout_s):
            return self.last_rejection
        self._arbiter.state = replace(state, twist=state.twist.copy(), wrench=state.wrench.copy())
        return ""

    def arm(self, now_ns: int) -> str:
        """A person arms: DISARMED to READY; returns why not, or ""."""
        return self._too_much_force() or self._arbiter.arm(now_ns)

    def disarm(self) -> None:
        """To DISARMED, unless stopped."""
        self._arbiter.disarm()

    def start(self, now_ns: int, *, policy_expected: bool = True) -> str:
        """An episode begins: READY to POLICY, or to HUMAN in a demo; returns why not, or ""."""
        return self._arbiter.start(now_ns, policy_expected=policy_expected)

    def end_episode(self) -> None:
        """The episode is over: back to READY; HOLD and STOP stay."""
        self._arbiter.end_episode()

    def hold(self, reason: str) -> None:
        """Stand still until a person resumes."""
        self._arbiter.hold(reason)

    def resume(self, now_ns: int) -> str:
        """A person ends a HOLD; returns why not, or ""."""
        return self._too_much_force() or self._arbiter.resume(now_ns)

    def stop(self, reason: str, who: str) -> None:
        """Latch STOP."""
        self._arbiter.stop(f"{reason} ({who})")

    def clear_stop(self, now_ns: int) -> str:
        """A person ends a STOP, to DISARMED; returns why not, or ""."""
        return self._arbiter.clear_stop(now_ns)

    def decide(self, now_ns: int) -> Decision:
        """The decision of this tick; call at a steady rate, also when nothing arrives."""
        dt_s = self._advance(now_ns)
        self._arbiter.update(now_ns)
        self._check_force(now_ns)
        intent = self._arbiter.intent(now_ns)
        wanted = self._blend(intent, now_ns)
        state = self._arbiter.state
        age_s = 0.0 if state is None else min(max(0.0, (now_ns - state.stamp_ns) / 1e9), self._limits.state_timeout_s)
        holding = intent.source is Source.HOLD
        if holding:
            wanted = self._retract(now_ns)
        twist, cut = self._motion.shape(wanted, state, age_s, dt_s, brake=holding)
        if holding:
            cut = ()
        for name in cut:
            self.counters[f"cut_{name}"] += 1
        command = Command(arm=self._arm, twist=twist, gripper=intent.gripper, stamp_ns=now_ns, source=intent.source)
        return Decision(
            command=command,
            mode=self.mode,
            source=intent.source,
            requested=intent.twist.copy(),
            cut=cut,
            reason=self.reason,
        )

    def _admit(self, stream: str, refusal: str, stamp_ns: int, now_ns: int, timeout_s: float) -> bool:
        """Whether a message may pass. Broken ones are strikes; old and repeated ones are only counted."""
        if refusal:
            self._strike(refusal, now_ns)
        else:
            refusal = check_age(stream, stamp_ns, now_ns, timeout_s)
        if not refusal and stamp_ns <= self._arbiter.newest_stamp_ns(stream):
            self.counters["repeated"] += 1
            self.last_rejection = f"{stream} message is not newer than the last one; is it republished?"
            return False
        if refusal:
            self.counters[f"rejected_{stream}"] += 1
            self.last_rejection = refusal
        return not refusal

    def _strike(self, refusal: str, now_ns: int) -> None:
        self._strikes.append(now_ns)
        if len(self._strikes) == STRIKES and now_ns - self._strikes[0] <= STRIKE_WINDOW_NS:
            self.hold(f"{STRIKES} broken messages in 1 s, last: {refusal}")
            self._strikes.clear()

    def _advance(self, now_ns: int) -> float:
        """Seconds to move the velocity by; a gap restarts from rest, a clock that goes back is a fault."""
        last_ns, self._decided_ns = self._decided_ns, now_ns
        if last_ns is None or now_ns - last_ns > self._limits.output_timeout_s * 1e9:
            self._motion.rest()
            return LONGEST_STEP_S / 2
        if now_ns < last_ns:
            self.hold(f"clock went back by {(last_ns - now_ns) / 1e6:.0f} ms; use a monotonic clock")
            return LONGEST_STEP_S / 2
        return min((now_ns - last_ns) / 1e9, LONGEST_STEP_S)

    def _blend(self, intent: Intent, now_ns: int) -> np.ndarray:
        """From the last executed twist to the new driver's, over the blend time. IDLE is the same human."""
        driver = Source.HUMAN if intent.source is Source.IDLE else intent.source
        if driver is not self._source:
            self._source, self._blend_from, self._blend_start_ns = driver, self._motion.last.copy(), now_ns
        since_ns = now_ns - self._blend_start_ns
        if since_ns >= self._blend_ns:
            return intent.twist
        share = max(0.0, since_ns / self._blend_ns)
        return np.asarray((1.0 - share) * self._blend_from + share * intent.twist)

    def _force_n(self) -> float:
        state = self._arbiter.state
        return 0.0 if state is None else float(np.linalg.norm(state.wrench[:3]))

    def _too_much_force(self) -> str:
        force = self._force_n()
        limit = self._limits.hard_force_n
        return f"contact force is {force:.0f} N, must be below {limit:g} N; free the arm" if force >= limit else ""

    def _check_force(self, now_ns: int) -> None:
        driving = self.mode in (Mode.READY, Mode.POLICY, Mode.HUMAN)
        if driving and self._too_much_force():
            limit = self._limits.hard_force_n
            self.hold(f"contact force {self._force_n():.0f} N (limit {limit:g}); free the arm, resume")
            self._retract_until_ns = now_ns + int(RETRACT_S * 1e9)

    def _retract(self, now_ns: int) -> np.ndarray:
        """Zeros; or, shortly after a hard force and if configured, back out along the force."""
        state, force = self._arbiter.state, self._force_n()
        away = self._limits.retract_m_s > 0.0 and self.mode is Mode.HOLD and now_ns < self._retract_until_ns
        if state is None or not away or force <= self._limits.soft_force_n or state.fault:
            return np.zeros(6)
        return np.concatenate([state.wrench[:3] / force * self._limits.retract_m_s, np.zeros(3)])
