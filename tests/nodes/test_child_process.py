"""What a launcher that prepares nothing starts: it dies with the launcher, at its own priority."""

from __future__ import annotations

import errno
import os
import platform
import signal
import subprocess
import sys

import pytest

from robot_stack.processes.child import SCHED_SETATTR, SLICE_NS, take_priority, wrapped
from tests.nodes.cell_rig import wait_until

SAY_PID_AND_NICE = "import os, time; print(os.getpid(), os.nice(0), flush=True); time.sleep(60)"
LAUNCHER = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); p.wait()"


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_launcher_takes_its_children_with_it():
    child = wrapped((sys.executable, "-c", SAY_PID_AND_NICE), python=sys.executable, nice=3, realtime=0)
    with subprocess.Popen([sys.executable, "-c", LAUNCHER, *child], stdout=subprocess.PIPE) as launcher:
        try:
            pid, nice = (int(word) for word in launcher.stdout.readline().split())
            assert nice == min(19, os.nice(0) + 3)
            assert alive(pid)
            launcher.send_signal(signal.SIGKILL)
            wait_until(lambda: not alive(pid), 5, "the child's end")
        finally:
            launcher.kill()


def test_the_program_takes_the_place_of_the_wrapper():
    child = wrapped((sys.executable, "-c", "import sys; sys.exit(7)"), python=sys.executable, nice=0, realtime=0)
    assert subprocess.run(child, check=False, timeout=240).returncode == 7


ASK = """
import ctypes, os, struct
from robot_stack.processes.child import LIBC, SCHED_SETATTR, take_priority
os.setuid(65534) if os.getuid() == 0 else None
take_priority(0, 2)
room = ctypes.create_string_buffer(56)
LIBC.syscall(SCHED_SETATTR[os.uname().machine] + 1, 0, room, 56, 0)
print(os.sched_getscheduler(0) == os.SCHED_OTHER, struct.unpack_from("IIQiIQ", room)[5])
"""


@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL, errno.ENOSYS])
def test_a_kernel_without_real_time_priorities_starts_a_process_all_the_same(monkeypatch, number):
    """gVisor knows one scheduler, and answers EINVAL to any other."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    asked: list[bool] = []
    monkeypatch.setattr(os, "nice", refuse)
    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr("robot_stack.processes.child.ask_for_short_turns", lambda: asked.append(True))
    take_priority(-5, 2)
    assert asked == [True]


@pytest.mark.skipif(platform.machine() not in SCHED_SETATTR, reason="no number of the system call is known here")
def test_who_may_not_go_first_asks_for_short_turns():
    said = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, timeout=240).stdout
    ordinary, slice_ns = said.split()
    if ordinary == "False":
        pytest.skip("every user may take a priority here")
    if int(slice_ns) == 0:
        pytest.skip("this kernel knows no slices")
    assert int(slice_ns) == SLICE_NS
