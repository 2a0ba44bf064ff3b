"""A server that speaks enough of the Hub's HTTP for its own client: repositories, commits, downloads."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_ofthistest"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
"""The only one of each repository."""


class HubServer:
    """Repositories by kind and name, each a dict of path -> content of its only commit."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        """Of a repository: name -> commit."""
        self.private: dict[str, bool] = {}
        self.cards: list[str] = []
        self.asked: list[str] = []
        self.refused: set[str] = set()
        """Names of files that it does not give."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            """Hands each request to the server around it."""

            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                server.get(self)

            do_HEAD = do_GET

            def do_POST(self) -> None:
                server.post(self)

            def do_DELETE(self) -> None:
                server.delete(self)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def post(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path = request.path.partition("?")[0]
        self.asked.append(f"POST {path}")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            _answer(request, {"error": "Invalid credentials"}, 401)
        elif path == "/api/repos/create":
            told = json.loads(body)
            owner = told.get("organization") or "someone"
            name = f"{told.get('type', 'model')}s/{owner}/{told['name']}"
            if name in self.repositories:
                _answer(request, {"error": "exists", "url": f"{self.url}/{name}"}, 409)
                return
            self.repositories[name] = {}
            self.private[name] = told.get("visibility") == "private"
            _answer(request, {"url": f"{self.url}/{name.removeprefix('models/')}"})
        elif path == "/api/validate-yaml":
            self.cards.append(json.loads(body)["content"])
            _answer(request, {"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/(\w+s/[\w-]+/[\w-]+)/preupload/main", path):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            _answer(request, {"files": files})
        elif found := re.fullmatch(r"/api/(\w+s/[\w-]+/[\w-]+)/commit/main", path):
            for line in body.splitlines():
                told = json.loads(line)
                if told["key"] == "deletedFile":
                    del self.repositories[found[1]][told["value"]["path"]]
                if told["key"] == "file":
                    content = base64.b64decode(told["value"]["content"])
                    self.repositories[found[1]][told["value"]["path"]] = content
            _answer(request, {"success": True, "commitOid": COMMIT, "commitUrl": f"{self.url}/{found[1]}/commit/1"})
        elif found := re.fullmatch(rf"/api/(\w+s/[\w-]+/[\w-]+)/tag/({COMMIT})", path):
            tags, tag = self.tags.setdefault(found[1], {}), json.loads(body)["tag"]
            there = tags.setdefault(tag, found[2]) != found[2]
            _answer(request, {"error": "exists"} if there else {}, 409 if there else 200)
        else:
            _answer(request, {"error": f"no {path}"}, 404)

    def delete(self, request: BaseHTTPRequestHandler) -> None:
        self.asked.append(f"DELETE {request.path}")
        found = re.fullmatch(r"/api/(\w+s/[\w-]+/[\w-]+)/tag/([\w.]+)", request.path)
        if found is None or self.tags.get(found[1], {}).pop(found[2], None) is None:
            _answer(request, {"error": "no such tag"}, 404, {"X-Error-Code": "RevisionNotFound"})
        else:
            _answer(request, {})

    def get(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        self.asked.append(f"GET {path}")
        if found := re.fullmatch(r"/api/(\w+s/[\w-]+/[\w-]+)(?:/revision/[\w.]+)?", path):
            files = self.repositories.get(found[1])
            if files is None:
                _answer(request, {"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
                return
            name = found[1].partition("/")[2]
            _answer(
                request,
                {
                    "id": name,
                    "modelId": name,
                    "sha": COMMIT,
                    "private": self.private[found[1]],
                    "siblings": [{"rfilename": file} for file in files],
                },
            )
        elif found := re.fullmatch(r"/api/(\w+s/[\w-]+/[\w-]+)/tree/[\w.]+", path):
            files = self.repositories[found[1]]
            _answer(
                request,
                [{"type": "file", "path": name, "size": len(c), "oid": _oid(c)} for name, c in files.items()],
            )
        elif found := re.fullmatch(r"/(datasets/)?([\w-]+/[\w-]+)/resolve/[\w.]+/(.+)", path):
            content = self.repositories.get(f"{found[1] or 'models/'}{found[2]}", {}).get(found[3])
            if found[3] in self.refused:
                _answer(request, {"error": "out of order"}, 403)
            elif content is None:
                _answer(request, {"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
            else:
                _send(request, content, 200, {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": COMMIT})
        else:
            _answer(request, {"error": f"no {path}"}, 404)


def _oid(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def _answer(request: BaseHTTPRequestHandler, said: Any, code: int = 200, more: dict[str, str] | None = None) -> None:
    _send(request, json.dumps(said).encode(), code, {"Content-Type": "application/json", **(more or {})})


def _send(request: BaseHTTPRequestHandler, content: bytes, code: int, headers: dict[str, str]) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(content)
