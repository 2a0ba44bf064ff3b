"""`robot-stack completion SHELL`: prints what lets a shell complete verbs and options."""

from __future__ import annotations

import shtab

from robot_stack.cli.main import parser


def run(shell: str) -> int:
    """Print the completion of a shell, to be sourced; returns the exit code."""
    print(shtab.complete(parser(), shell))
    return 0
