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
    if not resolved.is_environment and not _has_ros():
        raise ModuleNotFoundError("no ROS here", name="rclpy")


def remedy(library: str, verb: str) -> str:
    """Return what to do where a library of `EXTRA_OF` is missing that a verb needs."""
    extras = EXTRAS_OF_VERB.get(verb, EXTRA_OF[library])
    if verb in EXTRAS_OF_VERB and not _has_ros():
        extras = f"{EXTRA_OF['rclpy']},{extras}"
    install = f"pip install 'robot-stack[{extras}]'"
    return f"source the setup file of ROS 2 Jazzy, or {install}" if library == "rclpy" else install


def _has_ros() -> bool:
    return importlib.util.find_spec("rclpy") is not None
