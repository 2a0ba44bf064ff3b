"""The registry of simulated tasks, those of other packages too, and the builder of the world of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from pydantic import BaseModel

from robot_stack import plugins
from robot_stack.config.teleop_parts import OperatorConfig
from robot_stack.plugins import ConfigT, Part, Registry
from robot_stack.types.errors import SpecError
from robot_stack.types.transition import back_id
from sim.drawer_hands import DrawerHands
from sim.hands import Hands
from sim.peg_hands import PegHands, PegWithdrawHands, TwoHands
from sim.pick_hands import PickHands
from sim.randomise import RandomiseConfig
from sim.scene import Task
from sim.simulated_arm import PlacedArm
from sim.tasks.cable_plug import CablePlug, CablePlugConfig
from sim.tasks.drawer import Drawer, DrawerConfig
from sim.tasks.peg_insert import PegInsert, PegInsertConfig, PegTwoSockets, PegTwoSocketsConfig, PegWithdraw
from sim.tasks.pick_insert import PickInsert, PickInsertConfig
from sim.tasks.two_arm_insert import LEFT, RIGHT, TwoArmInsert, TwoArmInsertConfig
from sim.world import World

MakeHands = Callable[[OperatorConfig, np.random.Generator, np.ndarray], Hands]
"""Builds an operator's hands from skill, generator and full deflections (N, 6)."""


@dataclass(frozen=True, kw_only=True)
class TaskEntry(Part[ConfigT]):
    """A task that can be simulated, with its configuration and the hands that do it.

    Attributes:
        config: Model of its `sim` section.
        build: Its class.
        hands: How an operator does it.
        arms: Names of the arms it needs, in this order; empty for any one.
        goals: Keys of that section that say what is to be done in the scene; tasks of one run may differ in them.
        back: The class of its way back, built from the same section; None if it has none.
        back_hands: How an operator does that.
    """

    build: Callable[[ConfigT], Task]
    hands: MakeHands
    arms: tuple[str, ...] = ()
    goals: tuple[str, ...] = ()
    back: Callable[[ConfigT], Task] | None = None
    back_hands: MakeHands | None = None


PEG_INSERT = TaskEntry(
    config=PegInsertConfig, build=PegInsert, hands=PegHands, back=PegWithdraw, back_hands=PegWithdrawHands
)
PEG_TWO_SOCKETS = TaskEntry(config=PegTwoSocketsConfig, build=PegTwoSockets, hands=PegHands, goals=("socket",))
PICK_INSERT = TaskEntry(config=PickInsertConfig, build=PickInsert, hands=PickHands)
DRAWER = TaskEntry(config=DrawerConfig, build=Drawer, hands=DrawerHands)
CABLE_PLUG = TaskEntry(config=CablePlugConfig, build=CablePlug, hands=PegHands)
TWO_ARM_INSERT = TaskEntry(config=TwoArmInsertConfig, build=TwoArmInsert, hands=TwoHands, arms=(LEFT, RIGHT))

TASKS: Registry[TaskEntry[Any]] = Registry(plugins.TASKS, TaskEntry)


def find_task(name: str) -> TaskEntry[Any]:
    """Return the entry of the simulated task of this name.

    Raises:
        ConfigError: If there is no simulation of it, or a package's cannot be used; see `Registry`.
    """
    return TASKS[name]


def make_world(
    arms: Mapping[str, PlacedArm],
    *,
    task: str,
    scene: str,
    config: BaseModel,
    others: Mapping[str, BaseModel] | None = None,
    randomise: RandomiseConfig | None = None,
) -> World:
    """Build the world of the arms of a cell and one task, which is called `task` and registered as `scene`.

    Args:
        arms: By name.
        task: Its id.
        scene: The name under which it is registered.
        config: Its settings.
        others: Other tasks in that scene, by id, with their settings.
        randomise: What varies from one reset to the next.

    Raises:
        SpecError: If the task needs other arms.
    """
    entry = find_task(scene)
    if tuple(arms) != entry.arms and (entry.arms or len(arms) != 1):
        wanted = ", ".join(entry.arms) or "one, of any name"
        raise SpecError(f"arms are {', '.join(arms)}, must be {wanted} for the simulated task {scene!r}; take its cell")
    built = entry.build(config)
    tasks = {task: built} | ({} if entry.back is None else {back_id(task): entry.back(config)})
    tasks |= {task_id: entry.build(settings) for task_id, settings in (others or {}).items()}
    return World(arms, tasks, randomise)


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
