"""The connections of a page's server: silent ones are closed, and no stranger keeps the others out."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 5.0
"""A connection that has not sent a whole request head within this time is closed."""
MAX_SILENT = 256
"""Connections that are still to send a request head. A browser sends its own at once; a process may have 1024 files
open."""
BACKLOG = 64
"""Connections that the system accepts by itself; the server takes as many at once before it counts them."""
LOG_EVERY_S = 60.0

log = logging.getLogger(__name__)


class Crowd:
    """The connections of one server that are still to send a request head, the longest silent first."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, asyncio.TimerHandle] = {}
        self._closed = 0
        self._spoke_s = -LOG_EVERY_S

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, connection: Connection) -> None:
        """Note that a connection is to send a head from now on, and close it if none comes in time."""
        self.remove(connection)
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(HEAD_S, connection.transport.close)

    def remove(self, connection: Connection) -> None:
        """Note that a connection has sent a head, or is gone."""
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def make_room(self) -> None:
        """Cut off the connection that has been silent for longest; say so at most once a minute."""
        longest = next(iter(self._waiting))
        self.remove(longest)
        longest.transport.abort()
        self._closed += 1
        if time.monotonic() - self._spoke_s >= LOG_EVERY_S:
            log.warning(
                "%d connections are silent, must be at most that; cut off those silent for longest, %d so far",
                MAX_SILENT,
                self._closed,
            )
            self._spoke_s = time.monotonic()


class Connection(H11Protocol):
    """One HTTP connection of a crowd, which the server of `uvicorn` makes.

    Args:
        crowd: The connections of the same server.
        words: As `uvicorn` gives them.
    """

    def __init__(self, *, crowd: Crowd, **words: Any) -> None:
        super().__init__(**words)
        self._crowd = crowd

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._crowd.add(self)
        if len(self._crowd) > MAX_SILENT:
            self._crowd.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._crowd.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has come; a request, or a WebSocket that takes over, ends the silence."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before or self not in self.connections:
            self._crowd.remove(self)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if not self.transport.is_closing():
            self._crowd.add(self)
        super().on_response_complete()
