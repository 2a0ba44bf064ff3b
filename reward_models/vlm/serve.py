"""An OpenAI-compatible server for a checkpoint of this machine: `robot-stack reward serve`.

For a machine with a GPU and without vLLM. It answers what `Endpoint` asks, greedily, and gives log-probabilities,
which `transformers serve` does not. One request is answered after the other. It listens on loopback only: images of a
cell are nobody else's, so another machine reaches it through an SSH tunnel. Images come in the request; nothing is
fetched.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal

import numpy as np
from PIL import Image
from pydantic import BaseModel, Field, ValidationError

from reward_models.vlm.prompt import Answer, Backend, Part, Prompt
from robot_stack.types.errors import RewardError

LOOPBACK = "127.0.0.1"
LONGEST_BODY = 64 * 2**20
LARGEST_IMAGE = 4_000_000
"""Pixels of one image."""
UNREADABLE = (binascii.Error, OSError, ValueError, SyntaxError, Image.DecompressionBombError)
"""What Pillow and base64 raise on images that are none; Pillow calls a damaged chunk of a PNG a SyntaxError."""

_log = logging.getLogger(__name__)


class _ImageUrl(BaseModel):
    url: str


class _Part(BaseModel):
    type: Literal["text", "image_url"]
    text: str = ""
    image_url: _ImageUrl | None = None


class _Message(BaseModel):
    role: Literal["system", "user"]
    content: str | list[_Part]


class _Request(BaseModel):
    model: str
    messages: list[_Message] = Field(min_length=1, max_length=2)
    max_tokens: int = Field(512, ge=1, le=4096)
    temperature: float = Field(0.0, ge=0.0, le=0.0)
    n: int = Field(1, ge=1, le=1)
    stream: Literal[False] = False
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=20)


def read_prompt(request: _Request) -> Prompt:
    """Convert the messages of a request to a prompt; images stay at their places between the text.

    Raises:
        RewardError: If they are not at most one system text and then one question, or an image cannot be read.
    """
    *before, last = request.messages
    if last.role != "user" or [message.role for message in before] not in ([], ["system"]):
        raise RewardError("messages are in another order, must be at most one of system and then one of user")
    system = before[0].content if before else ""
    if not isinstance(system, str):
        raise RewardError("system message has parts, must be text")
    content = [_Part(type="text", text=last.content)] if isinstance(last.content, str) else last.content
    return Prompt(user=tuple(_read_part(part) for part in content), system=system)


def _read_part(part: _Part) -> Part:
    if part.type == "text":
        return part.text
    head, _, content = (part.image_url.url if part.image_url else "").partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        raise RewardError("image is at an address, must come in the request as data:image/...;base64")
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(content, validate=True)), formats=("PNG", "JPEG"))
        if picture.width * picture.height > LARGEST_IMAGE:
            raise RewardError(f"image is {picture.width}x{picture.height}, must have at most {LARGEST_IMAGE} pixels")
        return np.asarray(picture.convert("RGB"), dtype=np.uint8)
    except UNREADABLE as error:
        raise RewardError(f"image cannot be read, must be PNG or JPEG ({error})") from error


def reply_of(answer: Answer, model: str, *, logprobs: bool) -> dict[str, Any]:
    """Write an answer as a chat completion."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.text},
        "finish_reason": "stop" if answer.complete else "length",
    }
    if logprobs:
        choice["logprobs"] = {
            "content": [
                {
                    "token": token.text,
                    "logprob": dict(token.top).get(token.text, -9999.0),
                    "top_logprobs": [{"token": text, "logprob": value} for text, value in token.top],
                }
                for token in answer.tokens
            ]
        }
    return {"object": "chat.completion", "created": int(time.time()), "model": model, "choices": [choice]}


class ModelServer:
    """A server on loopback, from `start` or `run` to `close`.

    Args:
        backends: Name under which a model is asked -> model.
        port: 0 takes a free one.

    Raises:
        RewardError: If the port cannot be had.
    """

    def __init__(self, backends: Mapping[str, Backend], port: int) -> None:
        handler = type("_Bound", (_Handler,), {"backends": dict(backends), "turn": threading.Lock()})
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        except OSError as error:
            raise RewardError(f"port is {port}, must be free on {LOOPBACK} ({error}); choose another") from error
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Return the address for `server: {url: ...}`."""
        return f"http://{LOOPBACK}:{self._server.server_port}/v1"

    def start(self) -> None:
        """Serve in a thread."""
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="serve", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Serve until the process is interrupted."""
        self._server.serve_forever(0.5)

    def close(self) -> None:
        """Stop listening."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join(5.0)
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0
    backends: ClassVar[dict[str, Backend]]
    turn: ClassVar[threading.Lock]

    def do_GET(self) -> None:
        if self.path.rstrip("/") != "/v1/models":
            self._refuse(404, f"path is {self.path}, must be /v1/models or /v1/chat/completions")
            return
        self._reply(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.backends]})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_BODY:
            self.close_connection = True
            self._refuse(413, f"length of the request is {length or 'not known'}, must be at most {LONGEST_BODY} bytes")
            return
        body = self.rfile.read(int(length))
        if self.path != "/v1/chat/completions":
            self._refuse(404, f"path is {self.path}, must be /v1/models or /v1/chat/completions")
            return
        try:
            request = _Request.model_validate_json(body)
            if request.model not in self.backends:
                raise RewardError(f"model is {request.model!r}, must be one of {', '.join(self.backends)}")
            prompt = read_prompt(request)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            self._refuse(400, f"request: {'.'.join(map(str, first['loc']))}: {first['msg']}")
            return
        except RewardError as error:
            self._refuse(400, str(error))
            return
        self._answer(request, prompt)

    def _answer(self, request: _Request, prompt: Prompt) -> None:
        top = request.top_logprobs if request.logprobs else 0
        try:
            with self.turn:
                if self._gone():
                    self.close_connection = True
                    return
                backend = self.backends[request.model]
                (answer,) = backend.answer([prompt], max_tokens=request.max_tokens, top_logprobs=top)
        except RewardError as error:
            _log.warning("%s", error)
            self._refuse(500, str(error))
            return
        self._reply(200, reply_of(answer, request.model, logprobs=top > 0))

    def _gone(self) -> bool:
        """Return whether the client has closed its connection while its request waited."""
        readable, _, _ = select.select([self.connection], [], [], 0.0)
        try:
            return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""
        except ConnectionError:
            return True

    def _refuse(self, code: int, why: str) -> None:
        self._reply(code, {"error": {"message": why, "code": code}})

    def _reply(self, code: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        try:
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            self.close_connection = True
            _log.warning(
                "a client went away before its answer; set concurrency: 1, or a longer timeout_s, under server"
            )

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(format, *args)
