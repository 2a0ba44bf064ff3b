"""A scripted operator: sees late and with noise, attends only partly, takes over, corrects, lets go, judges.

It is a teleop device like any other (twist, gripper, deadman, events), one for each arm, and knows only what an
operator at the cell sees: where the tools are, where they shall be, and how hard the arms push. How the task is done by
hand is `sim.hands`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from robot_stack.config.teleop_parts import ON_REQUEST, OperatorConfig
from robot_stack.types.command import Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.robot import TeleopSample
from sim.hands import Hands, Seen

SECOND_NS = 1_000_000_000
TURN_NS = 500_000_000
"""From a call for help until an operator who was looking elsewhere looks at the cell."""
GLANCE_S = 1.0
"""For so long beyond `stuck_s` an operator who was called looks before they let the policy go on; for so long they also
look on after they have let go of the arms."""


class Role(StrEnum):
    """The role of the operator in an episode: to demonstrate, to assist a policy, or only to watch."""

    DEMO = "demo"
    ASSIST = "assist"
    WATCH = "watch"


class ScriptedOperator:
    """A scripted operator with a teleop device for each arm.

    Deterministic given the generator, which the hands share.

    Attributes:
        attended_s: Seconds in which they looked at the policy or had the arms from it, since they were made.

    Args:
        config: Attention.
        rng: The operator's.
        hands: By task id, how each task is done; the first is done unless another is asked for.
        arms: Names, in the order of the cell.
    """

    def __init__(
        self,
        config: OperatorConfig,
        rng: np.random.Generator,
        hands: Mapping[str, Hands],
        arms: Sequence[str],
    ) -> None:
        self._config = config
        self._rng = rng
        self._hands_of = dict(hands)
        self._arms = tuple(arms)
        self._on_request = config.attention == ON_REQUEST
        self._seen: deque[Seen] = deque()
        self._now: Seen | None = None
        self.attended_s = 0.0
        self._sampled_ns: int | None = None
        self.begin(Role.WATCH)

    @property
    def arms(self) -> tuple[str, ...]:
        """Return the names of the arms, in the order of the cell."""
        return self._arms

    def begin(self, role: Role, task_id: str | None = None) -> None:
        """Begin a new episode, of the first task or of another.

        Raises:
            SpecError: If it is not known how that task is done.
        """
        wanted = next(iter(self._hands_of)) if task_id is None else task_id
        if wanted not in self._hands_of:
            raise SpecError(f"task of the operator is {wanted!r}, must be one of {', '.join(self._hands_of)}")
        self._role = role
        self._hands = self._hands_of[wanted]
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
        self._stage = 0
        self._audit_ns: int | None = None
        self._next_look_ns = 0
        self._looking = False
        self._called_ns: int | None = None
        self._let_go_ns: int | None = None
        self._next_slip_ns = 0
        self._next_stray_ns = 0
        self._stray_rad = 0.0
        self._hands.begin()

    def audit(self, now_ns: int) -> None:
        """Tell the operator that the model claims success: if attentive, they look and say whether it is so.

        One who looks on request says it only if they are looking anyway.
        """
        attention = self._config.attention
        sees = self._looks(now_ns) if attention == ON_REQUEST else self._rng.random() < attention
        if self._role is Role.ASSIST and sees:
            self._audit_ns = now_ns + round(self._config.reaction_s * 1e9)

    def call(self, on: bool, now_ns: int) -> None:
        """Tell the operator that the policy asks for help, or that it no longer does."""
        if on and self._called_ns is not None:
            return  # the request is open as before: what has changed is who leads the arm meanwhile
        self._called_ns = now_ns if on else None
        if on and self._on_request:
            self._best, self._best_ns = np.inf, None

    def let_go(self) -> None:
        """Let go of the arms, with patience anew. A demonstration goes on afterwards."""
        if self._role is Role.ASSIST:
            self._engaged = False
        self._best, self._best_ns, self._begun_ns = np.inf, None, None

    def see(self, seen: Seen) -> None:
        """Show the operator a change of the scene, which they notice `reaction_s` later."""
        self._seen.append(seen)

    def sample(self, now_ns: int, mode: Mode = Mode.POLICY) -> dict[str, TeleopSample]:
        """Return what the operator does at `now_ns` with each arm; what they say is with the first."""
        self._perceive(now_ns)
        self._attend(now_ns)
        seen = self._now
        if seen is None:
            return self.hold_still(now_ns, deadman=self._engaged)
        events = self._judge(seen, now_ns) + self._mark(seen)
        if self._role is Role.ASSIST:
            self._decide(seen, now_ns, mode)
            events += self._dismiss(now_ns)
        if not self._engaged:
            return self.hold_still(now_ns, events=events)
        self._hands.look_again(seen)
        deflections = self._astray(self._hands.drive(seen), now_ns)
        return self._samples(now_ns, deflections, self._hands.grip(seen), deadman=True, events=events)

    def _mark(self, seen: Seen) -> tuple[str, ...]:
        """Press the stage key once for each stage that begins; going back to an earlier one says nothing."""
        if not self._config.marks_stages or seen.stage <= self._stage:
            return ()
        self._stage += 1
        return ("stage",)

    def hold_still(
        self, now_ns: int, *, deadman: bool = False, events: tuple[str, ...] = ()
    ) -> dict[str, TeleopSample]:
        """Return samples of teleop in which no hand moves."""
        count = len(self._arms)
        return self._samples(now_ns, np.zeros((count, 6)), np.zeros(count), deadman=deadman, events=events)

    def _samples(
        self, now_ns: int, deflections: np.ndarray, pressed: np.ndarray, *, deadman: bool, events: tuple[str, ...]
    ) -> dict[str, TeleopSample]:
        said = (events, *((),) * (len(self._arms) - 1))
        return {
            arm: TeleopSample(stamp_ns=now_ns, twist=twist, gripper=int(key), deadman=deadman, events=words)
            for arm, twist, key, words in zip(self._arms, deflections, pressed, said, strict=True)
        }

    def _perceive(self, now_ns: int) -> None:
        limit = now_ns - round(self._config.reaction_s * 1e9)
        while self._seen and self._seen[0].stamp_ns <= limit:
            self._now = self._seen.popleft()

    def _judge(self, seen: Seen, now_ns: int) -> tuple[str, ...]:
        """Return success or failure once the scene has looked like it for `verdict_s`, or after an audit."""
        if self._audit_ns is not None and now_ns >= self._audit_ns:
            self._audit_ns, self._judged = None, True
            return ("success",) if seen.done else ("failure",)
        if self._role is Role.WATCH or self._judged or self._audit_ns is not None:
            return ()
        if self._role is Role.ASSIST and self._on_request and not (self._engaged or self._looks(now_ns)):
            self._done_since_ns = self._lost_since_ns = None
            return ()
        self._done_since_ns = (self._done_since_ns or seen.stamp_ns) if seen.done else None
        self._lost_since_ns = (self._lost_since_ns or seen.stamp_ns) if seen.lost else None
        for since, event in ((self._done_since_ns, "success"), (self._lost_since_ns, "failure")):
            if since is not None and seen.stamp_ns - since >= self._config.verdict_s * 1e9:
                self._judged = True
                return (event,)
        return ()

    def _decide(self, seen: Seen, now_ns: int, mode: Mode) -> None:
        """Take over when stuck, off course or pushing too hard; let go once the arms are back on course."""
        hands, config = self._hands, self._config
        if self._engaged:
            held_s = (now_ns - self._engaged_since_ns) / 1e9
            if seen.done or hands.all_but_done(seen) or held_s > 5.0 or self._slips(now_ns):
                self.let_go()
                self._let_go_ns = now_ns
            return
        if self._on_request:
            self._begun_ns = self._begun_ns or seen.stamp_ns  # they know for how long it has been at it
        if mode is not Mode.POLICY or seen.done or not self._looks(now_ns):
            return
        distance = hands.distance(seen)
        if distance < self._best - 0.002 or self._best_ns is None:
            self._best, self._best_ns = min(distance, self._best), seen.stamp_ns
        stuck = seen.stamp_ns - self._best_ns > config.stuck_s * 1e9
        self._begun_ns = self._begun_ns or seen.stamp_ns
        impatient = not hands.going_in(seen) and seen.stamp_ns - self._begun_ns > config.patience_s * 1e9
        off_course = distance > self._best + config.off_course_m
        if stuck or off_course or impatient or seen.force_n > config.force_limit_n:
            self._engaged = True
            self._called_ns = None
            self._engaged_since_ns = now_ns
            self._next_slip_ns = now_ns + SECOND_NS
            hands.misjudge(far=hands.is_far(seen))

    def _looks(self, now_ns: int) -> bool:
        """Return True while the operator looks: drawn anew each second, with probability `attention`, or on request."""
        attention = self._config.attention
        if attention == ON_REQUEST:
            called = self._called_ns is not None and now_ns >= self._called_ns + TURN_NS
            return called or (self._let_go_ns is not None and now_ns < self._let_go_ns + GLANCE_S * 1e9)
        if now_ns >= self._next_look_ns:
            self._next_look_ns = now_ns + SECOND_NS
            self._looking = self._rng.random() < attention
        return self._looking

    def _dismiss(self, now_ns: int) -> tuple[str, ...]:
        """Return the key that lets the policy go on, once a call has been looked into and nothing was wrong."""
        if self._called_ns is None or self._engaged:
            return ()
        looked_s = (now_ns - self._called_ns - TURN_NS) / 1e9
        if looked_s < self._config.stuck_s + GLANCE_S:
            return ()
        self._called_ns = None
        return ("dismiss",)

    def _attend(self, now_ns: int) -> None:
        """Count the time since the last sample as attended if the operator looked at the policy or had the arms."""
        before, self._sampled_ns = self._sampled_ns, now_ns
        if before is None or self._role is not Role.ASSIST or not 0 < now_ns - before < SECOND_NS:
            return  # a reset turns the clock back
        looks = self._looks(now_ns) if self._on_request else self._looking
        self.attended_s += (now_ns - before) / 1e9 * (looks or self._engaged)

    def _slips(self, now_ns: int) -> bool:
        """Return True if the operator lets go too early: drawn once for each second of a correction."""
        if self._config.slip_per_s == 0.0 or now_ns < self._next_slip_ns:
            return False
        self._next_slip_ns = now_ns + SECOND_NS
        return bool(self._rng.random() < self._config.slip_per_s)

    def _astray(self, deflections: np.ndarray, now_ns: int) -> np.ndarray:
        """Turn the deflections (N, 6) about the tools' axes by an error that is drawn anew each second."""
        if self._config.direction_noise_rad == 0.0:
            return deflections
        if now_ns >= self._next_stray_ns:
            self._next_stray_ns = now_ns + SECOND_NS
            self._stray_rad = self._rng.normal(0.0, self._config.direction_noise_rad)
        cos, sin = np.cos(self._stray_rad), np.sin(self._stray_rad)
        strayed = deflections.copy()
        strayed[:, :2] = deflections[:, :2] @ np.array([[cos, sin], [-sin, cos]])
        return np.clip(strayed, -1.0, 1.0)
