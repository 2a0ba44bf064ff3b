"""A limit on the size and number of a topic's messages, judged before one is unpacked.

Unpacking a message of 8 MB keeps a process for a quarter of a second, in which nobody watches the arm. What is larger
than any honest message, or comes faster than any honest sender sends, is turned away as bytes.
"""

from __future__ import annotations

from robot_stack.types.reason import Refusal, RefusalKind

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
        self._since_ns = 0
        self._count = 0
        self.complaint: Refusal | None = None
        """Why the last message was turned away, the first time of each kind in a span; None the other times."""
        self._said: set[RefusalKind] = set()

    def lets_in(self, size_bytes: int, now_ns: int) -> bool:
        """Return whether a message that has just come may be unpacked, and count it."""
        if now_ns - self._since_ns > SPAN_NS:
            self._since_ns, self._count = now_ns, 0
            self._said.clear()
        self._count += 1
        self.complaint = None
        if size_bytes > self._largest:
            self._complain(
                RefusalKind.OVERSIZED,
                f"message on {self._topic} has {size_bytes} bytes, must be at most {self._largest}; stop its sender",
            )
        elif self._count > self._most:
            self._complain(
                RefusalKind.FLOODED,
                f"{self._topic} has more than {self._most} messages in {SPAN_NS / 1e6:.0f} ms, must have fewer; "
                "stop its sender",
            )
        else:
            return True
        return False

    @property
    def flooded(self) -> bool:
        """Return whether so many have come in this span that turning them away costs too much."""
        return self._count > FLOOD * self._most

    def forget(self) -> None:
        """Begin to count anew."""
        self._since_ns = self._count = 0

    def _complain(self, kind: RefusalKind, text: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self.complaint = Refusal(kind=kind, text=text)
