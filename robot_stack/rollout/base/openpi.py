"""A base policy behind openpi's websocket server.

Source: Physical-Intelligence/openpi, packages/openpi-client: MessagePack over one websocket; the server speaks first
and says its metadata, then answers each observation with a mapping that has `actions`, or with a text, which is its
error. Arrays are maps of dtype, shape and bytes.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any

import numpy as np

from robot_stack.config.base import OpenpiBase
from robot_stack.rollout.base.connection import needed
from robot_stack.rollout.base.http import MOST_BYTES
from robot_stack.rollout.base.mapping import Question, Told
from robot_stack.types.errors import RobotError, SpecError

ARRAY, SCALAR = b"__ndarray__", b"__npgeneric__"
UNREADABLE = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
PLAIN = "biuf"
"""Kinds of numbers that may come in; never objects, which numpy would unpickle."""


class OpenpiConnection:
    """A connection to a server of openpi; implements `Connection`. It cannot say what it wants: the first answer shows.

    Args:
        config: Address and keys.
    """

    def __init__(self, config: OpenpiBase) -> None:
        self._config = config
        self._msgpack = needed("msgpack")
        self._client = needed("websockets.sync.client")
        self._errors = (needed("websockets.exceptions").WebSocketException, OSError, TimeoutError)
        self._socket: Any = None

    def open(self) -> Told:
        """Connect, and wait for the server's metadata."""
        self.close()
        timeout_s = self._config.timeout_s
        try:
            self._socket = self._client.connect(
                self._config.url, compression=None, max_size=MOST_BYTES, open_timeout=timeout_s, proxy=None
            )
            # its own `send` waits without a bound for a server that has stopped reading
            longest = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
            self._socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, longest)
        except self._errors as error:
            raise self._silent(error) from error
        self._receive()
        return Told(name=self._config.url)

    def ask(self, question: Question) -> np.ndarray:
        """Send an observation and return the actions of the answer."""
        if self._socket is None:
            self.open()
        shown = {
            **question.images,
            self._config.state_key: question.state,
            self._config.text_key: question.text,
        }
        try:
            self._socket.send(self._msgpack.packb(shown, default=packed))
        except self._errors as error:
            raise self._silent(error) from error
        said = self._receive()
        found = said.get("actions", said.get(b"actions")) if isinstance(said, dict) else None
        if not isinstance(found, np.ndarray):
            raise SpecError(f"answer of {self._config.url} has no array under 'actions', must have; is it openpi's?")
        return found

    def close(self) -> None:
        """Cut the connection, also while another thread sends on it; the server's farewell is not waited for."""
        opened, self._socket = self._socket, None
        if opened is not None:
            with suppress(OSError):  # the server was quicker
                opened.socket.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _receive(self) -> Any:
        try:
            said = self._socket.recv(timeout=self._config.timeout_s)
        except self._errors as error:
            self.close()  # a late answer would be taken for that to the next question
            raise self._silent(error) from error
        if isinstance(said, str):
            raise SpecError(f"base at {self._config.url} refuses: {' '.join(said.split())[-300:]}")
        try:
            return self._msgpack.unpackb(said, object_hook=unpacked)
        except (*UNREADABLE, self._msgpack.UnpackException) as error:
            raise SpecError(f"answer of {self._config.url} is no MessagePack ({error!r}); is it openpi's?") from error

    def _silent(self, error: Exception) -> RobotError:
        return RobotError(f"base at {self._config.url} does not answer ({error!r}), must; is its server running?")


def packed(value: Any) -> Any:
    """Return an array as a map that MessagePack can carry."""
    if isinstance(value, np.ndarray):
        whole = np.ascontiguousarray(value)
        return {ARRAY: True, b"data": whole.tobytes(), b"dtype": whole.dtype.str, b"shape": whole.shape}
    raise TypeError(f"{type(value)} cannot be sent to a base")


def unpacked(value: dict[Any, Any]) -> Any:
    """Return the array or number of a map that stands for one; other maps stay.

    Raises:
        ValueError: If it is not of plain numbers.
    """
    if ARRAY not in value and SCALAR not in value:
        return value
    dtype = np.dtype(value[b"dtype"])
    if dtype.kind not in PLAIN:
        raise ValueError(f"array is of {dtype}, must be of plain numbers")
    if SCALAR in value:
        return dtype.type(value[b"data"])
    return np.frombuffer(value[b"data"], dtype).reshape(value[b"shape"])
