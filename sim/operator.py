"""A scripted person: sees late and with noise, attends only partly, takes over, corrects, lets go, judges.

It is a teleop device like any other (twist, gripper, deadman, events) and knows only what a person at the cell sees:
where the tool is, where the socket is, and how hard the arm pushes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.command import Mode
from robot_stack.types.robot import TeleopSample

_IN_THE_HOLE_M = 0.018
"""Height of the tool above its goal below which the tip is in the hole."""
_FAR_M = 0.02
"""Sideways distance from the goal beyond which the first aim is a rough one."""
_NEAR_M = 0.045
"""Height of the tool above its goal, tip 2 cm over the rim, from which the aim can be made better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """Skill and attention of the scripted person.

    Attributes:
        reaction_s: Delay between what happens and what the person sees.
        position_noise_m: Standard deviation of how the goal is misjudged, drawn once per engagement.
        yaw_noise_rad: The same for its yaw.
        far_position_noise_m: What is added to it from far away, until the tool is near the aim.
        far_yaw_noise_rad: The same for its yaw.
        attention: Probability per second of looking at the cell, in (0, 1]; 1 looks always.
        speed: Share of full teleop deflection used, in (0, 1].
        tremor: Standard deviation of the hand's noise, in deflection.
        stuck_s: Time without progress after which the person takes over.
        patience_s: Time into an episode after which the person takes over, unless the tip is going in.
        off_course_m: How far the arm may move away from its best distance before the person takes over.
        force_limit_n: Contact force at which the person takes over.
        verdict_s: Time the task must look finished before the person says so.
    """

    reaction_s: float
    position_noise_m: float
    yaw_noise_rad: float
    far_position_noise_m: float
    far_yaw_noise_rad: float
    attention: float
    speed: float
    tremor: float
    stuck_s: float
    patience_s: float
    off_course_m: float
    force_limit_n: float
    verdict_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the eyes see at one instant: TCP and goal as x, y, z [m] and yaw [rad] in base, shape (4,); force [N]."""

    stamp_ns: int
    tcp: np.ndarray
    goal: np.ndarray
    force_n: float
    done: bool
    lost: bool


class Role(StrEnum):
    """What the person is there for in this episode."""

    DEMO = "demo"
    ASSIST = "assist"
    WATCH = "watch"


class ScriptedOperator:
    """A person with a teleop device. Deterministic given the generator."""

    def __init__(self, config: OperatorConfig, rng: np.random.Generator, *, linear_m_s: float, angular_rad_s: float):
        self._config = config
        self._rng = rng
        self._scale = np.array([linear_m_s] * 3 + [angular_rad_s] * 3)
        self._seen: deque[Seen] = deque()
        self._now: Seen | None = None
        self.begin(Role.WATCH)

    def begin(self, role: Role) -> None:
        """A new episode starts."""
        self._role = role
        self._seen.clear()
        self._now = None
        self._engaged = role is Role.DEMO
        self._engaged_since_ns = 0
        self._best = np.inf
        self._best_ns: int | None = None
        self._begun_ns: int | None = None
        self._done_since_ns: int | None = None
        self._lost_since_ns: int | None = None
        self._judged = False
        self._audit_ns: int | None = None
        self._attentive_until_ns = 0
        self._next_look_ns = 0
        self._wiggle = np.zeros(6)
        self._misjudge(far=True)

    def _misjudge(self, *, far: bool = False) -> None:
        config = self._config
        self._far_bias = np.zeros(4)
        if far:
            self._far_bias = self._draw_bias(config.far_position_noise_m, config.far_yaw_noise_rad)
        self._bias = self._draw_bias(config.position_noise_m, config.yaw_noise_rad)
        self._speed = config.speed * self._rng.uniform(0.75, 1.0)
        self._let_go_m = self._rng.uniform(0.002, 0.008)
        self._rim_since_ns: int | None = None
        self._hover_m = self._rng.uniform(0.004, 0.012)

    def _draw_bias(self, position_m: float, yaw_rad: float) -> np.ndarray:
        return np.array([*self._rng.normal(0, position_m, 2), 0.0, self._rng.normal(0, yaw_rad)])

    def audit(self, now_ns: int) -> None:
        """The model claims success: look, and say whether it is so, if attentive."""
        if self._role is Role.ASSIST and self._rng.random() < self._config.attention:
            self._audit_ns = now_ns + round(self._config.reaction_s * 1e9)

    def see(self, seen: Seen) -> None:
        """The scene changes; the person notices `reaction_s` later."""
        self._seen.append(seen)

    def sample(self, now_ns: int, mode: Mode = Mode.POLICY) -> TeleopSample:
        """What the person does at `now_ns`."""
        self._perceive(now_ns)
        seen = self._now
        if seen is None:
            return TeleopSample(stamp_ns=now_ns, twist=np.zeros(6), deadman=self._engaged)
        events = self._judge(seen, now_ns)
        if self._role is Role.ASSIST:
            self._decide(seen, now_ns, mode)
        if not self._engaged:
            return TeleopSample(stamp_ns=now_ns, twist=np.zeros(6), events=events)
        self._judge_again(seen)
        return TeleopSample(stamp_ns=now_ns, twist=self._drive(seen), deadman=True, events=events)

    def _judge_again(self, seen: Seen) -> None:
        """A peg that has sat on the rim for a second was misjudged: look once more where the hole is."""
        on_rim = 0.016 < seen.tcp[2] - seen.goal[2] < 0.028 and seen.force_n > 4.0
        self._rim_since_ns = (self._rim_since_ns or seen.stamp_ns) if on_rim else None
        if self._rim_since_ns is not None and seen.stamp_ns - self._rim_since_ns > 1_000_000_000:
            self._misjudge()

    def _perceive(self, now_ns: int) -> None:
        limit = now_ns - round(self._config.reaction_s * 1e9)
        while self._seen and self._seen[0].stamp_ns <= limit:
            self._now = self._seen.popleft()

    def _judge(self, seen: Seen, now_ns: int) -> tuple[str, ...]:
        """Says success or failure once the scene has looked like it for `verdict_s`."""
        if self._audit_ns is not None and now_ns >= self._audit_ns:
            self._audit_ns, self._judged = None, True
            return ("success",) if seen.done else ("failure",)
        if self._role is Role.WATCH or self._judged or self._audit_ns is not None:
            return ()
        self._done_since_ns = (self._done_since_ns or seen.stamp_ns) if seen.done else None
        self._lost_since_ns = (self._lost_since_ns or seen.stamp_ns) if seen.lost else None
        for since, event in ((self._done_since_ns, "success"), (self._lost_since_ns, "failure")):
            if since is not None and seen.stamp_ns - since >= self._config.verdict_s * 1e9:
                self._judged = True
                return (event,)
        return ()

    def _distance(self, seen: Seen) -> float:
        error = seen.goal - seen.tcp
        return float(np.linalg.norm(error[:3]) + 0.05 * abs(error[3]))

    def _decide(self, seen: Seen, now_ns: int, mode: Mode) -> None:
        """Take over when stuck, off course or pushing too hard; let go once the arm is back on course."""
        if self._engaged:
            on_course = seen.tcp[2] - seen.goal[2] < self._let_go_m  # almost in: gravity and policy do the rest
            held_s = (now_ns - self._engaged_since_ns) / 1e9
            if seen.done or on_course or held_s > 5.0:
                self._engaged = False
                self._best, self._best_ns, self._begun_ns = np.inf, None, None  # patience starts anew
            return
        if mode is not Mode.POLICY or seen.done or not self._looks(now_ns):
            return
        distance = self._distance(seen)
        if distance < self._best - 0.002 or self._best_ns is None:
            self._best, self._best_ns = min(distance, self._best), seen.stamp_ns
        stuck = seen.stamp_ns - self._best_ns > self._config.stuck_s * 1e9
        self._begun_ns = self._begun_ns or seen.stamp_ns
        going_in = seen.tcp[2] - seen.goal[2] < _IN_THE_HOLE_M
        impatient = not going_in and seen.stamp_ns - self._begun_ns > self._config.patience_s * 1e9
        off_course = distance > self._best + self._config.off_course_m
        if stuck or off_course or impatient or seen.force_n > self._config.force_limit_n:
            self._engaged = True
            self._engaged_since_ns = now_ns
            self._misjudge(far=bool(np.linalg.norm((seen.goal - seen.tcp)[:2]) > _FAR_M))

    def _looks(self, now_ns: int) -> bool:
        """Looks for a second, then with probability `attention` for the next one."""
        if now_ns >= self._next_look_ns:
            self._next_look_ns = now_ns + 1_000_000_000
            self._looking = self._rng.random() < self._config.attention
        return self._looking

    def _drive(self, seen: Seen) -> np.ndarray:
        """Align above the socket, go down, wiggle when the peg sits on the rim. Unitless twist, tcp frame."""
        error = seen.goal + self._bias + self._far_bias - seen.tcp
        error[3] = (error[3] + np.pi) % (2 * np.pi) - np.pi
        if np.linalg.norm(error[:2]) < 0.003 and abs(error[3]) < 0.05 and -error[2] < _NEAR_M:
            self._far_bias = np.zeros(4)  # near enough to look again
        lateral = float(np.linalg.norm(error[:2]))
        above = -error[2] > 0.024  # tip above the rim
        wanted_z = error[2]
        if above and (lateral > 0.003 or abs(error[3]) > 0.05):
            wanted_z = error[2] + 0.026 + self._hover_m  # stay above the rim until aligned
        twist = np.array([error[0], error[1], wanted_z, 0.0, 0.0, error[3]])
        gain = np.array([1.9, 1.9, 1.9, 0.0, 0.0, 1.9]) / self._scale
        twist = np.clip(twist * gain, -1, 1) * self._speed
        if above is False and lateral < 0.006 and not seen.done:
            self._wiggle = 0.9 * self._wiggle + self._rng.normal(0, 0.12, 6) * [1, 1, 0, 0, 0, 1]
            twist += self._wiggle
            twist[2] = min(twist[2], -0.25 * self._speed)
        twist += self._rng.normal(0, self._config.tremor, 6) * [1, 1, 1, 0, 0, 1]
        rotation = Rotation.from_euler("z", seen.tcp[3]) * Rotation.from_euler("x", np.pi)
        inverse = rotation.inv()
        return np.clip(np.concatenate([inverse.apply(twist[:3]), inverse.apply(twist[3:])]), -1, 1)
