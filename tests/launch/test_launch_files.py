"""The launch files come from the process table: with the real `ros2 launch` where there is one, and a stand-in."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.processes.table import MAX_RAPID_FAILURES, process_table

ROOT = Path(__file__).resolve().parents[2]
FILES = ("sim.launch.py", "workcell.launch.py", "learner.launch.py")
ROS2 = shutil.which("ros2", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
REAL = importlib.util.find_spec("launch_ros") is not None and ROS2 is not None
NO_ROS2 = "there is no ros2 launch on this machine: the launch files are read with a stand-in only"
needs_ros2 = pytest.mark.skipif(not REAL, reason=NO_ROS2)


def description_of(name: str):
    spec = importlib.util.spec_from_file_location(name.replace(".", "_"), ROOT / "launch" / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate_launch_description()


# ------------------------------------------------------------------------------------------- with the real ros2 launch


class Launched:
    """`ros2 launch` in a session of its own; collects what it prints."""

    def __init__(self, *words: str, cwd: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OVERRIDE_LAUNCH_PROCESS_OUTPUT": "both"}
        self.process = subprocess.Popen(
            [ROS2, "launch", *words], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        self.lines.extend(self.process.stdout)

    def says(self, text: str, timeout_s: float = 60.0) -> str:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and self._reader.is_alive():
            for line in self.lines:
                if text in line:
                    return line
            time.sleep(0.05)
        raise AssertionError(f"{text!r} is not in:\n{''.join(self.lines)}")

    def children(self) -> list[int]:
        """Process ids of the nodes that it started."""
        return [int(line.split("pid [")[1].split("]")[0]) for line in self.lines if "process started with pid" in line]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
        self._reader.join(10)


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@needs_ros2
@pytest.mark.parametrize("name", FILES)
def test_ros2_launch_shows_the_arguments(name, tmp_path):
    command = [ROS2, "launch", str(ROOT / "launch" / name), "--show-args"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    for argument in ("run", "set", "folder"):
        assert f"'{argument}':" in shown.stdout


@needs_ros2
def test_ros2_launch_brings_a_cell_up_and_ctrl_c_ends_it_cleanly(tmp_path):
    words = ("cell:=sim", "set:=cell.dds_domain=87", f"folder:={tmp_path / 'run'}")
    launched = Launched(str(ROOT / "launch/workcell.launch.py"), *words, cwd=tmp_path)
    try:
        launched.says("bring-up: all 5 nodes are active")
        assert len(launched.children()) == 6
        launched.process.send_signal(signal.SIGINT)
        assert launched.process.wait(30) == 0
        launched.end()
        text = "".join(launched.lines)
        assert text.count("process has finished cleanly") == 6, text
        assert "Traceback" not in text
    finally:
        launched.end()


@needs_ros2
def test_a_killed_ros2_launch_takes_the_nodes_with_it(tmp_path):
    words = ("cell_only:=true", "set:=cell.dds_domain=89", f"folder:={tmp_path / 'run'}")
    launched = Launched(str(ROOT / "launch/sim.launch.py"), *words, cwd=tmp_path)
    try:
        launched.says("[teleop-5]: process started")
        launched.says("DISARMED")
        children = launched.children()
        assert len(children) == 5
        launched.process.send_signal(signal.SIGKILL)
        deadline_s = time.monotonic() + 5.0
        while any(alive(pid) for pid in children):
            assert time.monotonic() < deadline_s, "nodes outlive their launcher"
            time.sleep(0.01)
    finally:
        launched.end()


@needs_ros2
def test_a_wrong_name_is_a_sentence(tmp_path):
    launched = Launched(str(ROOT / "launch/workcell.launch.py"), "cell:=simm", cwd=tmp_path)
    try:
        assert "did you mean 'sim'?" in launched.says("input should be one of")
    finally:
        launched.end()


# ------------------------------------------------------------------------------------------------- with a stand-in


class Recorded(SimpleNamespace):
    """Any class of `launch`: keeps what it was made with."""

    def __init__(self, *args, **fields):
        super().__init__(args=args, **fields)


class Argument(Recorded):
    """`DeclareLaunchArgument`, which has a name."""

    def __init__(self, name, **fields):
        super().__init__(name, name=name, **fields)


class Configuration(Recorded):
    """`LaunchConfiguration`: its value is the context's."""

    def perform(self, context):
        return context[self.args[0]]


@pytest.fixture
def table_launch(monkeypatch):
    """The module of the launch files, with a stand-in for `launch`; helpers that it starts are ended."""
    for name, classes in {
        "launch": ("LaunchContext", "LaunchDescription"),
        "launch.actions": ("EmitEvent", "ExecuteProcess", "LogInfo", "OpaqueFunction", "TimerAction"),
        "launch.events": ("Shutdown",),
    }.items():
        module = ModuleType(name)
        for each in classes:
            setattr(module, each, type(each, (Recorded,), {}))
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["launch.actions"].DeclareLaunchArgument = Argument
    monkeypatch.setitem(sys.modules, "launch.substitutions", ModuleType("launch.substitutions"))
    sys.modules["launch.substitutions"].LaunchConfiguration = Configuration
    monkeypatch.delitem(sys.modules, "table_launch", raising=False)
    monkeypatch.syspath_prepend(str(ROOT / "launch"))
    module = importlib.import_module("table_launch")
    helpers: list[subprocess.Popen] = []

    def started(*args, **fields):
        helpers.append(subprocess.Popen(*args, **fields))
        return helpers[-1]

    monkeypatch.setattr(module, "subprocess", SimpleNamespace(Popen=started, PIPE=subprocess.PIPE))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield module
    for helper in helpers:
        helper.communicate(timeout=20)
    sys.modules.pop("table_launch", None)


