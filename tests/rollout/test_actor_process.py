"""An actor's exit code says why it ended: done, stopped, refused, misconfigured, or short of a thread."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from robot_stack.rollout import actor_process
from robot_stack.rollout.actor_process import deliver_and_close

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


@pytest.mark.long
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


class Client:
    """A client of a learner that has everything by the question of that number; never where that is 0."""

    def __init__(self, taken_at: int, refusal: str = "") -> None:
        self._taken_at, self.refusal = taken_at, refusal
        self.asked, self.closed = 0, False

    def wait_acked(self, timeout_s: float) -> bool:
        self.asked += 1
        return 0 < self._taken_at <= self.asked

    def close(self) -> bool:
        self.closed = True
        return self.wait_acked(5.0)


def test_a_busy_learner_is_waited_for_until_it_has_all_that_was_recorded(capsys) -> None:
    client = Client(taken_at=60)
    deliver_and_close(client, threading.Event())
    assert client.closed
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("ends", ["signal", "refusal", "time"])
def test_what_stays_in_the_spool_is_said(ends: str, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, client = threading.Event(), Client(taken_at=0, refusal="another run" if ends == "refusal" else "")
    if ends == "signal":
        stop.set()
    if ends == "time":
        monkeypatch.setattr(actor_process, "DELIVER_S", 0.05)
    deliver_and_close(client, stop)
    assert client.closed
    assert "the rest is in the spool, start the actor again to send it" in capsys.readouterr().err
