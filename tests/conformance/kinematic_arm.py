"""An FR3 in MuJoCo that goes exactly where its joints are told: what a stiff, well-tuned driver makes of an arm.

Its kinematics are MuJoCo's, apart from those that are tested.
"""

from __future__ import annotations

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.pose import Pose
from sim.arms import find_arm

ARM = find_arm("fr3")
SPEED_LIMIT = 2.0


class KinematicArm:
    """Joint angles that move at joint speeds."""

    def __init__(self, angles: np.ndarray | None = None) -> None:
        spec = mujoco.MjSpec()
        ARM.attach_to(spec, "", Pose.identity())
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        joints = [self._model.joint(f"arm/{name}") for name in ARM.joints]
        self._qpos = np.array([joint.qposadr[0] for joint in joints])
        self._dofs = np.array([joint.dofadr[0] for joint in joints])
        self._ranges = np.array([joint.range for joint in joints])
        self._site = self._model.site("hand/tcp").id
        self.angles = np.array(ARM.home_rad if angles is None else angles, dtype=np.float64)
        self.speeds = np.zeros(7)
        self.opening = 1.0

    def advance(self, dt_s: float) -> None:
        """Move at `speeds` for a while."""
        self.angles = np.clip(self.angles + self.speeds * dt_s, self._ranges[:, 0], self._ranges[:, 1])

    def pose(self) -> Pose:
        """T_base_tcp."""
        self._forward()
        rotation = Rotation.from_matrix(self._data.site_xmat[self._site].reshape(3, 3))
        return Pose.from_rotation(self._data.site_xpos[self._site].copy(), rotation)

    def jacobian(self) -> np.ndarray:
        """Of the TCP, base frame, (6, 7)."""
        self._forward()
        mujoco.mj_comPos(self._model, self._data)
        whole = np.zeros((6, self._model.nv))
        mujoco.mj_jacSite(self._model, self._data, whole[:3], whole[3:], self._site)
        return whole[:, self._dofs]

    def follow(self, twist_base: np.ndarray) -> None:
        """Speeds that give the TCP a twist (6,) in the base frame."""
        speeds = np.linalg.pinv(self.jacobian(), rcond=1e-3) @ twist_base
        self.speeds = speeds * min(1.0, SPEED_LIMIT / max(1e-9, float(np.abs(speeds).max())))

    def _forward(self) -> None:
        self._data.qpos[self._qpos] = self.angles
        mujoco.mj_kinematics(self._model, self._data)
