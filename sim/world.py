"""The simulated workcell: physics, impedance-controlled arm, cameras, and the truth for audits.

Time moves only through `advance`, so that the same world serves a steady 100 Hz ROS timer and a loop that runs as
fast as it can.
"""

from __future__ import annotations

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState
from sim.arms import ArmModel
from sim.controller import Impedance, ImpedanceController
from sim.scene import TIMESTEP_S, Task, build_model

CLOSED_FORCE_TARGET_M = -0.02
"""Position target that makes the gripper press with its force limit."""


class World:
    """One arm and one task in MuJoCo."""

    def __init__(self, arm: ArmModel, task: Task, gains: Impedance | None = None, *, name: str = "arm") -> None:
        self.task = task
        self.model = build_model(arm, task)
        self.data = mujoco.MjData(self.model)
        self._arm = arm
        self._name = name
        self._controller = ImpedanceController(self.model, arm, gains or Impedance())
        joints = [f"arm/{joint}" for joint in arm.joints]
        self._qpos = np.array([self.model.joint(joint).qposadr[0] for joint in joints])
        self._dofs = np.array([self.model.joint(joint).dofadr[0] for joint in joints])
        self._site = self.model.site("hand/tcp").id
        self._gripper = self.model.actuator("hand/gripper").id
        self._fingers = [int(self.model.joint(f"hand/{side}_finger").qposadr[0]) for side in ("left", "right")]
        self._twist = np.zeros(6)
        self._jacobian = np.zeros((6, self.model.nv))
        self._tare = np.zeros(6)
        self._wrench = np.zeros(6)
        self.time_ns = 0
        self.data.qpos[self._qpos] = arm.home_rad
        mujoco.mj_forward(self.model, self.data)

    def reset(self, seed: int) -> None:
        """Draw a start state from `seed`: same seed, same state. The arm ends at rest with the object in hand.

        Raises:
            RobotError: If the start pose cannot be reached.
        """
        rng = np.random.default_rng(seed)
        mujoco.mj_resetData(self.model, self.data)
        self.task.place(self.model, self.data, rng)
        start = self.task.start_offset(rng)
        self.data.qpos[self._qpos] = self._solve(start)
        for finger in self._fingers:
            self.data.qpos[finger] = self._arm.gripper_open_m / 2
        mujoco.mj_forward(self.model, self.data)
        self.task.settle(self.model, self.data)
        mujoco.mj_forward(self.model, self.data)
        self._controller.reset(self.data)
        self._twist[:] = 0.0
        self.data.ctrl[self._gripper] = CLOSED_FORCE_TARGET_M
        self._substep(150)
        self._tare = self._raw_wrench()
        self._wrench[:] = 0.0
        if self.task.failed(self.data):
            raise RobotError(f"reset with seed {seed} dropped the object, must end with it in hand; try another seed")

    def _solve(self, target: np.ndarray) -> np.ndarray:
        """Inverse kinematics by damped least squares: joints (J,) for TCP x, y, z, yaw pointing down."""
        data = mujoco.MjData(self.model)
        q = np.array(self._arm.home_rad)
        wanted = Rotation.from_euler("z", target[3]) * Rotation.from_euler("x", np.pi)
        for _ in range(100):
            data.qpos[self._qpos] = q
            mujoco.mj_kinematics(self.model, data)
            mujoco.mj_comPos(self.model, data)
            rotation = Rotation.from_matrix(data.site_xmat[self._site].reshape(3, 3))
            error = np.concatenate([target[:3] - data.site_xpos[self._site], (wanted * rotation.inv()).as_rotvec()])
            if np.abs(error).max() < 1e-5:
                return q
            mujoco.mj_jacSite(self.model, data, self._jacobian[:3], self._jacobian[3:], self._site)
            jacobian = self._jacobian[:, self._dofs]
            q = q + jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-6 * np.eye(6), error)
        raise RobotError(f"start pose is {target}, must be reachable by {self._name}; move the task closer to the base")

    def snapshot(self) -> np.ndarray:
        """Everything a camera needs to render this instant, float64, shape (S,): joints, mocap poses, lights."""
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

    def command(self, twist: np.ndarray, gripper: float | None = None) -> None:
        """Follow a tcp-frame twist (6,) until the next call; `gripper` 0 closes, 1 opens, None leaves it."""
        self._twist[:] = twist
        if gripper is not None:
            open_m = self._arm.gripper_open_m
            self.data.ctrl[self._gripper] = CLOSED_FORCE_TARGET_M + gripper * (open_m - CLOSED_FORCE_TARGET_M)

    def advance(self, duration_s: float) -> None:
        """Let time pass, a multiple of the time step."""
        self._substep(round(duration_s / TIMESTEP_S))

    def _substep(self, count: int) -> None:
        for _ in range(count):
            mujoco.mj_step1(self.model, self.data)
            self._controller.step(self.data, self._twist, TIMESTEP_S)
            mujoco.mj_step2(self.model, self.data)
            self._wrench += 0.05 * (self._raw_wrench() - self._tare - self._wrench)
        self.time_ns += round(count * TIMESTEP_S * 1e9)
        if not np.isfinite(self.data.qpos).all():
            raise RobotError("simulation state is not finite, must be finite; the scene is unstable")

    def _raw_wrench(self) -> np.ndarray:
        return -self.data.sensordata[:6]

    def state(self) -> RobotState:
        """What the robot's driver would report, stamped with simulated time."""
        data = self.data
        rotation = Rotation.from_matrix(data.site_xmat[self._site].reshape(3, 3))
        mujoco.mj_jacSite(self.model, data, self._jacobian[:3], self._jacobian[3:], self._site)
        velocity = self._jacobian @ data.qvel
        inverse = rotation.inv()
        return RobotState(
            arm=self._name,
            stamp_ns=self.time_ns,
            T_base_tcp=Pose.from_rotation(data.site_xpos[self._site].copy(), rotation),
            twist=np.concatenate([inverse.apply(velocity[:3]), inverse.apply(velocity[3:])]),
            wrench=self._wrench.copy(),
            joints_rad=data.qpos[self._qpos].copy(),
            joint_speeds_rad_s=data.qvel[self._dofs].copy(),
            gripper=float(np.clip(data.qpos[self._fingers[0]] / self._arm.gripper_open_m, 0.0, 1.0)),
        )
