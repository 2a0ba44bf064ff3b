"""The clock of a cell whose time waits for the learner, so that a run takes as long as its updates.

Time stands still while the learner makes the updates that it owes. A run then takes as long as its updates and not as
long as its robot, and the ratio of updates to steps is the same on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.client import LearnerClient
from robot_stack.types.errors import TransportError
from robot_stack.types.interfaces import Clock
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step

LATE_S = 600.0
TAKEN_IN_S = 2.0
"""Time by which a status is surely younger than the last acknowledgement."""
POLL_S = 0.004
"""Seldom enough to leave the interpreter to the updates, which take 8 ms each."""


class CountingClient(LearnerClient):
    """A link to the learner that counts the online steps that it took from the actor."""

    online_steps = 0
    _online = False

    def begin(self, header: EpisodeHeader) -> None:
        """See the base."""
        super().begin(header)
        self._online = header.kind is EpisodeKind.ONLINE

    def push(self, step: Step) -> None:
        """See the base."""
        super().push(step)
        self.online_steps += self._online and step.action is not None

    def arrived(self) -> bool:
        """Return whether the learner has acknowledged every frame."""
        counters = self.counters
        return counters.acked == counters.spooled


class Lockstep:
    """The clock of a cell whose time waits for the learner; implements `Clock`.

    Args:
        clock: Of the cell, whose time it is.
        status: Of the learner; it must have taken in all steps, and made the updates that it owes for them, before
            time goes on. A TransportError is waited for too.
        sent: Counts the online steps that are on their way to it or there, those of earlier starts not included.
        utd: Updates owed for each online step.
        pretrain: Updates owed before the first.
        arrived: Whether the learner has acknowledged all that was sent.
        told: Told each status before time goes on.
        stopping: Ends the waiting.

    Raises:
        TransportError: From `sleep_until_ns`, if the learner owes updates for ten minutes.
    """

    def __init__(
        self,
        clock: Clock,
        status: Callable[[], LearnerStatus],
        sent: Callable[[], int],
        *,
        utd: float,
        pretrain: int,
        arrived: Callable[[], bool] = lambda: False,
        told: Callable[[LearnerStatus], None] = lambda status: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._clock, self._status, self._sent = clock, status, sent
        self._utd, self._pretrain = utd, pretrain
        self._arrived = arrived
        self._told, self._stopping = told, stopping
        self._before = 0
        self._taken_in_s: float | None = None

    def now_ns(self) -> int:
        """Return the time of the cell, in nanoseconds."""
        return self._clock.now_ns()

    def sleep_until_ns(self, when_ns: int) -> None:
        """Wait for the learner, then let the cell's time run until then."""
        deadline_s = time.monotonic() + LATE_S
        self._taken_in_s = None
        while not self._stopping():
            status = self._known()
            if status is not None and self._level(status):
                self._told(status)
                break
            if time.monotonic() > deadline_s:
                raise TransportError(f"learner owes updates for {LATE_S:.0f} s, must make them; see its log")
            time.sleep(POLL_S)
        self._clock.sleep_until_ns(when_ns)

    def _known(self) -> LearnerStatus | None:
        try:
            return self._status()
        except TransportError:  # it starts again, and knows all that was acknowledged
            return None

    def _level(self, status: LearnerStatus) -> bool:
        if status.phase != "training":
            return True
        steps, sent = status.counters["env_steps"], self._sent()
        if sent == 0:
            self._before = int(steps)
        elif steps < self._before + sent and self._has_taken_all_in(status):
            self._before = int(steps) - sent  # it closed an episode of an earlier start, which has a step less since
        self._before = max(self._before, int(steps) - sent)
        owed = self._pretrain + int(self._utd * (steps - 1))
        return steps >= self._before + sent and status.counters["updates"] >= owed

    def _has_taken_all_in(self, status: LearnerStatus) -> bool:
        """Return whether nothing has been on its way to the learner for a while."""
        now_s = time.monotonic()
        received, counted = (status.counters.get(name, 0.0) for name in ("received", "counted"))
        if not self._arrived() or counted < received:
            self._taken_in_s = None
        elif self._taken_in_s is None:
            self._taken_in_s = now_s
        return self._taken_in_s is not None and now_s - self._taken_in_s > TAKEN_IN_S
