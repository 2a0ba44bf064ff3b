"""An actor's exit code says why it ended: done, stopped, refused, misconfigured, or short of a thread."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import os, signal, sys, threading
from robot_stack.rollout.actor_process import run_until_stopped
from robot_stack.types.errors import ConfigError, RobotError

__name__ = "robot_stack.of_the_test"

def done(stop):
    return ""

def refused(stop):
    return "learner has other params"

def stopped(stop):
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.wait(20)
    return "learner is away"

def loses_a_thread(stop):
    threading.Thread(target=lambda: [][0], daemon=True).start()
    assert stop.wait(20)
    return ""

def misconfigured(stop):
    raise ConfigError("key is missing")

def broken(stop):
    raise RobotError("arm is silent")

def defect(stop):
    raise IndexError("nobody foresaw this")

sys.exit(run_until_stopped({work}))
"""


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        ("done", 0, ""),
        ("stopped", 0, "actor: learner is away"),
        ("refused", 1, "actor: learner has other params"),
        ("loses_a_thread", 1, "IndexError"),
        ("misconfigured", 2, "actor: key is missing"),
        ("broken", 1, "actor: arm is silent"),
        ("defect", 1, "nobody foresaw this"),
    ],
)
def test_exit_code_says_why_it_ended(work: str, code: int, said: str) -> None:
    words = [sys.executable, "-c", CODE.format(work=work)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr
