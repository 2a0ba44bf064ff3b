"""The hands that do a task: the part of the scripted operator that another task needs anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The scene as the operator's eyes see it at one instant.

    Attributes:
        stamp_ns: When.
        tcp: Of each of N arms, x, y, z [m] and yaw [rad] in its base, shape (N, 4).
        goal: Where it shall be, same shape.
        force_n: The largest contact force.
        done: The task looks finished.
        lost: It can no longer be done.
    """

    stamp_ns: int
    tcp: np.ndarray
    goal: np.ndarray
    force_n: float
    done: bool
    lost: bool


class Hands(Protocol):
    """An operator's hands at one task, one for each arm."""

    def begin(self) -> None:
        """Prepare for a new episode, far from its goal."""
        ...

    def misjudge(self, *, far: bool = False) -> None:
        """Draw anew how the goal is misjudged and how the hands move, `far` away from it or near."""
        ...

    def look_again(self, seen: Seen) -> None:
        """Notice, while driving, that the goal was misjudged."""
        ...

    def is_far(self, seen: Seen) -> bool:
        """Return True if the first aim from here is a rough one."""
        ...

    def distance(self, seen: Seen) -> float:
        """Return the distance that is left to the goal, in metres."""
        ...

    def going_in(self, seen: Seen) -> bool:
        """Return True if the task is nearly done, so that nobody gets impatient."""
        ...

    def all_but_done(self, seen: Seen) -> bool:
        """Return True if the operator can let go of the arms, for the policy to finish."""
        ...

    def drive(self, seen: Seen) -> np.ndarray:
        """Return the deflection of each device, shape (N, 6), unitless in [-1, 1], tcp frames."""
        ...


def in_tool(twist: np.ndarray, yaw: float) -> np.ndarray:
    """Turn a deflection in the base frame, shape (6,), into that of a tool which points down; clipped to [-1, 1]."""
    inverse = (Rotation.from_euler("z", yaw) * Rotation.from_euler("x", np.pi)).inv()
    return np.clip(np.concatenate([inverse.apply(twist[:3]), inverse.apply(twist[3:])]), -1, 1)
