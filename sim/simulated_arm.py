"""One arm of a simulated world: its controller, its gripper, and the state that its driver would report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose, rotate_twist, turn_between
from robot_stack.types.robot import RobotState
from sim.arms import ArmModel
from sim.controller import Impedance, ImpedanceController

CLOSED_FORCE_TARGET_M = -0.02
"""Position target that makes the gripper press with its force limit."""
FINGER_SPEED_M_S = 0.1
"""Of each finger, when the gripper is told to open or close."""
LONGEST_STEP_RAD = 1.5
"""Of a joint between two guesses of the inverse kinematics: a longer one may wind a joint up by whole turns."""
DOWN = Pose(position_m=np.zeros(3), quaternion_xyzw=np.array([1.0, 0.0, 0.0, 0.0]))
"""A tool that points down, without yaw."""
AT_ORIGIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
WRENCH_SMOOTHING = 0.05
"""Share of a new reading in the reported wrench, at each time step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedArm:
    """An arm of a scene and where it stands.

    Attributes:
        model: What it is.
        gains: Of its controller.
        T_cell_base: Where it stands; the frame of the cell is the scene's.
    """

    model: ArmModel
    gains: Impedance = field(default_factory=Impedance)
    T_cell_base: Pose = field(default_factory=Pose.identity)


