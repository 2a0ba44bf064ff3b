"""Common parts of the servers of pages: who is let in, files of a page, and the headers of every answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from robot_stack.console.access import Gate
from robot_stack.console.messages import PageError
from robot_stack.types.errors import StackError

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self' ws: wss:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Of every answer that says nothing else itself."""
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
INDEX, PLAYER = "index.html", "player.html"
JSON = "application/json"
MAX_BYTES = 65_536
Handler = Callable[[Request], Awaitable[Response]]
STATIC = Path(__file__).with_name("static")
"""The operator's page's own files."""
BROWSER = Path(__file__).with_name("browser") / "static"
"""The episode browser's own files, among them the player, which both pages have."""


def build_digest(folders: Sequence[Path] = (STATIC, BROWSER)) -> str:
    """Return a digest of a page's files: a page that was loaded from others must be loaded anew."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.iterdir() if path.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def headed(app: ASGIApp) -> ASGIApp:
    """Return the application with `HEADERS` on every answer, those included that it gives of itself, as 404 and 500."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_headed)

    return answer


class PageFiles:
    """The files of a page: its index, and what that loads, from one or more folders.

    Args:
        folders: The first one that has a file gives it; the index is in the first.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        there = [path for folder in reversed(folders) for path in folder.iterdir() if path.is_file()]
        self._loaded = {path.name: path for path in there if path.suffix in TYPES and path.suffix != ".html"}
        self.build = build_digest(folders)

    def index(self) -> Response:
        """Return the page itself with the player in it; it is told the digest of its files."""
        text = (self._folders[0] / INDEX).read_text().replace("{{player}}", (BROWSER / PLAYER).read_text())
        text = text.replace("{{build}}", self.build)
        return Response(text, 200, {"X-Build": self.build}, TYPES[".html"])

    def get(self, name: str) -> Response:
        """Return a file by its name; of a path, or of a name that is none of theirs, a refusal."""
        path = self._loaded.get(name)
        if path is None:
            return PlainTextResponse("there is no such file", 404)
        return FileResponse(path, headers={"X-Build": self.build}, media_type=TYPES[path.suffix])


def refuse_host(gate: Gate, request: Request) -> Response | None:
    """Return a refusal of a request for another host, or None."""
    why = gate.refuse_host(request.headers.get("host", ""))
    return PlainTextResponse(why, 403) if why else None


def refuse_token(gate: Gate, request: Request) -> Response | None:
    """Return a refusal of a request without the token, where one is asked for, or None."""
    token = request.headers.get("authorization", "").removeprefix("Bearer").strip()
    why = gate.refuse_token(token)
    return PlainTextResponse(why, 401) if why else None


def refuse_origin(gate: Gate, request: Request) -> Response | None:
    """Return a refusal of a request that a page of another origin makes, or None."""
    why = gate.refuse_origin(request.headers.get("origin"), request.headers.get("host", ""))
    return PlainTextResponse(why, 403) if why else None


def guarded(gate: Gate, handler: Handler) -> Handler:
    """Return a handler that lets in whom the gate does, and answers what was refused with its sentence."""

    async def answer(request: Request) -> Response:
        refusal = refuse_host(gate, request) or refuse_token(gate, request)
        if request.method == "POST":
            refusal = refusal or refuse_origin(gate, request)
        if refusal is not None:
            return refusal
        try:
            return await handler(request)
        except PageError as error:
            return PlainTextResponse(str(error), 400)
        except StackError as error:
            return PlainTextResponse(str(error), 409)

    return answer


async def json_body(request: Request) -> bytes:
    """Read the body of a request.

    Raises:
        PageError: If it is too long, or not declared as JSON.
    """
    if request.headers.get("content-type", "") != JSON:
        raise PageError(f"content type is not {JSON}, must be; reload the page")
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > MAX_BYTES:
            raise PageError(f"request is longer than {MAX_BYTES} bytes, must be shorter; ask for less at once")
    return raw


def json_of(content: object) -> bytes:
    """Return JSON as it is sent; a number that is not finite is an error."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def json_answer(content: object) -> Response:
    """Return an answer in JSON."""
    return Response(json_of(content), 200, media_type=JSON)
