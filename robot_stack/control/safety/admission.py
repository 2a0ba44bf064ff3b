"""Admission of messages to the safety process: small, few, whole, young, of one sender, each once.

The steady clock of another host has another origin, and a wall clock may be off: such stamps make every age wrong.
The best of the newest arrivals is judged, so that a single message that was held up is no skew.

`stop` and `hold` count whoever sends them and however old they are: a stop that waited while a process stood still is
still a stop. Every other key may start something or judge an episode, and must be an operator's own, now.

Unpacking a message of 8 MB keeps a process for a quarter of a second, in which nobody watches the arm. What is larger
than any honest message, or comes faster than any honest sender sends, is turned away as bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from robot_stack.control.safety.arbiter import Arbiter
from robot_stack.control.safety.checks import check_age
from robot_stack.control.safety.publisher_guard import PublisherGuard
from robot_stack.types.reason import Fault, Refusal, RefusalKind
from robot_stack.types.robot import ENDS_MOTION

SPAN_NS = 100_000_000
"""Messages are counted over so long."""
FLOOD = 2
"""So many times as many as pass are a flood."""


class Doorkeeper:
    """A counter of one topic's messages that turns away what is too large or comes too fast.

    Args:
        topic: For sentences.
        largest_bytes: As serialised.
        rate_hz: Of all honest senders together; a burst of a few times as many passes.
    """

    def __init__(self, topic: str, *, largest_bytes: int, rate_hz: float) -> None:
        self._topic = topic
        self._largest = largest_bytes
        self._most = max(8, round(3.0 * rate_hz * SPAN_NS / 1e9))
        self._arrivals_ns: deque[int] = deque(maxlen=FLOOD * self._most + 1)
        self._passed_ns: deque[int] = deque(maxlen=self._most)
        self._since_ns = 0
        self.complaint: Refusal | None = None
        """Why the last message was turned away, the first time of each kind in a span; None the other times."""
        self._said: set[RefusalKind] = set()

    def lets_in(self, size_bytes: int, now_ns: int) -> bool:
        """Return whether a message that has just come may be unpacked, and count it."""
        if now_ns - self._since_ns > SPAN_NS:
            self._since_ns = now_ns
            self._said.clear()
        self._arrivals_ns.append(now_ns)
        for each in (self._arrivals_ns, self._passed_ns):
            while each and now_ns - each[0] > SPAN_NS:
                each.popleft()
        self.complaint = None
        if size_bytes > self._largest:
            self._complain(
                RefusalKind.OVERSIZED,
                f"message on {self._topic} has {size_bytes} bytes, must be at most {self._largest}; stop its sender",
            )
        elif len(self._passed_ns) == self._most:
            self._complain(
                RefusalKind.FLOODED,
                f"{self._topic} has more than {self._most} messages in {SPAN_NS / 1e6:.0f} ms, must have fewer; "
                "stop its sender",
            )
        else:
            self._passed_ns.append(now_ns)
            return True
        return False

    @property
    def flooded(self) -> bool:
        """Return whether so many have come in this span that turning them away costs too much."""
        return len(self._arrivals_ns) > FLOOD * self._most

    def forget(self) -> None:
        """Begin to count anew."""
        self._arrivals_ns.clear()
        self._passed_ns.clear()

    def _complain(self, kind: RefusalKind, text: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self.complaint = Refusal(kind=kind, text=text)


OLDEST_VERDICT_S = 2.0
"""Who records an episode may be late to hear a verdict, as while it loads a policy; it moves nothing by that."""
OLDEST_S = 0.25
"""A key that took longer to arrive is not what the operator means now, where it may start motion."""


class OnceAdmission:
    """The judge of a topic whose messages count once, while they are young: it remembers the newest of each sender.

    Args:
        what: What a message is, for sentences.
        topic: Of the messages, for sentences.
        oldest_s: Age at which a message no longer counts.
    """

    def __init__(self, what: str, topic: str, oldest_s: float) -> None:
        self._what = f"{what} on {topic}"
        self._oldest_s = oldest_s
        self._newest_ns: dict[str, int] = {}

    def refusal(self, session: str | None, stamp_ns: int, now_ns: int) -> Refusal | None:
        """Judge one message; return why it does not count, or None where it does.

        Args:
            session: Of the process that sealed it; None for a stranger's.
            stamp_ns: When it was made.
            now_ns: Steady clock.
        """
        if session is None:
            text = f"{self._what} is of no process of this run, must be; stop what else sends there"
            return Refusal(kind=RefusalKind.FOREIGN, text=text)
        late = check_age(self._what, stamp_ns, now_ns, self._oldest_s)
        if late:
            return late
        if stamp_ns <= self._newest_ns.get(session, 0):
            text = f"{self._what} is not newer than the last one of {session}; is it sent again?"
            return Refusal(kind=RefusalKind.REPEATED, text=text)
        self._newest_ns[session] = stamp_ns
        return None


class LatchedAdmission:
    """The judge of a topic whose last report waits for whoever listens later, so that it may be of any age.

    If a clock was set meanwhile it seems older than it is, or of the future: the first one counts, and none is newer
    than now, or it would be believed until then.
    """

    def __init__(self) -> None:
        self._newest_ns: int | None = None

    def takes(self, stamp_ns: int, now_ns: int) -> bool:
        """Return whether a report is newer than all before it; it is the newest from then on.

        Args:
            stamp_ns: When it was made.
            now_ns: Steady clock.
        """
        made_ns = min(stamp_ns, now_ns)
        if self._newest_ns is not None and made_ns <= self._newest_ns:
            return False
        self._newest_ns = made_ns
        return True


class FaultRecord:
    """What an arm's robot process says is wrong with it: its newest report."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self._admission = LatchedAdmission()

    def hear(self, fault: Fault | None, stamp_ns: int, now_ns: int) -> None:
        """Take a report, "no fault" too, unless it is older than the newest.

        Args:
            fault: None for "no fault".
            stamp_ns: When it was made.
            now_ns: Steady clock.
        """
        if self._admission.takes(stamp_ns, now_ns):
            self.fault = fault


