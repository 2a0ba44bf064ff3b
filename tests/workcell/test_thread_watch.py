"""A process of which a thread fails ends as on a SIGTERM, and is known to have failed."""

from __future__ import annotations

import subprocess
import sys

PROCESS = """
import signal, sys, threading
from robot_stack.workcell.thread_watch import ThreadWatch

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
watch = ThreadWatch()

__name__ = {module!r}

def work():
    if {fails}:
        raise ValueError("a verdict that nobody could have foreseen")

thread = threading.Thread(target=work, daemon=True)
thread.start()
thread.join()
stopped = stop.wait({wait_s})
print("stopped", stopped, "failure", repr(watch.failure))
"""


def outcome(*, fails: bool, module: str = "robot_stack.console.forwarder") -> subprocess.CompletedProcess[str]:
    ends = fails and module.startswith("robot_stack")
    code = PROCESS.format(fails=fails, module=module, wait_s=20 if ends else 0.2)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)


def test_a_thread_that_fails_ends_the_process_and_says_with_what():
    ended = outcome(fails=True)
    assert ended.stdout.split(" failure ")[0] == "stopped True"
    assert "ValueError('a verdict that nobody could have foreseen')" in ended.stdout
    assert "Traceback" in ended.stderr  # the log has where


def test_threads_that_end_by_themselves_end_nothing():
    ended = outcome(fails=False)
    assert ended.stdout.strip() == "stopped False failure None"


def test_a_thread_of_a_library_is_the_librarys_business():
    ended = outcome(fails=True, module="wandb.sdk.interface")
    assert ended.stdout.strip() == "stopped False failure None"
    assert "Traceback" in ended.stderr
