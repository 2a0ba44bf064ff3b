"""`robot-stack rviz RUN`: a configuration for RViz with the topics and frames of a run's cell."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from robot_stack.cli.run_folder import load_cell
from robot_stack.config.drivers import DriverRobot
from robot_stack.config.kinematics import UrdfFile, UrdfTopic
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.robot import RobotConfig
from robot_stack.nodes import topics
from robot_stack.processes.table import namespace_of
from robot_stack.types.errors import ConfigError

PLUGINS = "rviz_default_plugins/"
WORLD = "world"
"""Root of the URDF of a simulated cell."""
ARROW_M_PER_N, ARROW_M_PER_NM, ARROW_WIDTH_M = 0.01, 0.1, 0.02
"""RViz draws an arrow that is longer than wide: from 2 N or 0.2 Nm on."""
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
    models = {str(model): model for model in (_robot_model(robot, prefix) for robot in resolved.robots.values())}
    grid = _display("Grid", "Grid", **{"Cell Size": 0.1, "Plane Cell Count": 20})
    frames = _display("TF", "Frames", **{"Show Names": False, "Marker Scale": 0.3})
    images = [
        _display("Image", camera, Topic=_topic(prefix + topics.observation(camera))) for camera in resolved.cameras
    ]
    tools = [display for arm, robot in resolved.robots.items() for display in _tool(prefix, arm, robot)]
    return {
        "Panels": [
            {"Class": "rviz_common/Displays", "Name": "Displays"},
            {"Class": "rviz_common/Views", "Name": "Views"},
            {"Class": "rviz_common/Time", "Name": "Time", "SyncMode": 0},
        ],
        "Visualization Manager": {
            "Class": "",
            "Displays": [grid, *models.values(), frames, *images, *tools],
            "Enabled": True,
            "Global Options": {"Fixed Frame": WORLD if resolved.simulated else next(iter(names.values())).base},
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


def _robot_model(robot: RobotConfig, prefix: str) -> Display:
    """Return the display of an arm: by the simulated cell's URDF, by its file, or by what its driver publishes."""
    if isinstance(robot.kinematics, UrdfFile):
        source = {"Description Source": "File", "Description File": robot.kinematics.path}
        return _display("RobotModel", robot.kinematics.path, **source)
    topic = f"/{topics.ROBOT_DESCRIPTION}"
    if robot.backend == "sim":
        topic = prefix + topics.ROBOT_DESCRIPTION
    elif isinstance(robot.kinematics, UrdfTopic):
        topic = robot.kinematics.topic
    latched = _topic(topic) | {"Reliability Policy": "Reliable", "Durability Policy": "Transient Local"}
    return _display("RobotModel", topic, **{"Description Source": "Topic", "Description Topic": latched})


def _tool(prefix: str, arm: str, robot: RobotConfig) -> list[Display]:
    pose, wrench = (_topic(prefix + topics.state_view(arm, view)) for view in ("tcp_pose", "wrench"))
    axes = {"Shape": "Axes", "Axes Length": 0.08, "Axes Radius": 0.006}
    shown = [_display("Pose", f"{arm}: tool", **{"Topic": pose, **axes})]
    if robot.backend == "sim" or (isinstance(robot, DriverRobot) and robot.wrench is not None):
        scales = {"Force Arrow Scale": ARROW_M_PER_N, "Torque Arrow Scale": ARROW_M_PER_NM}
        shown.append(_display("Wrench", f"{arm}: force", **{"Topic": wrench, **scales, "Arrow Width": ARROW_WIDTH_M}))
    return shown


def _display(plugin: str, name: str, **properties: Any) -> Display:
    return {"Class": PLUGINS + plugin, "Enabled": True, "Name": name, "Value": True, **properties}


def _topic(name: str) -> dict[str, Any]:
    """Return the property of a topic of which the newest message is looked at, and no sender waits."""
    return {
        "Value": name,
        "Depth": 1,
        "History Policy": "Keep Last",
        "Reliability Policy": "Best Effort",
        "Durability Policy": "Volatile",
    }
