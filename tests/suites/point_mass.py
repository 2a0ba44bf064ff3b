"""A point that an action pushes over a plane towards a goal; the smallest task that can be failed."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

STEP_M = 0.15
REACHED_M = 0.12
LONGEST = 25
SIDE_PX = 24


class PointMass(gymnasium.Env[dict[str, Any], np.ndarray]):
    """A point within [-1, 1] in x and y. Its actions run from 0 to 2, so that 1 stands still."""

    def __init__(self) -> None:
        self.taken: list[np.ndarray] = []
        plane = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.observation_space = spaces.Dict({"place": plane, "goal": plane})
        self.action_space = spaces.Box(0.0, 2.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        return self._seen(), {"success": False}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        self.place = np.clip(self.place + STEP_M * (np.asarray(action, np.float64) - 1.0), -1.0, 1.0)
        reached = bool(np.linalg.norm(self.goal - self.place) < REACHED_M)
        return self._seen(), float(reached), reached, False, {"success": reached}

    def _seen(self) -> dict[str, np.ndarray]:
        return {"place": self.place.copy(), "goal": self.goal.copy()}


class SeenPointMass(PointMass):
    """The same, seen by a camera: the goal is green there, and no number says where it is."""

    def __init__(self) -> None:
        super().__init__()
        eye = spaces.Box(0, 255, (SIDE_PX, SIDE_PX, 3), np.uint8)
        self.observation_space = spaces.Dict({"place": self.observation_space["place"], "eye": eye})

    def _seen(self) -> dict[str, np.ndarray]:
        picture = np.zeros((SIDE_PX, SIDE_PX, 3), np.uint8)
        for colour, at in ((0, self.place), (1, self.goal)):
            row, column = np.clip((0.5 * (at + 1.0) * SIDE_PX).astype(int), 1, SIDE_PX - 2)
            picture[row - 1 : row + 2, column - 1 : column + 2, colour] = 255
        return {"place": self.place.copy(), "eye": picture}


class Flat(PointMass):
    """The point mass with one box of numbers, and an info of all kinds, its process among them."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1.0, 1.0, (4,), np.float64)

    def reset(self, **asked: Any) -> Any:
        seen, info = super().reset(**asked)
        return seen, info | {"process": os.getpid()}

    def step(self, action: np.ndarray) -> Any:
        *told, info = super().step(action)
        return (*told, info | {"where": np.arange(3.0), "words": "near", "nested": {"deep": 1}})

    def _seen(self) -> Any:
        return np.concatenate([self.place, self.goal])


class Failing(PointMass):
    """The point mass, which fails in its first step."""

    def step(self, action: np.ndarray) -> Any:
        raise ValueError("no such place")


class Expert:
    """The expert who looks into the environment for what its observation does not say."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        self._world: Any = environment.unwrapped

    def __call__(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        return straight({"place": self._world.place, "goal": self._world.goal})


def straight(seen: dict[str, np.ndarray]) -> np.ndarray:
    """The expert: straight to the goal."""
    push: np.ndarray = np.clip((seen["goal"] - seen["place"]) / STEP_M, -1.0, 1.0)
    return 1.0 + push


gymnasium.register("tests/PointMass-v0", entry_point="tests.suites.point_mass:PointMass", max_episode_steps=LONGEST)
gymnasium.register("tests/SeenPointMass-v0", entry_point=SeenPointMass, max_episode_steps=LONGEST)


def make() -> gymnasium.Env[Any, Any]:
    """The point mass, as a process of its own is told to make it."""
    return gymnasium.make("tests/PointMass-v0")
