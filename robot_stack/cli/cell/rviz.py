"""`robot-stack rviz RUN`: a configuration for RViz with the topics and frames of a run's cell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from robot_stack.cli.run_folder import load_cell
from robot_stack.config.kinematics import UrdfTopic
from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes import topics
from robot_stack.processes.table import namespace_of
from robot_stack.types.errors import ConfigError

PLUGINS = "rviz_default_plugins/"
WORLD = "world"
"""Root of the URDF of a simulated cell."""
ARROW_M_PER_N, ARROW_WIDTH_M = 0.01, 0.02
"""RViz draws an arrow that is longer than wide: from 2 N on."""
DISTANCE_M = 1.8
Display = dict[str, Any]


def run(name: str, overrides: Sequence[str] = (), root: Path | None = None) -> int:
    """Print the configuration, to be saved as a file for `rviz2 -d`; returns the exit code.

    Raises:
        ConfigError: If there is no such run or cell, a file is wrong, or the run is of an environment.
    """
    resolved = load_cell(name, overrides, root)
    if resolved.is_environment:
        raise ConfigError(f"run {name} is of an environment, must be of a cell to have topics; look at its report")
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(configuration(resolved), sys.stdout)
    return 0


def configuration(resolved: ResolvedRun) -> dict[str, Any]:
    """Return a configuration that shows arms, frames, cameras, and each arm's tool and forces.

    A simulated cell is drawn from the world; real arms from the base of the first, to which robot_state_publishers or
    a static transform must relate the others.
    """
    prefix = f"/{namespace_of(resolved)}/"
    names = {arm: topics.ArmNames.of(arm, robot) for arm, robot in resolved.robots.items()}
    described = dict.fromkeys(_description(resolved, arm, prefix) for arm in names)
    grid = _display("Grid", "Grid", **{"Cell Size": 0.1, "Plane Cell Count": 20})
    models = [_robot_model(topic) for topic in described]
    frames = _display("TF", "Frames", **{"Show Names": False, "Marker Scale": 0.3, "Frame Timeout": 15})
    images = [
        _display("Image", camera, Topic=_topic(prefix + topics.observation(camera))) for camera in resolved.cameras
    ]
    tools = [display for arm in names for display in _tool(prefix, arm)]
    simulated = any(robot.backend == "sim" for robot in resolved.robots.values())
    return {
        "Panels": [
            {"Class": "rviz_common/Displays", "Name": "Displays"},
            {"Class": "rviz_common/Views", "Name": "Views"},
            {"Class": "rviz_common/Time", "Name": "Time", "SyncMode": 0},
        ],
        "Visualization Manager": {
            "Class": "",
            "Displays": [grid, *models, frames, *images, *tools],
            "Enabled": True,
            "Global Options": {"Fixed Frame": WORLD if simulated else next(iter(names.values())).base},
            "Name": "root",
            "Tools": [{"Class": PLUGINS + tool} for tool in ("Interact", "MoveCamera", "Select", "Measure")],
            "Views": {
                "Current": {
                    "Class": PLUGINS + "Orbit",
                    "Distance": DISTANCE_M,
                    "Focal Point": {"X": 0.4, "Y": 0.0, "Z": 0.2},
                    "Name": "Current View",
                    "Pitch": 0.5,
                    "Yaw": 0.8,
                }
            },
        },
    }


def _description(resolved: ResolvedRun, arm: str, prefix: str) -> str:
    """Return the topic of the URDF that draws an arm: the simulated cell's, or that of the arm's driver."""
    robot = resolved.robots[arm]
    if robot.backend == "sim":
        return prefix + topics.ROBOT_DESCRIPTION
    kinematics = robot.kinematics
    return kinematics.topic if isinstance(kinematics, UrdfTopic) else f"/{topics.ROBOT_DESCRIPTION}"


def _robot_model(topic: str) -> Display:
    latched = _topic(topic) | {"Durability Policy": "Transient Local"}
    return _display("RobotModel", topic, **{"Description Source": "Topic", "Description Topic": latched})


def _tool(prefix: str, arm: str) -> list[Display]:
    pose, wrench = (_topic(prefix + topics.state_view(arm, view)) for view in ("tcp_pose", "wrench"))
    axes = {"Shape": "Axes", "Axes Length": 0.08, "Axes Radius": 0.006}
    arrows = {"Force Arrow Scale": ARROW_M_PER_N, "Torque Arrow Scale": ARROW_M_PER_N, "Arrow Width": ARROW_WIDTH_M}
    return [
        _display("Pose", f"{arm}: tool", **{"Topic": pose, **axes}),
        _display("Wrench", f"{arm}: force", **{"Topic": wrench, **arrows}),
    ]


def _display(plugin: str, name: str, **properties: Any) -> Display:
    return {"Class": PLUGINS + plugin, "Enabled": True, "Name": name, "Value": True, **properties}


def _topic(name: str) -> dict[str, Any]:
    """Return the property of a topic that is offered RELIABLE."""
    return {
        "Value": name,
        "Depth": 5,
        "History Policy": "Keep Last",
        "Reliability Policy": "Reliable",
        "Durability Policy": "Volatile",
    }
