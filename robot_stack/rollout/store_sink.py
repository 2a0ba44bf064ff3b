"""A sink of steps straight into an episode store of this machine, where no learner listens."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.errors import StoreError, error_text
from robot_stack.types.event import Label
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, Step

Said = Callable[[bool], Sequence[Label]]
"""Returns what operators have said of episodes that had ended, and nobody has put into a store; True: also what they
might still take back."""
FLUSH_S = 0.5
CLOSE_S = 30.0


def next_number(store: EpisodeStore) -> int:
    """Return one above every number that an episode id of the store begins with."""
    names = (*store.episodes, *store.unfinished, *store.quarantined)
    heads = (name.split("-")[0] for name in names)
    return 1 + max((int(head) for head in heads if head.isdecimal()), default=-1)


class StoreSink:
    """A `StepSink` that never waits for the disk: a thread writes to the store, and flushes twice a second.

    Usage: `with StoreSink(store) as sink: ...`; on leaving, all that was handed over is on disk, or a `StoreError` says
    that it is not. An episode that has not ended by then, or that a killed process has left, will not go on: it is
    closed as a fault at its newest frame.
    """

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store
        self._queue: queue.SimpleQueue[EpisodeHeader | Step | Label | StageMark | None] = queue.SimpleQueue()
        self._taken = threading.Semaphore(0)
        self._handed_over = 0
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._write, name="store", daemon=True)

    def __enter__(self) -> StoreSink:
        self._close_unfinished()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._queue.put(None)
        self._thread.join(CLOSE_S)
        if error is None:
            self.check()
            if self._thread.is_alive():
                raise StoreError(
                    f"disk has not taken {self._queue.qsize() + 1} steps or verdicts within {CLOSE_S:g} s, must be "
                    "faster; the last episode ends before them, look at it with robot-stack data list"
                )

    def begin(self, header: EpisodeHeader) -> None:
        """Announce an episode to the store.

        Raises:
            StoreError: If the disk has refused what came before: an episode that cannot be recorded is not run.
        """
        self.check()
        self._put(header)

    def push(self, step: Step) -> None:
        """Hand over one step to the store."""
        self._put(step)

    def label(self, label: Label) -> None:
        """Hand over a verdict to the store."""
        self._put(label)

    def hear(self, labels: Sequence[Label], timeout_s: float) -> bool:
        """Hand over verdicts that came later and wait until they are in the store; returns whether any is new.

        Those on episodes of other stores are left out.

        Raises:
            StoreError: If the disk refuses them.
        """
        there, known = set(self._store.episodes), set(self._store.labels) if labels else set()
        new = [label for label in labels if label.episode_id in there and label not in known]
        for label in new:
            self._put(label)
        self.settle(timeout_s)
        return bool(new)

    def mark(self, mark: StageMark) -> None:
        """Hand over a stage mark to the store."""
        self._put(mark)

    def settle(self, timeout_s: float) -> bool:
        """Wait until all that was handed over so far is in the store; returns whether it is.

        Raises:
            StoreError: If the disk refuses it.
        """
        deadline_s = time.monotonic() + timeout_s
        while self._handed_over and self._taken.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
            self._handed_over -= 1
        self.check()
        return self._handed_over == 0

    def check(self) -> None:
        """Raise the error that stands in the way of recording.

        Raises:
            StoreError: If the disk has refused something, or writing it has ended on an error that nobody foresaw.
        """
        if self._failure is not None:
            raise StoreError(f"recording failed: {error_text(self._failure)}") from self._failure

    def _put(self, item: EpisodeHeader | Step | Label | StageMark) -> None:
        self._handed_over += 1
        self._queue.put(item)

    def _write(self) -> None:
        flush_s = time.monotonic() + FLUSH_S
        while True:
            try:
                item = self._queue.get(timeout=max(0.0, flush_s - time.monotonic()))
                if item is None:
                    break
                self._take(item)
                self._taken.release()
            except queue.Empty:
                self._guard(self._store.flush)
                flush_s = time.monotonic() + FLUSH_S
        self._guard(self._store.flush)
        self._guard(self._close_unfinished)

    def _close_unfinished(self) -> None:
        for name in self._store.unfinished:
            self._store.close_unfinished(name)

    def _take(self, item: EpisodeHeader | Step | Label | StageMark) -> None:
        if isinstance(item, EpisodeHeader):
            self._guard(lambda: self._store.begin(item))
        elif isinstance(item, Step):
            self._guard(lambda: self._store.append(item))
        elif isinstance(item, StageMark):
            self._guard(lambda: self._store.append_mark(item))
        else:
            self._guard(lambda: self._store.append_label(item))

    def _guard(self, write: Callable[[], object]) -> None:
        """Write unless a write has failed before: what follows it would have a gap."""
        if self._failure is None:
            try:
                write()
            except Exception as error:  # the top of this thread: `check` raises it where the recording can end
                self._failure = error
