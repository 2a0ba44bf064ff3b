"""An HTTP server that answers with JSON, as a base policy behind `base: {kind: http}` does."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


def json_server(info: dict[str, Any], answer: Callable[[dict[str, Any]], dict[str, Any]]) -> HTTPServer:
    """Bind a server to any free port of this machine; it answers once `serve_forever` is called.

    Args:
        info: Said to a GET.
        answer: From what a POST asks to what is said.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say(info)

        def do_POST(self) -> None:
            self._say(answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

        def _say(self, said: dict[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return HTTPServer(("127.0.0.1", 0), Handler)
