"""Connections that say nothing, or not enough: they are closed, and keep nobody out."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
pytest.importorskip("websockets", reason="no WebSockets on this machine: pip install 'robot-stack[console]'")

from websockets.frames import Frame, Opcode

from robot_stack.console import connections
from tests.console.page_rig import FakeCell, hello, served
from tests.console.test_page_server import get, port_of, tab

WAIT_S = 10.0
HALF = b"GET / HTTP/1.1\r\nX-Long: "


@contextmanager
def opened(url: str, said: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port_of(url)), WAIT_S) as connection:
        connection.sendall(said)
        yield connection


def request(url: str) -> bytes:
    return f"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1:{port_of(url)}\r\n\r\n".encode()


def upgrade(url: str) -> bytes:
    """What asks for a page's WebSocket, from anybody."""
    lines = [
        "GET /ws HTTP/1.1", f"Host: 127.0.0.1:{port_of(url)}", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ]  # fmt: skip
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def is_closed(connection: socket.socket) -> bool:
    """Read whatever comes until the server closes."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def is_sent(connection: socket.socket, said: bytes) -> bool:
    """Send a little after a while."""
    time.sleep(0.05)
    try:
        connection.sendall(said)
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("said", [b"", HALF])
def test_a_connection_without_a_whole_request_head_is_closed(url, monkeypatch, said):
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with opened(url, said) as connection:
        connection.settimeout(3.0)
        assert is_closed(connection)


def test_a_head_that_comes_byte_by_byte_after_an_answer_gets_no_more_time(url, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    with opened(url, request(url)) as connection:
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        assert any(not is_sent(connection, b"X") for _ in range(60))


def test_an_open_page_is_no_silent_connection(url, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with tab(url) as page:
        time.sleep(0.5)
        page.shows(lambda now: now["pages"] == 1, "a state after that")


def test_a_page_that_says_no_hello_is_closed(url, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with opened(url, upgrade(url)) as connection:
        connection.settimeout(3.0)
        assert is_closed(connection)


@pytest.mark.parametrize(
    "greeting",
    [b"", Frame(Opcode.TEXT, hello(token="wrong").encode()).serialize(mask=True)],
    ids=["no hello", "a wrong token"],
)
def test_pages_that_are_not_let_in_keep_no_page_out(run, tmp_path, monkeypatch, greeting):
    """They say no hello, or one that is refused, and never answer the server's good-bye."""
    monkeypatch.setattr(connections, "HEAD_S", 60.0)
    monkeypatch.setattr(connections, "MAX_SILENT", 8)
    with served(FakeCell(run, tmp_path), token="right") as url, ExitStack() as crowd:
        first = crowd.enter_context(opened(url, upgrade(url) + greeting))
        assert first.recv(12) == b"HTTP/1.1 101"
        for _ in range(30):
            crowd.enter_context(opened(url, upgrade(url) + greeting))
        first.settimeout(3.0)
        assert is_closed(first)
        with tab(url, token="right") as page:
            page.until(lambda message: message["k"] == "welcome", "a welcome")
            assert get(url)[0] == 200


def test_silent_connections_keep_no_page_out_and_are_logged_once(url, monkeypatch, caplog):
    monkeypatch.setattr(connections, "MAX_SILENT", 8)
    with ExitStack() as crowd, caplog.at_level(logging.WARNING):
        first = crowd.enter_context(opened(url))
        for _ in range(30):
            crowd.enter_context(opened(url))
        assert is_closed(first)
        with tab(url) as page:
            page.until(lambda message: message["k"] == "welcome", "a welcome")
            assert get(url)[0] == 200
    assert [record.getMessage() for record in caplog.records] == [
        "8 connections are silent, must be at most that; cut off those silent for longest, 1 so far"
    ]
