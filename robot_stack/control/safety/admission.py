"""Admission of messages to the safety filter: whole, young, of one sender, each once."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from robot_stack.control.safety.arbiter import Arbiter
from robot_stack.control.safety.checks import check_age
from robot_stack.control.safety.clock_watch import ClockWatch
from robot_stack.control.safety.publisher_guard import PublisherGuard
from robot_stack.types.reason import Refusal, RefusalKind

STRIKES = 3
STRIKE_WINDOW_NS = 1_000_000_000
TOPICS = {"policy": "policy/cmd", "teleop": "teleop/cmd", "state": "state"}
"""Stream -> its topic, under the name of the arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A message offered to the safety filter, or the policy's messages for all arms.

    Attributes:
        stream: One of `TOPICS`.
        arm: That it is about.
        stamp_ns: Its own, the oldest of several.
        timeout_s: Age at which it is too old.
        sessions: Arm -> session of its sender; None for a stranger's.
    """

    stream: str
    arm: str
    stamp_ns: int
    timeout_s: float
    sessions: Mapping[str, str | None]


class Admission:
    """The judge of a cell's messages, which counts in the arbiter's counters what it refuses.

    Broken messages in a row and a second sender hold the cell.

    Args:
        arbiter: Of the cell.
        arms: Names of its arms.
    """

    def __init__(self, arbiter: Arbiter, arms: Collection[str]) -> None:
        self.last_rejection = ""
        """Sentence about the newest refused message."""
        self._arbiter = arbiter
        self._arms = tuple(arms)
        self._strikes: deque[int] = deque(maxlen=STRIKES)
        self._senders = PublisherGuard()
        self._clocks = ClockWatch()

    def admit(self, offer: Offer, broken: Refusal | None, now_ns: int) -> Refusal | None:
        """Judge whether a message may pass; return why not, or None where it may.

        Args:
            offer: The message.
            broken: What is wrong with its content.
            now_ns: Steady clock.
        """
        stream = offer.stream
        topics = {f"{name}/{TOPICS[stream]}": session for name, session in offer.sessions.items() if name in self._arms}
        if None not in topics.values():
            for topic in topics:
                self._clocks.heard(topic, offer.stamp_ns, now_ns)
        late = check_age(stream, offer.stamp_ns, now_ns, offer.timeout_s)
        rivals = None if late else self._second_sender(topics, now_ns)
        if rivals:
            self._arbiter.hold(rivals)
            self._count(stream, rivals)
            return rivals
        if broken:
            self._strike(broken, now_ns)
        refusal = broken or late
        if refusal:
            self.refuse(stream, offer.arm, refusal)
            return refusal
        if offer.stamp_ns <= self._arbiter.newest_stamp_ns(stream, offer.arm):
            self._arbiter.counters["repeated"] += 1
            text = f"{stream} message is not newer than the last one; is it republished?"
            self.last_rejection = text
            return Refusal(kind=RefusalKind.REPEATED, text=text)
        return None

    def broken(self, stream: str, arm: str, refusal: Refusal, now_ns: int) -> None:
        """Count a message that nobody could read; several in a row hold the cell."""
        self._strike(refusal, now_ns)
        self.refuse(stream, arm, refusal)

    def refuse(self, stream: str, arm: str, refusal: Refusal) -> None:
        """Count a message of an arm that is not taken."""
        self._count(stream, Refusal(kind=refusal.kind, text=self._arbiter.called(arm) + refusal.text))

    def doubtful(self, now_ns: int) -> Refusal | None:
        """Return what would refuse arming although nothing moves wrongly now: a second sender or another clock."""
        return self._senders.contested(now_ns) or self._clocks.skewed(now_ns)

    def _second_sender(self, topics: Mapping[str, str | None], now_ns: int) -> Refusal | None:
        refusals = [self._senders.refusal(topic, session, now_ns) for topic, session in topics.items()]
        return next((refusal for refusal in refusals if refusal), None)

    def _count(self, stream: str, refusal: Refusal) -> None:
        self._arbiter.counters[f"rejected_{stream}"] += 1
        self.last_rejection = refusal.text

    def _strike(self, refusal: Refusal, now_ns: int) -> None:
        self._strikes.append(now_ns)
        if len(self._strikes) == STRIKES and now_ns - self._strikes[0] <= STRIKE_WINDOW_NS:
            text = f"{STRIKES} broken messages in 1 s, last: {refusal}"
            self._arbiter.hold(Refusal(kind=refusal.kind, text=text))
            self._strikes.clear()
