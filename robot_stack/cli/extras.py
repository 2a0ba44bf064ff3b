"""Names the extra that brings a library which not every machine needs."""

from __future__ import annotations

import importlib.util

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
EXTRAS_OF_VERB = {"sim": "ros,dry-run"}
"""Verb -> the extras that it needs together, where one alone would not do."""


def check_ros() -> None:
    """Refuse to start nodes where no ROS can be imported: they would say so in their logs, one by one.

    Raises:
        ModuleNotFoundError: Its `name` is a key of `EXTRA_OF`.
    """
    if importlib.util.find_spec("rclpy") is None:
        raise ModuleNotFoundError("no ROS here", name="rclpy")


def remedy(library: str, extras: str) -> str:
    """Return what to do where a library is missing that these extras bring."""
    install = f"pip install 'robot-stack[{extras}]'"
    return f"source the setup file of ROS 2 Jazzy, or {install}" if library == "rclpy" else install
