"""Every node shows what it runs with as parameters, each number with its range."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robot_stack.config.resolve import load_run

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from rcl_interfaces.msg import ParameterType  # noqa: E402

import robot_stack.nodes  # noqa: E402
from robot_stack.nodes.base import NodeSettings, StackNode  # noqa: E402
from robot_stack.nodes.parameters import SIM_TIME  # noqa: E402
from robot_stack.processes.table import namespace_of  # noqa: E402
from tests.conformance.conformance_rig import ARM, robot_of  # noqa: E402

DOMAIN = 94
CAMERA = {"camera": "wrist", "pictures": None}
NODES: dict[str, dict[str, Any]] = {
    "actor.cell_link.CellLink": {},
    "camera.node.CaptureCameraNode": CAMERA,
    "camera.node.TopicCameraNode": CAMERA,
    "camera.simulated.SimCameraNode": CAMERA,
    "robot.driven.DriverRobotNode": {},
    "robot.simulated.SimRobotNode": {},
    "safety.node.SafetyNode": {"state": None},
    "teleop.node.TeleopNode": {"arm": ""},
    "tools.bring_up.BringUpNode": {"node": ["robot"], "required": []},
    "tools.command_recorder.CommandRecorderNode": {},
    "tools.console.ConsoleNode": {"state": None, "learner": ""},
    "tools.first_motion.FirstMotionNode": {"arm": ""},
}
"""Node -> its own arguments."""
RUNS = {"TopicCameraNode": "fr3_table", "CaptureCameraNode": "ur5e_table"}
ROS_OWN = (SIM_TIME, "start_type_description_service")
UNBOUNDED = ("task.sim.", f"{ARM}.gripper.closed", f"{ARM}.gripper.open")
"""What a simulated scene is told is checked by the simulator, and a driver's gripper has a unit of its own."""


def test_no_node_is_missing_here() -> None:
    for module in pkgutil.walk_packages(robot_stack.nodes.__path__, "robot_stack.nodes."):
        importlib.import_module(module.name)

    def below(kind: type[StackNode]) -> Iterator[type[StackNode]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    names = {f"{each.__module__}.{each.__name__}" for each in below(StackNode)}
    ours = {name.removeprefix("robot_stack.nodes.") for name in names if name.startswith("robot_stack.nodes.")}
    assert ours - {"camera.face.CameraNode"} == set(NODES)  # that one is what its three kinds share


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], StackNode]]:
    """make(node) -> such a node, of a run that has one."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    nodes: list[StackNode] = []

    def build(node: str) -> StackNode:
        module, name = node.rsplit(".", 1)
        kind = getattr(importlib.import_module(f"robot_stack.nodes.{module}"), name)
        run = load_run(RUNS.get(name, "peg_insert"))
        if name == "DriverRobotNode":
            run = replace(run, robots={ARM: robot_of("servo")})
        options = argparse.Namespace(run=tmp_path / "run.yaml", **NODES[node])
        settings = NodeSettings(run=run, namespace=namespace_of(run), options=options)
        nodes.append(kind(run, settings.namespace, settings.key) if name == "CellLink" else kind(settings))
        return nodes[-1]

    rclpy.init()
    yield build
    for node in nodes:
        node.retire("over")
        node.destroy_node()
    rclpy.try_shutdown()


@pytest.mark.parametrize("name", NODES)
def test_a_node_shows_its_settings_and_the_range_of_each_number(name: str, make: Callable[[str], StackNode]) -> None:
    node = make(name)
    shown = [each for each in node.list_parameters([], 0).names if each not in ROS_OWN]
    assert shown
    numbers = ParameterType.PARAMETER_INTEGER, ParameterType.PARAMETER_DOUBLE
    for found in node.describe_parameters(shown):
        if found.type in numbers and not found.name.startswith(UNBOUNDED):
            assert [*found.integer_range, *found.floating_point_range], found.name