def actions_of(name: str, **values: str):
    """Actions of a launch file, with these values for its arguments."""
    *arguments, start = description_of(name).args[0]
    chosen = {each.name: getattr(each, "default_value", "") for each in arguments} | values
    return start.function(chosen)


def processes_of(name: str, **values: str):
    return [each for each in actions_of(name, **values) if type(each).__name__ == "ExecuteProcess"]


TABLE = [row.name for row in process_table(load_run("peg_insert"), Path("x"))]
CELL = TABLE[:7]


@pytest.mark.parametrize(
    ("name", "values", "rows"),
    [
        ("sim.launch.py", {}, TABLE),
        ("sim.launch.py", {"cell_only": "true"}, CELL),
        ("workcell.launch.py", {"cell": "sim"}, [*CELL, "bring_up"]),
        ("workcell.launch.py", {"run": "peg_insert", "cell_only": "false"}, [*CELL, "actor", "bring_up"]),
        ("workcell.launch.py", {"cell": "sim", "cell_only": "false", "remote_learner": "false"}, [*TABLE, "bring_up"]),
        ("learner.launch.py", {"run": "peg_insert"}, ["learner"]),
    ],
)
def test_the_file_makes_one_action_per_row_of_the_table(name, values, rows, table_launch, tmp_path):
    actions = processes_of(name, folder=str(tmp_path), set="cell.dds_domain=86", **values)
    assert [each.name for each in actions] == rows
    nodes = [each for each in actions if each.name in (*CELL, "actor")]
    assert all(each.env["ROS_DOMAIN_ID"] == "86" for each in nodes)
    managed = [each for each in nodes if each.name != "console"]
    assert all(("--managed" in each.cmd) == (name == "workcell.launch.py") for each in managed)
    assert (tmp_path / "run.yaml").is_file()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "cell is not given"),
        ({"cell": "simm"}, "did you mean 'sim'"),
        ({"cell": "sim", "run": "peg_insrt"}, "did you mean 'peg_insert'"),
    ],
)
def test_a_workcell_that_cannot_be_told_is_refused(values, words, table_launch, tmp_path):
    with pytest.raises(RuntimeError, match=words):
        actions_of("workcell.launch.py", folder=str(tmp_path), **values)


def test_a_python_without_robot_stack_is_named(table_launch, monkeypatch):
    monkeypatch.setattr(table_launch, "interpreter", lambda _: "/usr/bin/false")
    with pytest.raises(RuntimeError, match="/usr/bin/false cannot run robot_stack, must have it installed"):
        actions_of("sim.launch.py")


def after(action, code):
    """Kind of action that follows the end of a process."""
    return type(action.on_exit(SimpleNamespace(returncode=code), None)).__name__


def test_what_follows_the_end_of_a_process_is_the_tables_rule(table_launch, tmp_path):
    actions = {each.name: each for each in processes_of("sim.launch.py", folder=str(tmp_path))}
    assert after(actions["safety"], 0) == "EmitEvent"
    assert after(actions["camera_wrist"], 0) == "NoneType"
    ends = [after(actions["teleop"], 1) for _ in range(MAX_RAPID_FAILURES)]
    assert ends == ["TimerAction"] * (MAX_RAPID_FAILURES - 1) + ["EmitEvent"]


def test_a_launch_whose_helper_has_died_ends(table_launch, tmp_path):
    action = processes_of("learner.launch.py", run="peg_insert", folder=str(tmp_path))[0]
    table = action.on_exit.__closure__
    stack = next(cell.cell_contents for cell in table if isinstance(cell.cell_contents, table_launch.Table))._stack
    stack.kill()
    stack.wait(10)
    assert after(action, 1) == "EmitEvent"


def test_the_interpreter_is_the_one_that_the_file_was_installed_for(table_launch, tmp_path):
    installed = tmp_path / "share/robot_stack/launch/sim.launch.py"
    assert table_launch.interpreter(str(installed)) == sys.executable, "no virtual environment"
    (tmp_path / "pyvenv.cfg").touch()
    assert table_launch.interpreter(str(installed)) == str(tmp_path / "bin/python3")
    assert table_launch.interpreter(str(ROOT / "launch/sim.launch.py")) == sys.executable


def test_launch_files_import_nothing_of_this_project():
    """The Python of `ros2` may have other versions of its libraries, or none."""
    for path in (ROOT / "launch").glob("*.py"):
        names = re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), flags=re.MULTILINE)
        assert set(names) <= {"json", "os", "subprocess", "sys", "time", "launch", "table_launch"}, path
