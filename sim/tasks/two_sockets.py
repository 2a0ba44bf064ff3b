"""The peg insertion with a second, green socket, to make episodes in which the robot goes to the wrong one.

Everything else is the task of the dry run. Unless it is wanted, the second socket stands under the table, where no
camera sees it and nothing touches it: pictures and physics are then those of the dry run.
"""

from __future__ import annotations

import mujoco
import numpy as np

from sim.tasks.peg_insert import PegInsert, PegInsertConfig

GREEN = (0.18, 0.46, 0.22, 1.0)
APART_M = (0.085, 0.10)
"""Between the two holes: the blocks do not touch, and one view shows both."""
REACH_M = (0.085, 0.10)
"""How far from the middle of the task the second socket may stand, along x and y: within the cell's workspace."""
OUT_OF_SIGHT_M = -0.5


class TwoSockets:
    """The peg insertion with a second socket as a simulated task; see `sim.scene.Task`.

    Attributes:
        decoy_wanted: Whether the next `place` puts the second socket on the table.
    """

    name = "peg_insert"

    def __init__(self, config: PegInsertConfig) -> None:
        self._config = config
        self._one = PegInsert(config)
        self.decoy_wanted = False
        self.start_poses = self._one.start_poses
        self.settle = self._one.settle
        self.tip_in_socket = self._one.tip_in_socket
        self.succeeded = self._one.succeeded
        self.failed = self._one.failed
        self.left_m = self._one.left_m
        self.goal_poses = self._one.goal_poses

    def add_to(self, spec: mujoco.MjSpec) -> None:
        """Add what the dry run's scene has, then the second socket."""
        self._one.add_to(spec)
        self._one.add_socket(spec, "decoy", GREEN)

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draw socket pose and light as in the dry run, from the same draws; then place the second socket."""
        self._one.place(model, data, rng)
        own = rng.spawn(1)[0]  # leaves `rng` as it is: start poses stay those of the dry run
        mocap = model.body("decoy").mocapid[0]
        blue = data.mocap_pos[model.body("socket").mocapid[0]]
        data.mocap_pos[mocap] = self._beside(blue, own) if self.decoy_wanted else [*blue[:2], OUT_OF_SIGHT_M]
        yaw = own.uniform(-1, 1) * self._config.socket_yaw_rad
        data.mocap_quat[mocap] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]

    def decoy_in_base(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's x, y, z [m] and yaw [rad] with the peg in the second socket, shape (4,)."""
        decoy = data.body("decoy")
        rotation = decoy.xmat.reshape(3, 3)
        return np.array([*decoy.xpos[:2], self.goal_poses(data)[0, 2], np.arctan2(rotation[1, 0], rotation[0, 0])])

    def _beside(self, blue: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw a place within reach, at a random side of the first socket; towards the middle there always is one."""
        away = np.array(self._config.centre_m) - blue[:2]
        for spread in np.linspace(np.pi, 0.0, 20):
            angle = np.arctan2(away[1], away[0]) + rng.uniform(-1, 1) * spread
            place = blue[:2] + rng.uniform(*APART_M) * np.array([np.cos(angle), np.sin(angle)])
            if (np.abs(place - self._config.centre_m) <= REACH_M).all():
                break
        return np.array([*place, 0.0])
