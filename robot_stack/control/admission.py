"""Which messages the safety filter takes: whole, young, of one sender, each once."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from robot_stack.control.arbiter import Arbiter
from robot_stack.control.checks import check_age
from robot_stack.control.clock_watch import ClockWatch
from robot_stack.control.senders import Senders

STRIKES = 3
STRIKE_WINDOW_NS = 1_000_000_000
TOPICS = {"policy": "policy/cmd", "teleop": "teleop/cmd", "state": "state"}
"""Stream -> its topic, under the name of the arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A message, or the policy's messages for all arms.

    Attributes:
        stream: One of `TOPICS`.
        arm: That it is about.
        stamp_ns: Its own, the oldest of several.
        timeout_s: Age at which it is too old.
        sessions: Arm -> session of its sender.
    """

    stream: str
    arm: str
    stamp_ns: int
    timeout_s: float
    sessions: Mapping[str, str]


class Admission:
    """Counts in the arbiter's counters what it refuses; broken messages in a row and a second sender hold the cell.

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
        self._senders = Senders()
        self._clocks = ClockWatch()

    def admit(self, offer: Offer, broken: str, now_ns: int) -> str:
        """Whether a message may pass; returns why not, or "".

        Args:
            offer: The message.
            broken: What is wrong with its content, or "".
            now_ns: Steady clock.
        """
        stream = offer.stream
        topics = {f"{name}/{TOPICS[stream]}": session for name, session in offer.sessions.items() if name in self._arms}
        for topic in topics:
            self._clocks.heard(topic, offer.stamp_ns, now_ns)
        if broken:
            self._strike(broken, now_ns)
        refusal = broken or check_age(stream, offer.stamp_ns, now_ns, offer.timeout_s)
        if refusal:
            self.refuse(stream, offer.arm, refusal)
            return self.last_rejection
        rivals = self._second_sender(topics, now_ns)
        if rivals:
            self._arbiter.hold(rivals)
            self._count(stream, rivals)
            return rivals
        if offer.stamp_ns <= self._arbiter.newest_stamp_ns(stream, offer.arm):
            self._arbiter.counters["repeated"] += 1
            self.last_rejection = f"{stream} message is not newer than the last one; is it republished?"
            return self.last_rejection
        return ""

    def refuse(self, stream: str, arm: str, refusal: str) -> None:
        """Count a message of an arm that is not taken, or that nobody could read."""
        self._count(stream, self._arbiter.called(arm) + refusal)

    def doubtful(self, now_ns: int) -> str:
        """What would refuse arming although nothing moves wrongly now, or ""."""
        return self._senders.contested(now_ns) or self._clocks.skewed(now_ns)

    def _second_sender(self, topics: Mapping[str, str], now_ns: int) -> str:
        refusals = [self._senders.refusal(topic, session, now_ns) for topic, session in topics.items()]
        return next((refusal for refusal in refusals if refusal), "")

    def _count(self, stream: str, sentence: str) -> None:
        self._arbiter.counters[f"rejected_{stream}"] += 1
        self.last_rejection = sentence

    def _strike(self, refusal: str, now_ns: int) -> None:
        self._strikes.append(now_ns)
        if len(self._strikes) == STRIKES and now_ns - self._strikes[0] <= STRIKE_WINDOW_NS:
            self._arbiter.hold(f"{STRIKES} broken messages in 1 s, last: {refusal}")
            self._strikes.clear()
