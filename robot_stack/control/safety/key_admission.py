"""Admission of an operator's keys: a key counts if it is young, of a process of this run, and new.

`stop` and `hold` count whoever sends them and however old they are: a stop that waited while a process stood still is
still a stop. Every other key may start something or judge an episode, and must be an operator's own, now.
"""

from __future__ import annotations

from robot_stack.control.safety.checks import check_age
from robot_stack.types.reason import Refusal, RefusalKind

ALWAYS = ("stop", "hold")
"""Events that end motion."""
OLDEST_S = 0.25
"""A key that took longer to arrive is not what the operator means now, where it may start motion."""


class KeyAdmission:
    """The judge of the keys on one topic, which remembers the newest key of each sender.

    Args:
        topic: Of the keys, for sentences.
        oldest_s: Age at which a key no longer counts.
    """

    def __init__(self, topic: str, oldest_s: float = OLDEST_S) -> None:
        self._topic = topic
        self._oldest_s = oldest_s
        self._newest_ns: dict[str, int] = {}

    def refusal(self, session: str | None, stamp_ns: int, now_ns: int) -> Refusal | None:
        """Judge the keys of one message; return why they do not count, or None where they do.

        Args:
            session: Of the process that sealed it; None for a stranger's.
            stamp_ns: When they were pressed.
            now_ns: Steady clock.
        """
        if session is None:
            text = f"keys on {self._topic} are of no process of this run, must be; stop what else sends there"
            return Refusal(kind=RefusalKind.FOREIGN, text=text)
        late = check_age(f"key on {self._topic}", stamp_ns, now_ns, self._oldest_s)
        if late:
            return late
        if stamp_ns <= self._newest_ns.get(session, 0):
            text = f"key on {self._topic} is not newer than the last one of {session}; is it sent again?"
            return Refusal(kind=RefusalKind.REPEATED, text=text)
        self._newest_ns[session] = stamp_ns
        return None

    def counted(
        self, events: tuple[str, ...], session: str | None, stamp_ns: int, now_ns: int
    ) -> tuple[tuple[str, ...], Refusal | None]:
        """Return the events of a message that count, and why others do not."""
        refusal = self.refusal(session, stamp_ns, now_ns)
        return (events if refusal is None else tuple(event for event in events if event in ALWAYS)), refusal
