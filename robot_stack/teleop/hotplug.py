"""Devices that come and go: opened in a thread of their own, and looked for again with rising pauses."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from robot_stack.types.errors import RobotError

FIRST_PAUSE_NS, LONGEST_PAUSE_NS = 250_000_000, 4_000_000_000
PacketT = TypeVar("PacketT")
PacketT_co = TypeVar("PacketT_co", covariant=True)


class Port(Protocol[PacketT_co]):
    """An open device that is read without blocking."""

    def read(self) -> Sequence[PacketT_co]:
        """Return all that has arrived since the last call, in order; never blocks.

        Raises:
            OSError: If the device is gone.
        """
        ...

    def close(self) -> None:
        """Close the device and free it for others."""
        ...


def in_thread(job: Callable[[], None]) -> None:
    """Run a job in a thread beside the loop.

    A device that hangs while it is opened holds up neither the loop nor the exit.
    """
    threading.Thread(target=job, name="teleop-open", daemon=True).start()


class HotPlug(Generic[PacketT]):
    """An opener of a port that tries as often as it takes, with rising pauses between tries."""

    def __init__(
        self, open_port: Callable[[], Port[PacketT]], start: Callable[[Callable[[], None]], None] = in_thread
    ) -> None:
        """Keep how the port is opened; nothing is opened yet.

        Args:
            open_port: May block. Raises RobotError with what is missing.
            start: Runs a job elsewhere.
        """
        self.problem = "looked for for the first time"
        self._open_port = open_port
        self._start = start
        self._results: queue.SimpleQueue[Port[PacketT] | str] = queue.SimpleQueue()
        self._trying = False
        self._next_ns = 0
        self._pause_ns = FIRST_PAUSE_NS

    def attempt(self, now_ns: int) -> Port[PacketT] | None:
        """Return the port, if one has opened since the last call; start the next try when it is due."""
        if not self._trying and now_ns >= self._next_ns:
            self._trying = True
            self._start(self._try)
        try:
            result = self._results.get_nowait()
        except queue.Empty:
            return None
        self._trying = False
        if isinstance(result, str):
            self.gone(result, now_ns)
            return None
        return result

    def gone(self, problem: str, now_ns: int) -> None:
        """Note that there is no device, or no longer; the next try comes after a pause, twice as long as the last."""
        self.problem = problem
        self._next_ns = now_ns + self._pause_ns
        self._pause_ns = min(2 * self._pause_ns, LONGEST_PAUSE_NS)

    def works(self) -> None:
        """Note that the device has said something that makes sense: the next loss is a new one."""
        self._pause_ns = FIRST_PAUSE_NS

    def _try(self) -> None:
        try:
            self._results.put(self._open_port())
        except Exception as error:  # the top of a thread: what went wrong is told by the loop
            self._results.put(str(error) if isinstance(error, RobotError) else f"{type(error).__name__}: {error}")
