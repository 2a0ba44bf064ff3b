"""When the learner's process ends: as soon as it is done and its actors have left, when told to, or as failed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from robot_stack.types.errors import MISCONFIGURED, UNPREPARED

pytestmark = pytest.mark.long

CODE = """
import sys, threading, time, types
from robot_stack.learner import process
from robot_stack.transport.roster import Roster
from robot_stack.types.errors import ResumeError, StoreError

FAILURES = dict(
    cannot_resume=(False, ResumeError("no")), fails_before=(False, StoreError("no")),
    crashes_before=(False, KeyError("no")), fails_then=(True, StoreError("no")),
)
__name__ = "robot_stack.of_the_test"

class Training:
    finished_s = float("inf")
    has_trained = False
    def __init__(self, *_, **__):
        self.backend = types.SimpleNamespace(roster=process_roster())
    def serve(self, address): pass
    def close(self): print("closed", flush=True)
    def run(self, stop):
        if "{how}" == "done":
            self.finished_s = time.monotonic()
            return
        if "{how}" == "fails":
            threading.Thread(target=lambda: 1 / 0, daemon=True).start()
        elif "{how}" in FAILURES:
            self.has_trained, error = FAILURES["{how}"]
            raise error
        else:
            stop.set()
        assert stop.wait(20)

def process_roster():
    roster = Roster()
    def act():
        with roster.stream("a", "life", "here") as record:
            time.sleep({actor_s})
            record.left = {left}
            print("actor left", flush=True)
    if {actor_s}:
        threading.Thread(target=act, daemon=True).start()
    return roster

process.Training = Training
process.DESERTED_S, process.LEAVE_S = 0.3, 3.0
process.join = lambda: types.SimpleNamespace(index=0)
process.load_resolved = lambda _: types.SimpleNamespace(
    cell=types.SimpleNamespace(learner_address="127.0.0.1:0"),
    task=types.SimpleNamespace(episode_steps=5), run=types.SimpleNamespace(rate_hz=10),
)
began_s = time.monotonic()
__import__("atexit").register(lambda: print(time.monotonic() - began_s, flush=True))
sys.exit(process.main(["--run", "run.yaml"]))
"""


def outcome(how: str, actor_s: float = 0.0, *, left: bool = True) -> tuple[int, list[str], float, str]:
    """Exit code, what it printed, the seconds it took without its imports, and its errors."""
    words = [sys.executable, "-c", CODE.format(how=how, actor_s=actor_s, left=left)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    *printed, took_s = ended.stdout.splitlines()
    return ended.returncode, printed, float(took_s), ended.stderr


def test_a_learner_of_which_a_thread_fails_closes_and_leaves_as_failed():
    code, printed, _, said = outcome("fails")
    assert (code, printed) == (1, ["closed"]), said
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("cannot_resume", MISCONFIGURED), ("fails_before", UNPREPARED), ("crashes_before", UNPREPARED), ("fails_then", 1)],
)
def test_how_a_learner_fails_is_told_by_its_exit_code(how: str, wanted: int):
    code, printed, _, said = outcome(how)
    assert (code, printed) == (wanted, ["closed"]), said


def test_a_learner_that_is_stopped_has_not_failed():
    code, printed, _, said = outcome("is stopped")
    assert (code, printed) == (0, ["closed"]), said


def test_a_learner_that_is_done_waits_for_its_actors_and_no_longer():
    code, printed, took_s, said = outcome("done", actor_s=1.5)
    assert (code, printed) == (0, ["actor left", "closed"]), said
    assert took_s < 3.5, "it waited for what nobody is there to ask"


def test_a_learner_that_is_done_waits_for_an_actor_that_was_cut_off():
    code, printed, took_s, said = outcome("done", actor_s=0.5, left=False)
    assert (code, printed) == (0, ["actor left", "closed"]), said
    assert took_s >= 4.0


def test_a_learner_that_is_done_and_never_had_an_actor_answers_as_long_as_one_may_take():
    code, printed, took_s, said = outcome("done")
    assert (code, printed) == (0, ["closed"]), said
    assert took_s >= 4.0
