"""The FR3 from its table of parameters, and the same arm in MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.joint_motion import JointLimits
from robot_stack.types.pose import Pose
from robot_stack.workcell.build_arm import build_chain, build_limits
from sim.arms import find_arm

HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])


def robot(name: str) -> DriverRobot:
    """A shipped file."""
    loaded = load(config_root() / "robots" / f"{name}.yaml", ROBOTS)
    assert isinstance(loaded, DriverRobot)
    return loaded


def chain_of(name: str) -> Chain:
    """Kinematics of a shipped file."""
    chain = build_chain(robot(name))
    assert chain is not None
    return chain


def limits_of(name: str) -> JointLimits:
    """Joint limits of a shipped file."""
    return build_limits(robot(name))


class MujocoFr3:
    """Kinematics of the simulated FR3."""

    def __init__(self) -> None:
        spec = mujoco.MjSpec()
        find_arm("fr3").attach_to(spec, "", Pose.identity())
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)

    def jacobian(self, angles: np.ndarray) -> tuple[Pose, np.ndarray]:
        """T_base_tcp and the Jacobian of the TCP, base frame, (6, 7)."""
        self._data.qpos[:7] = angles
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        site = self._model.site("hand/tcp").id
        whole = np.zeros((6, self._model.nv))
        mujoco.mj_jacSite(self._model, self._data, whole[:3], whole[3:], site)
        rotation = Rotation.from_matrix(self._data.site_xmat[site].reshape(3, 3))
        return Pose.from_rotation(self._data.site_xpos[site].copy(), rotation), whole[:, :7]
