"""A simulated task: the peg insertion into a socket that stands in the middle of the table."""

from __future__ import annotations

import mujoco
import numpy as np

from sim.cell import TaskEntry
from sim.peg_hands import PegHands
from sim.tasks.peg_insert import PegInsert, PegInsertConfig


class MiddleInsert(PegInsert):
    """The peg insertion at one place; implements `sim.scene.Task`."""

    name = "example_insert"

    def place(self, model: mujoco.MjModel, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Put the socket in the middle."""
        data.mocap_pos[model.body("socket").mocapid[0]] = [*self._config.centre_m, 0.0]


TASK = TaskEntry(config=PegInsertConfig, build=MiddleInsert, hands=PegHands)
