"""The page's address is told when the console says it, and not before."""

from __future__ import annotations

import os

from robot_stack.cli.supervise import PageAddress
from robot_stack.console.access import ADDRESS_FILE, write_address


def test_an_address_of_an_earlier_start_is_not_told_and_a_new_one_once(tmp_path):
    path = tmp_path / ADDRESS_FILE
    write_address(path, "http://127.0.0.1:1/")
    os.utime(path, (1.0, 1.0))
    said: list[str] = []
    address = PageAddress(tmp_path, said.append)
    address.look()
    assert said == []
    write_address(path, "http://127.0.0.1:8642/")
    os.utime(path, (2e9, 2e9))
    address.look()
    address.look()
    assert said == ["page: http://127.0.0.1:8642/"]
    write_address(path, "http://127.0.0.1:8643/")
    os.utime(path, (2e9, 2e9))
    address.look()
    assert said[-1] == "page: http://127.0.0.1:8643/"


def test_without_a_console_nothing_is_told(tmp_path):
    said: list[str] = []
    PageAddress(tmp_path, said.append).look()
    assert said == []
