"""The safety filter of a cell: messages in at any time, one safe decision for each arm out per tick.

One state of control for the cell, limits for each arm. Not a safety-rated function: hardware e-stop, the robot's own
limits and an enabling device stay mandatory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from robot_stack.control.safety.admission import Admission, Offer
from robot_stack.control.safety.arbiter import Arbiter, ArbiterTiming
from robot_stack.control.safety.arm_filter import ArmFilter, GuardedArm
from robot_stack.control.safety.bounds import norm
from robot_stack.control.safety.checks import check_command, check_state, check_teleop
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.control.safety.publisher_guard import Presence, StopInputs
from robot_stack.control.safety.takeover import Takeover
from robot_stack.control.safety.tracking import CONTACT_N, TrackingMonitor
from robot_stack.types.command import MOVING_MODES, Command, Decision, Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.reason import FaultKind, Refusal, RefusalKind
from robot_stack.types.robot import RobotState, TeleopSample

LONGEST_STEP_S = 0.02
"""A late tick may change the velocity by no more than two regular ones."""
PAUSED_NS = 200_000_000
"""After a longer pause nobody knows what has changed meanwhile; a shorter one only restarts from rest."""
SETTLING_NS = 300_000_000
"""After such a pause what waited in the queues comes first: for so long nobody's request is obeyed."""


