"""Who is in control: `DISARMED -> READY -> POLICY <-> HUMAN -> HOLD`, and STOP latched from anywhere.

Only a person leaves HOLD and STOP. One exception, off by default: a HOLD for a silent policy may end by itself after
`auto_resume_ticks` fresh commands. In that HOLD a person may also drive, by pressing the deadman anew.
A demo episode (no policy expected) is HUMAN from start to end: released, the arm holds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from robot_stack.control.action_space import opening_of_press
from robot_stack.types.command import Command, Mode, Source
from robot_stack.types.pose import rotate_twist
from robot_stack.types.robot import RobotState, TeleopSample

MOVING = 1e-3
"""Teleop deflection below which the hand is at rest; the dead zone itself belongs to the device."""

SLOW = 1e-2
"""Measured speed, m/s and rad/s, below which the arm counts as standing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbiterTiming:
    """Times after which something is believed, in seconds.

    Attributes:
        policy_s: Silence of the policy that leads to HOLD.
        teleop_s: Silence of an engaged teleop that leads to HOLD.
        state_s: Silence of the robot that leads to HOLD.
        release_s: From letting go of the deadman to the policy's turn.
        idle_s: Standing still for longer than this is no correction any more.
        start_s: What a policy may take for its first command of an episode.
        auto_resume_ticks: Fresh policy commands that end a HOLD for a silent policy; 0 leaves it to a person.
    """

    policy_s: float = 0.15
    teleop_s: float = 0.15
    state_s: float = 0.1
    release_s: float = 0.3
    idle_s: float = 0.3
    start_s: float = 1.0
    auto_resume_ticks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is wanted at a tick, before any limit: twist (6,) in the tcp frame, gripper, and whose it is."""

    twist: np.ndarray
    gripper: float | None = None
    source: Source = Source.HOLD


class Arbiter:
    """Mode and driver of one arm. Fed with checked messages; `update` once per tick, then `intent`."""

    def __init__(self, timing: ArbiterTiming, teleop_scale: np.ndarray) -> None:
        self.mode = Mode.DISARMED
        self.reason = ""
        self.state: RobotState | None = None
        self.counters: Counter[str] = Counter()
        self._timing = timing
        self._teleop_scale = teleop_scale
        self._policy: Command | None = None
        self._teleop: TeleopSample | None = None
        self._running = False
        self._policy_expected = True
        self._engaged = False
        self._must_release = True
        self._waiting_for_policy = False
        self._fresh_commands = 0
        self._start_ns = 0
        self._release_ns: int | None = None
        self._motion_ns: int | None = None

    def take_policy(self, command: Command) -> None:
        """The newest checked command."""
        self._policy = command
        self._fresh_commands += 1

    def take_teleop(self, sample: TeleopSample) -> None:
        """The newest checked sample. After a silence a deadman that is still held must be pressed anew."""
        last = self._teleop
        if last is None or sample.stamp_ns - last.stamp_ns > self._timing.teleop_s * 1e9:
            self._must_release = True
        if not sample.deadman:
            self._must_release = False
        self._teleop = sample

    def newest_stamp_ns(self, stream: str) -> int:
        """Stamp of the newest message taken from "policy", "teleop" or "state"; 0 if none."""
        newest = {"policy": self._policy, "teleop": self._teleop, "state": self.state}[stream]
        return 0 if newest is None else newest.stamp_ns

    def arm(self, now_ns: int) -> str:
        """DISARMED to READY; returns why not, or ""."""
        if self.mode is not Mode.DISARMED:
            return f"mode is {self.mode}, must be DISARMED to arm"
        refusal = self._robot_fault(now_ns) or self._deadman_held(now_ns)
        if not refusal:
            self.mode, self.reason, self._running, self._must_release = Mode.READY, "", False, False
        return refusal

    def disarm(self) -> None:
        """To DISARMED from anywhere but STOP."""
        if self.mode is not Mode.STOP:
            self._let_go()
            self.mode, self.reason, self._running = Mode.DISARMED, "", False

    def start(self, now_ns: int, *, policy_expected: bool) -> str:
        """Begin an episode from READY; returns why not, or ""."""
        if self.mode is not Mode.READY:
            return f"mode is {self.mode}, must be READY to start an episode"
        refusal = self._robot_fault(now_ns)
        if not refusal:
            self._running, self._policy_expected, self._policy = True, policy_expected, None
            self._start_ns = now_ns
            self._let_go()
            self._set_driving_mode()
        return refusal

    def end_episode(self) -> None:
        """Back to READY; a HOLD, STOP or DISARMED stays what it is."""
        self._running = False
        self._let_go()
        if self.mode in (Mode.POLICY, Mode.HUMAN):
            self.mode, self.reason = Mode.READY, ""

    def hold(self, reason: str, *, waiting_for_policy: bool = False) -> None:
        """Stand still until a person resumes. Nothing to do while disarmed, stopped or already holding."""
        if self.mode in (Mode.READY, Mode.POLICY, Mode.HUMAN):
            self._let_go()
            self.mode, self.reason = Mode.HOLD, reason
            self._must_release, self._fresh_commands = self._deadman_pressed(), 0
            self._waiting_for_policy = waiting_for_policy
            self.counters["hold"] += 1

    def resume(self, now_ns: int) -> str:
        """A person ends a HOLD, back to the episode if one runs, else to READY; returns why not, or ""."""
        if self.mode is not Mode.HOLD:
            return f"mode is {self.mode}, must be HOLD to resume"
        refusal = self._robot_fault(now_ns) or self._deadman_held(now_ns)
        if not refusal:
            self._start_ns, self._policy, self.reason = now_ns, None, ""
            self._set_driving_mode()
        return refusal

    def stop(self, reason: str) -> None:
        """Latch STOP; the first reason stays."""
        if self.mode is not Mode.STOP:
            self._let_go()
            self.mode, self.reason, self._running = Mode.STOP, reason, False
            self.counters["stop"] += 1

    def clear_stop(self, now_ns: int) -> str:
        """A person ends a STOP, to DISARMED; returns why not, or ""."""
        if self.mode is not Mode.STOP:
            return f"mode is {self.mode}, must be STOP to clear"
        refusal = self._robot_fault(now_ns) or self._deadman_held(now_ns) or self._still_moving()
        if not refusal:
            self.mode, self.reason = Mode.DISARMED, ""
        return refusal

    def update(self, now_ns: int) -> None:
        """Advance to `now_ns`: faults, take-over, hand-back."""
        if self.mode in (Mode.DISARMED, Mode.STOP):
            return
        fault = self._robot_fault(now_ns)
        if fault and self.mode is Mode.HOLD:
            self._waiting_for_policy = False
        elif fault:
            self.hold(fault)
        elif self.mode is Mode.HOLD:
            self._leave_policy_hold(now_ns)
        elif self._running:
            self._update_driver(now_ns)

    def intent(self, now_ns: int) -> Intent:
        """What the one in control wants now."""
        still = Intent(twist=np.zeros(6))
        if self.mode not in (Mode.POLICY, Mode.HUMAN):
            return still
        if self._engaged and self._teleop is not None:
            if self._release_ns is not None:
                return Intent(twist=np.zeros(6), source=Source.IDLE)
            moved_s = None if self._motion_ns is None else (now_ns - self._motion_ns) / 1e9
            active = moved_s is not None and moved_s <= self._timing.idle_s
            return Intent(
                twist=np.clip(self._teleop.twist, -1.0, 1.0) * self._teleop_scale,
                gripper=opening_of_press(self._teleop.gripper),
                source=Source.HUMAN if active else Source.IDLE,
            )
        if self.mode is Mode.POLICY and self._policy is not None and self.state is not None:
            twist = self._policy.twist
            if self._policy.frame == "base":
                twist = rotate_twist(twist, self.state.T_base_tcp.rotation.inv())
            return Intent(twist=twist.astype(np.float64), gripper=self._policy.gripper, source=Source.POLICY)
        return still

    def _update_driver(self, now_ns: int) -> None:
        sample = self._teleop
        if self._engaged and sample is not None:
            silent_ms = (now_ns - sample.stamp_ns) / 1e6
            if silent_ms > self._timing.teleop_s * 1e3:
                self.hold(f"teleop silent for {silent_ms:.0f} ms while in control; press the deadman anew")
                return
        self._update_engagement(now_ns)
        self._set_driving_mode()
        if self.mode is Mode.POLICY and not self._engaged:
            self._check_policy(now_ns)

    def _update_engagement(self, now_ns: int) -> None:
        if self._deadman_fresh(now_ns) and not self._must_release:
            if not self._engaged:
                self._engaged, self._motion_ns = True, None
                self.counters["take_over"] += 1
            self._release_ns = None
            sample = self._teleop
            if sample is not None and (sample.gripper != 0 or float(np.abs(sample.twist).max()) > MOVING):
                self._motion_ns = now_ns
        elif self._engaged:
            self._release_ns = now_ns if self._release_ns is None else self._release_ns
            if now_ns - self._release_ns >= self._timing.release_s * 1e9:
                self._let_go()

    def _check_policy(self, now_ns: int) -> None:
        if self._policy is None:
            silent_s, limit_s = (now_ns - self._start_ns) / 1e9, self._timing.start_s
        else:
            silent_s, limit_s = (now_ns - self._policy.stamp_ns) / 1e9, self._timing.policy_s
        if silent_s > limit_s:
            reason = f"policy silent for {silent_s * 1e3:.0f} ms (limit {limit_s * 1e3:.0f}); check the actor, resume"
            self.hold(reason, waiting_for_policy=True)

    def _leave_policy_hold(self, now_ns: int) -> None:
        """The two ways out of a HOLD that only waits for the policy: a person drives, or fresh commands in a row."""
        if not (self._waiting_for_policy and self._running):
            return
        fresh = self._policy is not None and now_ns - self._policy.stamp_ns <= self._timing.policy_s * 1e9
        if not fresh:
            self._fresh_commands = 0
        if self._deadman_fresh(now_ns) and not self._must_release:
            self.reason = ""
            self._update_engagement(now_ns)
            self._set_driving_mode()
        elif 0 < self._timing.auto_resume_ticks <= self._fresh_commands:
            self.reason = ""
            self._set_driving_mode()
            self.counters["auto_resume"] += 1

    def _set_driving_mode(self) -> None:
        if not self._running:
            self.mode = Mode.READY
        else:
            self.mode = Mode.HUMAN if self._engaged or not self._policy_expected else Mode.POLICY

    def _let_go(self) -> None:
        self._engaged, self._release_ns, self._motion_ns = False, None, None

    def _robot_fault(self, now_ns: int) -> str:
        if self.state is None:
            return "robot state is missing; start the robot process"
        if self.state.fault:
            return f"robot reports: {self.state.fault}"
        age_ms = (now_ns - self.state.stamp_ns) / 1e6
        limit_ms = self._timing.state_s * 1e3
        return f"robot state is {age_ms:.0f} ms old (limit {limit_ms:.0f})" if age_ms > limit_ms else ""

    def _deadman_pressed(self) -> bool:
        return self._teleop is not None and self._teleop.deadman

    def _deadman_fresh(self, now_ns: int) -> bool:
        sample = self._teleop
        return sample is not None and sample.deadman and now_ns - sample.stamp_ns <= self._timing.teleop_s * 1e9

    def _deadman_held(self, now_ns: int) -> str:
        return "deadman is held, must be released; let go first" if self._deadman_fresh(now_ns) else ""

    def _still_moving(self) -> str:
        speed = 0.0 if self.state is None else float(np.abs(self.state.twist).max())
        return f"arm moves at {speed:.3f}, must stand still (below {SLOW})" if speed > SLOW else ""
