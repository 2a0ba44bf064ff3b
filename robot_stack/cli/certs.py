"""`robot-stack certs FOLDER`: keys for a learner link that leaves this machine."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from robot_stack.transport.access.certificates import LOOPBACK, make_set

PORT = 50051


def run(folder: Path, hosts: Sequence[str] = ()) -> int:
    """Make a set of keys and print where each part goes; returns the exit code."""
    folder = folder.expanduser().absolute()
    named = [*hosts] if hosts else [socket.gethostname()]
    until = make_set(folder, named, datetime.now(UTC))
    said = _short(folder)
    print(f"{folder}: learner/ and actor/, valid until {until:%Y-%m-%d} for {', '.join((*named, *LOOPBACK))}")
    print("In the cell's file, on the machine of the learner and on that of the robot:")
    print(f"    learner_address: {_address(named[0])}")
    print(f"    learner_certs: {said}")
    print("The learner's machine keeps learner/. Each robot's machine gets actor/, under the same path:")
    print(f"    ssh ROBOT {quote(f'mkdir -p -m 700 {_typed(said)}')}")
    print(f"Next: scp -rp {_typed(f'{said}/actor')} ROBOT:{_typed(f'{said}/')}")
    return 0


def _address(host: str) -> str:
    """Return host:port as YAML: an IPv6 address goes in brackets, and so in quotes."""
    return f'"[{host}]:{PORT}"' if ":" in host else f"{host}:{PORT}"


def _typed(short: str) -> str:
    """Return a folder as a shell takes it: its ~ stays outside the quotes."""
    home, tilde, rest = short.rpartition("~/")
    return f"{tilde}{quote(rest)}" if not home else quote(short)


def _short(folder: Path) -> str:
    """Return a folder with ~ for the home, which means the right folder on both machines."""
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) and folder != home else str(folder)
