"""Builds the simulated world that a task's configuration describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from robot_stack.types.errors import SpecError
from sim.arms import find_arm
from sim.controller import Impedance
from sim.scene import Task
from sim.tasks.peg_insert import PegInsert, PegInsertConfig
from sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task that can be simulated: the model of its `sim` section and its class."""

    config: type[BaseModel]
    build: Any


TASKS: Mapping[str, TaskEntry] = {"peg_insert": TaskEntry(config=PegInsertConfig, build=PegInsert)}


def find_task(name: str) -> TaskEntry:
    """The task of that name.

    Raises:
        SpecError: If there is no simulation of it.
    """
    if name not in TASKS:
        raise SpecError(f"simulated task is {name!r}, must be one of {sorted(TASKS)}")
    return TASKS[name]


def make_world(*, arm: str, task: str, config: BaseModel, impedance: Impedance) -> World:
    """World of one arm and one task; the robot's name is the arm's."""
    built: Task = find_task(task).build(config)
    return World(find_arm(arm), built, impedance, name=arm)


CAMERA_NAMES = {"wrist": "hand/wrist", "front": "front"}
"""Camera of a cell -> camera of the scene."""
