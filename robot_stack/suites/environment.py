"""A simulated cell as a Gymnasium environment: the same world, cameras and safety filter as in the dry run.

Nothing is simulated here: a step sends an action to the filter and lets the cell's time go on by one control period.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from robot_stack.config import teleop
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import dominant
from robot_stack.control.openings import Openings
from robot_stack.types.command import IN_HAND
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_mujoco_cell, build_operator, build_world
from robot_stack.workcell.build_safety import build_safety
from robot_stack.workcell.local_cell import LocalCell
from sim.scene import CameraRenderer

PROPRIO = "proprio"
"""Key of the proprio vector beside the cameras."""
DEMONSTRATION = "demonstration"
"""The option of `reset` by which the operator demonstrates."""
RENDERED = ("front", 480, 640)
"""Camera, height and width in pixels of what `render` returns."""
BEYOND_M = 0.05
"""An arm that brakes at the edge of its workspace goes beyond it by less."""

Seen = dict[str, Any]
"""Arrays by the name of the camera, or `proprio`; typed as Gymnasium types it."""


class CellEnvironment(gymnasium.Env[Seen, np.ndarray]):
    """A simulated cell with its task as a Gymnasium environment.

    Observations are a dict of the cameras, RGB uint8 (H, W, 3), and `proprio`, float32 (P,), SI units. Actions are
    those of the project, float32 (A,) in [-1, 1]. The reward is 1.0 on the step into a success, by the simulator's
    truth, else 0.0.

    Each `info` has `success`, and after a step `executed_action`, which is what the arms did after the safety filter;
    `intervene_action`, the same, on steps on which an operator had the arms; and `hold`, a text, while the filter
    holds.

    Args:
        run: Name or path of a run file with a simulated cell.
        operator: File in teleop/ of the scripted operator who steps in when the policy is stuck or off course, or
            demonstrates after `reset(options={"demonstration": True})`; None: nobody does.
        render_mode: "rgb_array" or None.

    Raises:
        ConfigError: If the run cannot be loaded or simulated, or the operator is not a scripted one.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}  # type: ignore[misc]

    def __init__(self, run: str, *, operator: str | None = None, render_mode: str | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(f"render_mode is {render_mode!r}, must be 'rgb_array' or None")
        self._resolved = load_run(run, [] if operator is None else [f"cell.teleop={operator}"])
        if operator is not None and not isinstance(self._resolved.teleop, teleop.ScriptedTeleop):
            raise ConfigError(
                f"operator is {operator!r}, must be the file of a scripted one in teleop/, such as 'scripted', or None"
            )
        if self._resolved.run.base is not None:
            raise ConfigError(f"run {run} has a base policy, must have none: the environment's own policy acts alone")
        self.render_mode = render_mode
        self._attended = operator is not None
        self._spec = self._resolved.spec()
        self._space = ActionSpace(self._spec)
        self._openings = Openings(self._spec)
        self._period_ns = round(self._spec.period_s * 1e9)
        self._world = build_world(self._resolved)
        self._renderer: CameraRenderer | None = None
        self._observation: Observation | None = None
        """The newest one of the running episode."""
        self._steps = 0
        images = {camera.name: spaces.Box(0, 255, camera.shape, np.uint8) for camera in self._spec.cameras}
        self.observation_space = spaces.Dict({**images, PROPRIO: _proprio_space(self._resolved)})
        self.action_space = spaces.Box(-1.0, 1.0, (self._spec.action_size,), np.float32)

    @cached_property
    def _cell(self) -> LocalCell:
        """The cell, made at the first reset: a process that asks for the spaces and forks has no GL context yet."""
        return build_mujoco_cell(self._resolved, seed=0, world=self._world)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        """Bring the cell to a new start; the same seed gives the same start and the same operator.

        Args:
            seed: Of this start and those after it; None goes on from the one before.
            options: {"demonstration": True} lets the operator drive from start to end, whatever the actions.

        Raises:
            SpecError: If an option is unknown, or nobody is there to demonstrate.
            RobotError: If the arms are not ready at the start.
        """
        super().reset(seed=seed)
        kind = self._kind(options or {})
        operator_seed, start_seed = (int(number) for number in self.np_random.integers(2**31, size=2))
        # a filter and an operator who remember nothing: an episode depends on its seed alone, not on those before it
        self._cell.anew(build_safety(self._resolved, attended=False), build_operator(self._resolved, operator_seed))
        self._cell.reset(start_seed)
        self._cell.start("gymnasium", kind)
        self._steps = 0
        self._openings.begin_episode()
        self._observation = self._observe()
        return self._seen(self._observation), {"success": False}

    def step(self, action: np.ndarray) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        """Act for one control period; terminated where the task has succeeded or can no longer be done.

        Raises:
            SpecError: If the action does not fit the space.
            ResetNeeded: If no episode is running.
            RobotError: If the simulation has broken down.
        """
        before = self._observation
        if before is None:
            raise gymnasium.error.ResetNeeded("no episode is running, must be for a step; call reset first")
        self._cell.send(np.asarray(action, np.float32))
        self._cell.sleep_until_ns(self._cell.now_ns() + self._period_ns)
        self._steps += 1
        after = self._observe()
        info = self._what_happened(before)
        lost = self._cell.world.task.failed(self._cell.world.data)
        terminated = bool(info["success"] or lost)
        truncated = not terminated and self._steps >= self._resolved.task.episode_steps
        if terminated or truncated:
            self._cell.finish()
        self._observation = None if terminated or truncated else after
        return self._seen(after), float(info["success"]), terminated, truncated, info

    def render(self) -> np.ndarray | None:
        """Return an image of the front camera, RGB uint8 (480, 640, 3), or None without a render mode."""
        if self.render_mode is None:
            return None
        camera, height_px, width_px = RENDERED
        world = self._cell.world
        if self._renderer is None:
            self._renderer = CameraRenderer(world.model, height_px=height_px, width_px=width_px)
        return self._renderer.render(world.data, camera)

    def close(self) -> None:
        """Free the GL contexts of the cameras; harmless a second time."""
        if "_cell" in vars(self):
            self._cell.close()
        if self._renderer is not None:
            self._renderer.close()

    def _kind(self, options: dict[str, Any]) -> EpisodeKind:
        """Return what the operator does in the next episode, as the kind of episode in which one does so."""
        if unknown := sorted(options.keys() - {DEMONSTRATION}):
            raise SpecError(f"option of reset is {unknown[0]!r}, must be {DEMONSTRATION!r}; leave the others out")
        if not options.get(DEMONSTRATION, False):
            return EpisodeKind.ONLINE if self._attended else EpisodeKind.EVAL
        if not self._attended:
            raise SpecError("operator is None, must be somebody to demonstrate; make it with operator='scripted'")
        return EpisodeKind.DEMO

    def _observe(self) -> Observation:
        observation = self._cell.observe()
        assert observation is not None  # a cell in this process misses nothing
        return observation

    def _seen(self, observation: Observation) -> Seen:
        return {**observation.images, PROPRIO: observation.proprio}

    def _what_happened(self, before: Observation) -> dict[str, Any]:
        """Return the `info` of the step that followed an observation."""
        windows = self._cell.executed()
        self._openings.take(windows)
        executed = self._space.executed_action(windows, self._openings.at(before))
        info: dict[str, Any] = {"success": bool(self._cell.truth()), "executed_action": executed}
        if dominant(window.source for window in windows.values()) in IN_HAND:
            info["intervene_action"] = executed.copy()
        if (reason := self._cell.reason()) is not None:
            info["hold"] = str(reason)
        return info


def _proprio_space(resolved: ResolvedRun) -> spaces.Box:
    """Return the space of the proprio vector, finite where the cell bounds it: measured speeds and forces it does not.

    The position of a TCP in its start pose is at most the diagonal of its workspace, in any direction.
    """
    arms = resolved.arms
    bounds = []
    for field in resolved.spec().proprio:
        arm, _, name = field.name.rpartition(".")
        bound = np.full(field.size, np.inf)
        if name == "tcp_pose":
            box = arms[arm or next(iter(arms))].workspace
            bound[:3] = np.linalg.norm(np.subtract(box.max_m, box.min_m)) + BEYOND_M
            bound[3:] = np.pi
        bounds.append(bound)
    high = np.concatenate(bounds).astype(np.float32)
    return spaces.Box(-high, high, dtype=np.float32)
