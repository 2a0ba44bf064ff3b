"""Ctrl-C is a wish: the run says how to go on, and make calls nothing an error."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import signal
import subprocess
import sys
import termios
import threading
from argparse import Namespace
from contextlib import suppress
from pathlib import Path

import pytest

from robot_stack.cli import sim
from robot_stack.cli.main import INTERRUPTED, main
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.processes.supervisor import ARM_LOST, FAILED
from robot_stack.processes.table import ProcessSpec
from robot_stack.runs.beginning import Beginning
from robot_stack.runs.stage import Stage, StageName
from robot_stack.workcell.ending import ending_signals
from tests.nodes.cell_rig import wait_until
from tests.nodes.test_supervisor import gone
from tests.rollout.fake_cell import FakeCell

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20.0
WAITS = f"""#!/bin/sh
trap 'echo saved; exit {INTERRUPTED}' INT
echo running
while :; do sleep 0.05; done
"""
FAILS = """#!/bin/sh
exit 1
"""


@pytest.fixture(autouse=True)
def no_nodes(monkeypatch) -> None:
    """What follows starts none, and needs no ROS."""
    monkeypatch.setattr(sim, "check_ros", lambda resolved: None)


@pytest.mark.parametrize(
    ("options", "by_make", "typed"),
    [
        (("--name", "mine"), "make sim NAME=mine", "robot-stack sim --name mine"),
        (
            ("--seed", "3", "--algorithm", "bc", "--quick"),
            "make sim NAME=sim-bc-seed3 SEED=3 ALGORITHM=bc QUICK=1",
            "robot-stack sim --name sim-bc-seed3 --seed 3 --algorithm bc --quick",
        ),
        (
            ("--task", "peg_in_and_out"),
            "make sim NAME=peg_in_and_out TASK=peg_in_and_out",
            "robot-stack sim --name peg_in_and_out --task peg_in_and_out",
        ),
    ],
)
@pytest.mark.parametrize("made", [True, False], ids=["by make", "typed"])
def test_an_ended_dry_run_says_how_to_go_on(
    options, by_make: str, typed: str, made: bool, monkeypatch, tmp_path: Path, capsys
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    if made:
        monkeypatch.setenv("MAKELEVEL", "1")
    else:
        monkeypatch.delenv("MAKELEVEL", raising=False)  # as in a folder where there is no Makefile
    command = by_make if made else typed
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "train_online", ended)
    assert main(["sim", "--plain", *options]) == INTERRUPTED
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"Go on with: {command}")
    name = typed.split()[3]
    stage = Stage.read(tmp_path / "runs" / name)
    assert stage is not None
    assert (stage.name, stage.next_step) == (StageName.ENDED, command)
    assert Beginning.read(tmp_path / "runs" / name) == Beginning(command=command, quick="--quick" in options)


@pytest.mark.parametrize(("holds_the_arm", "code"), [(True, ARM_LOST), (False, FAILED)])
def test_a_dry_run_ends_with_the_code_of_what_failed(
    holds_the_arm: bool, code: int, monkeypatch, tmp_path: Path, capsys
) -> None:
    dying = ProcessSpec(
        name="safety", argv=(sys.executable, "-c", "raise SystemExit(1)"), required=True, stop_last=holds_the_arm
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "process_table", lambda *_: [dying])
    assert main(["sim", "--plain"]) == code
    assert "safety ended with exit code 1" in capsys.readouterr().err
    stage = Stage.read(tmp_path / "runs" / "sim")
    assert stage is not None
    assert stage.name is StageName.FAILED


def test_what_is_set_for_a_dry_run_is_what_it_runs_with(monkeypatch, tmp_path: Path) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.delenv("MAKELEVEL", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "train_online", ended)
    assert main(["sim", "--plain", "--set", "training.demos=9", "--set", "rate_hz=8"]) == INTERRUPTED
    saved = load_resolved(tmp_path / "runs" / "sim" / "run.yaml")
    assert (saved.run.training.demos, saved.run.rate_hz) == (9, 8.0)
    begun = Beginning.read(tmp_path / "runs" / "sim")
    assert begun is not None
    assert begun.command == "robot-stack sim --name sim --set training.demos=9 --set rate_hz=8"


def test_dry_runs_of_other_tasks_algorithms_and_seeds_have_folders_of_their_own(monkeypatch, tmp_path: Path) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "train_online", ended)
    asked = [[], ["--task", "two_arm_insert"], ["--algorithm", "hg_dagger"], ["--task", "drawer", "--seed", "2"]]
    for options in [*asked, *asked]:  # the second time each goes on
        assert main(["sim", "--plain", *options]) == INTERRUPTED
    made = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert made == ["drawer-seed2", "sim", "sim-hg_dagger", "two_arm_insert"]


@pytest.mark.parametrize(("first", "then", "of"), [(["--quick"], [], "quick"), ([], ["--quick"], "whole")])
def test_a_whole_run_does_not_go_on_where_a_quick_one_began(
    first: list[str], then: list[str], of: str, monkeypatch, tmp_path: Path, capsys
) -> None:
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "train_online", ended)
    assert main(["sim", "--plain", *first]) == INTERRUPTED
    assert main(["sim", "--plain", *then]) == 1
    assert f"runs/sim has a {of} run, asked for is a " in capsys.readouterr().err


def test_a_dry_run_that_is_going_on_is_not_started_again(monkeypatch, tmp_path: Path, capsys) -> None:
    starts = []

    def goes_on(*_: object) -> None:
        starts.append("sim")
        if len(starts) == 1:
            before = (tmp_path / "runs" / "sim" / "run.yaml").read_text()
            assert main(["sim", "--plain"]) == 1
            assert (tmp_path / "runs" / "sim" / "run.yaml").read_text() == before, "it says where the learner listens"
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sim, "train_online", goes_on)
    assert main(["sim", "--plain"]) == INTERRUPTED
    assert len(starts) == 1
    assert f"run runs/sim is going on (process {os.getpid()}), must have ended" in capsys.readouterr().err


def make_sim(folder: Path, program: str) -> subprocess.Popen[str]:
    (folder / "robot-stack").write_text(program)
    (folder / "robot-stack").chmod(0o755)
    return subprocess.Popen(  # a shell starts what it has in the background deaf to SIGINT, and so whatever that starts
        ["env", "--default-signal=INT", "make", "sim", f"BIN={folder}", "INSTALLED=", "SIM_READY="],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.fixture
def waiting(tmp_path: Path):
    process = make_sim(tmp_path, WAITS)
    yield process
    with suppress(ProcessLookupError):  # also where make has ended: its program may go on
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def in_its_own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup


def test_a_terminal_that_closes_ends_a_run_in_order(tmp_path: Path) -> None:
    ours, terminal = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.supervised_run", str(tmp_path)],
        cwd=ROOT,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=in_its_own_terminal,
    ) as process:
        os.close(terminal)
        try:
            wait_until(lambda: all((tmp_path / name).exists() for name in ("robot", "learner", "actor")), 60, "a start")
            os.close(ours)
            process.wait(DEADLINE_S)
        finally:
            process.kill()  # its processes end with it
    assert (tmp_path / "order").read_text().split() == ["actor", "learner", "robot"]
    assert (tmp_path / "code").read_text() == "0"
    stage = Stage.read(tmp_path)
    assert stage is not None
    assert (stage.name, stage.text) == (StageName.ENDED, "SIGHUP received")


def test_who_runs_episodes_goes_on_when_the_terminal_has_closed(monkeypatch) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    from robot_stack.nodes.actor.session import Session

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    session = Session(
        resolved=load_run("peg_insert"), folder=Path(), options=Namespace(), cell=FakeCell(), stop=threading.Event()
    )
    monkeypatch.setattr(sys, "stderr", Closed())
    session.say("000001-demo-hand: success")


def test_a_run_that_was_told_to_outlive_its_terminal_does() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert ending_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as by nohup
        assert ending_signals() == (signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_make_calls_the_end_by_a_person_no_error(waiting: subprocess.Popen[str]) -> None:
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "running\n"
    os.killpg(waiting.pid, signal.SIGINT)  # as a terminal does: make, its shell and the program
    out, error = waiting.communicate(timeout=DEADLINE_S)
    assert out == "saved\n"
    assert "Error" not in error
    assert "No child processes" not in error


def test_a_failure_is_one(tmp_path: Path) -> None:
    process = make_sim(tmp_path, FAILS)
    _, error = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "Error 1" in error


def test_the_makefile_knows_the_exit_code() -> None:
    assert f"INTERRUPTED := {INTERRUPTED}\n" in (ROOT / "Makefile").read_text()


def test_the_clock_of_a_run_goes_on_where_it_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phases = {"training": 600.0, "encoder and reward model": 154.0}
    say = sim._Say(sim.DryRun(folder=tmp_path, resolved=load_run("peg_insert"), plain=True, phases=phases))
    say.phase("training", "going on")
    say.close()
    said = capsys.readouterr()
    assert "12:34 | online training" in said.out + said.err


def test_a_killed_dry_run_leaves_no_evaluation(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "asleep.py").write_text("import time\ntime.sleep(60)\n")
    code = (
        "import sys; from pathlib import Path; from robot_stack.cli import sim\n"
        "process = sim._python(Path(sys.argv[1]), 'eval_policy', 'asleep')\n"
        "print(process.pid, flush=True)\n"
        "process.wait()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as killed:
        try:
            assert killed.stdout is not None
            evaluation = int(killed.stdout.readline())
        finally:
            killed.kill()
    try:
        wait_until(lambda: gone(evaluation), 5, "the end of the evaluation")
    finally:
        with suppress(ProcessLookupError):
            os.kill(evaluation, signal.SIGKILL)
