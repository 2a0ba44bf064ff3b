"""The connections of a page's server: silent ones are closed, and no stranger keeps the others out."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEAD_S = 5.0
"""A connection that has not sent a whole request head within this time is closed, and a WebSocket on which no page has
been let in."""
MAX_SILENT = 256
"""Connections that are still to send these. A browser sends its own at once; a process may have 1024 files open."""
BACKLOG = 64
"""Connections that the system accepts by itself; the server takes as many at once before it counts them."""
LOG_EVERY_S = 60.0

log = logging.getLogger(__name__)


class Crowd:
    """The connections of one server that are still to send a request head or a hello, the longest silent first."""

    def __init__(self) -> None:
        self._waiting: dict[Connection | PageSocket, asyncio.TimerHandle] = {}
        self._closed = 0
        self._spoke_s = -LOG_EVERY_S

    def add(self, connection: Connection | PageSocket) -> None:
        """Note that a connection is to say something from now on, and close it if nothing comes in time.

        Above `MAX_SILENT` of them, the one that has been silent for longest is cut off.
        """
        self.remove(connection)
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(HEAD_S, connection.transport.close)
        if len(self._waiting) > MAX_SILENT:
            self._make_room()

    def remove(self, connection: Connection | PageSocket) -> None:
        """Note that a connection has said what it was to say, or is gone."""
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _make_room(self) -> None:
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

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._crowd.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has come; a request ends the silence."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._crowd.remove(self)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Leave the connection to a WebSocket, whose own silence begins."""
        self._crowd.remove(self)
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        if not self.transport.is_closing():
            self._crowd.add(self)
        super().on_response_complete()


class PageSocket(WebSocketsSansIOProtocol):
    """One WebSocket of a crowd, which it leaves once the application calls `let_in` of its state.

    Args:
        crowd: The connections of the same server.
        app_state: As `uvicorn` gives it.
        words: As `uvicorn` gives them.
    """

    def __init__(self, *, crowd: Crowd, app_state: dict[str, Any], **words: Any) -> None:
        super().__init__(app_state={**app_state, "let_in": partial(crowd.remove, self)}, **words)
        self._crowd = crowd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._crowd.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._crowd.remove(self)
        super().connection_lost(exc)
