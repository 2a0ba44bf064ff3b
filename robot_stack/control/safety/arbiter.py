"""The state machine of control: `DISARMED -> READY -> POLICY <-> HUMAN -> HOLD`, and STOP latched from anywhere.

One state for the whole cell: what holds or stops one arm holds or stops all. An operator who takes one of several arms
takes the cell. The arms that are not in a hand stand still meanwhile: the policy decides for all arms together, and it
is in a state that the operator thought wrong; so while the banner says HUMAN nothing moves but by an operator's hand.

Only an operator leaves HOLD and STOP. In a HOLD for a silent policy, pressing the deadman anew is enough.
A demo episode (no policy expected) is HUMAN from start to end: released, the arm holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.control.safety.takeover import Takeover
from robot_stack.types.command import MOVING_MODES, Command, Intent, Mode, Source
from robot_stack.types.pose import rotate_twist
from robot_stack.types.reason import FaultKind, Refusal, RefusalKind
from robot_stack.types.robot import RobotState, TeleopSample

SLOW = 1e-2
"""Measured speed, m/s and rad/s, below which the arm counts as standing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterTiming:
    """Silences and pauses after which the arbiter acts, in seconds.

    Attributes:
        policy_s: Silence of the policy that leads to HOLD.
        state_s: Silence of the robot that leads to HOLD.
        idle_s: Standing still for longer than this is no correction any more.
        start_s: What a policy may take for its first command of an episode.
    """

    policy_s: float = 0.15
    state_s: float = 0.1
    idle_s: float = 0.3
    start_s: float = 1.0


