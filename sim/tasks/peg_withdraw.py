"""The way back of the peg: out of its socket and over the middle of the table, where an insertion starts."""

from __future__ import annotations

import mujoco
import numpy as np

from sim.tasks.peg_insert import PegInsert

SLACK_M, SLACK_RAD = 0.002, 0.02
"""An arm at rest hangs this far off where it was put."""


class PegWithdraw(PegInsert):
    """The way back in the same scene, whose goal is the middle of the starts of an insertion; see `sim.scene.Task`."""

    def succeeded(self, data: mujoco.MjData) -> bool:
        """Return True where an insertion may start: within the range of its starts, in place and yaw."""
        config, peg = self._config, data.body("peg")
        goal = self.goal_poses(data)[0]
        away_m = np.abs(peg.xpos - goal[:3])
        axis = peg.xmat.reshape(3, 3)[:, 0]
        quarter = np.pi / 2  # the peg is square
        yaw = (np.arctan2(axis[1], axis[0]) - goal[3] + quarter / 2) % quarter - quarter / 2
        near = away_m <= np.array(config.start_range_m) / 2 + SLACK_M
        return bool(near.all() and abs(float(yaw)) <= config.start_yaw_rad + SLACK_RAD and not self.failed(data))

    def goal_poses(self, data: mujoco.MjData) -> np.ndarray:
        """Return the TCP's position and yaw in the middle of the starts; see `sim.scene.Task`."""
        config = self._config
        height_m = config.socket_height_m + config.start_height_m + config.peg_below_tcp_m
        return np.array([[*config.centre_m, height_m, 0.0]])
