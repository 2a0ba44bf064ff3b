"""Order, restarts, ends and kills, with processes that are shell one-liners."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import MAX_RAPID_FAILURES, After, ProcessSpec, Restarts
from robot_stack.types.errors import MISCONFIGURED, UNPREPARED
from tests.nodes.cell_rig import wait_until


def row(name: str, script: str, **fields) -> ProcessSpec:
    return ProcessSpec(name=name, argv=("/bin/sh", "-c", script), **fields)


@pytest.fixture
def supervise(tmp_path):
    started = []

    def start(*rows: ProcessSpec, said: list[str] | None = None) -> Supervisor:
        say = said.append if said is not None else lambda text: None
        supervisor = Supervisor(rows, environment=dict(os.environ), log_folder=tmp_path / "log", say=say)
        started.append(supervisor)
        supervisor.start()
        return supervisor

    yield start
    for supervisor in started:
        supervisor.stop()


def test_the_failure_of_a_required_process_ends_the_run_and_names_its_log(supervise):
    supervisor = supervise(row("robot", "exit 3", required=True), row("teleop", "sleep 60"))
    assert supervisor.run(timeout_s=10) == 1
    assert "robot ended with exit code 3" in supervisor.ending
    assert "robot.log" in supervisor.ending


def test_the_failure_of_what_holds_the_robot_has_an_exit_code_of_its_own(supervise):
    supervisor = supervise(row("safety", "exit 1", required=True, stop_last=True), row("teleop", "sleep 60"))
    assert supervisor.run(timeout_s=10) == 3


def test_the_clean_end_of_a_required_process_is_success(supervise):
    assert supervise(row("actor", "exit 0", required=True, respawn=True)).run(timeout_s=10) == 0


def test_a_respawned_process_comes_back(supervise):
    supervisor = supervise(row("camera", "sleep 60", respawn=True))
    os.kill(supervisor.pid("camera"), signal.SIGKILL)
    wait_until(lambda: supervisor.step() or supervisor.restarts("camera") == 1, 5, "restart")
    assert supervisor.alive() == ("camera",)
    assert supervisor.ending is None


def test_a_real_time_signal_ends_a_process_and_not_the_run(supervise):
    said: list[str] = []
    number = signal.SIGRTMIN + 1
    supervisor = supervise(row("camera", f"kill -{number} $$", respawn=True), said=said)
    wait_until(lambda: supervisor.step() or supervisor.restarts("camera") == 1, 5, "restart")
    assert said == [f"camera ended by signal {number}; starting it again (log: camera.log)"]


def test_a_process_that_always_fails_is_given_up(supervise, monkeypatch):
    monkeypatch.setattr("robot_stack.processes.supervisor.RESPAWN_DELAY_S", 0.0)
    supervisor = supervise(row("camera", "exit 1", respawn=True))
    assert supervisor.run(timeout_s=20) == 1
    assert supervisor.restarts("camera") == MAX_RAPID_FAILURES - 1


def test_a_window_that_fails_again_and_again_is_given_up_and_the_run_goes_on(supervise, monkeypatch):
    monkeypatch.setattr("robot_stack.processes.supervisor.RESPAWN_DELAY_S", 0.0)
    said: list[str] = []
    supervisor = supervise(row("console", "exit 1", respawn=True, window=True), said=said)
    wait_until(lambda: supervisor.step() or len(said) == MAX_RAPID_FAILURES, 20, "the last try")
    assert said[-1] == "console ended with exit code 1"
    assert supervisor.ending is None
    assert supervisor.restarts("console") == MAX_RAPID_FAILURES - 1


def test_the_end_of_an_optional_process_goes_unpunished(supervise):
    said: list[str] = []
    supervisor = supervise(row("viewer", "exit 0"), said=said)
    wait_until(lambda: supervisor.step() or said, 5, "a word about it")
    assert said == ["viewer ended cleanly"]
    assert supervisor.ending is None


def test_who_delivers_is_stopped_before_who_takes_it_and_those_that_hold_the_arm_last(supervise, tmp_path):
    script = f"trap 'sleep $1; echo $0 >> {tmp_path}/order; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    rows = [
        ProcessSpec(
            name=name, argv=("/bin/sh", "-c", script, name, wait), stop_first=first, stop_last=last, grace_s=20.0
        )
        for name, wait, first, last in (
            ("robot", "0", False, True), ("learner", "0", False, False), ("actor", "0.5", True, False),
        )
    ]  # fmt: skip
    supervisor = supervise(*rows)
    logs = [tmp_path / "log" / f"{name}.log" for name in ("robot", "learner", "actor")]
    wait_until(lambda: all("ready" in log.read_text() for log in logs), 5, "traps")
    supervisor.stop()
    assert (tmp_path / "order").read_text().split() == ["actor", "learner", "robot"]


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace(supervise, tmp_path):
    supervisor = supervise(row("stubborn", "trap '' TERM; echo ready; while :; do sleep 0.1; done", grace_s=0.3))
    wait_until(lambda: "ready" in (tmp_path / "log" / "stubborn.log").read_text(), 5, "trap")
    supervisor.stop()
    assert supervisor.alive() == ()


class Stuck:
    """A process that the kernel does not let go of, whatever it is sent."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> None:
        return None

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, timeout: float | None = None) -> int:
        assert timeout is not None, "waited for without an end"
        raise subprocess.TimeoutExpired("stuck", timeout)