class Arbiter:
    """The mode of a cell and the driver of each arm.

    Fed with checked messages; `update` once per tick, then `intents`.
    """

    def __init__(self, timing: ArbiterTiming, hands: Mapping[str, Takeover]) -> None:
        self.mode = Mode.DISARMED
        self.reason: Refusal | None = None
        """Why it holds or is stopped."""
        self.backs_out = False
        """Whether a HOLD is of a hard contact alone: an arm may back out of it until anything else asks for a HOLD."""
        self.states: dict[str, RobotState | None] = dict.fromkeys(hands)
        """Newest state of each arm."""
        self.counters: Counter[str] = Counter()
        self._timing = timing
        self._hands = dict(hands)
        self._policy: Mapping[str, Command] | None = None
        self._missing: tuple[str, int] = ("", 0)
        self._running = False
        self._policy_expected = True
        self._waiting_for_policy = False
        self._start_ns = 0

    def called(self, arm: str, otherwise: str = "") -> str:
        """Return how a sentence about an arm begins: with its name where there are several, else with `otherwise`."""
        return otherwise if len(self._hands) == 1 else f"{arm} " if otherwise else f"{arm}: "

    def take_policy(self, commands: Mapping[str, Command]) -> None:
        """Take the policy's newest checked commands, one for each arm, of one stamp."""
        self._policy = commands

    def miss_policy(self, parts: Sequence[str], now_ns: int) -> None:
        """Take in which parts of the policy's commands are missing; it is silent as long as they are."""
        self._missing = (", ".join(parts), now_ns)

    def take_teleop(self, arm: str, sample: TeleopSample) -> None:
        """Take the newest checked teleop sample of an arm."""
        self._hands[arm].take(sample)

    def newest_stamp_ns(self, stream: str, arm: str) -> int:
        """Return the stamp of the newest message taken from "policy", "teleop" or "state"; 0 if none."""
        policy = None if self._policy is None else self._policy[arm]
        newest = {"policy": policy, "teleop": self._hands[arm].sample, "state": self.states[arm]}[stream]
        return 0 if newest is None else newest.stamp_ns

    def arm(self, now_ns: int) -> Refusal | None:
        """Go from DISARMED to READY, or say why not."""
        if self.mode is not Mode.DISARMED:
            return self._wrong_mode(Mode.DISARMED, "arm")
        refusal = self._robot_fault(now_ns) or self._deadman_held(now_ns)
        if not refusal:
            self.mode, self.reason, self._running = Mode.READY, None, False
        return refusal

    def disarm(self) -> None:
        """Go to DISARMED from any mode but STOP."""
        if self.mode is not Mode.STOP:
            self._let_go()
            self.mode, self.reason, self._running = Mode.DISARMED, None, False

    def start(self, now_ns: int, *, policy_expected: bool) -> Refusal | None:
        """Begin an episode from READY, or say why not."""
        if self.mode is not Mode.READY:
            return self._wrong_mode(Mode.READY, "start an episode")
        refusal = self._robot_fault(now_ns)
        if not refusal:
            self._running, self._policy_expected, self._policy = True, policy_expected, None
            self._start_ns = now_ns
            self._let_go()
            self._set_driving_mode()
        return refusal

    def end_episode(self) -> None:
        """End the episode: POLICY and HUMAN become READY; a HOLD, STOP or DISARMED stays what it is."""
        self._running = False
        self._let_go()
        if self.mode in MOVING_MODES:
            self.mode, self.reason = Mode.READY, None

    def hold(self, reason: Refusal, *, waiting_for_policy: bool = False, backs_out: bool = False) -> None:
        """Stand still until an operator resumes; do nothing while disarmed, stopped or already holding.

        A HOLD that only waits for the policy, and ends by itself or by a deadman, gives way to any other. Whatever asks
        for a second one ends the backing out of the first.
        """
        self.backs_out = backs_out
        gives_way = self.mode is Mode.HOLD and self._waiting_for_policy and not waiting_for_policy
        if gives_way or self.mode in (Mode.READY, *MOVING_MODES):
            self._let_go()
            for hand in self._hands.values():
                hand.void()
            self.mode, self.reason = Mode.HOLD, reason
            self._waiting_for_policy = waiting_for_policy
            self.counters["hold"] += 1

    def resume(self, now_ns: int) -> Refusal | None:
        """End a HOLD as an operator asks, back to the episode if one runs, else to READY; or say why not."""
        if self.mode is not Mode.HOLD:
            return self._wrong_mode(Mode.HOLD, "resume")
        refusal = self._robot_fault(now_ns) or self._deadman_held(now_ns)
        if not refusal:
            self._start_ns, self._policy, self.reason = now_ns, None, None
            self._set_driving_mode()
        return refusal

    def stop(self, reason: Refusal) -> None:
        """Latch STOP; the first reason stays."""
        if self.mode is not Mode.STOP:
            self._let_go()
            self.mode, self.reason, self._running = Mode.STOP, reason, False
            self.counters["stop"] += 1

    def clear_stop(self, now_ns: int) -> Refusal | None:
        """End a STOP as an operator asks, to DISARMED; or say why not."""
        if self.mode is not Mode.STOP:
            return self._wrong_mode(Mode.STOP, "clear")
        refusal = self._robot_fault(now_ns) or self._deadman_held(now_ns) or self._still_moving()
        if not refusal:
            self.mode, self.reason = Mode.DISARMED, None
        return refusal

    def update(self, now_ns: int) -> None:
        """Advance the mode to `now_ns`: faults, handover to the operator and back."""
        if self.mode in (Mode.DISARMED, Mode.STOP):
            return
        fault = self._robot_fault(now_ns)
        if fault:
            self.hold(fault)
        elif self.mode is Mode.HOLD:
            self._leave_policy_hold(now_ns)
        elif self._running:
            self._update_driver(now_ns)

    def intents(self, now_ns: int) -> dict[str, Intent]:
        """Return the motion of each arm that the one in control wants now."""
        if self.mode in MOVING_MODES and self._engaged:
            return self._by_hand(now_ns)
        if self.mode is Mode.POLICY and self._policy is not None:
            return {arm: self._by_policy(command) for arm, command in self._policy.items()}
        return {arm: Intent(twist=np.zeros(6)) for arm in self._hands}

    def _by_hand(self, now_ns: int) -> dict[str, Intent]:
        """Return the motion of each arm that the operator wants; resting for a moment makes all arms idle.

        One arm may stand while the other is moved.

        In a demonstration an arm that is not in a hand is shown to stand still; in a correction it is only held.
        """
        moved_ns = max(hand.moved_ns or 0 for hand in self._hands.values())
        active = moved_ns > 0 and now_ns - moved_ns <= self._timing.idle_s * 1e9
        source = Source.HUMAN if active else Source.IDLE
        aside = Intent(twist=np.zeros(6), source=Source.HOLD if self._policy_expected else source)
        return {arm: hand.intent(source) if hand.engaged else aside for arm, hand in self._hands.items()}

    def _by_policy(self, command: Command) -> Intent:
        twist, state = command.twist, self.states[command.arm]
        if command.frame == "base":
            if state is None:
                return Intent(twist=np.zeros(6))
            twist = rotate_twist(twist, state.T_base_tcp.matrix.T)
        return Intent(twist=twist.astype(np.float64), gripper=command.gripper, source=Source.POLICY)

    @property
    def _engaged(self) -> bool:
        return any(hand.engaged for hand in self._hands.values())

    def _update_driver(self, now_ns: int) -> None:
        for arm, hand in self._hands.items():
            if hand.engaged and hand.lost:
                text = "teleop device is lost while in control; bring it back, press the deadman anew"
                self.hold(Refusal(kind=RefusalKind.TELEOP_LOST, text=self.called(arm) + text))
                return
            lost_ms = hand.lost_ms(now_ns)
            if lost_ms:
                text = f"teleop silent for {lost_ms:.0f} ms while in control; press the deadman anew"
                self.hold(Refusal(kind=RefusalKind.TELEOP_SILENT, text=self.called(arm) + text))
                return
        self._update_hands(now_ns)
        self._set_driving_mode()
        if self.mode is Mode.POLICY and not self._engaged:
            self._check_policy(now_ns)

    def _update_hands(self, now_ns: int) -> None:
        before = self._engaged
        for hand in self._hands.values():
            hand.update(now_ns)
        if self._engaged and not before:
            self.counters["take_over"] += 1

    def _check_policy(self, now_ns: int) -> None:
        if self._policy is None:
            silent_s, limit_s = (now_ns - self._start_ns) / 1e9, self._timing.start_s
        else:
            silent_s, limit_s = (now_ns - self._policy_ns) / 1e9, self._timing.policy_s
        if silent_s > limit_s:
            text = f"policy silent for {silent_s * 1e3:.0f} ms (limit {limit_s * 1e3:.0f}); check the actor, resume"
            missing, at_ns = self._missing
            if missing and now_ns - at_ns <= self._timing.policy_s * 1e9:
                text = (
                    f"policy sent nothing whole for {silent_s * 1e3:.0f} ms (limit {limit_s * 1e3:.0f}): {missing} is "
                    "missing or has another stamp; send all parts with one stamp, resume"
                )
            self.hold(Refusal(kind=RefusalKind.POLICY_SILENT, text=text), waiting_for_policy=True)

    def _leave_policy_hold(self, now_ns: int) -> None:
        """Leave a HOLD that only waits for the policy, if an operator takes the arm."""
        if self._waiting_for_policy and self._running and any(hand.grasps(now_ns) for hand in self._hands.values()):
            self.reason = None
            self._update_hands(now_ns)
            self._set_driving_mode()

    def _set_driving_mode(self) -> None:
        if not self._running:
            self.mode = Mode.READY
        else:
            self.mode = Mode.HUMAN if self._engaged or not self._policy_expected else Mode.POLICY

    def _let_go(self) -> None:
        for hand in self._hands.values():
            hand.let_go()

    @property
    def _policy_ns(self) -> int:
        """Return the stamp of the policy's newest commands; 0 if there are none."""
        return min((command.stamp_ns for command in (self._policy or {}).values()), default=0)

    def _robot_fault(self, now_ns: int) -> Refusal | None:
        return _first(self._fault_of(arm, state, now_ns) for arm, state in self.states.items())

    def _fault_of(self, arm: str, state: RobotState | None, now_ns: int) -> Refusal | None:
        if state is None:
            text = f"{arm}/state is missing, must say where the arm is; start the robot process"
            return Refusal(kind=RefusalKind.STATE_MISSING, text=text)
        if state.fault:
            text = f"{arm}/fault says: {state.fault}; recover the robot, then arm or resume"
            emergency = state.fault.kind is FaultKind.EMERGENCY_STOP
            return Refusal(kind=RefusalKind.EMERGENCY_STOP if emergency else RefusalKind.ROBOT_FAULT, text=text)
        age_ms = (now_ns - state.stamp_ns) / 1e6
        limit_ms = self._timing.state_s * 1e3
        if age_ms <= limit_ms:
            return None
        text = f"{arm}/state is {age_ms:.0f} ms old (limit {limit_ms:.0f}); check the robot process, resume"
        return Refusal(kind=RefusalKind.STATE_STALE, text=text)

    def _deadman_held(self, now_ns: int) -> Refusal | None:
        for arm, hand in self._hands.items():
            if hand.held(now_ns):
                text = f"{self.called(arm)}deadman is held, must be released; let go first"
                return Refusal(kind=RefusalKind.DEADMAN_HELD, text=text)
        return None

    def _still_moving(self) -> Refusal | None:
        for arm, state in self.states.items():
            speed = 0.0 if state is None else float(np.abs(state.twist).max())
            if speed > SLOW:
                text = f"{self.called(arm, 'arm ')}moves at {speed:.3f}, must stand still (below {SLOW})"
                return Refusal(kind=RefusalKind.MOVING, text=text)
        return None

    def _wrong_mode(self, needed: Mode, to: str) -> Refusal:
        return Refusal(kind=RefusalKind.WRONG_MODE, text=f"mode is {self.mode}, must be {needed} to {to}")


def _first(refusals: Iterable[Refusal | None]) -> Refusal | None:
    """Return the first refusal that is not None, or None if there is none."""
    return next((refusal for refusal in refusals if refusal), None)
