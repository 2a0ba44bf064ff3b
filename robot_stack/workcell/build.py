"""Builds the parts of a simulated cell from a resolved run; nodes and the in-process cell use the same builders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from robot_stack.config import teleop
from robot_stack.config.environment import EnvironmentConfig, find_environments
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.robot import RobotConfig, SimRobot
from robot_stack.control.action_space import ActionSpace
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.interfaces import SimulatedCell
from robot_stack.types.pose import Pose
from robot_stack.types.transition import back_id
from robot_stack.workcell.build_safety import build_safety
from robot_stack.workcell.local_cell import LocalCell
from sim.arms import HAND, HAND_OPEN_M, ArmModel, Twin, find_arm
from sim.cell import find_task, make_world, scene_camera
from sim.controller import Impedance
from sim.operator import ScriptedOperator
from sim.randomise import KEY, RandomiseConfig
from sim.simulated_arm import PlacedArm
from sim.world import World


def placed_arms(resolved: ResolvedRun) -> dict[str, PlacedArm]:
    """Return the arms of the cell, as a simulated world places them.

    Raises:
        ConfigError: If one is real.
    """
    return {
        name: PlacedArm(
            gains=Impedance(**_simulated(arm.robot).impedance.model_dump()),
            model=_model(_simulated(arm.robot)),
            T_cell_base=arm.T_cell_base,
        )
        for name, arm in resolved.arms.items()
    }


def _simulated(robot: RobotConfig) -> SimRobot:
    if not isinstance(robot, SimRobot):
        raise ConfigError(
            f"backend of robot {robot.name} is {robot.backend!r}, must be 'sim' to be simulated; name a simulated "
            "robot in the cell"
        )
    return robot


def _model(robot: SimRobot) -> ArmModel:
    twin = robot.twin
    if twin is None:
        return find_arm(robot.name)
    flange = Pose(position_m=np.array(twin.flange_position_m), quaternion_xyzw=np.array(twin.flange_quaternion_xyzw))
    return ArmModel(
        arm_file=Path(twin.mjcf).expanduser(),
        hand_file=HAND,
        joints=tuple(joint.name for joint in robot.joints),
        home_rad=robot.home_rad,
        gripper_open_m=HAND_OPEN_M,
        twin=Twin(
            body=twin.flange_body,
            T_body_flange=flange,
            torques_nm=tuple(joint.max_torque_nm for joint in robot.joints),
        ),
    )


def build_world(resolved: ResolvedRun) -> World:
    """Build the simulated world of a run, with its arms and task.

    Raises:
        ConfigError: If the task has a way back and the simulated one has none.
    """
    return make_world(
        placed_arms(resolved),
        task=resolved.task.name,
        scene=resolved.task.simulated,
        config=scene_settings(resolved),
        others=other_settings(resolved),
        randomise=resolved.section(f"task.sim.{KEY}", RandomiseConfig),
    )


def scene_settings(resolved: ResolvedRun) -> Any:
    """Check the simulated scene of a run's task, and return its settings, a model of its own.

    Raises:
        ConfigError: If a setting does not fit, or the task has a way back and the simulated one has none.
    """
    try:
        task = find_task(resolved.task.simulated)
    except ConfigError as error:
        key = "task.name" if resolved.task.scene is None else "task.scene"
        raise ConfigError(str(resolved.mistake(key, str(error)))) from None
    if resolved.task.backward is not None and task.back is None:
        text = f"scene {resolved.task.simulated!r} has no way back, must be done one way; leave 'backward' out"
        raise ConfigError(str(resolved.mistake("task.backward", text)))
    settings = resolved.section("task.sim", task.config, without=KEY)
    tighter_m = resolved.section(f"task.sim.{KEY}", RandomiseConfig).limits("tighter_m")[1]
    clearance_m = getattr(settings, "clearance_m", np.inf)
    if tighter_m >= clearance_m:
        text = (
            f"tighter_m reaches {tighter_m} m, must be less than clearance_m ({clearance_m}); the part would not go in"
        )
        raise ConfigError(str(resolved.mistake(f"task.sim.{KEY}.tighter_m", text)))
    return settings


def other_settings(resolved: ResolvedRun) -> dict[str, Any]:
    """Check the settings of the other tasks of a run in the same simulated scene, and return them by task id.

    Raises:
        ConfigError: If one does not fit, or would make another scene than the first task's.
    """
    wanted = scene_settings(resolved)
    entry, found = find_task(resolved.task.simulated), {}
    alike = set(entry.config.model_fields) - set(entry.goals)
    for index, other in enumerate(resolved.task.others):
        key = f"task.others.{index}.sim"
        settings = resolved.section(key, entry.config, without=KEY)
        for name in sorted(alike):
            have, must_be = getattr(settings, name), getattr(wanted, name)
            if have != must_be:
                may = ", ".join(entry.goals) or "nothing"
                text = (
                    f"{name} of task {other.name} is {have}, must be {must_be} as in {resolved.task.name}: both are in "
                    f"one scene, and may differ in {may}; make them alike"
                )
                raise ConfigError(str(resolved.mistake(f"{key}.{name}", text)))
        if resolved.section(f"{key}.{KEY}", RandomiseConfig) != resolved.section(f"task.sim.{KEY}", RandomiseConfig):
            text = f"{KEY} of task {other.name} must be as in {resolved.task.name}, in one scene; make it alike"
            raise ConfigError(str(resolved.mistake(f"{key}.{KEY}", text)))
        found[other.name] = settings
    return found


def scene_sections(resolved: ResolvedRun) -> dict[str, BaseModel]:
    """Return the free sections of a simulated scene or an environment by their dotted keys, with every default.

    Raises:
        ConfigError: If a setting does not fit.
    """
    if resolved.is_environment:
        return {"task.sim": resolved.section("task.sim", EnvironmentConfig)}
    randomise = resolved.section(f"task.sim.{KEY}", RandomiseConfig)
    return {"task.sim": scene_settings(resolved), f"task.sim.{KEY}": randomise}


def check_scene(resolved: ResolvedRun) -> None:
    """Refuse a simulated scene's settings and cameras that do not fit; an arm from elsewhere is not built for that.

    Raises:
        ConfigError: With the place of the first mistake.
    """
    other_settings(resolved)
    if any(isinstance(robot, SimRobot) and robot.twin is not None for robot in resolved.robots.values()):
        return
    model = build_world(resolved).model
    for name, camera in resolved.cameras.items():
        if camera.backend == "sim":
            try:
                scene_camera(name, model)
            except SpecError as error:
                raise ConfigError(str(resolved.mistake(f"cell.cameras.{name}", str(error)))) from None


def build_operator(resolved: ResolvedRun, seed: int) -> ScriptedOperator:
    """Build the scripted operator of a cell whose teleop device is `scripted`, with a hand for each arm."""
    space, names = ActionSpace(resolved.spec()), list(resolved.arms)
    device = resolved.teleop
    config = device.operator if isinstance(device, teleop.ScriptedTeleop) else teleop.OperatorConfig()
    rng = np.random.default_rng(seed)
    entry, scales = find_task(resolved.task.simulated), np.array([space.full_scale(name) for name in names])
    name = resolved.task.name
    back = {} if entry.back_hands is None else {back_id(name): entry.back_hands(config, rng, scales)}
    hands = {task_id: entry.hands(config, rng, scales) for task_id in resolved.task.equal_ids}
    return ScriptedOperator(config, rng, hands | back, names)


def build_local_cell(resolved: ResolvedRun, seed: int, *, observation_age_s: float = 0.0) -> SimulatedCell:
    """Build the simulated cell of a run in this process: MuJoCo's, or the environment that the task names.

    Args:
        resolved: The run.
        seed: Of the scripted operator.
        observation_age_s: Age of what MuJoCo's cell shows when it is acted on; an environment waits for each action.

    Raises:
        ConfigError: If the environment cannot be made.
    """
    if not resolved.is_environment:
        return build_mujoco_cell(resolved, seed, observation_age_s=observation_age_s)
    settings = resolved.section("task.sim", EnvironmentConfig)
    return find_environments().build(settings, resolved.spec().sensed)


def build_mujoco_cell(
    resolved: ResolvedRun, seed: int, *, observation_age_s: float = 0.0, world: World | None = None
) -> LocalCell:
    """Build the whole cell in MuJoCo in this process, whose observations are so old when they are acted on.

    Args:
        resolved: The run.
        seed: Of the scripted operator.
        observation_age_s: Age of what it shows when it is acted on.
        world: That of the run, if it is there already.
    """
    return LocalCell(
        resolved.spec(),
        resolved.task,
        resolved.cameras,
        world or build_world(resolved),
        build_safety(resolved, attended=False),
        build_operator(resolved, seed),
        observation_age_s=observation_age_s,
    )
