"""The hands that do a task: the part of the scripted operator that another task needs anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """The skill and attention of the scripted operator.

    Attributes:
        reaction_s: Delay between what happens and what the operator sees.
        position_noise_m: Standard deviation of how the goal is misjudged, drawn once per engagement.
        yaw_noise_rad: The same for its yaw.
        far_position_noise_m: What is added to it from far away, until the tool is near the aim.
        far_yaw_noise_rad: The same for its yaw.
        attention: Probability per second of looking at the cell, in (0, 1]; 1 looks always.
        speed: Share of full teleop deflection used, in (0, 1].
        tremor: Standard deviation of the hand's noise, in deflection.
        stuck_s: Time without progress after which the operator takes over.
        patience_s: Time into an episode after which the operator takes over, unless the tip is going in.
        off_course_m: How far the arm may move away from its best distance before the operator takes over.
        force_limit_n: Contact force at which the operator takes over.
        verdict_s: Time the task must look finished before the operator says so.
    """

    reaction_s: float
    position_noise_m: float
    yaw_noise_rad: float
    far_position_noise_m: float
    far_yaw_noise_rad: float
    attention: float
    speed: float
    tremor: float
    stuck_s: float
    patience_s: float
    off_course_m: float
    force_limit_n: float
    verdict_s: float


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