def test_a_process_that_cannot_be_killed_keeps_nobody_from_stopping_the_arm(supervise, monkeypatch):
    monkeypatch.setattr("robot_stack.processes.supervisor.KILLED_S", 0.1)
    said: list[str] = []
    supervisor = supervise(row("robot", "sleep 60", stop_last=True), row("camera", "sleep 60", grace_s=0.1), said=said)
    robot, camera = supervisor.pid("robot"), supervisor._children["camera"]
    child, camera.process = camera.process, Stuck(camera.process)
    supervisor.stop()
    child.wait(5)
    assert gone(robot)
    assert said[-1] == f"camera (pid {child.pid}) cannot be killed, the kernel holds it; going on without it"


def test_a_process_that_cannot_be_started_leaves_none_of_those_before_it(tmp_path):
    absent = ProcessSpec(name="teleop", argv=(str(tmp_path / "absent"),))
    rows = [row("robot", "sleep 60", stop_last=True), row("camera", "sleep 60"), absent]
    supervisor = Supervisor(rows, environment=dict(os.environ), log_folder=tmp_path / "log")
    try:
        with pytest.raises(FileNotFoundError), supervisor:
            pytest.fail("it was started")
        assert supervisor.alive() == ()
    finally:
        supervisor.stop()


def test_children_share_the_session_but_not_its_ctrl_c(supervise):
    supervisor = supervise(row("robot", "sleep 60"))
    child = supervisor.pid("robot")
    assert os.getsid(child) == os.getsid(0)
    assert os.getpgid(child) == child


def test_children_die_when_the_supervisor_is_killed(tmp_path):
    code = (
        "import os, time; from pathlib import Path\n"
        "from robot_stack.processes.table import ProcessSpec\n"
        "from robot_stack.processes.supervisor import Supervisor\n"
        "s = Supervisor([ProcessSpec(name='robot', argv=('sleep', '60'))], environment=dict(os.environ),"
        f" log_folder=Path({str(tmp_path)!r}))\n"
        "s.start(); print(s.pid('robot'), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as launcher:
        try:
            child = int(launcher.stdout.readline())
        finally:
            launcher.kill()
    wait_until(lambda: gone(child), 10, "death of the child")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("required", "respawn", "code", "then"),
    [
        (True, False, 0, After.END_RUN),
        (True, False, -9, After.END_RUN),
        (True, True, 0, After.END_RUN),
        (True, True, 1, After.RESPAWN),
        (False, True, -15, After.RESPAWN),
        (False, True, 0, After.NOTHING),
        (False, False, 1, After.NOTHING),
        (True, True, MISCONFIGURED, After.END_RUN),
        (False, True, MISCONFIGURED, After.END_RUN),
    ],
)
def test_the_table_decides_what_follows_an_end(required, respawn, code, then):
    assert Restarts(ProcessSpec(name="x", argv=(), required=required, respawn=respawn)).after(code, 60.0) is then


def test_process_that_never_comes_to_its_work_is_given_up_however_long_it_takes():
    rule = Restarts(ProcessSpec(name="learner", argv=(), respawn=True))
    then = [rule.after(UNPREPARED, 300.0) for _ in range(MAX_RAPID_FAILURES)]
    assert then == [After.RESPAWN] * (MAX_RAPID_FAILURES - 1) + [After.END_RUN]


def test_starting_is_not_done_by_the_constructor(tmp_path):
    Supervisor([row("robot", f"touch {tmp_path}/ran")], environment={}, log_folder=tmp_path / "log")
    time.sleep(0.05)
    assert not (tmp_path / "ran").exists()


def test_the_end_of_the_run_says_why_in_the_words_of_the_process(tmp_path):
    module = tmp_path / "robot.py"
    module.write_text(
        "import sys\n"
        "print('robot: began')\n"
        "print('chatter\\n' * 200_000)\n"  # more than is searched
        "print('robot: no arm is there; plug it in')\n"
        "sys.exit(1)\n"
    )
    row = ProcessSpec(name="robot", argv=(sys.executable, "-m", "robot"), required=True)
    (tmp_path / "robot.log").write_text("robot: what an earlier run said\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with Supervisor([row], environment=environment, log_folder=tmp_path) as supervisor:
        assert supervisor.run(timeout_s=20) == 1
    assert supervisor.ending == "robot ended with exit code 1: no arm is there; plug it in"
    assert supervisor.failures == {"robot": supervisor.ending}


def test_a_log_that_is_gone_ends_nobody(tmp_path):
    log = tmp_path / "robot.log"
    row = ProcessSpec(
        name="robot",
        argv=(sys.executable, "-c", f"import os, sys; os.remove({str(log)!r}); sys.exit(1)"),
        required=True,
    )
    with Supervisor([row], environment=dict(os.environ), log_folder=tmp_path) as supervisor:
        assert supervisor.run(timeout_s=20) == 1
    assert supervisor.ending == f"robot ended with exit code 1; read {log}"


def test_what_shows_the_run_and_what_holds_the_arm_outlive_the_work(supervise) -> None:
    supervisor = supervise(
        row("robot", "sleep 60", stop_last=True), row("console", "sleep 60", window=True), row("actor", "sleep 60")
    )
    supervisor.stop_work()
    assert supervisor.alive() == ("robot", "console")
    supervisor.stop()
    assert supervisor.alive() == ()
