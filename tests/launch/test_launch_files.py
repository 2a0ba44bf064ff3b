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

from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.processes.table import MAX_RAPID_FAILURES, namespace_of, process_table
from robot_stack.runs.paths import RunPaths

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
    shown = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert shown.returncode == 0, shown.stderr
    for argument in ("run", "set", "folder"):
        assert f"'{argument}':" in shown.stdout


@needs_ros2
def test_ros2_launch_brings_a_cell_up_and_ctrl_c_ends_it_cleanly(tmp_path):
    words = ("cell:=sim", "set:=cell.dds_domain=87", f"folder:={tmp_path / 'run'}")
    launched = Launched(str(ROOT / "launch/workcell.launch.py"), *words, cwd=tmp_path)
    try:
        launched.says(f"bring-up: all {len(CELL) - 1} nodes are active")
        assert len(launched.children()) == len(CELL) + 1, "and the bring-up"
        launched.process.send_signal(signal.SIGINT)
        assert launched.process.wait(30) == 0
        launched.end()
        text = "".join(line for line in launched.lines if "[console-" not in line)  # nobody waits until it is up
        assert text.count("process has finished cleanly") == len(CELL), text
        assert "Traceback" not in text
    finally:
        launched.end()


INCLUDING = """
from launch import LaunchDescription
from launch.actions import GroupAction, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import PushRosNamespace, SetParameter, SetRemap


def generate_launch_description():
    arguments = {{"cell_only": "true", "folder": "{folder}", "set": "cell.dds_domain=85"}}
    cell = IncludeLaunchDescription(PythonLaunchDescriptionSource("{file}"), launch_arguments=arguments.items())
    shared = [PushRosNamespace("lab"), SetRemap("wrist/obs", "/eye"), SetParameter("max_speed_m_s", 0.1)]
    return LaunchDescription([GroupAction([*shared, cell])])
"""


@needs_ros2
def test_namespace_remapping_and_parameters_of_an_including_file_reach_the_nodes(tmp_path):
    run, file = tmp_path / "run", tmp_path / "mine.launch.py"
    file.write_text(INCLUDING.format(folder=run, file=ROOT / "launch/sim.launch.py"))
    launched = Launched(str(file), cwd=tmp_path)
    try:
        launched.says("DISARMED")
        for name in ("robot", "safety", "camera_wrist", "console"):
            launched.says(f"[{name}-")
        words = {}
        for pid in launched.children():
            words[pid] = (Path("/proc") / str(pid) / "cmdline").read_text().split("\0")
        assert len(words) == len(CELL)
        for each in words.values():
            assert "__ns:=/lab/sim" in each
            assert "wrist/obs:=/eye" in each
            assert "max_speed_m_s:=0.1" in each
        environment = {**os.environ, "ROS_DOMAIN_ID": "85", "PYTHONPATH": str(ROOT)}
        environment["FASTRTPS_DEFAULT_PROFILES_FILE"] = str(run / "fastdds.xml")
        seen = subprocess.run(
            [sys.executable, "-c", STRANGER], env=environment, capture_output=True, text=True, timeout=120
        )
        assert seen.stdout.split() == ["/eye", "0.1"], seen
    finally:
        launched.end()


STRANGER = """
import rclpy, time
from rcl_interfaces.srv import GetParameters
rclpy.init()
node = rclpy.create_node("stranger")
deadline_s = time.monotonic() + 60.0
while "/eye" not in dict(node.get_topic_names_and_types()) and time.monotonic() < deadline_s:
    time.sleep(0.05)
print(*(topic for topic in dict(node.get_topic_names_and_types()) if topic in ("/eye", "/lab/sim/wrist/obs")))
client = node.create_client(GetParameters, "/lab/sim/safety/get_parameters")
assert client.wait_for_service(60.0)
future = client.call_async(GetParameters.Request(names=["max_speed_m_s"]))
rclpy.spin_until_future_complete(node, future, timeout_sec=60.0)
print(future.result().values[0].double_value)
"""


@needs_ros2
def test_a_killed_ros2_launch_takes_the_nodes_with_it(tmp_path):
    words = ("cell_only:=true", "set:=cell.dds_domain=89", f"folder:={tmp_path / 'run'}")
    launched = Launched(str(ROOT / "launch/sim.launch.py"), *words, cwd=tmp_path)
    try:
        launched.says(f"[{CELL[-1]}-{len(CELL)}]: process started")
        launched.says("DISARMED")
        children = launched.children()
        assert len(children) == len(CELL)
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


class Described(SimpleNamespace):
    """Any class of `launch`: keeps what it was made with."""

    def __init__(self, *args, **fields):
        super().__init__(args=args, **fields)


class Argument(Described):
    """`DeclareLaunchArgument`, which has a name."""

    def __init__(self, name, **fields):
        super().__init__(name, name=name, **fields)


class Context(dict):
    """`LaunchContext`: the values of all launch configurations."""

    @property
    def launch_configurations(self):
        return self


class Configuration(Described):
    """`LaunchConfiguration`: its value is the context's."""

    def perform(self, context):
        return context[self.args[0]]


@pytest.fixture
def table_launch(monkeypatch):
    """The module of the launch files, with a stand-in for `launch`; helpers that it starts are ended."""
    for name, classes in {
        "launch": ("LaunchContext", "LaunchDescription"),
        "launch.actions": ("EmitEvent", "ExecuteProcess", "GroupAction", "LogInfo", "OpaqueFunction", "TimerAction"),
        "launch.events": ("Shutdown",),
        "launch_ros": (),
        "launch_ros.actions": ("Node",),
    }.items():
        module = ModuleType(name)
        for each in classes:
            setattr(module, each, type(each, (Described,), {}))
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
        helper.communicate(timeout=240)
    sys.modules.pop("table_launch", None)


