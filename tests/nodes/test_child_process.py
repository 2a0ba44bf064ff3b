"""What a launcher that prepares nothing starts: it dies with the launcher, at its own priority."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from cell_rig import wait_until

from robot_stack.nodes.child import wrapped

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
    assert subprocess.run(child, check=False, timeout=20).returncode == 7
