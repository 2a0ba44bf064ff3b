"""`robot-stack foxglove RUN`: a layout for Foxglove with the topics of a run's cell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from robot_stack.cli.run_folder import load_cell
from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes import topics
from robot_stack.processes.table import namespace_of
from robot_stack.types.spec import AXES

FIELDS = ("linear.x", "linear.y", "linear.z", "angular.x", "angular.y", "angular.z")
FOLLOW_S = 30
"""Seconds that a plot shows."""
Panels = dict[str, dict[str, Any]]


def run(name: str, overrides: Sequence[str] = (), root: Path | None = None) -> int:
    """Print the layout, to be saved as a file and imported; returns the exit code.

    Raises:
        ConfigError: If there is neither, or a file is wrong.
    """
    print(json.dumps(layout(load_cell(name, overrides, root)), indent=2))
    return 0


def layout(resolved: ResolvedRun) -> dict[str, Any]:
    """Return a layout for the topics of a cell.

    Cameras are on the left; what each arm is told and does in the middle; mode, diagnostics and log on the right.
    """
    prefix = f"/{namespace_of(resolved)}/"
    cameras = {
        f"Image!{camera}": {"imageMode": {"imageTopic": prefix + topics.observation(camera)}}
        for camera in resolved.cameras
    }
    arms: Panels = {}
    for arm, config in resolved.arms.items():
        axes = [axis for axis in AXES if axis in config.action.axes]
        arms[f"Plot!{arm}_motion"] = _plot(f"{arm}: asked by the policy, let through", _motion(prefix, arm, axes))
        arms[f"Plot!{arm}_force"] = _plot(f"{arm}: force at the tool [N]", _force(prefix, arm))
    words: Panels = {
        "StateTransitions!mode": {
            "isSynced": True,
            "paths": [
                {"value": f"{prefix}{topic}.data", "timestampMethod": "receiveTime", "label": label}
                for topic, label in ((topics.MODE, "mode"), (topics.PROMPT, "asked of the operator"))
            ],
        },
        "DiagnosticSummary!all": {
            "topicToRender": "/diagnostics",
            "minLevel": 0,
            "pinnedIds": [],
            "hardwareIdFilter": "",
            "sortByLevel": True,
        },
        "RosOut!log": {"topicToRender": "/rosout", "minLogLevel": 2, "searchTerms": []},
    }
    columns = [_split(list(panels), "column") for panels in (cameras, arms, words)]
    return {
        "configById": {**cameras, **arms, **words},
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1},
        "layout": _split(columns, "row"),
    }


def _motion(prefix: str, arm: str, axes: Sequence[str]) -> dict[str, str]:
    fields = {axis: FIELDS[AXES.index(axis)] for axis in axes}
    asked = {f"policy {axis}": f"{prefix}{topics.policy(arm)}.twist.{field}" for axis, field in fields.items()}
    done = {f"safety {axis}": f"{prefix}{topics.applied(arm)}.twist.{field}" for axis, field in fields.items()}
    return asked | done


def _force(prefix: str, arm: str) -> dict[str, str]:
    return {axis: f"{prefix}{topics.state_view(arm, 'wrench')}.wrench.force.{axis}" for axis in ("x", "y", "z")}


def _plot(title: str, paths: Mapping[str, str]) -> dict[str, Any]:
    """Return a plot over the time of arrival, which messages without a header have too."""
    return {
        "title": title,
        "paths": [
            {"value": value, "label": label, "enabled": True, "timestampMethod": "receiveTime"}
            for label, value in paths.items()
        ],
        "showLegend": True,
        "legendDisplay": "floating",
        "showXAxisLabels": True,
        "showYAxisLabels": True,
        "isSynced": True,
        "xAxisVal": "timestamp",
        "followingViewWidth": FOLLOW_S,
    }


def _split(parts: Sequence[Any], direction: str) -> Any:
    if len(parts) == 1:
        return parts[0]
    rest = _split(parts[1:], direction)
    return {"first": parts[0], "second": rest, "direction": direction, "splitPercentage": 100 / len(parts)}