class KeyAdmission(OnceAdmission):
    """The judge of the keys on one topic.

    Args:
        topic: Of the keys, for sentences.
        oldest_s: Age at which a key no longer counts.
    """

    def __init__(self, topic: str, oldest_s: float = OLDEST_S) -> None:
        super().__init__("key", topic, oldest_s)

    def counted(
        self, events: tuple[str, ...], session: str | None, stamp_ns: int, now_ns: int
    ) -> tuple[tuple[str, ...], Refusal | None]:
        """Return the events of a message that count, and why others do not."""
        refusal = self.refusal(session, stamp_ns, now_ns)
        return (events if refusal is None else tuple(event for event in events if event in ENDS_MOTION)), refusal


SKEW_NS = 50_000_000
WINDOW_NS = 1_000_000_000
LEAST = 3
NEWEST = 20
"""Arrivals kept per topic."""


class ClockWatch:
    """A record of how late the stamps of each topic were when they arrived."""

    def __init__(self) -> None:
        self._arrivals: dict[str, deque[tuple[int, int]]] = {}

    def heard(self, topic: str, stamp_ns: int, now_ns: int) -> None:
        """Note that a message has arrived; one without a stamp says nothing."""
        if stamp_ns > 0:
            self._arrivals.setdefault(topic, deque(maxlen=NEWEST)).append((now_ns, now_ns - stamp_ns))

    def skewed(self, now_ns: int) -> Refusal | None:
        """Name a topic whose stamps are of another clock."""
        for topic, arrivals in self._arrivals.items():
            late = [late_ns for heard_ns, late_ns in arrivals if now_ns - heard_ns <= WINDOW_NS]
            best = min(late, key=abs, default=0)
            if len(late) >= LEAST and abs(best) > SKEW_NS:
                way = "behind" if best > 0 else "ahead of"
                or_delayed = ", or end what delays the messages" if best > 0 else ""
                text = (
                    f"stamps of {topic} are {abs(best) / 1e6:.0f} ms {way} this machine's clock, "
                    f"must be within {SKEW_NS / 1e6:.0f} ms; synchronise the hosts{or_delayed}"
                )
                return Refusal(kind=RefusalKind.CLOCK, text=text)
        return None


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
        """Judge whether a message may pass; return why not, or None where it may."""
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