def actions_of(name: str, **values: str):
    """Actions of a launch file, with these values for its arguments and for what an including file has pushed."""
    *arguments, start = description_of(name).args[0]
    chosen = {each.name: getattr(each, "default_value", "") for each in arguments} | values
    return start.function(Context(chosen))


def processes_of(name: str, **values):
    """The actions that start processes, by row of the table."""
    actions = actions_of(name, **values)
    return {
        each.exec_name if type(each).__name__ == "Node" else each.name: each
        for each in actions
        if type(each).__name__ in ("Node", "ExecuteProcess")
    }


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
    assert list(actions) == rows
    nodes = {row: each for row, each in actions.items() if type(each).__name__ == "Node"}
    assert set(actions) - set(nodes) <= {"learner"}, "the learner is no node of ROS"
    assert all(each.env["ROS_DOMAIN_ID"] == "86" for each in nodes.values())
    assert all(each.namespace == "/sim" for each in nodes.values())
    managed = [each for row, each in nodes.items() if row not in ("console", "bring_up")]
    assert all(("--managed" in each.arguments) == (name == "workcell.launch.py") for each in managed)
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
    actions = processes_of("sim.launch.py", folder=str(tmp_path))
    assert after(actions["safety"], 0) == "EmitEvent"
    assert after(actions["camera_wrist"], 0) == "NoneType"
    ends = [after(actions["teleop"], 1) for _ in range(MAX_RAPID_FAILURES)]
    assert ends == ["TimerAction"] * (MAX_RAPID_FAILURES - 1) + ["EmitEvent"]


def test_the_namespace_of_an_including_file_is_the_runs_from_then_on(table_launch, tmp_path):
    nodes = processes_of("sim.launch.py", folder=str(tmp_path), cell_only="true", ros_namespace="/lab")
    assert {each.namespace for each in nodes.values()} == {"/lab/sim"}
    assert namespace_of(load_resolved(RunPaths(tmp_path).resolved)) == "lab/sim"


def test_a_process_that_is_started_again_gets_what_the_including_file_gave_it(table_launch, tmp_path):
    given = {"ros_remaps": [("wrist/obs", "/eye")], "ros_namespace": "/lab"}
    camera = processes_of("sim.launch.py", folder=str(tmp_path), cell_only="true", **given)["camera_wrist"]
    timer = camera.on_exit(SimpleNamespace(returncode=1), None)
    (group,) = timer.actions[0].function(None)
    restore, again = group.args[0]
    context = Context()
    restore.function(context)
    assert context == given
    assert (again.exec_name, again.namespace) == ("camera_wrist", "/lab/sim")


def test_a_launch_whose_helper_has_died_ends(table_launch, tmp_path):
    action = processes_of("learner.launch.py", run="peg_insert", folder=str(tmp_path))["learner"]
    table = action.on_exit.__closure__
    stack = next(cell.cell_contents for cell in table if isinstance(cell.cell_contents, table_launch.Table))._stack
    stack.kill()
    stack.wait(10)
    assert after(action, 1) == "EmitEvent"


def test_without_launch_ros_it_is_said_what_to_install(table_launch, monkeypatch):
    monkeypatch.setitem(sys.modules, "launch_ros.actions", None)
    monkeypatch.delitem(sys.modules, "table_launch")
    with pytest.raises(RuntimeError, match=r"launch_ros cannot be imported .* install ros-DISTRO-launch-ros"):
        importlib.import_module("table_launch")


def test_the_interpreter_is_the_one_that_the_file_was_installed_for(table_launch, tmp_path, monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    installed = tmp_path / "share/robot_stack/launch/sim.launch.py"
    assert table_launch.interpreter(str(installed)) == sys.executable, "no virtual environment"
    (tmp_path / "pyvenv.cfg").touch()
    assert table_launch.interpreter(str(installed)) == str(tmp_path / "bin/python3")
    assert table_launch.interpreter(str(ROOT / "launch/sim.launch.py")) == sys.executable


def test_the_interpreter_of_an_overlay_is_that_of_the_activated_environment(table_launch, tmp_path, monkeypatch):
    """The Python of `ros2` is the system's, into which pip installs nothing."""
    overlay = str(tmp_path / "install/robot_stack/share/robot_stack/launch/sim.launch.py")
    activated = tmp_path / "activated"
    monkeypatch.setenv("VIRTUAL_ENV", str(activated))
    assert table_launch.interpreter(overlay) == sys.executable, "it was deleted"
    activated.mkdir()
    (activated / "pyvenv.cfg").touch()
    assert table_launch.interpreter(overlay) == str(activated / "bin/python3")
    (tmp_path / "pyvenv.cfg").touch()
    installed = str(tmp_path / "share/robot_stack/launch/sim.launch.py")
    assert table_launch.interpreter(installed) == str(tmp_path / "bin/python3"), "installed for another one"


def test_launch_files_import_nothing_of_this_project():
    """The Python of `ros2` may have other versions of its libraries, or none."""
    for path in (ROOT / "launch").glob("*.py"):
        names = re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), flags=re.MULTILINE)
        assert set(names) <= {"json", "os", "subprocess", "sys", "time", "launch", "launch_ros", "table_launch"}, path
