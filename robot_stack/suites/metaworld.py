"""Meta-World's tasks as single environments of Gymnasium, seen by a camera and rewarded for success alone.

`robot_stack/MetaWorld-v0` with the name of a task, for instance task="assembly-v3". What is seen and done in an
episode is as in the pixel experiments of Hu, Mirchandani and Sadigh, 2023, arXiv:2311.02198 (hengyuan-hu/ibrl at
617f170b9210, env/metaworld_wrapper.py): camera corner2 moved nearer, each action made twice, at most 100 actions an
episode, its end where the task is done, goal and parts elsewhere after each reset. Deviations: tasks of version 3,
not 2; images are upright, as in LeRobot's data of Meta-World (huggingface/lerobot at 973b2f23ab6a,
src/lerobot/envs/metaworld.py), where mujoco-py's rows from the bottom up made theirs mirror images of these; the
position of the hand and the opening of its gripper are told beside the image; an episode ends at the first of the two
that finds the task done, theirs after the second.
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from metaworld.env_dict import ALL_V3_ENVIRONMENTS
from metaworld.policies import ENV_POLICY_MAP

NAME = "robot_stack/MetaWorld-v0"
CAMERA = "corner2"
CAMERA_M = (0.75, 0.075, 0.7)
"""Where the camera stands in those experiments."""
ACTION_REPEAT = 2
EPISODE_STEPS = 100
HAND = 4
"""Entries of a state that tell the hand: its position in metres, and how far its gripper is open, 0 to 1."""

Seen = dict[str, np.ndarray]


class MetaWorldTask(gymnasium.Env[Any, np.ndarray]):
    """A task of Meta-World that is seen by a camera, or told in numbers; an episode ends where it is done.

    Observation: `image`, uint8 (size_px, size_px, 3), and `hand`, float64 (4,); or, if told, `state`, float64 (39,), in
    which hand, parts and goal are known. Action: float32 (4,), the hand's motion and the effort of its gripper.

    Args:
        task: Name in Meta-World, such as "assembly-v3".
        told: Whether hand, parts and goal are told, and there is no image.
        size_px: Side of the image.

    Raises:
        ValueError: If Meta-World has no such task.
    """

    def __init__(self, task: str, *, told: bool = False, size_px: int = 96) -> None:
        if task not in ALL_V3_ENVIRONMENTS:
            raise ValueError(f"task is {task!r}, must be one of {', '.join(sorted(ALL_V3_ENVIRONMENTS))}")
        self.task = task
        self._told = told
        self._inner = ALL_V3_ENVIRONMENTS[task](
            render_mode="rgb_array", camera_name=CAMERA, width=size_px, height=size_px
        )
        self._inner._set_task_called = True  # a task is a place of parts and goal, which are drawn at each reset here
        self._inner._partially_observable = False
        del self._inner.sawyer_observation_space  # was made where the goal is hidden, and each state is clipped to it
        self._inner._freeze_rand_vec, self._inner.seeded_rand_vec = False, True
        self._steps = 0
        model = self._inner.model
        model.cam_pos[model.camera(CAMERA).id] = CAMERA_M
        model.vis.quality.shadowsize = model.vis.quality.offsamples = 0
        self.action_space = self._inner.action_space
        state = spaces.Box(-np.inf, np.inf, self._inner.observation_space.shape, np.float64)
        image = spaces.Box(0, 255, (size_px, size_px, 3), np.uint8)
        hand = spaces.Box(-np.inf, np.inf, (HAND,), np.float64)
        shown: dict[str, spaces.Space[Any]] = {"state": state} if told else {"image": image, "hand": hand}
        self.observation_space = spaces.Dict(shown)

    def state(self) -> np.ndarray:
        """Return what Meta-World tells of hand, parts and goal, float64 (39,), in two frames."""
        state: np.ndarray = self._inner._get_obs()
        return state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Put hand, parts and goal to places that follow from the seed."""
        super().reset(seed=seed)
        self._inner.seed(int(self.np_random.integers(2**31)))
        self._inner.reset()
        state, *_ = self._inner.step(np.zeros(4, np.float32))  # as there: the first frame after a reset is not seen
        self._steps = 0
        return self._seen(state), {"success": False}

    def step(self, action: np.ndarray) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Make an action twice, or until the task is done."""
        self._steps += 1
        for _ in range(ACTION_REPEAT):
            state, _, _, _, info = self._inner.step(action)
            done = bool(info["success"])
            if done:
                break
        return self._seen(state), float(done), done, self._steps >= EPISODE_STEPS, {"success": done}

    def close(self) -> None:
        """Give the renderer's memory back."""
        self._inner.close()

    def _seen(self, state: np.ndarray) -> Seen:
        if self._told:
            return {"state": state}
        # the camera hangs upside down
        return {"image": np.ascontiguousarray(np.flip(self._inner.render(), (0, 1))), "hand": state[:HAND]}


class ScriptedPolicy:
    """Meta-World's own scripted policy of a task, who is told what the camera does not show.

    Args:
        environment: A `MetaWorldTask`, wrapped or not.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        task = environment.unwrapped
        if not isinstance(task, MetaWorldTask):
            raise TypeError(f"environment is {type(task).__name__}, must be {MetaWorldTask.__name__}")
        self._task = task
        self._policy = ENV_POLICY_MAP[task.task]()

    def __call__(self, seen: Seen) -> np.ndarray:
        """Return the next action, float32 (4,) in [-1, 1]."""
        with warnings.catch_warnings(action="ignore"):  # it asks for more than an action holds, and knows it
            wanted = self._policy.get_action(self._task.state())
        action: np.ndarray = wanted.clip(-1.0, 1.0).astype(np.float32)
        return action


gymnasium.register(NAME, f"{__name__}:{MetaWorldTask.__name__}")