class SafetyFilter:
    """The safety filter of a cell: it checks, arbitrates and limits.

    `decide` never raises and never returns an unsafe command.
    """

    def __init__(
        self,
        arms: Mapping[str, GuardedArm],
        *,
        stop_inputs_s: Mapping[str, float] | None = None,
        operator_required: bool = False,
        teleop_silence_s: float | None = None,
        asleep_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        """Set up the filter in DISARMED: nothing moves before `arm` and `start`.

        Args:
            arms: By name; messages of another arm are refused. Of their timeouts the strictest holds for all.
            stop_inputs_s: See `StopInputs`.
            operator_required: See `Presence`.
            teleop_silence_s: Silence of a teleop device that holds also while the policy drives: the device is the
                operator's `hold` and `stop`. None leaves it to the hardware's own stop.
            asleep_ns: Tells how long this machine has been suspended since it was started: the steady clock stands
                still then, and no silence shows.

        Raises:
            SpecError: If there is no arm.
        """
        if not arms:
            raise SpecError("arms of the safety filter are 0, must be at least 1; name them in the cell")
        limits = [arm.limits for arm in arms.values()]
        self._teleop_s = min(each.teleop_timeout_s for each in limits)
        self._output_s = min(each.output_timeout_s for each in limits)
        self._timing = ArbiterTiming(
            policy_s=min(each.policy_timeout_s for each in limits),
            state_s=min(each.state_timeout_s for each in limits),
        )
        hands = {
            name: Takeover(arm.teleop_scale, silent_s=self._teleop_s, release_s=arm.release_s)
            for name, arm in arms.items()
        }
        self._arbiter = Arbiter(self._timing, hands)
        self._admission = Admission(self._arbiter, arms)
        self._hands = hands
        self._teleop_silence_ms = None if teleop_silence_s is None else teleop_silence_s * 1e3
        self._stop_inputs = StopInputs(stop_inputs_s)
        self._operator = Presence(required=operator_required)
        self._decided_ns: int | None = None
        self._stalled_ns = 0
        self._asleep_ns, self._awake_since_ns = asleep_ns, asleep_ns()
        self._tracking = {name: TrackingMonitor(arm.tracking) for name, arm in arms.items()}
        self.counters = self._arbiter.counters
        """How often each thing happened: rejected_policy, rejected_teleop, rejected_state, incomplete_policy, repeated,
        clamped_<limit>, hold, stop, take_over. With several arms these are of `<arm>.clamped_<limit>`."""
        self._arms = {
            name: ArmFilter(name, arm, "" if len(arms) == 1 else f"{name}.", self.counters)
            for name, arm in arms.items()
        }

    @property
    def mode(self) -> Mode:
        """Return the mode of the cell, its state of control."""
        return self._arbiter.mode

    @property
    def reason(self) -> Refusal | None:
        """Return why the cell holds or is stopped; None in the other modes."""
        return self._arbiter.reason

    @property
    def last_rejection(self) -> str:
        """Return the sentence about the newest refused message."""
        return self._admission.last_rejection

    def offer(self, commands: Sequence[Command], now_ns: int) -> Refusal | None:
        """Take the policy's commands, one for each arm and of one stamp, or refuse them."""
        arm, broken = self._check_commands(commands)
        stamp_ns = min((command.stamp_ns for command in commands), default=0)
        sessions = {command.arm: command.session for command in commands}
        offer = Offer(stream="policy", arm=arm, stamp_ns=stamp_ns, timeout_s=self._timing.policy_s, sessions=sessions)
        refusal = self._admission.admit(offer, broken, now_ns)
        if not refusal:
            self._arbiter.take_policy({c.arm: replace(c, twist=c.twist.copy()) for c in commands})
        return refusal

    def offer_incomplete(self, missing: Sequence[str], now_ns: int) -> None:
        """Take in that a policy's commands of one stamp never became whole, and which parts were missing."""
        self.counters["incomplete_policy"] += 1
        self._arbiter.miss_policy(missing, now_ns)

    def offer_teleop(self, arm: str, sample: TeleopSample, now_ns: int) -> Refusal | None:
        """Take the operator's teleop sample for an arm, or refuse it; its stop and hold count even then."""
        self.obey_key_stops(sample.events, "teleop")
        offer = Offer(
            stream="teleop",
            arm=arm,
            stamp_ns=sample.stamp_ns,
            timeout_s=self._teleop_s,
            sessions={arm: sample.session},
        )
        broken = self._unknown(arm, "teleop sample") or check_teleop(sample)
        refusal = self._admission.admit(offer, broken, now_ns)
        if refusal:
            return refusal
        self._arbiter.take_teleop(arm, replace(sample, twist=sample.twist.copy()))
        return self.obey_arm_key(now_ns) if "arm" in sample.events else None

    def obey_key_stops(self, events: Sequence[str], device: str) -> None:
        """Obey the keys that end motion, whoever pressed them and when."""
        if "stop" in events:
            self.stop(Refusal(kind=RefusalKind.KEY, text="stop pressed"), who=device)
        if "hold" in events:
            self.hold(Refusal(kind=RefusalKind.KEY, text=f"hold pressed on {device}"))

    def obey_arm_key(self, now_ns: int) -> Refusal | None:
        """Obey the operator's arm key, which ends a HOLD, or arms; or say why not."""
        return self.resume(now_ns) if self.mode is Mode.HOLD else self.arm(now_ns)

    def offer_state(self, state: RobotState, now_ns: int, *, session: str | None = "") -> Refusal | None:
        """Take the state that a robot reports, or refuse it.

        Its own emergency stop counts even then, unless a stranger says it.

        Args:
            state: Of an arm.
            now_ns: Steady clock.
            session: Of the robot process; None for a stranger's.
        """
        name = state.arm
        broken = self._unknown(name, "state")
        if not broken:
            if state.fault and state.fault.kind is FaultKind.EMERGENCY_STOP and session is not None:
                text = self._arbiter.called(name) + state.fault.text
                self.stop(Refusal(kind=RefusalKind.EMERGENCY_STOP, text=text), who="robot")
            broken = check_state(state, self._arms[name].joints)
        offer = Offer(
            stream="state", arm=name, stamp_ns=state.stamp_ns, timeout_s=self._timing.state_s, sessions={name: session}
        )
        refusal = self._admission.admit(offer, broken, now_ns)
        if refusal:
            return refusal
        self._arbiter.states[name] = kept = replace(state, twist=state.twist.copy(), wrench=state.wrench.copy())
        self._arms[name].watch(state)
        self._tracking[name].measure(kept)
        return None

    def offer_stop_input(self, topic: str, pressed: bool, now_ns: int) -> None:
        """Take what a wired stop button says; pressed latches STOP."""
        self._stop_inputs.hear(topic, pressed, now_ns)
        if pressed:
            self.stop(Refusal(kind=RefusalKind.EMERGENCY_STOP, text="emergency stop pressed"), who=topic)

    def offer_operator(self, now_ns: int) -> None:
        """Note that somebody has the operator's page in view."""
        self._operator.hear(now_ns)

    def limit(self, limits: Mapping[str, SafetyLimits]) -> Refusal | None:
        """Set other limits of motion and force, by arm, from the next tick on, or say why not. Timeouts stay."""
        if self.mode in MOVING_MODES or not all(arm.standing for arm in self._arms.values()):
            text = f"mode is {self.mode}, must be standing to change a limit; hold or end the episode first"
            return Refusal(kind=RefusalKind.WRONG_MODE, text=text)
        for name, arm in self._arms.items():
            arm.limit(limits[name])
        return None

    def warning(self, now_ns: int) -> Refusal | None:
        """Return what would refuse arming although nothing moves wrongly now, or None."""
        return (
            self._admission.doubtful(now_ns)
            or self._stop_inputs.silent(now_ns)
            or self._operator.missing(now_ns)
            or self._unattended(now_ns)
        )

    def felt_at_rest(self) -> Refusal | None:
        """Name an arm that feels a force although it stands, or None; asked before arming, where it touches nothing.

        It is no reason to refuse: an arm may stand in a contact, and its force is taken off what it feels later.
        """
        for name, tracking in self._tracking.items():
            felt_n, most_n = norm(tracking.rest_n), CONTACT_N
            if self.mode is Mode.DISARMED and felt_n >= most_n:
                text = (
                    f"{self._arbiter.called(name, 'arm ')}feels {felt_n:.0f} N while it stands, must be below "
                    f"{most_n:g} N unless it touches something; set the payload of its tool and zero its force sensor, "
                    "by the robot's own means"
                )
                return Refusal(kind=RefusalKind.FORCE, text=text)
        return None

    def refuse(self, stream: str, arm: str, refusal: Refusal, now_ns: int) -> None:
        """Count a message of an arm that nobody could read; several in a row hold, and so does a flood."""
        self._admission.broken(stream, arm, refusal, now_ns)
        if refusal.kind is RefusalKind.FLOODED:
            self.hold(refusal)

    def arm(self, now_ns: int) -> Refusal | None:
        """Go from DISARMED to READY as an operator asks, or say why not."""
        return self._stalled(now_ns) or self._unfit(now_ns) or self._arbiter.arm(now_ns)

    def disarm(self) -> None:
        """Go to DISARMED, unless stopped."""
        self._arbiter.disarm()

    def start(self, now_ns: int, *, policy_expected: bool = True) -> Refusal | None:
        """Begin an episode, from READY to POLICY, or to HUMAN in a demonstration; or say why not."""
        return self._stalled(now_ns) or self._arbiter.start(now_ns, policy_expected=policy_expected)

    def end_episode(self) -> None:
        """End the episode: go back to READY; HOLD and STOP stay."""
        self._arbiter.end_episode()

    def hold(self, reason: Refusal) -> None:
        """Stand still until an operator resumes."""
        self._arbiter.hold(reason)

    def resume(self, now_ns: int) -> Refusal | None:
        """End a HOLD as an operator asks, or say why not."""
        return self._stalled(now_ns) or self._unfit(now_ns) or self._arbiter.resume(now_ns)

    def stop(self, reason: Refusal, who: str) -> None:
        """Latch STOP for a reason, and say who asked for it."""
        self._arbiter.stop(replace(reason, text=f"{reason} ({who})"))

    def clear_stop(self, now_ns: int) -> Refusal | None:
        """End a STOP as an operator asks, to DISARMED, or say why not."""
        return self._stalled(now_ns) or self._stop_inputs.held(now_ns) or self._arbiter.clear_stop(now_ns)

    def decide(self, now_ns: int) -> dict[str, Decision]:
        """Return the decisions of this tick, by arm; call at a steady rate, also when nothing arrives."""
        dt_s = self._advance(now_ns)
        arbiter = self._arbiter
        arbiter.update(now_ns)
        self._watch(now_ns)
        intents, mode, reason = arbiter.intents(now_ns), self.mode, self.reason
        decisions = {
            name: arm.decide(
                intents[name],
                arbiter.states[name],
                mode=mode,
                reason=reason,
                backs_out=arbiter.backs_out,
                now_ns=now_ns,
                dt_s=dt_s,
            )
            for name, arm in self._arms.items()
        }
        self._follow(decisions, now_ns)
        return decisions

    def _follow(self, decisions: Mapping[str, Decision], now_ns: int) -> None:
        """Note what each arm is told while somebody drives; at other times an arm may be moved by other means."""
        for name, decision in decisions.items():
            state = self._arbiter.states[name]
            if state is None or self.mode not in MOVING_MODES:
                self._tracking[name].forget()
            else:
                rotation = state.T_base_tcp.matrix
                self._tracking[name].tell(decision.command.twist, rotation, now_ns)

    def _stalled(self, now_ns: int) -> Refusal | None:
        """Refuse what waited in a queue while this process stood still: nobody asks for it now."""
        since_ns = 0 if self._decided_ns is None else now_ns - self._decided_ns + self._slept_ns
        if since_ns <= PAUSED_NS and now_ns - self._stalled_ns > SETTLING_NS:
            return None
        text = "safety process has just stood still, what was asked meanwhile is not obeyed; ask again"
        return Refusal(kind=RefusalKind.JUST_STALLED, text=text)

    def _unknown(self, arm: str, what: str) -> Refusal | None:
        return None if arm in self._arms else _malformed(f"{what} is of arm {arm!r}, must be {self._legal}")

    @property
    def _legal(self) -> str:
        names = [repr(name) for name in self._arms]
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"

    def _check_commands(self, commands: Sequence[Command]) -> tuple[str, Refusal | None]:
        """Check for one good command for each arm, all of one stamp; return the arm that is wrong, and why."""
        first, named = next(iter(self._arms)), [command.arm for command in commands]
        if sorted(named) != sorted(self._arms):
            wanted = f"one for each of {', '.join(self._arms)}" if len(self._arms) > 1 else f"for {self._legal}"
            return first, _malformed(f"policy commands are for arms {named}, must be {wanted}")
        if len({command.stamp_ns for command in commands}) > 1:
            return first, _malformed(
                "policy commands of the arms have different stamps, must have one; send them together"
            )
        for command in commands:
            refusal = check_command(command)
            if refusal:
                return command.arm, refusal
        return first, None

    def _advance(self, now_ns: int) -> float:
        """Return the seconds to move the velocity by; a gap restarts from rest, a clock that goes back is a fault."""
        last_ns, self._decided_ns = self._decided_ns, now_ns
        slept_ns = self._slept_ns
        self._awake_since_ns += slept_ns
        if last_ns is None or now_ns - last_ns + slept_ns > self._output_s * 1e9:
            for arm in self._arms.values():
                arm.rest()
            if slept_ns > PAUSED_NS:
                self._stall(f"machine was suspended for {slept_ns / 1e9:.0f} s; look that all is well, resume", now_ns)
            elif last_ns is not None and now_ns - last_ns > PAUSED_NS:
                still_ms = (now_ns - last_ns) / 1e6
                self._stall(f"safety process stood still for {still_ms:.0f} ms; free the machine, resume", now_ns)
            return LONGEST_STEP_S / 2
        if now_ns < last_ns:
            text = f"clock went back by {(last_ns - now_ns) / 1e6:.0f} ms; use a monotonic clock"
            self.hold(Refusal(kind=RefusalKind.CLOCK, text=text))
            return LONGEST_STEP_S / 2
        return min((now_ns - last_ns) / 1e9, LONGEST_STEP_S)

    @property
    def _slept_ns(self) -> int:
        """Return how long this machine has been suspended since the last tick."""
        return max(0, self._asleep_ns() - self._awake_since_ns)

    def _stall(self, text: str, now_ns: int) -> None:
        self._stalled_ns = now_ns
        self.hold(Refusal(kind=RefusalKind.JUST_STALLED, text=text))

    def _of_arms(self, judge: Callable[[ArmFilter, RobotState | None], Refusal | None]) -> Refusal | None:
        """Return what is first found wrong with an arm, with its name."""
        for name, arm in self._arms.items():
            refusal = judge(arm, self._arbiter.states[name])
            if refusal:
                return replace(refusal, text=self._arbiter.called(name) + refusal.text)
        return None

    def _unfit(self, now_ns: int) -> Refusal | None:
        """Say why an operator may not arm or resume now."""
        unfit = (self._of_arms(judge) for judge in (ArmFilter.hard_contact, ArmFilter.joint_beyond, ArmFilter.inside))
        return next((refusal for refusal in unfit if refusal), None) or self.warning(now_ns)

    def _watch(self, now_ns: int) -> None:
        """Hold for what the arbiter does not know: force, joints, tracking, stop buttons, the operator and the device.

        A hard contact of one arm holds all; the arm that has it backs out, if configured and if nothing else holds.
        """
        if self.mode in (Mode.READY, *MOVING_MODES):
            for name, arm in self._arms.items():
                hit = arm.hit(self._arbiter.states[name], now_ns)
                if hit:
                    text = self._arbiter.called(name) + hit.text
                    self._arbiter.hold(replace(hit, text=text), backs_out=True)
        elif not self._arbiter.backs_out:
            return
        unfit = (
            self._of_arms(ArmFilter.joint_beyond)
            or self._stop_inputs.silent(now_ns)
            or self._operator.missing(now_ns)
            or self._unattended(now_ns)
            or self._astray(now_ns)
        )
        if unfit:
            self.hold(unfit)

    def _unattended(self, now_ns: int) -> Refusal | None:
        """Say which teleop device is gone, where the cell wants one: it is the operator's `hold` and `stop`."""
        if self._teleop_silence_ms is None:
            return None
        for name, hand in self._hands.items():
            called = self._arbiter.called(name)
            if hand.lost:
                text = f"{called}teleop device is lost, must be there to hold and stop; bring it back, resume"
                return Refusal(kind=RefusalKind.TELEOP_LOST, text=text)
            silent_ms = hand.silent_ms(now_ns)
            if silent_ms > self._teleop_silence_ms:
                how = "has said nothing" if silent_ms == float("inf") else f"is silent for {silent_ms:.0f} ms"
                text = f"{called}teleop {how}, must be there to hold and stop; start its process, resume"
                return Refusal(kind=RefusalKind.TELEOP_SILENT, text=text)
        return None

    def _astray(self, now_ns: int) -> Refusal | None:
        """Say which arm does not do what it is told."""
        for name, tracking in self._tracking.items():
            fault = tracking.fault(now_ns)
            if fault:
                return replace(fault, text=self._arbiter.called(name) + fault.text)
        return None


def _malformed(text: str) -> Refusal:
    return Refusal(kind=RefusalKind.MALFORMED, text=text)
