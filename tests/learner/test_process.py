"""A learner of which a thread fails does not go on without what the thread did."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, threading, types
from robot_stack.learner import process

__name__ = "robot_stack.of_the_test"

class Training:
    finished_s = float("inf")
    def __init__(self, *_, **__): pass
    def serve(self, address): pass
    def close(self): print("closed", flush=True)
    def run(self, stop):
        if {fails}:
            threading.Thread(target=lambda: 1 / 0, daemon=True).start()
        else:
            stop.set()
        assert stop.wait(20)

process.Training = Training
process.join = lambda: types.SimpleNamespace(index=0)
process.load_resolved = lambda _: types.SimpleNamespace(cell=types.SimpleNamespace(learner_address="127.0.0.1:0"))
sys.exit(process.main(["--run", "run.yaml"]))
"""


def outcome(*, fails: bool) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", CODE.format(fails=fails)]
    return subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)


def test_a_learner_of_which_a_thread_fails_closes_and_leaves_as_failed():
    ended = outcome(fails=True)
    assert (ended.returncode, ended.stdout) == (1, "closed\n"), ended.stderr
    assert "ZeroDivisionError" in ended.stderr


def test_a_learner_that_is_stopped_has_not_failed():
    ended = outcome(fails=False)
    assert (ended.returncode, ended.stdout) == (0, "closed\n"), ended.stderr
