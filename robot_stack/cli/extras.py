"""Names the extra that brings a library which not every machine needs."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robot_stack.config.resolved import ResolvedRun

EXTRA_OF = {
    "torch": "learner",
    "wandb": "wandb",
    "matplotlib": "learner",
    "PIL": "learner",
    "mujoco": "sim",
    "rclpy": "ros",
    "viser": "scene",
    "trimesh": "scene",
}
"""Library -> extra."""
EXTRAS_OF_VERB = {"sim": "dry-run"}
"""Verb -> the extra that brings all that it needs, where that of one library would not do."""


def check_ros(resolved: ResolvedRun) -> None:
    """Refuse to start nodes where no ROS can be imported: they would say so in their logs, one by one.

    Raises:
        ModuleNotFoundError: Its `name` is a key of `EXTRA_OF`. An environment has no nodes, and is never refused.
    """
    if not resolved.is_environment and importlib.util.find_spec("rclpy") is None:
        raise ModuleNotFoundError("no ROS here", name="rclpy")


def check_torch() -> None:
    """Refuse to start processes that learn or act where torch cannot be imported: they would die one by one.

    Raises:
        ModuleNotFoundError: Its `name` is a key of `EXTRA_OF`.
    """
    if importlib.util.find_spec("torch") is None:
        raise ModuleNotFoundError("no torch here", name="torch")


def remedy(library: str, verb: str) -> str:
    """Return what to do where a library of `EXTRA_OF` is missing that a verb needs."""
    extra = EXTRAS_OF_VERB.get(verb, EXTRA_OF[library])
    if library != "rclpy":
        return f"pip install 'robot-stack[{extra}]'"
    extras = ",".join(dict.fromkeys((EXTRA_OF[library], extra)))
    return f"source the setup file of ROS 2 Jazzy, or pip install 'robot-stack[{extras}]'"
