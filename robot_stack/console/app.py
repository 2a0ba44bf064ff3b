"""The page's server: static files, one WebSocket a page, episodes that are over. Checks who comes, decides nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from robot_stack.console.access import Gate
from robot_stack.console.browser.played import OUTLINED, outlined
from robot_stack.console.browser.projector import Projector, followed
from robot_stack.console.hub import MAX_PAGES, Hub, Page
from robot_stack.console.messages import Hello, Message, Move, PageError, Press, Seen, TimelyMessage, View, Write, parse
from robot_stack.console.session import FOR_EVERYBODY, ConsoleSession
from robot_stack.console.web import BROWSER, STATIC, TYPES, PageFiles, guarded, refuse_host
from robot_stack.types.errors import StackError

MAX_PER_S = 200
"""Messages of one page; of more, only HOLD, STOP and what it shows count. A hand sends 25 a second."""
MOST_UNSAID = 20
"""Verdicts and notes of one page that wait for the disk."""
MAX_BAD = 20
"""Messages that are none, before a page is closed."""
CLOSE_REFUSED, CLOSE_REPLACED = 4400, 4409


class TokenError(PageError):
    """A page came with a wrong token, or with none; it asks the operator for another."""


class Pages:
    """Web application of one console session: the static page, one WebSocket a page, episodes, the report.

    Args:
        session: Decides what a page may have done.
        store: Folder of the run's episodes, which are played; there is none where the learner runs elsewhere.
        picture: Episode -> JPEG of its first and last frames, or None.
        report: The run's report; there is none before the run has ended.
    """

    def __init__(
        self,
        session: ConsoleSession,
        gate: Gate,
        store: Path,
        picture: Callable[[str], bytes | None] = lambda _: None,
        report: Path | None = None,
    ) -> None:
        self.hub = Hub(session)
        self._session = session
        self._gate = gate
        self._picture = picture
        self._report = report
        self._projector = Projector(followed(store), outlined, OUTLINED)
        self._files = PageFiles([STATIC, BROWSER])

    def app(self) -> Starlette:
        """Return the application, to be run by a server."""
        routes = [
            Route("/", self._index),
            Route("/static/{name}", self._static),
            Route("/picture/{episode}", guarded(self._gate, self._episode_picture)),
            Route("/report", guarded(self._gate, self._whole_report)),
            *(Route(path, guarded(self._gate, handler)) for path, handler in self._projector.handlers.items()),
            WebSocketRoute("/ws", self._socket),
        ]
        return Starlette(routes=routes)

    # files -----------------------------------------------------------------------------------------------------
    async def _index(self, request: Request) -> Response:
        return refuse_host(self._gate, request) or self._files.index()

    async def _static(self, request: Request) -> Response:
        return refuse_host(self._gate, request) or self._files.get(request.path_params["name"])

    async def _episode_picture(self, request: Request) -> Response:
        jpeg = await asyncio.to_thread(self._picture, request.path_params["episode"])
        if jpeg is None:
            return PlainTextResponse("there is no picture of this episode", 404)
        return Response(jpeg, 200, media_type="image/jpeg")

    async def _whole_report(self, _: Request) -> Response:
        if self._report is None or not self._report.is_file():
            return PlainTextResponse("there is no report yet", 404)
        return FileResponse(self._report, media_type=TYPES[".html"])

    # one page --------------------------------------------------------------------------------------------------
    async def _socket(self, socket: WebSocket) -> None:
        await socket.accept()
        try:
            page = await self._greet(socket)
        except PageError as error:
            await _bye(socket, str(error), "token" if isinstance(error, TokenError) else "refused")
        except WebSocketDisconnect:
            pass
        else:
            socket.state.let_in()
            await self._serve(socket, page)

    async def _serve(self, socket: WebSocket, page: Page) -> None:
        self._join(page)
        keeper = asyncio.create_task(self._keep(page))
        tasks = [asyncio.create_task(self._send(socket, page)), asyncio.create_task(self._read(socket, page))]
        try:
            await asyncio.wait([*tasks, keeper], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._leave(page)
            await _close(socket, CLOSE_REFUSED)
            page.unsaid.put_nowait(None)
            await asyncio.gather(keeper, return_exceptions=True)  # what it said before it went is kept

    async def _greet(self, socket: WebSocket) -> Page:
        """Return the page that says hello on a new connection.

        Raises:
            PageError: Why it may not come in.
        """
        host = socket.headers.get("host", "")
        why = self._gate.refuse_host(host) or self._gate.refuse_origin(socket.headers.get("origin"), host)
        if why:
            raise PageError(why)
        message = parse(await _receive(socket))
        if not isinstance(message, Hello):
            raise PageError("first message is not a hello, must be one; reload the page")
        why = self._gate.refuse_token(message.token)
        if why:
            await asyncio.sleep(0.3)  # nobody tries many of them
            raise TokenError(why)
        if message.build != self._files.build:
            raise PageError("this page is of another version than the server, must be the same; reload it")
        if len(self.hub.pages) >= MAX_PAGES and message.page not in self.hub.pages:
            raise PageError(f"{MAX_PAGES} pages are open, must be fewer; close one")
        return Page(name=message.page)

    def _join(self, page: Page) -> None:
        before = self.hub.pages.get(page.name)
        if before is not None:  # the same tab, whose old connection has not been noticed to be dead; or its copy
            self._leave(before)
            before.outbox.put_notice("bye", "This page has been opened again; the newer one counts.")
            before.wake.set()
        with self._session.locked():
            self._session.join(page.name, time.monotonic_ns())
            welcome = {"k": "welcome", "page": page.name, **self._session.welcome()}
        page.outbox.put_text(json.dumps(welcome, allow_nan=False))
        page.wake.set()
        self.hub.add(page)

    def _leave(self, page: Page) -> None:
        if self.hub.pages.get(page.name) is not page:
            return
        self.hub.remove(page)
        with self._session.locked():
            self._session.leave(page.name, time.monotonic_ns())
        self.hub.change()

    async def _send(self, socket: WebSocket, page: Page) -> None:
        while True:
            await page.wake.wait()
            page.wake.clear()
            message = page.outbox.take()
            while message is not None:
                if isinstance(message, bytes):
                    await socket.send_bytes(message)
                else:
                    await socket.send_text(message)
                message = page.outbox.take()
            if self.hub.pages.get(page.name) is not page:
                await _close(socket, CLOSE_REPLACED)
                return

    async def _read(self, socket: WebSocket, page: Page) -> None:
        bad, second, count = 0, 0, 0
        while bad < MAX_BAD:
            raw = await _receive(socket)
            now_s = int(time.monotonic())
            second, count = (second, count + 1) if now_s == second else (now_s, 1)
            try:
                message = parse(raw)
            except PageError as error:
                bad += 1
                page.notice("refused", str(error))
                continue
            if count <= MAX_PER_S or _halts(message) or isinstance(message, Seen):  # without Seen no more would be sent
                self._obey(page, message)
        page.outbox.put_notice("bye", f"This page sent {MAX_BAD} messages that are none. Reload it.")
        page.wake.set()
        await asyncio.sleep(0.2)

    async def _keep(self, page: Page) -> None:
        """Have what a page says kept on disk, one after another, while the page goes on to be heard."""
        while (said := await page.unsaid.get()) is not None:
            message, keep = said
            try:
                await asyncio.to_thread(keep)
            except StackError as error:
                _refuse(page, message, error)
            else:
                _confirm(page, message)
            self.hub.change()

    def _obey(self, page: Page, message: Message) -> None:
        if self.hub.pages.get(page.name) is not page:
            return
        if self.hub.stalled(page) and not (_halts(message) or isinstance(message, Seen | View | Write)):
            page.notice("refused", "server stood still for a moment, must run to know what is meant now; do it again")
            return
        if isinstance(message, View):
            page.whole = frozenset(message.cameras)
            return
        if isinstance(message, Seen):
            page.outbox.seen(message.state, message.image)
            page.wake.set()
        try:
            if isinstance(message, TimelyMessage) and not _halts(message):
                page.outbox.check_timely(message.state)
            self._do(page, message)
        except StackError as error:
            _refuse(page, message, error)
        if not isinstance(message, Seen | Move):
            self.hub.change()

    def _do(self, page: Page, message: Message) -> None:
        if _halts(message):
            self._session.halt(message.what)
            _confirm(page, message)
            return
        with self._session.locked():
            left = self._session.obey(page.name, message, time.monotonic_ns(), time.time())
        if left is None:
            _confirm(page, message)
            return
        waiting = page.unsaid.qsize()
        if waiting >= MOST_UNSAID:
            raise PageError(
                f"{waiting} words of this page wait for the disk, must be fewer; say it again once they do not"
            )
        page.unsaid.put_nowait((message, left))


def _confirm(page: Page, message: Message) -> None:
    """Tell a page that waits for it that something is done."""
    if isinstance(message, Press | Write) and message.n:
        page.outbox.put_text(json.dumps({"k": "taken", "n": message.n}))
        page.wake.set()


def _refuse(page: Page, message: Message, error: StackError) -> None:
    """Tell a page why something is not done; if it waits for that, by its number."""
    if isinstance(message, Write) and message.n:
        page.outbox.put_text(json.dumps({"k": "refused", "text": str(error), "n": message.n}))
        page.wake.set()
    else:
        page.notice("refused", str(error))


def _halts(message: Message) -> TypeGuard[Press]:
    return isinstance(message, Press) and message.what in FOR_EVERYBODY


async def _receive(socket: WebSocket) -> str | bytes:
    """Return the next message of a page.

    Raises:
        WebSocketDisconnect: If there is none any more.
    """
    received = await socket.receive()
    if received["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(received.get("code", 1000))
    text = received.get("text")
    return text if text is not None else received.get("bytes") or b""


async def _bye(socket: WebSocket, text: str, kind: str) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):  # it is closed already
        await socket.send_text(json.dumps({"k": "bye", "kind": kind, "text": text}))
    await _close(socket, CLOSE_REFUSED)


async def _close(socket: WebSocket, code: int) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.close(code)
