"""Runs the page's server in a thread of its own, on a port that the next start finds again."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette

from robot_stack.console.access import is_local, split_address
from robot_stack.console.app import Pages
from robot_stack.console.banner import Banner
from robot_stack.console.connections import BACKLOG, Connection, Crowd, PageSocket
from robot_stack.console.web import headed
from robot_stack.types.errors import RobotError

MAX_MESSAGE_BYTES = 65_536
PING_S = 5.0
START_S = 10.0
STOP_S = 3.0


def listen(address: str, before: int = 0) -> socket.socket:
    """Open a socket that listens at `address`; on this machine alone at another port if that one is taken.

    Args:
        address: host:port.
        before: Port that an earlier life of this process had; tried first.

    Raises:
        ConfigError: If the address is none.
        RobotError: If it cannot be had.
    """
    host, port = split_address(address)
    ports = [*([before] if before else []), port, 0] if is_local(host) else [port]
    error: OSError | None = None
    for candidate in ports:
        try:
            return socket.create_server(
                (host, candidate), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
            )
        except OSError as refused:
            error = refused
    raise RobotError(
        f"console address is {address}, must be free and this machine's ({error}); change console.address of the cell"
    ) from error


def page_address(listening: socket.socket, host: str, token: str) -> str:
    """Return the address that an operator types, with the token behind a mark that browsers keep to themselves."""
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    secret = f"#{token}" if token else ""
    return f"http://{shown}:{listening.getsockname()[1]}/{secret}"


class AppServer:
    """Server of a web application, in a thread of its own, until it is stopped.

    Args:
        app: The application.
        listening: Socket that it is served at.
        beside: Runs on the server's loop for as long as it serves; if that ends, so does the server.
    """

    def __init__(
        self, app: Starlette, listening: socket.socket, beside: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._beside = beside
        self._listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None
        crowd = Crowd()
        self._server = uvicorn.Server(
            uvicorn.Config(
                headed(app),
                http=partial(Connection, crowd=crowd),  # type: ignore[arg-type]
                ws=partial(PageSocket, crowd=crowd),  # type: ignore[arg-type]
                backlog=BACKLOG,
                lifespan="off",
                log_level="warning",
                access_log=False,
                proxy_headers=False,
                ws_max_size=MAX_MESSAGE_BYTES,
                ws_ping_interval=PING_S,
                ws_ping_timeout=PING_S,
                ws_per_message_deflate=False,
                timeout_graceful_shutdown=1,
                server_header=False,
            )
        )
        self._thread = threading.Thread(target=self._run, name="console-pages", daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start to serve, and wait until the server is up.

        Raises:
            RobotError: If it does not come up.
        """
        self._thread.start()
        deadline_s = time.monotonic() + START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline_s:
                why = f", failed with {self._failure!r}" if self._failure is not None else ""
                raise RobotError(f"console's server is not up{why}, must be within {START_S:.0f} s; read its log")
            time.sleep(0.01)

    def check(self) -> None:
        """Raise RobotError if the server has died since it was started."""
        if self._failure is not None:
            raise RobotError(
                f"console's server has died of {self._failure!r}, must run until it is stopped; start the run anew, "
                "and report this"
            ) from self._failure

    def stop(self) -> None:
        """Close all pages and stop the server."""
        self._server.should_exit = True
        self._thread.join(STOP_S)
        self._listening.close()

    def _soon(self, call: Callable[..., None], *words: object) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *words)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # the top of a thread: whoever started it says what went wrong
            self._failure = error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        beside = asyncio.create_task(self._beside())
        beside.add_done_callback(self._exit)  # pages that are sent nothing any more would look alive
        await self._server.serve(sockets=[self._listening])
        if beside.done():
            await beside
        beside.cancel()

    def _exit(self, _: object) -> None:
        self._server.should_exit = True


class PageServer(AppServer):
    """Server of the operator's page.

    Usage: `with PageServer(pages, listen(address)): ...`
    """

    def __init__(self, pages: Pages, listening: socket.socket) -> None:
        super().__init__(pages.app(), listening, pages.hub.run)
        self._pages = pages

    @property
    def watched(self) -> bool:
        """Return whether a page is open."""
        return bool(self._pages.hub.pages)

    def change(self) -> None:
        """Send the pages soon what has changed; callable from any thread."""
        self._soon(self._pages.hub.change)

    def notice(self, text: str) -> None:
        """Tell every page a sentence; callable from any thread."""
        self._soon(self._pages.hub.notice, text)

    def farewell(self, banner: Banner) -> None:
        """Tell every page what is to stay on it once the server is gone; callable from any thread."""
        self._soon(self._pages.hub.farewell, banner)

    @property
    def whole(self) -> frozenset[int]:
        """Return the cameras whose whole images some page shows."""
        return self._pages.hub.whole

    def show_whole(self, camera: int, jpeg: bytes) -> None:
        """Send a camera's newest whole image to the pages that show it; callable from any thread."""
        self._soon(self._pages.hub.show_whole, camera, jpeg)

    def show(self, camera: int, jpeg: bytes) -> None:
        """Send every page a camera's newest image; callable from any thread."""
        self._soon(self._pages.hub.show, camera, jpeg)