class SimulatedArm:
    """An arm of one simulated world.

    Args:
        name: Of the arm.
        placed: What it is and where it stands.
        model: The compiled scene.
        prefix: Of its names in the scene.
    """

    def __init__(self, name: str, placed: PlacedArm, model: mujoco.MjModel, prefix: str) -> None:
        self.name = name
        self._arm = placed.model
        at_origin = np.array_equal([*placed.T_cell_base.position_m, *placed.T_cell_base.quaternion_xyzw], AT_ORIGIN)
        self._T_base_cell = None if at_origin else placed.T_cell_base.inverse()
        self._model = model
        self._controller = ImpedanceController(model, placed.model, placed.gains, prefix)
        joints = [f"{prefix}arm/{joint}" for joint in placed.model.joints]
        self._qpos = np.array([model.joint(joint).qposadr[0] for joint in joints])
        self._dofs = np.array([model.joint(joint).dofadr[0] for joint in joints])
        self._site = model.site(f"{prefix}hand/tcp").id
        self._gripper = model.actuator(f"{prefix}hand/gripper").id
        self._finger_range_m = model.actuator_ctrlrange[self._gripper]
        self._finger_target_m: float | None = None
        """Where the fingers are going; None where they stay as they were told at the start."""
        self._fingers = [int(model.joint(f"{prefix}hand/{side}_finger").qposadr[0]) for side in ("left", "right")]
        force, torque = (model.sensor(f"{prefix}hand/wrist_{kind}").adr[0] for kind in ("force", "torque"))
        self._sensor = np.array([*range(force, force + 3), *range(torque, torque + 3)])
        self._jacobian = np.zeros((6, model.nv))
        self._twist = np.zeros(6)
        self._tare = np.zeros(6)
        self._wrench = np.zeros(6)

    def stand_at_home(self, data: mujoco.MjData) -> None:
        """Put the joints at the arm's own start pose."""
        data.qpos[self._qpos] = self._arm.home_rad

    def stand_at(self, data: mujoco.MjData, target: np.ndarray) -> None:
        """Put the TCP at x, y, z [m] and yaw [rad] in the cell, pointing down, with the gripper half open.

        Raises:
            RobotError: If the pose cannot be reached.
        """
        data.qpos[self._qpos] = self._solve(target)
        for finger in self._fingers:
            data.qpos[finger] = self._arm.gripper_open_m / 2

    def take_hold(self, data: mujoco.MjData) -> None:
        """Hold the present pose, and close the gripper with its force limit."""
        self._hold_still(data)
        data.ctrl[self._gripper] = CLOSED_FORCE_TARGET_M

    def open_hand(self, data: mujoco.MjData) -> None:
        """Hold the present pose, with the gripper open from now on."""
        self._hold_still(data)
        data.qpos[self._fingers] = data.ctrl[self._gripper] = self._arm.gripper_open_m

    def _hold_still(self, data: mujoco.MjData) -> None:
        self._controller.reset(data)
        self._twist[:] = 0.0
        self._finger_target_m = None

    def tare(self, data: mujoco.MjData) -> None:
        """Set the present reading of the force sensor as zero."""
        self._tare = self._raw_wrench(data)
        self._wrench[:] = 0.0

    def command(self, data: mujoco.MjData, twist: np.ndarray, gripper: float | None) -> None:
        """Follow a tcp-frame twist (6,) until the next call; `gripper` 0 closes, 1 opens, None leaves it."""
        self._twist[:] = twist
        if gripper is not None:
            open_m = self._arm.gripper_open_m
            self._finger_target_m = CLOSED_FORCE_TARGET_M + gripper * (open_m - CLOSED_FORCE_TARGET_M)

    def actuate(self, data: mujoco.MjData, dt_s: float) -> None:
        """Write the joint torques of one time step, and move the fingers on."""
        self._controller.step(data, self._twist, dt_s)
        if self._finger_target_m is not None:
            step, now = FINGER_SPEED_M_S * dt_s, np.clip(data.ctrl[self._gripper], *self._finger_range_m)
            data.ctrl[self._gripper] = now + np.clip(self._finger_target_m - now, -step, step)

    def feel(self, data: mujoco.MjData) -> None:
        """Read the force sensor after a time step."""
        self._wrench += WRENCH_SMOOTHING * (self._raw_wrench(data) - self._tare - self._wrench)

    def velocity(self, data: mujoco.MjData) -> np.ndarray:
        """Return the velocity of the TCP along the axes of the cell, m/s and rad/s, shape (6,)."""
        mujoco.mj_jacSite(self._model, data, self._jacobian[:3], self._jacobian[3:], self._site)
        return self._jacobian @ data.qvel

    def state(self, data: mujoco.MjData, stamp_ns: int) -> RobotState:
        """Return the state that the robot's driver would report."""
        R_cell_tcp = data.site_xmat[self._site].reshape(3, 3)
        T_cell_tcp = Pose.from_rotation_matrix(data.site_xpos[self._site].copy(), R_cell_tcp)
        return RobotState(
            arm=self.name,
            stamp_ns=stamp_ns,
            T_base_tcp=self._from_base(T_cell_tcp),
            twist=rotate_twist(self.velocity(data), R_cell_tcp.T),
            wrench=self._wrench.copy(),
            joints_rad=data.qpos[self._qpos].copy(),
            joint_speeds_rad_s=data.qvel[self._dofs].copy(),
            gripper=min(max(float(data.qpos[self._fingers[0]]) / self._arm.gripper_open_m, 0.0), 1.0),
        )

    def in_base(self, pose: np.ndarray) -> np.ndarray:
        """Turn a pose of the TCP pointing down, x, y, z [m] and yaw [rad], from cell to base frame; shape (4,)."""
        if self._T_base_cell is None:
            return pose.copy()
        half = 0.5 * float(pose[3])
        turned = np.array([math.cos(half), math.sin(half), 0.0, 0.0])
        return as_seen(self._from_base(Pose(position_m=pose[:3], quaternion_xyzw=turned)))

    def _from_base(self, T_cell_any: Pose) -> Pose:
        return T_cell_any if self._T_base_cell is None else self._T_base_cell @ T_cell_any

    def _solve(self, target: np.ndarray) -> np.ndarray:
        """Solve inverse kinematics by damped least squares: joints (J,) for the pose `target` in the cell."""
        data = mujoco.MjData(self._model)
        q = np.array(self._arm.home_rad)
        wanted = Rotation.from_euler("z", target[3]) * Rotation.from_euler("x", np.pi)
        for _ in range(100):
            data.qpos[self._qpos] = q
            mujoco.mj_kinematics(self._model, data)
            mujoco.mj_comPos(self._model, data)
            rotation = Rotation.from_matrix(data.site_xmat[self._site].reshape(3, 3))
            error = np.concatenate([target[:3] - data.site_xpos[self._site], (wanted * rotation.inv()).as_rotvec()])
            if np.abs(error).max() < 1e-5:
                return q
            mujoco.mj_jacSite(self._model, data, self._jacobian[:3], self._jacobian[3:], self._site)
            jacobian = self._jacobian[:, self._dofs]
            step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-6 * np.eye(6), error)
            q = q + step * min(1.0, LONGEST_STEP_RAD / float(np.abs(step).max()))
        raise RobotError(f"start pose is {target}, must be reachable by {self.name}; move the task closer to the base")

    def _raw_wrench(self, data: mujoco.MjData) -> np.ndarray:
        return np.asarray(-data.sensordata[self._sensor])


def as_seen(T_base_tcp: Pose) -> np.ndarray:
    """Return a TCP as an operator sees it: x, y, z [m] and yaw [rad] of a tool that points down, shape (4,)."""
    return np.array([*T_base_tcp.position_m, turn_between(DOWN, T_base_tcp)[2]])
