"""The simulated workcell: physics, impedance-controlled arms, cameras, and the truth for audits.

Time moves only through `advance`, so that the same world serves a steady 100 Hz ROS timer and a loop that runs as
fast as it can.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.robot import RobotState
from sim.scene import TIMESTEP_S, Task, build_model, prefix_of
from sim.simulated_arm import PlacedArm, SimulatedArm

SETTLE_STEPS = 150


class World:
    """The simulated world of arms and one task in MuJoCo.

    Args:
        arms: By name, in the order of the cell.
        tasks: By id, all in the same scene, that of the first.

    Attributes:
        task: What is to be done now.
    """

    def __init__(self, arms: Mapping[str, PlacedArm], tasks: Mapping[str, Task]) -> None:
        self._tasks = dict(tasks)
        self.turn()
        self.model = build_model(arms, self.task)
        self.data = mujoco.MjData(self.model)
        self.arms = {
            name: SimulatedArm(name, placed, self.model, prefix_of(name, arms)) for name, placed in arms.items()
        }
        self.time_ns = 0
        for arm in self.arms.values():
            arm.stand_at_home(self.data)
        mujoco.mj_forward(self.model, self.data)

    def turn(self, task_id: str | None = None) -> None:
        """Choose the task that is to be done now, None for the first; nothing moves.

        Raises:
            SpecError: If no simulated task has this id.
        """
        wanted = next(iter(self._tasks)) if task_id is None else task_id
        if wanted not in self._tasks:
            raise SpecError(f"simulated task is {wanted!r}, must be one of {', '.join(self._tasks)}")
        self.task = self._tasks[wanted]

    def reset(self, seed: int) -> None:
        """Draw a start state from `seed`: same seed, same state. The arms end at rest, holding their parts or open.

        Raises:
            RobotError: If a start pose cannot be reached.
        """
        self.turn()
        rng, arms, data = np.random.default_rng(seed), self.arms.values(), self.data
        mujoco.mj_resetData(self.model, data)
        self.task.place(self.model, data, rng)
        for arm, start in zip(arms, self.task.start_poses(rng), strict=True):
            arm.stand_at(data, start)
        mujoco.mj_forward(self.model, data)
        self.task.settle(self.model, data)
        mujoco.mj_forward(self.model, data)
        holding = self.task.grasp_poses(data) is None
        for arm in arms:
            arm.take_hold(data) if holding else arm.open_hand(data)
        self._substep(SETTLE_STEPS)
        for arm in arms:
            arm.tare(data)
        if self.task.failed(data):
            raise RobotError(f"reset with seed {seed} lost the object, must end with it in place; try another seed")

    def snapshot(self) -> np.ndarray:
        """Return all that a camera needs to render this instant, float64, shape (S,): joints, mocap poses, lights."""
        model, data = self.model, self.data
        return np.concatenate(
            [
                data.qpos,
                data.mocap_pos.ravel(),
                data.mocap_quat.ravel(),
                model.light_diffuse.ravel(),
                model.vis.headlight.diffuse,
            ]
        )

    def show(self, snapshot: np.ndarray) -> None:
        """Bring the scene to a snapshot of another process's world of the same task, for rendering only.

        Raises:
            RobotError: If it is of another scene.
        """
        model, data = self.model, self.data
        targets = [data.qpos, data.mocap_pos, data.mocap_quat, model.light_diffuse, model.vis.headlight.diffuse]
        wanted = sum(target.size for target in targets)
        if snapshot.shape != (wanted,):
            raise RobotError(f"snapshot has shape {snapshot.shape}, must be ({wanted},); start all processes alike")
        offset = 0
        for target in targets:
            target[...] = snapshot[offset : offset + target.size].reshape(target.shape)
            offset += target.size
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)

    def command(self, twist: np.ndarray, gripper: float | None = None, *, arm: str = "") -> None:
        """Follow a tcp-frame twist (6,) until the next call; `gripper` 0 closes, 1 opens, None leaves it.

        Args:
            twist: m/s and rad/s.
            gripper: Wanted opening.
            arm: Which; may be left out where there is one.
        """
        self._which(arm).command(self.data, twist, gripper)

    def advance(self, duration_s: float) -> None:
        """Let time pass, by a multiple of the time step."""
        self._substep(round(duration_s / TIMESTEP_S))

    def state(self, arm: str = "") -> RobotState:
        """Return the state that the robot's driver would report, stamped with simulated time; `arm` as in `command`."""
        return self._which(arm).state(self.data, self.time_ns)

    def _which(self, name: str) -> SimulatedArm:
        if name in self.arms:
            return self.arms[name]
        if name or len(self.arms) > 1:
            raise SpecError(f"simulated arm is {name!r}, must be one of {list(self.arms)}")
        return next(iter(self.arms.values()))

    def _substep(self, count: int) -> None:
        arms = tuple(self.arms.values())
        for _ in range(count):
            mujoco.mj_step1(self.model, self.data)
            for arm in arms:
                arm.actuate(self.data, TIMESTEP_S)
            mujoco.mj_step2(self.model, self.data)
            for arm in arms:
                arm.feel(self.data)
        self.time_ns += round(count * TIMESTEP_S * 1e9)
        if not np.isfinite(self.data.qpos).all():
            raise RobotError("simulation state is not finite, must be finite; the scene is unstable")
