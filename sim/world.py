"""The simulated workcell: physics, impedance-controlled arms, cameras, and the truth for audits.

Time moves only through `advance`, so that the same world serves a steady 100 Hz ROS timer and a loop that runs as
fast as it can.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import mujoco
import numpy as np

from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.robot import RobotState
from sim.randomise import Conditions, RandomiseConfig, Randomiser
from sim.scene import TIMESTEP_S, Task, build_model, prefix_of
from sim.simulated_arm import PlacedArm, SimulatedArm

SETTLE_STEPS = 150
BLOWN_UP = [
    int(kind)
    for kind in (
        mujoco.mjtWarning.mjWARN_BADQPOS,
        mujoco.mjtWarning.mjWARN_BADQVEL,
        mujoco.mjtWarning.mjWARN_BADQACC,
    )
]


class UnstableScene(RobotError):
    """The state of a scene has blown up, and MuJoCo has put the scene back by itself: nothing that moved did so."""


class World:
    """The simulated world of arms and one task in MuJoCo.

    Args:
        arms: By name, in the order of the cell.
        tasks: By id, all in the same scene, that of the first.
        randomise: What varies from one reset to the next beside what a task draws; without it nothing does.

    Attributes:
        task: What is to be done now.
        conditions: What was drawn for this episode that is not part of the model.

    Raises:
        SpecError: If something is to vary that the scene does not have.
    """

    def __init__(
        self, arms: Mapping[str, PlacedArm], tasks: Mapping[str, Task], randomise: RandomiseConfig | None = None
    ) -> None:
        self._tasks = dict(tasks)
        self.turn()
        randomise = randomise or RandomiseConfig()
        self.model = build_model(arms, self.task, randomise)
        self._randomiser = Randomiser(randomise, self.model) if randomise.varying else None
        self.conditions = Conditions(pixels=np.random.default_rng(0))
        self._late: deque[tuple[int, str, np.ndarray, float | None]] = deque()
        """Commands that arms follow later: when, which, and what."""
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
            RobotError: If a start pose cannot be reached, the object is lost, or the scene blows up (`UnstableScene`).
        """
        self.turn()
        rng, arms, data = np.random.default_rng(seed), self.arms.values(), self.data
        mujoco.mj_resetData(self.model, data)
        self._late.clear()
        if self._randomiser is not None:
            self._randomiser.restore()
        self.task.place(self.model, data, rng)
        if self._randomiser is not None:
            self.conditions = self._randomiser.draw(data, seed)
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
        """Return all that a camera needs to render this instant, float64, shape (S,): joints, mocap poses, lights.

        And what varies beside it, where something does: cameras, the table, and what is wrong with the images.
        """
        seen = () if self._randomiser is None else self.conditions.seen()
        return np.concatenate([*(part.ravel() for part in self._shown()), seen])

    def show(self, snapshot: np.ndarray) -> None:
        """Bring the scene to a snapshot of another process's world of the same task, for rendering only.

        Raises:
            RobotError: If it is of another scene.
        """
        model, data, targets = self.model, self.data, self._shown()
        seen = 0 if self._randomiser is None else self.conditions.seen().size
        wanted = sum(target.size for target in targets) + seen
        if snapshot.shape != (wanted,):
            raise RobotError(f"snapshot has shape {snapshot.shape}, must be ({wanted},); start all processes alike")
        offset = 0
        for target in targets:
            target[...] = snapshot[offset : offset + target.size].reshape(target.shape)
            offset += target.size
        if seen:
            self.conditions.show(snapshot[offset:])
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_camlight(model, data)

    def _shown(self) -> list[np.ndarray]:
        """Return the arrays that a snapshot is made of; views."""
        model, data = self.model, self.data
        moved = [data.qpos, data.mocap_pos, data.mocap_quat, model.light_diffuse, model.vis.headlight.diffuse]
        return moved if self._randomiser is None else [*moved, *self._randomiser.shown()]

    def command(self, twist: np.ndarray, gripper: float | None = None, *, arm: str = "") -> None:
        """Follow a tcp-frame twist (6,) until the next call; `gripper` 0 closes, 1 opens, None leaves it.

        Args:
            twist: m/s and rad/s.
            gripper: Wanted opening.
            arm: Which; may be left out where there is one.
        """
        delay_ns = round(1e9 * self.conditions.delay_s)
        if delay_ns:
            self._late.append((self.time_ns + delay_ns, arm, twist.copy(), gripper))
        else:
            self._which(arm).command(self.data, twist, gripper)

    def advance(self, duration_s: float) -> None:
        """Let time pass, by a multiple of the time step.

        Raises:
            UnstableScene: If the state has blown up since the reset.
        """
        self._substep(round(duration_s / TIMESTEP_S))

    def state(self, arm: str = "") -> RobotState:
        """Return the state that the robot's driver would report, stamped with simulated time; `arm` as in `command`."""
        return self._which(arm).state(self.data, self.time_ns)

    @property
    def unstable(self) -> bool:
        """Return whether MuJoCo has put back the scene by itself since the reset, because its state had blown up."""
        return bool(self.data.warning.number[BLOWN_UP].any())

    def _which(self, name: str) -> SimulatedArm:
        if name in self.arms:
            return self.arms[name]
        if name or len(self.arms) > 1:
            raise SpecError(f"simulated arm is {name!r}, must be one of {list(self.arms)}")
        return next(iter(self.arms.values()))

    def _substep(self, count: int) -> None:
        arms = tuple(self.arms.values())
        for step in range(count):
            while self._late and self._late[0][0] <= self.time_ns + round(step * TIMESTEP_S * 1e9):
                _, name, twist, gripper = self._late.popleft()
                self._which(name).command(self.data, twist, gripper)
            mujoco.mj_step1(self.model, self.data)
            for arm in arms:
                arm.actuate(self.data, TIMESTEP_S)
            mujoco.mj_step2(self.model, self.data)
            for arm in arms:
                arm.feel(self.data)
        self.time_ns += round(count * TIMESTEP_S * 1e9)
        if self.unstable:
            raise UnstableScene(
                "scene has blown up and jumped back to where its model begins, must move steadily; reset it, and if it "
                "happens again give its parts masses, sizes and forces that are less far apart"
            )
