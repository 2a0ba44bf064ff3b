"""A base policy behind a plain HTTP server: two JSON documents, so that thirty lines of any language make one."""

from __future__ import annotations

import base64
import time
from typing import Any

import numpy as np

from robot_stack.rollout.base.connection import needed
from robot_stack.rollout.base.mapping import Question, Told
from robot_stack.types.errors import RobotError, SpecError

MOST_BYTES = 4_000_000
"""Of an answer; a chunk of a thousand steps of two arms has less."""


class HttpConnection:
    """A connection over HTTP; implements `Connection`.

    Args:
        url: Where the server listens; `/info` and `/chunk` are below it.
        timeout_s: Longest wait for an answer.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._httpx = needed("httpx")
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._client = self._httpx.Client(timeout=timeout_s, trust_env=False, headers={"Accept-Encoding": "identity"})

    def open(self) -> Told:
        """Ask the server what it wants and gives."""
        said = self._json("GET", "/info")
        return read_told(said, self._url)

    def ask(self, question: Question) -> np.ndarray:
        """Send an observation and return the actions of the answer."""
        said = self._json("POST", "/chunk", json=question_document(question))
        try:
            return np.array(said["actions"], np.float64)
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise SpecError(
                f"answer of {self._url}/chunk has no table of numbers under 'actions' ({error!r}), must have a row for "
                "each step; see docs/base-policies.md"
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _json(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        url = self._url + path
        deadline_s = time.monotonic() + self._timeout_s
        try:
            with self._client.stream(method, url, **content) as reply:
                coding = reply.headers.get("Content-Encoding", "identity")
                if coding.lower() != "identity":
                    raise SpecError(f"answer of {url} is compressed by {coding[:40]!r}, must not be; switch it off")
                body = b""
                for piece in reply.iter_raw():
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise SpecError(f"answer of {url} is longer than {MOST_BYTES} bytes, must be one chunk")
                    if time.monotonic() > deadline_s:  # one that drips keeps every single read short
                        raise RobotError(f"answer of {url} is not whole after {self._timeout_s:g} s; see its log")
                status = reply.status_code
        except self._httpx.HTTPError as error:
            raise RobotError(f"base at {url} does not answer ({error!r}), must; is its server running?") from error
        told = body.decode(errors="replace")
        if status == self._httpx.codes.SERVICE_UNAVAILABLE:
            raise RobotError(f"base at {url} is not ready ({told[:200]}), must be; wait, or see its log")
        if status != self._httpx.codes.OK:
            raise SpecError(f"base at {url} answers with status {status}, must be 200: {told[:200]}")
        try:
            said = self._httpx.Response(200, content=body).json()
        except (ValueError, RecursionError) as error:
            raise SpecError(f"answer of {url} is {told[:80]!r}, must be JSON; is that the base's server?") from error
        if not isinstance(said, dict):
            raise SpecError(f"answer of {url} is {told[:80]!r}, must be a JSON object; see docs/base-policies.md")
        return said


def question_document(question: Question) -> dict[str, Any]:
    """Return a question as the body of a request: pixels row by row as base64, numbers as they are."""
    images = {
        name: {"shape": list(image.shape), "rgb": base64.b64encode(image.tobytes()).decode()}
        for name, image in question.images.items()
    }
    asked = {"images": images, "state": question.state.astype(float).tolist(), "text": question.text}
    return asked if question.noise is None else {**asked, "noise": question.noise.astype(float).tolist()}


def read_told(said: dict[str, Any], url: str) -> Told:
    """Read what a server says of itself; what it leaves out is not known.

    Raises:
        SpecError: If something is of another type.
    """
    kinds = {"name": str, "cameras": list, "state": int, "actions": int, "rate_hz": int | float, "noise": int}
    for key, kind in kinds.items():
        value = said.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise SpecError(f"{key} that {url}/info says is {str(value)[:80]!r}, must be {kind}; correct the server")
    cameras = said.get("cameras")
    return Told(
        name=said.get("name") or url,
        cameras=None if cameras is None else frozenset(map(str, cameras)),
        state=said.get("state"),
        actions=said.get("actions"),
        rate_hz=said.get("rate_hz"),
        noise=said.get("noise"),
    )
