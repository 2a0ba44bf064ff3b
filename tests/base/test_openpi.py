"""Openpi's own bytes over a real websocket: what its client sends we send, what its server answers we understand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.config.base import OpenpiBase
from robot_stack.rollout.base.mapping import Question
from robot_stack.rollout.base.openpi import OpenpiConnection
from robot_stack.types.errors import RobotError, SpecError
from tests.base.small_base import section

msgpack = pytest.importorskip("msgpack")
sync_server = pytest.importorskip("websockets.sync.server")
ServerProtocol = pytest.importorskip("websockets.server").ServerProtocol

THEIRS = Path(__file__).with_name("openpi")
METADATA, ANSWER, ASKED = ((THEIRS / f"{name}.msgpack").read_bytes() for name in ("metadata", "answer", "question"))
QUESTION = Question(
    images={"observation/image": np.arange(48, dtype=np.uint8).reshape(4, 4, 3)},
    state=np.array([0.5, -1.0], np.float32),
    text="insert the peg",
)


@contextmanager
def server(answer: Callable[[Any, bytes], None], first: bytes | str = METADATA) -> Iterator[tuple[str, list[bytes]]]:
    """A websocket server that says `first`, then answers each message; yields its address and what it was sent."""
    got: list[bytes] = []

    def handle(client: Any) -> None:
        client.send(first)
        for message in client:
            got.append(message)
            answer(client, message)

    with sync_server.serve(handle, "127.0.0.1", 0, compression=None) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{listening.socket.getsockname()[1]}", got
        listening.shutdown()
        thread.join(5)


@contextmanager
def deaf() -> Iterator[str]:
    """A server that says its metadata and reads nothing from then on; yields its address."""
    done = threading.Event()

    def serve(listening: socket.socket) -> None:
        with listening.accept()[0] as taken:
            protocol = ServerProtocol()
            while not (asked := list(protocol.events_received())):
                protocol.receive_data(taken.recv(4096))
            protocol.send_response(protocol.accept(asked[0]))
            protocol.send_binary(METADATA)
            taken.sendall(b"".join(protocol.data_to_send()))
            done.wait(60)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}"
        done.set()
        thread.join(5)


def connection(url: str, **change: Any) -> OpenpiConnection:
    base = section(kind="openpi", url=url, **change)
    assert isinstance(base, OpenpiBase)
    return OpenpiConnection(base)


def test_a_question_is_byte_for_byte_that_of_openpis_client() -> None:
    with server(lambda client, _: client.send(ANSWER)) as (url, got):
        talk = connection(url)
        talk.open()
        found = talk.ask(QUESTION)
        talk.close()
    assert got == [ASKED]
    theirs = np.arange(80, dtype=np.float32).reshape(20, 4) / 100 - np.float32(0.4)
    np.testing.assert_array_equal(found, theirs)


def test_its_error_comes_as_a_text_and_the_next_question_is_asked_all_the_same() -> None:
    answers: list[bytes | str] = ["Traceback ...\nKeyError: 'observation/wrist_image'", ANSWER]
    with server(lambda client, _: client.send(answers.pop(0))) as (url, _got):
        talk = connection(url)
        with pytest.raises(SpecError, match=r"refuses: .*KeyError: 'observation/wrist_image'"):
            talk.ask(QUESTION)
        assert talk.ask(QUESTION).shape == (20, 4)
        talk.close()


OBJECTS = msgpack.packb({"actions": {b"__ndarray__": True, b"data": b"", b"dtype": "|O", b"shape": (0,)}})
HALF = msgpack.packb({"actions": {b"__ndarray__": True, b"data": b"123", b"dtype": "<f4", b"shape": (2, 4)}})
STRANGE = msgpack.packb({"actions": {b"__ndarray__": True, b"data": b"", b"dtype": "<f99", b"shape": (0,)}})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "no MessagePack"),
        (b"\xc1", "no MessagePack"),
        (ANSWER[:-9], "no MessagePack"),
        (ANSWER + b"\x00", "no MessagePack"),
        (OBJECTS, "must be of plain numbers"),
        (HALF, "no MessagePack"),
        (STRANGE, "no MessagePack"),
        (msgpack.packb({"actions": {b"__ndarray__": True}}), "no MessagePack"),
        (msgpack.packb([1, 2]), "no array under 'actions'"),
        (msgpack.packb({"action": 1.0}), "no array under 'actions'"),
        (msgpack.packb({"actions": [[1.0]]}), "no array under 'actions'"),
    ],
)
def test_an_answer_that_is_none_is_refused_in_words(answer: bytes, said: str) -> None:
    with server(lambda client, _: client.send(answer)) as (url, _got):
        talk = connection(url)
        with pytest.raises(SpecError, match=said):
            talk.ask(QUESTION)
        talk.close()


def test_a_late_answer_is_not_taken_for_that_to_the_next_question() -> None:
    asked, late = [0], threading.Event()
    other = msgpack.packb({"actions": {b"__ndarray__": True, b"data": b"", b"dtype": "<f4", b"shape": (0, 4)}})

    def answer(client: Any, message: bytes) -> None:
        asked[0] += 1
        if asked[0] == 1:
            late.wait(5)
            with suppress(Exception):  # the client has left, as it should
                client.send(other)
        else:
            client.send(ANSWER)

    with server(answer) as (url, _got):
        talk = connection(url)
        talk.open()
        with pytest.raises(RobotError, match="does not answer"):
            talk.ask(QUESTION)
        late.set()
        assert talk.ask(QUESTION).shape == (20, 4)
        talk.close()


def test_a_server_that_ends_is_named() -> None:
    with server(lambda client, _: client.close()) as (url, _got):
        talk = connection(url)
        talk.open()
        with pytest.raises(RobotError, match="does not answer"):
            talk.ask(QUESTION)
        talk.close()
    with pytest.raises(RobotError, match=rf"base at {url} does not answer .* is its server running"):
        connection(url).open()


def test_what_is_no_server_of_openpi_is_refused_at_the_start() -> None:
    with server(lambda client, _: None, first="hello") as (url, _got), pytest.raises(SpecError, match="refuses: hello"):
        connection(url).open()


LARGE = replace(QUESTION, images={"observation/image": np.zeros((2000, 2000, 3), np.uint8)})


def asking(talk: OpenpiConnection) -> tuple[threading.Thread, list[Exception]]:
    """Ask a question that no buffer on the way holds, in a thread of its own; with what that raises."""
    raised: list[Exception] = []

    def ask() -> None:
        try:
            talk.ask(LARGE)
        except RobotError as error:
            raised.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread, raised


def test_a_server_that_stops_reading_is_given_up_in_time() -> None:
    with deaf() as url:
        talk = connection(url, timeout_s=0.5)
        talk.open()
        thread, raised = asking(talk)
        thread.join(10)
        assert not thread.is_alive()
        assert "does not answer" in str(raised[0])
        talk.close()


def test_closing_does_not_wait_for_a_question_that_is_on_its_way() -> None:
    with deaf() as url:
        talk = connection(url, timeout_s=30.0)
        talk.open()
        thread, raised = asking(talk)
        thread.join(0.5)
        assert thread.is_alive()
        closing = threading.Thread(target=talk.close, daemon=True)
        closing.start()
        closing.join(5)
        thread.join(5)
        assert not closing.is_alive()
        assert not thread.is_alive()
        assert "does not answer" in str(raised[0])
