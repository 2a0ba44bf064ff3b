"""A synthetic hand on the simulated arm, which aims control step by control step, in a manner of its own.

It knows the scene to the millimetre, unlike the scripted operator: it is there to make episodes with known truth, not
to be helped or learned from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.simulated_arm import as_seen
from sim.tasks.peg_insert import TwoSockets
from sim.world import World

GAIN_HZ = 3.0
"""Speed per distance that is left."""
NEVER_QUITE = 0.99
"""Progress of everything that the simulator does not call a success."""
TIP_AT_GOAL_M = 0.003
"""Height of the tip above the table at the goal pose."""
DEEP_ENOUGH_M = 0.0045
"""Above the goal pose, still deep enough to count as inserted."""
ARRIVED_M = 0.006
"""Of the goal pose."""
LONGEST_MOTION = 60
"""Steps after which a motion is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """An aim of the hand: the pose it wants to have at the end of the next control step or a later one.

    Attributes:
        target: TCP x, y, z [m] and yaw [rad] in base, shape (4,).
        speed_m_s: Not faster than this.
        opening: Wanted opening of the gripper in [0, 1], None leaves it.
    """

    target: np.ndarray
    speed_m_s: float
    opening: float | None = None


Motion = Iterator[Aim]


def progress_of(left_m: float, at_start_m: float, *, done: bool, lost: bool) -> float:
    r"""Compute true progress: :math:`1 - d_t / d_0`, at most `NEVER_QUITE`; 1 iff done; 0 once the peg is lost.

    Causal: it asks for the state now and at the start. It falls when the peg moves away, and to 0 beyond the start.

    Args:
        left_m: Weighted way that is left now, see `PegInsert.left_m`.
        at_start_m: The same at the first frame, above 0.
        done: The simulator calls it a success.
        lost: The peg has left the hand: nothing that was done counts any more.

    >>> progress_of(0.05, 0.1, done=False, lost=False)
    0.5
    """
    if done:
        return 1.0
    return 0.0 if lost else float(np.clip(1.0 - left_m / at_start_m, 0.0, NEVER_QUITE))


class Hand:
    """The synthetic hand of one episode, at the start of it.

    Args:
        world: Has been reset; its task has two sockets.
        task: The world's.
        rng: Draws the manner: speed, height, pauses, aim, length.

    Attributes:
        goal: TCP pose at the finished task, shape (4,).
        start: TCP pose now, shape (4,).
        length: Control steps after which an episode that leads nowhere ends.
        steps: Control steps so far; whoever executes the aims counts.
    """

    def __init__(self, world: World, task: TwoSockets, rng: np.random.Generator, *, rim_m: float) -> None:
        self._world, self._task, self.rng = world, task, rng
        self.goal = task.goal_poses(world.data)[0]
        self.start = self.tcp()
        self.steps = 0
        self.length = int(rng.integers(28, 62))
        self._rim_m = rim_m
        self._speed_m_s = rng.uniform(0.045, 0.095)
        self._hover_m = rng.uniform(0.005, 0.028)
        self._misses = np.array([*rng.uniform(-0.0006, 0.0006, 2), 0.0, rng.uniform(-0.02, 0.02)])
        self._at_start_m = task.left_m(world.data)

    def tcp(self) -> np.ndarray:
        """Return the TCP's x, y, z [m] and yaw [rad] in base, shape (4,)."""
        return as_seen(self._world.state().T_base_tcp)

    def progress(self) -> float:
        """Return the true progress now, see `progress_of`."""
        data = self._world.data
        task = self._task
        return progress_of(task.left_m(data), self._at_start_m, done=task.succeeded(data), lost=task.failed(data))

    def stage(self) -> int:
        """Return the stage of the insertion: 0 on the way, 1 over the hole, 2 in it."""
        x, y, z = self._task.tip_in_socket(self._world.data)
        if np.hypot(x, y) > 0.005:
            return 0
        return 2 if z < self._rim_m - 0.002 else 1

    def done(self) -> bool:
        """Return True if the simulator calls the present state a success."""
        return self._task.succeeded(self._world.data)

    def arrived(self) -> bool:
        """Return True if the hand is where it is at the finished task, whatever it holds."""
        return float(np.linalg.norm((self.tcp() - self.goal)[:3])) < ARRIVED_M

    def stay(self, seconds: float, *, period_s: float, opening: float | None = None) -> Motion:
        """Hold the pose for so many seconds."""
        here = self.tcp()
        for _ in range(round(seconds / period_s)):
            yield Aim(target=here, speed_m_s=self._speed_m_s, opening=opening)

    def wait_out(self) -> Motion:
        """Hold the pose to the end of the episode."""
        here = self.tcp()
        while self.steps < self.length:
            yield Aim(target=here, speed_m_s=self._speed_m_s)

    def to(self, target: np.ndarray, *, within_m: float = 0.003) -> Motion:
        """Go straight to a pose."""
        for _ in range(LONGEST_MOTION):
            error = target - self.tcp()
            if np.linalg.norm(error[:3]) < within_m and abs(error[3]) < 0.04:
                return
            yield Aim(target=target, speed_m_s=self._speed_m_s)

    def over(self, goal: np.ndarray) -> np.ndarray:
        """Return the pose over a goal from which the hand goes down, tip above the rim, shape (4,)."""
        return goal + self._misses + [0.0, 0.0, self._rim_m - TIP_AT_GOAL_M + self._hover_m, 0.0]

    def down(self, goal: np.ndarray) -> Motion:
        """Go down into a hole, or press on what is in the way."""
        for _ in range(LONGEST_MOTION):
            if self.tcp()[2] - goal[2] < DEEP_ENOUGH_M:
                return
            yield Aim(target=goal + self._misses, speed_m_s=0.5 * self._speed_m_s)

    def away(self, target: np.ndarray) -> Motion:
        """Go to a pose, out of the hole first where the tip is in it."""
        here = self.tcp()
        clear = self.goal[2] + self._rim_m + 0.004
        if here[2] < clear:
            yield from self.to(np.array([*here[:2], clear, here[3]]))
        yield from self.to(target)

    def to_the_end(self, motion: Motion, *, at_least: int) -> Motion:
        """Follow a motion, broken off at the end of the episode, but not before `at_least` steps of it."""
        for number, aim in enumerate(motion):
            if self.steps >= self.length and number >= at_least:
                return
            yield aim

    def until(self, progress: float, motion: Motion) -> Motion:
        """Follow a motion, broken off when so much progress is made."""
        for aim in motion:
            if self.progress() >= progress:
                return
            yield aim
