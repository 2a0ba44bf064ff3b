"""Builds the parts of a simulated cell from a resolved run; nodes and the in-process cell use the same builders."""

from __future__ import annotations

import numpy as np

from robot_stack.config import teleop
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.robot import SimRobot
from robot_stack.control.action_space import ActionSpace
from robot_stack.run.build_safety import build_safety
from robot_stack.run.local_cell import LocalCell
from robot_stack.types.errors import ConfigError
from sim.cell import find_task, make_world
from sim.controller import Impedance
from sim.operator import OperatorConfig, ScriptedOperator
from sim.world import World


def build_world(resolved: ResolvedRun) -> World:
    """The simulated arm and task."""
    return make_world(
        arm=resolved.robot.name,
        task=resolved.task.name,
        config=resolved.section("task.sim", find_task(resolved.task.name).config),
        impedance=build_impedance(resolved),
    )


def build_impedance(resolved: ResolvedRun) -> Impedance:
    """Gains of the simulated arm's controller.

    Raises:
        ConfigError: If the cell's arm is a real one.
    """
    robot = resolved.robot
    if not isinstance(robot, SimRobot):
        raise ConfigError(
            f"backend of robot {robot.name} is {robot.backend!r}, must be 'sim' to be simulated; name a simulated "
            "robot in the cell"
        )
    return Impedance(**robot.impedance.model_dump())


def build_operator(resolved: ResolvedRun, seed: int) -> ScriptedOperator:
    """The scripted person of a cell whose teleop device is `scripted`."""
    scale = ActionSpace(resolved.spec()).full_scale(resolved.robot.name)
    person = resolved.teleop.operator or teleop.OperatorConfig()
    config = OperatorConfig(**person.model_dump())
    return ScriptedOperator(
        config, np.random.default_rng(seed), linear_m_s=float(scale[0]), angular_rad_s=float(scale[5])
    )


def build_local_cell(resolved: ResolvedRun, seed: int) -> LocalCell:
    """The whole cell in this process."""
    return LocalCell(
        resolved.spec(),
        resolved.cameras,
        build_world(resolved),
        build_safety(resolved),
        build_operator(resolved, seed),
    )
