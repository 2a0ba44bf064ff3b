"""Cartesian impedance control in torque space, 500 Hz, with a target that a twist moves.

tau = J^T (K e - D v) + nullspace + bias, as compliance controllers on torque-driven arms do it
(Hogan, 1985, "Impedance Control"). The error is clipped, so that pushing into something costs at most
K * max_error newton along each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class ImpedanceController:
    """A Cartesian impedance controller of one arm, which holds a target pose of the TCP and computes joint torques.

    In plain numpy this took more than half of a simulated step, so arrays are kept, and triples are handled as floats.
    """

    def __init__(self, model: mujoco.MjModel, arm: ArmModel, gains: Impedance, prefix: str = "") -> None:
        self._gains = gains
        self._model = model
        names = [f"{prefix}arm/{joint}" for joint in arm.joints]
        self._qpos = span([model.joint(name).qposadr[0] for name in names])
        self._dofs = span([model.joint(name).dofadr[0] for name in names])
        actuators = [model.actuator(name).id for name in names]
        self._actuators = span(actuators)
        self._low_nm, self._high_nm = model.actuator_ctrlrange[actuators].T.copy()
        self._home = np.array(arm.home_rad)
        self._site = model.site(f"{prefix}hand/tcp").id
        self._jacobian = np.zeros((6, model.nv))
        self._stiffness = np.repeat([gains.translational_stiffness_n_m, gains.rotational_stiffness_nm_rad], 3)
        self._damping = np.repeat([gains.translational_damping_ns_m, gains.rotational_damping_nms_rad], 3)
        self._posture_damping = 2.0 * np.sqrt(gains.nullspace_stiffness_nm_rad)
        self._position = np.zeros(3)
        self._quaternion = np.array([1.0, 0.0, 0.0, 0.0])  # wxyz, MuJoCo's order, inside this module only
        self._null = np.zeros((len(names), len(names)))
        self._error, self._linear, self._rotation = np.empty(6), np.empty(3), np.empty(3)
        self._current, self._inverse, self._difference, self._spin = (np.empty(4) for _ in range(4))
        self._tick = 0

    def reset(self, data: mujoco.MjData) -> None:
        """Take the present pose as the target."""
        self._position[:] = data.site_xpos[self._site]
        mujoco.mju_mat2Quat(self._quaternion, data.site_xmat[self._site])
        self._tick = 0

    def step(self, data: mujoco.MjData, twist: np.ndarray, dt_s: float) -> None:
        """Move the target by a tcp-frame twist (6,) for `dt_s` and write the torques to `data.ctrl`."""
        mujoco.mju_mat2Quat(self._current, data.site_xmat[self._site])
        self._advance(data.site_xpos[self._site], twist, dt_s)
        mujoco.mj_jacSite(self._model, data, self._jacobian[:3], self._jacobian[3:], self._site)
        jacobian = self._jacobian[:, self._dofs].copy(order="F")
        speeds = data.qvel[self._dofs]
        force = self._stiffness * self._error - self._damping * jacobian.dot(speeds)
        if self._tick % 10 == 0:
            self._null = np.eye(len(self._home)) - jacobian.T @ np.linalg.pinv(jacobian.T, rcond=1e-2)
        self._tick += 1
        posture = self._gains.nullspace_stiffness_nm_rad * (self._home - data.qpos[self._qpos])
        posture -= self._posture_damping * speeds
        torque = jacobian.T.dot(force)
        torque += self._null.dot(posture)
        torque += data.qfrc_bias[self._dofs]
        data.ctrl[self._actuators] = np.minimum(np.maximum(torque, self._low_nm), self._high_nm)

    def _advance(self, position: np.ndarray, twist: np.ndarray, dt_s: float) -> None:
        """Integrate the target and clip it to the reachable error, which is left in the base frame in `_error` (6,)."""
        gains, error, target = self._gains, self._error, self._quaternion
        mujoco.mju_rotVecQuat(self._linear, twist[:3], target)
        limit = gains.max_position_error_m  # per axis: pushing down must not take away from sliding sideways
        axes = zip(self._position.tolist(), self._linear.tolist(), position.tolist())
        error[:3] = clipped = [min(max(goal + speed * dt_s - here, -limit), limit) for goal, speed, here in axes]
        np.add(position, clipped, self._position)
        mujoco.mju_quatIntegrate(target, twist[3:], dt_s)
        mujoco.mju_negQuat(self._inverse, self._current)
        mujoco.mju_mulQuat(self._difference, target, self._inverse)
        if self._difference[0] < 0:
            self._difference *= -1.0
        rotation = self._rotation
        mujoco.mju_quat2Vel(rotation, self._difference, 1.0)
        angle = float(np.sqrt(rotation.dot(rotation)))
        if angle > gains.max_rotation_error_rad:
            rotation *= gains.max_rotation_error_rad / angle
            axis = rotation / gains.max_rotation_error_rad
            mujoco.mju_axisAngle2Quat(self._spin, axis, gains.max_rotation_error_rad)
            mujoco.mju_mulQuat(target, self._spin, self._current)
        mujoco.mju_normalize4(target)
        error[3:] = rotation


def span(indices: Sequence[int]) -> slice | np.ndarray:
    """Return indices as a slice where they follow one another, so that what it takes is a view, else as an array."""
    first, count = int(indices[0]), len(indices)
    return slice(first, first + count) if list(indices) == list(range(first, first + count)) else np.array(indices)
