"""Who may open the page."""

from __future__ import annotations

import pytest

from robot_stack.console.access import (
    Gate,
    is_local,
    read_port,
    split_address,
    write_address,
)
from robot_stack.types.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "host", "port", "local"),
    [
        ("127.0.0.1:8642", "127.0.0.1", 8642, True), ("localhost:1", "localhost", 1, True),
        ("[::1]:8642", "::1", 8642, True), ("0.0.0.0:80", "0.0.0.0", 80, False),
        ("robot-pc:8642", "robot-pc", 8642, False), ("192.0.2.7:8642", "192.0.2.7", 8642, False),
    ],
)  # fmt: skip
def test_an_address_is_of_this_machine_or_beyond_it(address, host, port, local):
    assert split_address(address) == (host, port)
    assert is_local(host) == local


@pytest.mark.parametrize("address", ["", "127.0.0.1", ":80", "host:port", "host:70000"])
def test_a_broken_address_is_told(address):
    with pytest.raises(ConfigError, match="must be host:port"):
        split_address(address)


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("127.0.0.1:8642", True), ("localhost:8642", True), ("[::1]:8642", True),
        ("localhost:9000", True), ("127.0.0.1:9000", True), ("localhost", True), ("127.0.0.2:8642", True),
        ("evil.example:8642", False), ("localhost.evil.example:8642", False), ("127.0.0.1.evil.example", False),
        ("192.0.2.7:8642", False), ("0.0.0.0:8642", False), ("", False), (":8642", False), ("[::1", False),
    ],
)  # fmt: skip
def test_without_a_token_only_this_machines_own_names_are_answered(host, answered):
    assert (Gate("").refuse_host(host) == "") == answered
    assert Gate("t" * 20).refuse_host(host) == ""


@pytest.mark.parametrize(
    ("origin", "let_in"),
    [(None, True), ("http://127.0.0.1:8642", True), ("http://evil.example", False), ("null", False)],
)
def test_another_page_of_the_browser_may_not_connect(origin, let_in):
    assert (Gate("").refuse_origin(origin, "127.0.0.1:8642") == "") == let_in


def test_a_token_must_be_the_one():
    gate = Gate("right-token-of-enough-length")
    assert gate.refuse_token("right-token-of-enough-length") == ""
    assert "token is wrong" in gate.refuse_token("wröng")
    assert "token is missing" in gate.refuse_token("")
    assert Gate("").refuse_token("") == ""


def test_the_next_start_finds_the_port_of_the_last_one(tmp_path):
    path = tmp_path / "console.url"
    assert read_port(path) == 0
    write_address(path, "http://127.0.0.1:8642/#secret")
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_port(path) == 8642
    path.write_text("nonsense")
    assert read_port(path) == 0
