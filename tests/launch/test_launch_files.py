"""The launch files come from the process table: with the real `launch` where there is one, else with a stand-in."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.nodes.process_table import ProcessSpec, process_table

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
FILES = ("sim.launch.py", "workcell.launch.py")
REAL = importlib.util.find_spec("launch_ros") is not None


def describe(name: str):
    spec = importlib.util.spec_from_file_location(name.replace(".", "_"), LAUNCH / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate_launch_description()


@pytest.mark.skipif(not REAL, reason="launch_ros is not installed: the launch files are read with a stand-in only")
@pytest.mark.parametrize("name", FILES)
def test_ros2_launch_reads_the_file(name):
    description = describe(name)
    assert {argument.name for argument in description.get_launch_arguments()} >= {"run", "set", "folder"}


class Recorded(SimpleNamespace):
    """Any class of `launch`: keeps what it was made with."""

    def __init__(self, *args, **fields):
        super().__init__(args=args, **fields)


@pytest.fixture
def stand_in(monkeypatch):
    for name, classes in {
        "launch": ("LaunchContext", "LaunchDescription"),
        "launch.actions": (
            "DeclareLaunchArgument", "EmitEvent", "ExecuteProcess", "OpaqueFunction", "RegisterEventHandler",
            "TimerAction",
        ),
        "launch.event_handlers": ("OnShutdown",),
        "launch.events": ("Shutdown",),
        "launch.substitutions": ("LaunchConfiguration",),
    }.items():  # fmt: skip
        module = ModuleType(name)
        for each in classes:
            setattr(module, each, type(each, (Recorded,), {}))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "robot_stack.nodes.launching", raising=False)
    yield
    sys.modules.pop("robot_stack.nodes.launching", None)


@pytest.mark.parametrize("name", FILES)
def test_the_file_makes_one_action_per_row_of_the_table(name, stand_in, monkeypatch, tmp_path):
    *arguments, start = describe(name).args[0]
    values = {each.args[0]: each.default_value for each in arguments}
    values |= {"folder": str(tmp_path), "run": "peg_insert", "set": "cell.dds_domain=86"}
    launching = sys.modules["robot_stack.nodes.launching"]
    monkeypatch.setattr(
        launching, "LaunchConfiguration", lambda key: SimpleNamespace(perform=lambda context: values[key])
    )
    release, *actions = start.function(None)
    run = load_run("peg_insert")
    names = [row.name for row in process_table(run, tmp_path)]
    assert [each.name for each in actions] == (names if name == "sim.launch.py" else names[:5])
    assert all(each.env["ROS_DOMAIN_ID"] == "86" for each in actions)
    release.args[0].on_shutdown(None, None)


@pytest.mark.parametrize(
    ("fields", "code", "kind"),
    [
        ({"required": True}, 0, "EmitEvent"),
        ({"required": True, "respawn": True}, 1, "TimerAction"),
        ({"respawn": True}, 0, "NoneType"),
    ],
)
def test_an_action_follows_the_table_when_its_process_ends(fields, code, kind, stand_in):
    from robot_stack.nodes.launching import process_action

    action = process_action(ProcessSpec(name="x", argv=("true",), **fields), {})
    assert type(action.on_exit(SimpleNamespace(returncode=code), None)).__name__ == kind
