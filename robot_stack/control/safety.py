"""The safety filter of a cell: messages in at any time, one safe decision for each arm out per tick.

One state of control for the cell, limits for each arm. Not a safety-rated function: hardware e-stop, the robot's own
limits and an enabling device stay mandatory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from robot_stack.control.admission import Admission, Offer
from robot_stack.control.arbiter import Arbiter, ArbiterTiming
from robot_stack.control.arm_filter import ArmFilter, GuardedArm
from robot_stack.control.checks import check_command, check_state, check_teleop
from robot_stack.control.limits import SafetyLimits
from robot_stack.control.presence import Presence
from robot_stack.control.stop_input import StopInput
from robot_stack.control.takeover import Takeover
from robot_stack.types.command import Command, Decision, Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.robot import EMERGENCY_STOP, RobotState, TeleopSample

LONGEST_STEP_S = 0.02
"""A late tick may change the velocity by no more than two regular ones."""
PAUSED_NS = 200_000_000
"""After a longer pause nobody knows what has changed meanwhile; a shorter one only restarts from rest."""


class SafetyFilter:
    """Checks, arbitrates and limits; `decide` never raises and never returns an unsafe command."""

    def __init__(
        self,
        arms: Mapping[str, GuardedArm],
        *,
        auto_resume_ticks: int = 0,
        stop_input_timeout_s: float | None = None,
        operator_required: bool = False,
    ) -> None:
        """Nothing moves before `arm` and `start`.

        Args:
            arms: By name; messages of another arm are refused. Of their timeouts the strictest holds for all.
            auto_resume_ticks: See `Arbiter`.
            stop_input_timeout_s: See `StopInput`.
            operator_required: See `Presence`.

        Raises:
            SpecError: If there is none.
        """
        if not arms:
            raise SpecError("arms of the safety filter are 0, must be at least 1; name them in the cell")
        limits = [arm.limits for arm in arms.values()]
        self._teleop_s = min(each.teleop_timeout_s for each in limits)
        self._output_s = min(each.output_timeout_s for each in limits)
        self._timing = ArbiterTiming(
            policy_s=min(each.policy_timeout_s for each in limits),
            state_s=min(each.state_timeout_s for each in limits),
            auto_resume_ticks=auto_resume_ticks,
        )
        hands = {
            name: Takeover(arm.teleop_scale, silent_s=self._teleop_s, release_s=arm.release_s)
            for name, arm in arms.items()
        }
        self._arbiter = Arbiter(self._timing, hands)
        self._admission = Admission(self._arbiter, arms)
        self._stop_input = StopInput(stop_input_timeout_s)
        self._operator = Presence(required=operator_required)
        self._decided_ns: int | None = None
        self.counters = self._arbiter.counters
        """How often each thing happened: rejected_policy, rejected_teleop, rejected_state, repeated, cut_<limit>,
        hold, stop, take_over, auto_resume. With several arms the cuts are of `<arm>.cut_<limit>`."""
        self._arms = {
            name: ArmFilter(name, arm, "" if len(arms) == 1 else f"{name}.", self.counters)
            for name, arm in arms.items()
        }

    @property
    def mode(self) -> Mode:
        """State of control."""
        return self._arbiter.mode

    @property
    def reason(self) -> str:
        """Why it holds or is stopped, else ""."""
        return self._arbiter.reason

    @property
    def last_rejection(self) -> str:
        """Sentence about the newest refused message."""
        return self._admission.last_rejection

    def offer(self, commands: Sequence[Command], now_ns: int) -> str:
        """The policy's commands, one for each arm and of one stamp; returns why they were refused, or ""."""
        arm, refusal = self._check_commands(commands)
        stamp_ns = min((command.stamp_ns for command in commands), default=0)
        sessions = {command.arm: command.session for command in commands}
        offer = Offer(stream="policy", arm=arm, stamp_ns=stamp_ns, timeout_s=self._timing.policy_s, sessions=sessions)
        refusal = self._admission.admit(offer, refusal, now_ns)
        if not refusal:
            self._arbiter.take_policy({c.arm: replace(c, twist=c.twist.copy()) for c in commands})
        return refusal

    def offer_teleop(self, arm: str, sample: TeleopSample, now_ns: int) -> str:
        """What the person does with an arm; returns why it was refused, or "". Stop and hold count even then."""
        if "stop" in sample.events:
            self.stop("stop pressed", who="teleop")
        if "hold" in sample.events:
            self.hold("hold pressed by teleop")
        offer = Offer(
            stream="teleop",
            arm=arm,
            stamp_ns=sample.stamp_ns,
            timeout_s=self._teleop_s,
            sessions={arm: sample.session},
        )
        wrong = self._unknown(arm, "teleop sample") or check_teleop(sample)
        refusal = self._admission.admit(offer, wrong, now_ns)
        if refusal:
            return refusal
        self._arbiter.take_teleop(arm, replace(sample, twist=sample.twist.copy()))
        if "arm" in sample.events:
            return self.resume(now_ns) if self.mode is Mode.HOLD else self.arm(now_ns)
        return ""

    def offer_state(self, state: RobotState, now_ns: int) -> str:
        """What a robot reports; returns why it was refused, or "". Its own emergency stop counts even then."""
        name = state.arm
        refusal = self._unknown(name, "state")
        if not refusal:
            if state.fault.startswith(EMERGENCY_STOP):
                self.stop(self._arbiter.called(name) + state.fault, who="robot")
            refusal = check_state(state, self._arms[name].joints)
        offer = Offer(
            stream="state", arm=name, stamp_ns=state.stamp_ns, timeout_s=self._timing.state_s, sessions={name: ""}
        )
        refusal = self._admission.admit(offer, refusal, now_ns)
        if refusal:
            return refusal
        self._arbiter.states[name] = replace(state, twist=state.twist.copy(), wrench=state.wrench.copy())
        self._arms[name].watch(state)
        return ""

    def offer_stop_input(self, pressed: bool, now_ns: int) -> None:
        """What a wired emergency stop says; pressed latches STOP."""
        self._stop_input.hear(pressed, now_ns)
        if pressed:
            self.stop("emergency stop pressed", who="safety/stop_input")

    def offer_operator(self, now_ns: int) -> None:
        """Somebody has the operator's page in view."""
        self._operator.hear(now_ns)

    def limit(self, limits: Mapping[str, SafetyLimits]) -> str:
        """Other limits of motion and force, by arm, from the next tick on; returns why not, or "". Timeouts stay."""
        if self.mode in (Mode.POLICY, Mode.HUMAN) or not all(arm.standing for arm in self._arms.values()):
            return f"mode is {self.mode}, must be standing to change a limit; hold or end the episode first"
        for name, arm in self._arms.items():
            arm.limit(limits[name])
        return ""

    def warning(self, now_ns: int) -> str:
        """What would refuse arming although nothing moves wrongly now, or ""."""
        doubt = self._admission.doubtful(now_ns)
        return doubt or self._stop_input.silent(now_ns) or self._operator.missing(now_ns)

    def refuse(self, stream: str, arm: str, refusal: str) -> None:
        """Count a message of an arm that is not taken, or that nobody could read."""
        self._admission.refuse(stream, arm, refusal)

    def arm(self, now_ns: int) -> str:
        """A person arms: DISARMED to READY; returns why not, or ""."""
        return self._unfit(now_ns) or self._arbiter.arm(now_ns)

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
        return self._unfit(now_ns) or self._arbiter.resume(now_ns)

    def stop(self, reason: str, who: str) -> None:
        """Latch STOP."""
        self._arbiter.stop(f"{reason} ({who})")

    def clear_stop(self, now_ns: int) -> str:
        """A person ends a STOP, to DISARMED; returns why not, or ""."""
        return self._stop_input.held(now_ns) or self._arbiter.clear_stop(now_ns)

    def decide(self, now_ns: int) -> dict[str, Decision]:
        """The decisions of this tick, by arm; call at a steady rate, also when nothing arrives."""
        dt_s = self._advance(now_ns)
        arbiter = self._arbiter
        arbiter.update(now_ns)
        self._watch(now_ns)
        intents, mode, reason = arbiter.intents(now_ns), self.mode, self.reason
        return {
            name: arm.decide(intents[name], arbiter.states[name], mode=mode, reason=reason, now_ns=now_ns, dt_s=dt_s)
            for name, arm in self._arms.items()
        }

    def _unknown(self, arm: str, what: str) -> str:
        return "" if arm in self._arms else f"{what} is of arm {arm!r}, must be {self._legal}"

    @property
    def _legal(self) -> str:
        names = [repr(name) for name in self._arms]
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"

    def _check_commands(self, commands: Sequence[Command]) -> tuple[str, str]:
        """One good command for each arm, all of one stamp: the arm it is about, and what is wrong with it or ""."""
        first, named = next(iter(self._arms)), [command.arm for command in commands]
        if sorted(named) != sorted(self._arms):
            wanted = f"one for each of {', '.join(self._arms)}" if len(self._arms) > 1 else f"for {self._legal}"
            return first, f"policy commands are for arms {named}, must be {wanted}"
        if len({command.stamp_ns for command in commands}) > 1:
            return first, "policy commands of the arms have different stamps, must have one; send them together"
        for command in commands:
            refusal = check_command(command)
            if refusal:
                return command.arm, refusal
        return first, ""

    def _advance(self, now_ns: int) -> float:
        """Seconds to move the velocity by; a gap restarts from rest, a clock that goes back is a fault."""
        last_ns, self._decided_ns = self._decided_ns, now_ns
        if last_ns is None or now_ns - last_ns > self._output_s * 1e9:
            for arm in self._arms.values():
                arm.rest()
            if last_ns is not None and now_ns - last_ns > PAUSED_NS:
                self.hold(f"safety process stood still for {(now_ns - last_ns) / 1e6:.0f} ms; free the machine, resume")
            return LONGEST_STEP_S / 2
        if now_ns < last_ns:
            self.hold(f"clock went back by {(last_ns - now_ns) / 1e6:.0f} ms; use a monotonic clock")
            return LONGEST_STEP_S / 2
        return min((now_ns - last_ns) / 1e9, LONGEST_STEP_S)

    def _too_much_force(self) -> str:
        for name, arm in self._arms.items():
            refusal = arm.too_much_force(self._arbiter.states[name])
            if refusal:
                return self._arbiter.called(name) + refusal
        return ""

    def _joint_beyond(self) -> str:
        for name, arm in self._arms.items():
            refusal = arm.joint_beyond(self._arbiter.states[name])
            if refusal:
                return self._arbiter.called(name) + refusal
        return ""

    def _unfit(self, now_ns: int) -> str:
        """Why a person may not arm or resume now, or ""."""
        return self._too_much_force() or self._joint_beyond() or self.warning(now_ns)

    def _watch(self, now_ns: int) -> None:
        """Hold for what the arbiter does not know: force, joints, the wired stop, the operator.

        A hard contact of one arm holds all; the arm that has it backs out, if configured.
        """
        if self.mode not in (Mode.READY, Mode.POLICY, Mode.HUMAN):
            return
        for name, arm in self._arms.items():
            state = self._arbiter.states[name]
            if arm.too_much_force(state):
                self.hold(self._arbiter.called(name) + arm.hit(state, now_ns))
        unfit = self._joint_beyond() or self._stop_input.silent(now_ns) or self._operator.missing(now_ns)
        if unfit:
            self.hold(unfit)
