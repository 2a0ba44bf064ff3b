"""Says of a cell's boxes, before anything starts, whether they are those of its arms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.files.mistake import Mistake
from robot_stack.config.resolved import ResolvedRun
from robot_stack.workcell.build_arm import build_chain

BESIDE_M = 0.05
"""Farthest that the tool may stand from the box while the arm is at home."""


def boxes_of_others(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Yield a mistake for each real arm whose home lies outside the box in which its tool may be.

    The safety filter would let such an arm do nothing but come home into a box that was measured for another arm, or
    another table. An arm without a table or file of its kinematics is not judged.

    Raises:
        ConfigError: If a URDF file cannot be read.
    """
    for arm in resolved.arms.values():
        chain = build_chain(arm.robot) if isinstance(arm.robot, DriverRobot) else None
        if chain is None:
            continue
        home_m = chain.pose(np.array(arm.robot.home_rad)).position_m
        low_m, high_m = np.array(arm.workspace.min_m), np.array(arm.workspace.max_m)
        if float(np.linalg.norm(home_m - np.clip(home_m, low_m, high_m))) <= BESIDE_M:
            continue
        key = f"cell.arms.{arm.name}.workspace" if resolved.cell.arms else "cell.workspace"
        at = ", ".join(f"{entry:.3f}" for entry in home_m)
        text = (
            f"the home of robot {arm.robot.name} has its tool at [{at}] m, must be in the box; measure the box in the "
            "frame of this arm's base, or choose another home_rad"
        )
        yield resolved.mistake(key, text)
