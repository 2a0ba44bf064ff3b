"""Cartesian impedance control in torque space, 500 Hz, with a target that a twist moves.

tau = J^T (K e - D v) + nullspace + bias, as compliance controllers on torque-driven arms do it
(Hogan, 1985, "Impedance Control"). The error is clipped, so that pushing into something costs at most
K * max_error newton along each axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from sim.arms import ArmModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Impedance:
    """Gains of the controller; defaults suit an FR3-sized arm."""

    translational_stiffness_n_m: float = 1200.0
    rotational_stiffness_nm_rad: float = 40.0
    translational_damping_ns_m: float = 110.0
    rotational_damping_nms_rad: float = 6.0
    nullspace_stiffness_nm_rad: float = 8.0
    max_position_error_m: float = 0.008
    max_rotation_error_rad: float = 0.12


def _quat_multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty(4)
    mujoco.mju_mulQuat(out, a, b)
    return out


class ImpedanceController:
    """A Cartesian impedance controller of one arm, which holds a target pose of the TCP and computes joint torques."""

    def __init__(self, model: mujoco.MjModel, arm: ArmModel, gains: Impedance, prefix: str = "") -> None:
        self._gains = gains
        self._model = model
        names = [f"{prefix}arm/{joint}" for joint in arm.joints]
        self._qpos = np.array([model.joint(name).qposadr[0] for name in names])
        self._dofs = np.array([model.joint(name).dofadr[0] for name in names])
        self._actuators = np.array([model.actuator(name).id for name in names])
        self._limits = model.actuator_ctrlrange[self._actuators]
        self._home = np.array(arm.home_rad)
        self._site = model.site(f"{prefix}hand/tcp").id
        self._jacobian = np.zeros((6, model.nv))
        self._position = np.zeros(3)
        self._quaternion = np.array([1.0, 0.0, 0.0, 0.0])  # wxyz, MuJoCo's order, inside this module only
        self._null = np.zeros((7, 7))
        self._tick = 0

    def reset(self, data: mujoco.MjData) -> None:
        """Take the present pose as the target."""
        self._position[:] = data.site_xpos[self._site]
        mujoco.mju_mat2Quat(self._quaternion, data.site_xmat[self._site])
        self._tick = 0

    def step(self, data: mujoco.MjData, twist: np.ndarray, dt_s: float) -> None:
        """Move the target by a tcp-frame twist (6,) for `dt_s` and write the torques to `data.ctrl`."""
        gains = self._gains
        position = data.site_xpos[self._site]
        current = np.empty(4)
        mujoco.mju_mat2Quat(current, data.site_xmat[self._site])
        error = self._advance(position, current, twist, dt_s)
        mujoco.mj_jacSite(self._model, data, self._jacobian[:3], self._jacobian[3:], self._site)
        jacobian = self._jacobian[:, self._dofs]
        speeds = data.qvel[self._dofs]
        velocity = jacobian @ speeds
        force = np.empty(6)
        force[:3] = gains.translational_stiffness_n_m * error[:3] - gains.translational_damping_ns_m * velocity[:3]
        force[3:] = gains.rotational_stiffness_nm_rad * error[3:] - gains.rotational_damping_nms_rad * velocity[3:]
        if self._tick % 10 == 0:
            self._null = np.eye(len(self._dofs)) - jacobian.T @ np.linalg.pinv(jacobian.T, rcond=1e-2)
        self._tick += 1
        stiffness = gains.nullspace_stiffness_nm_rad
        posture = stiffness * (self._home - data.qpos[self._qpos]) - 2.0 * np.sqrt(stiffness) * speeds
        torque = jacobian.T @ force + self._null @ posture + data.qfrc_bias[self._dofs]
        data.ctrl[self._actuators] = np.clip(torque, self._limits[:, 0], self._limits[:, 1])

    def _advance(self, position: np.ndarray, current: np.ndarray, twist: np.ndarray, dt_s: float) -> np.ndarray:
        """Integrate the target and clip it to the reachable error; return the error (6,) in the base frame."""
        gains = self._gains
        linear, angular, spin, rotation = np.empty(3), np.empty(3), np.empty(4), np.empty(3)
        mujoco.mju_rotVecQuat(linear, twist[:3], self._quaternion)
        mujoco.mju_rotVecQuat(angular, twist[3:], self._quaternion)
        error = np.empty(6)
        limit = gains.max_position_error_m  # per axis: pushing down must not take away from sliding sideways
        error[:3] = np.clip(self._position + linear * dt_s - position, -limit, limit)
        self._position[:] = position + error[:3]
        target = self._quaternion.copy()
        mujoco.mju_quatIntegrate(target, twist[3:], dt_s)
        inverse = current * [1, -1, -1, -1]
        difference = _quat_multiply(target, inverse)
        if difference[0] < 0:
            difference = -difference
        mujoco.mju_quat2Vel(rotation, difference, 1.0)
        angle = float(np.sqrt(rotation @ rotation))
        if angle > gains.max_rotation_error_rad:
            rotation *= gains.max_rotation_error_rad / angle
            mujoco.mju_axisAngle2Quat(spin, rotation / gains.max_rotation_error_rad, gains.max_rotation_error_rad)
            target = _quat_multiply(spin, current)
        mujoco.mju_normalize4(target)
        self._quaternion[:] = target
        error[3:] = rotation
        return error
