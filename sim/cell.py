"""The builder of the simulated world that a task's configuration describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from pydantic import BaseModel

from robot_stack.types.errors import SpecError
from sim.hands import Hands, OperatorConfig
from sim.peg_hands import PegHands, PegWithdrawHands
from sim.scene import Task
from sim.simulated_arm import PlacedArm
from sim.tasks.peg_insert import PegInsert, PegInsertConfig
from sim.tasks.peg_withdraw import PegWithdraw
from sim.tasks.two_arm_insert import LEFT, RIGHT, TwoArmInsert, TwoArmInsertConfig
from sim.two_hands import TwoHands
from sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry:
    """A task that can be simulated, with its configuration and the hands that do it.

    Attributes:
        config: Model of its `sim` section.
        build: Its class.
        hands: How an operator does it, from skill, generator and full deflections (N, 6).
        arms: Names of the arms it needs, in this order; empty for any one.
        back: The class of its way back, built from the same section; None if it has none.
        back_hands: How an operator does that.
    """

    config: type[BaseModel]
    build: Any
    hands: Callable[[OperatorConfig, np.random.Generator, np.ndarray], Hands]
    arms: tuple[str, ...] = ()
    back: Any = None
    back_hands: Callable[[OperatorConfig, np.random.Generator, np.ndarray], Hands] | None = None


TASKS: Mapping[str, TaskEntry] = {
    "peg_insert": TaskEntry(
        config=PegInsertConfig, build=PegInsert, hands=PegHands, back=PegWithdraw, back_hands=PegWithdrawHands
    ),
    "two_arm_insert": TaskEntry(config=TwoArmInsertConfig, build=TwoArmInsert, hands=TwoHands, arms=(LEFT, RIGHT)),
}


def find_task(name: str) -> TaskEntry:
    """Return the entry of the simulated task of this name.

    Raises:
        SpecError: If there is no simulation of it.
    """
    if name not in TASKS:
        raise SpecError(f"simulated task is {name!r}, must be one of {sorted(TASKS)}")
    return TASKS[name]


def make_world(arms: Mapping[str, PlacedArm], *, task: str, config: BaseModel) -> World:
    """Build the world of the arms of a cell and one task.

    Raises:
        SpecError: If the task needs other arms.
    """
    entry = find_task(task)
    if tuple(arms) != entry.arms and (entry.arms or len(arms) != 1):
        wanted = ", ".join(entry.arms) or "one, of any name"
        raise SpecError(f"arms are {', '.join(arms)}, must be {wanted} for the simulated task {task!r}; take its cell")
    built: Task = entry.build(config)
    return World(arms, built, None if entry.back is None else entry.back(config))


def scene_camera(name: str, model: mujoco.MjModel) -> str:
    """Return the scene's camera behind one of a cell.

    `wrist` or `<arm>_wrist` is on a hand; any other is one that the task put up.

    Raises:
        SpecError: If there is none.
    """
    arm = name.rpartition("_")[0]
    inside = {"wrist": "hand/wrist", f"{arm}_wrist": f"{arm}/hand/wrist"}.get(name, name)
    there = [model.camera(number).name for number in range(model.ncam)]
    if inside not in there:
        raise SpecError(
            f"simulated camera is {name!r}, must be one of those of the scene, {there}; rename it in the cell"
        )
    return inside
