"""The composition of a MuJoCo model, from lights and table to the task's objects, and the images of its cameras."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Protocol

import mujoco
import numpy as np

from robot_stack.types.errors import RobotError
from robot_stack.types.insertion import InsertionState
from sim import NO_GL
from sim.randomise import RandomiseConfig, add_distractors
from sim.simulated_arm import PlacedArm

TIMESTEP_S = 0.002


class CameraRenderer:
    """A renderer of named cameras of one model at one size. Belongs to the thread that made it."""

    def __init__(self, model: mujoco.MjModel, *, height_px: int, width_px: int) -> None:
        try:
            self._renderer = mujoco.Renderer(model, height_px, width_px)
        except Exception as error:  # MuJoCo's GL back ends raise whatever their loader raises
            raise RobotError(NO_GL.format(name=os.environ["MUJOCO_GL"], error=error)) from error
        scene = self._renderer.scene
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            scene.flags[flag] = 0

    def render(self, data: mujoco.MjData, camera: str) -> np.ndarray:
        """Render an image of a camera, RGB uint8, shape (H, W, 3)."""
        self._renderer.update_scene(data, camera)
        return self._renderer.render().copy()

    def __deepcopy__(self, memo: dict[int, object]) -> CameraRenderer:
        """Return itself: it keeps nothing of a world from one image to the next, and a GL context has no copy."""
        return self

    def close(self) -> None:
        """Free the renderer with its GL context."""
        self._renderer.close()


class Task(Protocol):
    """A simulated task: what it adds to a scene, and its truth, which only evaluation and audits read."""

    name: str

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add bodies, contacts and cameras."""
        ...

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Put the objects at a random start; the arms are moved afterwards."""
        ...

    def start_poses(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a random start pose of each TCP: x, y, z in the cell [m] and yaw [rad], shape (N, 4), N arms."""
        ...

    def settle(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Put what the arms hold into the hands; called once the arms stand at their start poses."""
        ...

    def succeeded(self, data: mujoco.MjData) -> bool:
        """Return True if the task is done in this state, by the simulator's truth."""
        ...

    def failed(self, data: mujoco.MjData) -> bool:
        """Return True if the task can no longer be done (object lost), by the simulator's truth."""
        ...

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the goal as an operator sees it: each TCP's x, y, z [m] and yaw [rad] when done, shape (N, 4)."""
        ...

    def grasp_poses(self, data: mujoco.MjData) -> np.ndarray | None:
        """Return where each TCP would have its part in its middle, as `goal_poses`; the hands then start open.

        None if they start with their parts. In a task of several stages it is the part of the present one, and
        `goal_poses` says where that shall go.
        """
        ...

    def stage(self, data: mujoco.MjData) -> int:
        """Return which stage comes next in this state, from 0 on; 0 in a task of one stage."""
        ...

    def milestones(self, data: mujoco.MjData) -> Mapping[str, bool]:
        """Return what the stages lead to, in their order, and whether each is so in this state; for evaluation.

        Empty in a task of one stage.
        """
        ...

    def insertion(self, data: mujoco.MjData) -> InsertionState | None:
        """Return what the score of an insertion reads of this state; None in a task that has no such score."""
        ...


def prefix_of(arm: str, arms: Collection[str]) -> str:
    """Return the prefix of an arm's names in the scene: its own name where there are several arms, else none."""
    return f"{arm}/" if len(arms) > 1 else ""


def build_model(arms: Mapping[str, PlacedArm], task: Task, randomise: RandomiseConfig) -> mujoco.MjModel:
    """Compile arms and task, and what may stand about, into one model.

    Shadows and multisampling are off: with them a 128x128 frame costs 27 ms in software instead of 3 to 5.
    """
    spec = mujoco.MjSpec()
    spec.modelname = task.name
    spec.option.timestep = TIMESTEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10
    spec.option.iterations = 30
    spec.visual.quality.offsamples = 0
    spec.visual.quality.shadowsize = 0
    spec.visual.map.znear = 0.005
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.35, 0.35, 0.35]
    spec.visual.headlight.specular = [0.0, 0.0, 0.0]
    spec.worldbody.add_light(pos=[0.3, 0.4, 1.6], dir=[0.1, -0.25, -1], diffuse=[0.5, 0.5, 0.5], castshadow=False)
    spec.worldbody.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.35, 0.45, 0.02],
        pos=[0.5, 0.0, -0.02],
        rgba=[0.62, 0.55, 0.47, 1.0],
        contype=1,
        conaffinity=1,
    )
    for name, arm in arms.items():
        arm.model.attach_to(spec, prefix_of(name, arms), arm.T_cell_base)
    task.add_to(spec)
    add_distractors(spec, randomise)
    return spec.compile()
