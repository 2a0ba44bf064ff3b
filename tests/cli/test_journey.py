"""The verbs of docs/bringup.md in their order, each as an operator calls it, on the simulated cell and over DDS."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.cli.main import main
from robot_stack.processes.prepared_run import free_address
from robot_stack.runs.beginning import Beginning
from robot_stack.transport.spool import Spool
from tests.flow.flow_rig import newest, stored, wait_for

SMALL = (
    "cell.dds_domain=77",
    "cell.console.address=127.0.0.1:0",
    "safety.rate_hz=50",  # at half the rates two cores have time to learn beside the cell
    "cameras.wrist.rate_hz=15",
    "cameras.front.rate_hz=15",
    "training.demos=2",
    "training.max_episodes=2",
    "training.eval_episodes=3",
    "encoder.settings.steps=10",
    "encoder.settings.batch=16",
    "reward.settings.steps=20",
    "reward.settings.batch=16",
    "algorithm.settings.pretrain_updates=20",
    "algorithm.settings.batch_size=16",
    "algorithm.settings.utd=1.0",
    "algorithm.settings.critics=2",
    "algorithm.settings.hidden=[32, 32]",
    "algorithm.settings.head=8",
    "task.episode_steps=60",
    "task.sim.clearance_m=0.008",
    "task.sim.start_height_m=0.02",
    "task.sim.socket_range_m=[0.02, 0.02]",
    "task.sim.start_range_m=[0.02, 0.02, 0.0]",
)
FOLDER = Path("runs/peg_insert")
START_S = 420.0


class Terminal:
    """Of one operator, in one folder."""

    def __init__(self, here: Path) -> None:
        self.here = here
        self._settings = [word for text in (*SMALL, f"cell.learner_address={free_address('127.0.0.1:0')}")
                          for word in ("--set", text)]  # fmt: skip

    def call(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on meanwhile."""
        settings = self._settings if words[0] in ("record", "train", "act", "up", "show") else []
        command = [sys.executable, "-m", "robot_stack.cli.main", *words, *settings]
        return subprocess.Popen(command, cwd=self.here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def say(self, *words: str) -> str:
        """What a command prints; it must end well."""
        return ended(self.call(*words))


def ended(process: subprocess.Popen[str]) -> str:
    try:
        printed, words = process.communicate(timeout=START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"{process.args} goes on: {process.communicate()}") from None
    assert process.returncode == 0, (process.args, printed[-3000:], words[-3000:])
    return printed


def begun(folder: Path) -> str:
    """The command that goes on with a run."""
    beginning = Beginning.read(folder)
    assert beginning is not None
    return beginning.command


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    return Terminal(tmp_path_factory.mktemp("journey"))


def test_show_says_what_will_be_run(terminal: Terminal) -> None:
    assert "run.training.demos" in terminal.say("show", "peg_insert")


def test_record_ends_with_the_demonstrations_on_disk(terminal: Terminal) -> None:
    said = terminal.say("record", "sim", "--episodes", "2")
    assert said.splitlines()[-1].startswith("Next: robot-stack train peg_insert --set ")
    assert len(list((terminal.here / FOLDER / "store/episodes").glob("*-demo-hand.zarr"))) >= 2


def test_train_and_act_work_together_until_it_is_enough(terminal: Terminal) -> None:
    """Train begins with what was recorded, act finds it by the cell's address."""
    learner = terminal.call("train", "peg_insert")
    try:
        said = terminal.say("act", "peg_insert", "--id", "left")
        learned = ended(learner)
    finally:
        learner.kill()
    assert said.splitlines()[-1].startswith("Next: robot-stack deploy")
    assert learned.splitlines()[-1] == "Next: robot-stack report runs/peg_insert"
    assert begun(terminal.here / "runs/peg_insert").startswith("robot-stack train peg_insert")
    assert (terminal.here / FOLDER / "policy.safetensors").exists()
    assert list((terminal.here / FOLDER / "store/episodes").glob("*-online-left.zarr"))


def test_deploy_runs_what_was_learned(terminal: Terminal) -> None:
    said = terminal.say("deploy", "peg_insert", "--episodes", "1")
    assert said.splitlines()[-1] == "Next: robot-stack report peg_insert"


@pytest.mark.parametrize(
    "line",
    [
        "eval peg_insert --episodes 1",
        "report peg_insert",
        "reward audit peg_insert",
        "reward eval peg_insert",
        "data list peg_insert",
        "data show peg_insert",
        "env runs/peg_insert",
    ],
)
def test_what_was_recorded_can_be_looked_at(
    terminal: Terminal, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has loaded everything already."""
    monkeypatch.chdir(terminal.here)
    assert main(line.split()) == 0
    assert capsys.readouterr().out


def test_the_commands_of_it_all_were_within_the_limits(terminal: Terminal, capsys: pytest.CaptureFixture[str]) -> None:
    logs = sorted((terminal.here / FOLDER / "commands/fr3").glob("*.jsonl.gz"))
    assert len(logs) >= 3  # recorded, trained online, deployed
    for log in logs:
        assert main(["check-log", str(log)]) == 0
        assert capsys.readouterr().out


@pytest.mark.slow
def test_after_ctrl_c_the_learner_has_every_step_or_the_spool_keeps_it(terminal: Terminal) -> None:
    """The learner outlives the actor, which waits for it; if it is too busy, the next start gets the rest."""
    folder = terminal.here / "runs/whole"
    process = terminal.call("up", "peg_insert", "--folder", "runs/whole")

    def running() -> str:
        assert process.poll() is None, process.communicate()
        name, episode = newest(folder) or ("", None)
        return name if episode is not None and episode.end is None and episode.length >= 10 else ""

    try:
        wait_for(online(folder), "online training", START_S)
        name = wait_for(running, "an episode that runs", START_S)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=START_S)
    finally:
        process.kill()
    assert process.returncode == 0, said[-3000:]
    episodes = stored(folder)
    running_still = [each for each, episode in episodes.items() if episode.end is None]
    assert episodes[name].length >= 10
    (spooled,) = (folder / "actor").glob("*.spool")
    spool = Spool(spooled)
    spool.open()
    try:
        assert spool.end > 0
        assert (spool.released == spool.end) == (running_still == []), "acknowledged, all of it, or kept"
    finally:
        spool.close()


def online(folder: Path) -> Callable[[], bool]:
    """Whether an online episode has begun."""
    return lambda: any((folder / "store" / "episodes").glob("*-online-*.zarr"))


def test_up_does_it_all_on_one_machine(terminal: Terminal) -> None:
    said = terminal.say("up", "peg_insert", "--folder", "runs/whole")
    assert said.splitlines()[-1] == "Next: robot-stack report runs/whole"
    assert (terminal.here / "runs/whole/policy.safetensors").exists()
    assert begun(terminal.here / "runs/whole").startswith("robot-stack up peg_insert --folder runs/whole")
    assert [name for name, episode in stored(terminal.here / "runs/whole").items() if episode.end is None] == []
    report = json.loads(terminal.say("report", "runs/whole", "--json"))
    assert report["training"]["episodes"] >= 2
