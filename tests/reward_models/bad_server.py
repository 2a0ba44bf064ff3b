"""A real HTTP server on loopback that answers as told: well, slowly, wrongly, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Behaviour = Callable[["Handler", dict[str, Any]], None]


def chat(text: str, **choice: Any) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"} | choice],
    }


def says(text: str, **choice: Any) -> Behaviour:
    return lambda handler, body: handler.reply(200, json.dumps(chat(text, **choice)).encode())


def status(code: int, text: str = "out of order") -> Behaviour:
    return lambda handler, body: handler.reply(code, text.encode())


def raw(content: bytes) -> Behaviour:
    return lambda handler, body: handler.reply(200, content)


def compressed(coding: str, content: bytes) -> Behaviour:
    """Says that its content is encoded, and how."""

    def send(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", coding)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def hangs(handler: Handler, body: dict[str, Any]) -> None:
    """Takes the request and says nothing until the server closes."""
    handler.owner.closing.wait(30)


def drips(handler: Handler, body: dict[str, Any]) -> None:
    """Sends a byte now and then, so that no single read takes long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.owner.closing.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def hangs_up(handler: Handler, body: dict[str, Any]) -> None:
    """Closes the connection in the middle of a reply."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": ')
    handler.close_connection = True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Server

    def do_GET(self) -> None:
        self._follow({})

    def do_POST(self) -> None:
        self._follow(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _follow(self, body: dict[str, Any]) -> None:
        behaviour = self.owner.note(self.path, dict(self.headers), body)
        try:
            behaviour(self, body)
        except OSError:  # the client went away, as it should
            self.close_connection = True

    def reply(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server:
    """Follows a script, one behaviour a request; the last one goes on for ever.

    Attributes:
        bodies: Requests so far.
        headers: Of them.
        most: Requests that were open at the same time at most.
    """

    def __init__(self, *script: Behaviour) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.closing = threading.Event()
        self._script = list(script)
        self._lock = threading.Lock()
        handler = type("Bound", (Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def follow(self, *script: Behaviour) -> None:
        """From now on."""
        with self._lock:
            self._script = list(script)

    def note(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Behaviour:
        with self._lock:
            self.paths.append(path)
            self.headers.append(headers)
            self.bodies.append(body)
            return self._script.pop(0) if len(self._script) > 1 else self._script[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
