"""The torques of the simulated arm's controller, against its formula written out with other means."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.config.resolved import ResolvedRun
from robot_stack.workcell.build import placed_arms
from sim.controller import Impedance, ImpedanceController, span
from sim.world import TIMESTEP_S, World

GAINS = Impedance()


class Formula:
    """tau = J^T (K e - D v) + nullspace + bias, with a target that is never further away than the largest error."""

    def __init__(self, world: World, joints: list[str], home: np.ndarray, limits: np.ndarray) -> None:
        self._model, self._data = world.model, world.data
        self._joints, self._home, self._limits = joints, home, limits
        self._site = world.model.site("hand/tcp").id
        self._place, self._turn = self._pose()

    def _pose(self) -> tuple[np.ndarray, Rotation]:
        site = self._data.site("hand/tcp")
        return site.xpos.copy(), Rotation.from_matrix(site.xmat.reshape(3, 3))

    def torque(self, twist: np.ndarray) -> np.ndarray:
        model, data = self._model, self._data
        place, turn = self._pose()
        largest = GAINS.max_position_error_m
        moved = self._place + self._turn.apply(twist[:3]) * TIMESTEP_S
        error = np.clip(moved - place, -largest, largest)
        self._place = place + error
        self._turn = self._turn * Rotation.from_rotvec(twist[3:] * TIMESTEP_S)
        left = (self._turn * turn.inv()).as_rotvec()
        angle = np.linalg.norm(left)
        if angle > GAINS.max_rotation_error_rad:
            left *= GAINS.max_rotation_error_rad / angle
            self._turn = Rotation.from_rotvec(left) * turn
        linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, self._site)
        columns = [int(model.joint(name).dofadr[0]) for name in self._joints]
        jacobian = np.concatenate([linear, angular])[:, columns]
        angles = np.array([data.joint(name).qpos[0] for name in self._joints])
        speeds = np.array([data.joint(name).qvel[0] for name in self._joints])
        stiff = np.diag([GAINS.translational_stiffness_n_m] * 3 + [GAINS.rotational_stiffness_nm_rad] * 3)
        damp = np.diag([GAINS.translational_damping_ns_m] * 3 + [GAINS.rotational_damping_nms_rad] * 3)
        wrench = stiff @ np.concatenate([error, left]) - damp @ jacobian @ speeds
        k = GAINS.nullspace_stiffness_nm_rad
        free = np.eye(len(columns)) - jacobian.T @ np.linalg.pinv(jacobian.T, rcond=1e-2)
        posture = free @ (k * (self._home - angles) - 2.0 * np.sqrt(k) * speeds)
        return np.clip(jacobian.T @ wrench + posture + data.qfrc_bias[columns], *self._limits.T)


@pytest.mark.parametrize("speed", [0.05, 3.0], ids=["within the largest error", "beyond it"])
def test_torques_are_those_of_the_formula(resolved: ResolvedRun, world: World, speed: float) -> None:
    world.reset(5)
    (placed,) = placed_arms(resolved).values()
    joints = [f"arm/{name}" for name in placed.model.joints]
    actuators = [world.model.actuator(name).id for name in joints]
    controller = ImpedanceController(world.model, placed.model, GAINS)
    controller.reset(world.data)
    formula = Formula(world, joints, np.array(placed.model.home_rad), world.model.actuator_ctrlrange[actuators])
    rng = np.random.default_rng(0)
    world.data.qvel[:] = rng.normal(0.0, 0.2, world.model.nv)
    for _ in range(30):
        twist = rng.normal(0.0, speed, 6)
        wanted = formula.torque(twist)
        controller.step(world.data, twist, TIMESTEP_S)
        assert world.data.ctrl[actuators] == pytest.approx(wanted, abs=1e-6)


def test_indices_that_follow_one_another_are_a_slice_and_all_others_are_themselves() -> None:
    numbers = np.arange(9.0)
    for indices in ([4], [2, 3, 4], [2, 4, 5], [3, 2, 1]):
        assert numbers[span(indices)].tolist() == indices
    assert span([2, 3, 4]) == slice(2, 5)
