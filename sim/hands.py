"""The hands that do a task: the part of the scripted operator that another task needs anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.config.teleop_parts import OperatorConfig

FAR_M = 0.02
"""Sideways distance of a peg from its goal beyond which the first aim is a rough one."""
NEAR_M = 0.045
"""Way left to the goal, tip 2 cm before the rim, from which the aim can be made better."""
IN_THE_HOLE_M = 0.018
"""Way left to the goal below which the tip is in the hole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The scene as the operator's eyes see it at one instant.

    Attributes:
        stamp_ns: When.
        tcp: Of each of N arms, x, y, z [m] and yaw [rad] in its base, shape (N, 4).
        goal: Where it shall be, same shape.
        grasp: Where it would have its part in its middle, same shape; the TCP itself where no part lies free.
        opening: Of each gripper, in [0, 1], shape (N,).
        force_n: The largest contact force.
        done: The task looks finished.
        lost: It can no longer be done.
        stage: Which stage of the task comes next, see `sim.scene.Task.stage`.
    """

    stamp_ns: int
    tcp: np.ndarray
    goal: np.ndarray
    grasp: np.ndarray
    opening: np.ndarray
    force_n: float
    done: bool
    lost: bool
    stage: int = 0


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

    def grip(self, seen: Seen) -> np.ndarray:
        """Return the key of each gripper that is pressed, int, shape (N,): -1 closes, +1 opens, 0 none."""
        ...


class PegHandsBase(ABC):
    """The part that the hands of all tasks with a peg share: they misjudge its hole, and look again on its rim.

    Deterministic given the generator.
    """

    def __init__(
        self,
        config: OperatorConfig,
        rng: np.random.Generator,
        *,
        wiggle: int,
        shape: tuple[int, ...],
        let_go_m: tuple[float, float],
        hover_m: tuple[float, float],
    ) -> None:
        """Start without any misjudgement.

        Args:
            config: Skill.
            rng: The operator's.
            wiggle: Size of the deflection that wiggles on the rim.
            shape: Of a misjudgement, whose last axis is x, y, z [m] and yaw [rad].
            let_go_m: Range of the way into the hole that is left when the operator lets go.
            hover_m: Range of the way between rim and tip at which the operator aligns it.
        """
        self._config = config
        self._rng = rng
        self._wiggle = np.zeros(wiggle)
        self._far_bias, self._bias = np.zeros(shape), np.zeros(shape)
        self._let_go_range_m, self._hover_range_m = let_go_m, hover_m
        self._speed, self._let_go_m, self._hover_m = config.speed, 0.0, 0.0
        self._rim_since_ns: int | None = None

    @abstractmethod
    def left_m(self, seen: Seen) -> float:
        """Return the way along the peg that is left to its goal, in metres."""

    @abstractmethod
    def draw_bias(self, position_m: float, yaw_rad: float) -> np.ndarray:
        """Draw a misjudgement with these standard deviations."""

    def begin(self) -> None:
        """Prepare for a new episode, far from its goal."""
        self._wiggle = np.zeros_like(self._wiggle)
        self.misjudge(far=True)

    def misjudge(self, *, far: bool = False) -> None:
        """Draw anew how the goals are misjudged and how the hands move, `far` away from them or near."""
        config = self._config
        self._far_bias = np.zeros_like(self._far_bias)
        if far:
            self._far_bias = self.draw_bias(config.far_position_noise_m, config.far_yaw_noise_rad)
        self._bias = self.draw_bias(config.position_noise_m, config.yaw_noise_rad)
        self._speed = config.speed * self._rng.uniform(0.75, 1.0)
        self._let_go_m = self._rng.uniform(*self._let_go_range_m)
        self._hover_m = self._rng.uniform(*self._hover_range_m)
        self._rim_since_ns = None

    def look_again(self, seen: Seen) -> None:
        """Look once more where the hole is, if the peg has sat on the rim for a second."""
        on_rim = 0.016 < self.left_m(seen) < 0.028 and seen.force_n > 4.0
        self._rim_since_ns = (self._rim_since_ns or seen.stamp_ns) if on_rim else None
        if self._rim_since_ns is not None and seen.stamp_ns - self._rim_since_ns > 1_000_000_000:
            self.misjudge()

    def going_in(self, seen: Seen) -> bool:
        """Return True if the tip of the peg is in the hole."""
        return self.left_m(seen) < IN_THE_HOLE_M

    def all_but_done(self, seen: Seen) -> bool:
        """Return True if the peg is almost in: gravity or the policy does the rest."""
        return self.left_m(seen) < self._let_go_m

    def grip(self, seen: Seen) -> np.ndarray:
        """Return zeros, shape (N,): what is in a hand stays there."""
        return np.zeros(len(seen.tcp), np.int64)


def in_tool(twist: np.ndarray, yaw: float) -> np.ndarray:
    """Turn a deflection in the base frame, shape (6,), into that of a tool which points down; clipped to [-1, 1]."""
    inverse = (Rotation.from_euler("z", yaw) * Rotation.from_euler("x", np.pi)).inv()
    return np.clip(np.concatenate([inverse.apply(twist[:3]), inverse.apply(twist[3:])]), -1, 1)
