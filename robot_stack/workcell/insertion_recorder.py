"""Records what the score of an insertion reads, at every tick of a simulated cell, and velocity at every step."""

from __future__ import annotations

import numpy as np

from robot_stack.types.insertion import InsertionRecord, InsertionState
from sim.scene import TIMESTEP_S
from sim.world import World


class InsertionRecorder:
    """A recorder of one episode after the other in a world; in a task without that score it records nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._on = False
        self._velocities: list[np.ndarray] = []
        self._moments: list[tuple[float, np.ndarray, float, InsertionState]] = []
        self._inserted = False

    def begin(self) -> None:
        """Begin the record of an episode with the present instant."""
        self._moments.clear()
        self._velocities.clear()
        self._on, self._inserted = True, False
        self.note()

    def note(self) -> None:
        """Add the present instant, if an episode is running."""
        world = self._world
        state = world.task.insertion(world.data) if self._on else None
        if state is None:
            return
        arm = world.state(next(iter(world.arms)))
        force_n = float(np.linalg.norm(arm.wrench[:3]))
        self._moments.append((world.time_ns / 1e9, arm.T_base_tcp.position_m, force_n, state))

    def feel(self) -> None:
        """Add the tool's velocity after a step of the simulation, if an episode with a score is running."""
        if self._on and self._moments:
            self._velocities.append(next(iter(self._world.arms.values())).velocity(self._world.data)[:3])

    def end(self) -> None:
        """End the record: what is so now is how the episode ended."""
        if self._on:
            self._inserted = self._world.task.succeeded(self._world.data)
        self._on = False

    def record(self) -> InsertionRecord | None:
        """Return the record of the last episode, None if there is none or the task has no such score."""
        if not self._moments:
            return None
        times_s, tcp_m, force_n, states = zip(*self._moments, strict=True)
        return InsertionRecord(
            times_s=np.array(times_s),
            tcp_m=np.array(tcp_m),
            velocity_m_s=np.reshape(self._velocities, (-1, 3)),
            velocity_step_s=TIMESTEP_S,
            plug_m=np.array([state.plug_m for state in states]),
            force_n=np.array(force_n),
            forbidden=np.array([state.forbidden for state in states]),
            depth_m=states[0].depth_m,
            inserted=self._inserted,
        )
