"""A Gymnasium environment as a cell: the control loop runs episodes on it as on a robot, and records them alike.

There is no safety filter: an action that an environment takes cannot break anything. What takes the place of an
operator is an expert, a function from the environment's observation to its action.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import ExecutedMotion
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.interfaces import TIME_IS_UP
from robot_stack.types.names import check_name
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal
from robot_stack.types.spec import AXES, ArmSpec, CameraSpec, ProprioField, Spec
from robot_stack.types.transition import EpisodeKind

RATE_HZ = 10.0
"""The control rate that is recorded: an environment has no clock, so one step counts as a tenth of a second."""
UNIT = 0.1
"""Metres or radians that an entry of 1.0 is recorded as: an environment's axes have no unit that is known here."""
COLOURS = 3
STATE = "state"
"""Name of an observation that has none."""

Expert = Callable[[Any], np.ndarray]
"""Returns an action of the environment for its observation."""
Judge = Callable[[float, Mapping[str, Any]], bool]
"""Says by reward and info of a step whether the task is done."""


def told_by_info(reward: float, info: Mapping[str, Any]) -> bool:
    """Return whether the task is done, as `info["success"]` says.

    Raises:
        SpecError: If it says nothing.
    """
    if "success" not in info:
        raise SpecError(f"info has {sorted(info)}, must have 'success'; judge by the reward: success=told_by_reward")
    return bool(info["success"])


def told_by_reward(reward: float, info: Mapping[str, Any]) -> bool:
    """Return whether the task is done: it is rewarded above 0 then, and never before."""
    return reward > 0.0


def spec_of(observations: spaces.Space[Any], actions: spaces.Space[Any]) -> Spec:
    """Return the shapes of observation and action of an environment.

    Boxes of uint8 images (H, W, 3) become cameras and all other boxes proprio fields; entries of the action become axes
    of one arm, or where there are more than six of several, whose names mean nothing.

    Raises:
        SpecError: If an observation is not a Box or a Dict of Boxes, or the action not a Box with finite bounds.
    """
    if not _is_bounded(actions):
        raise SpecError(f"action space is {actions}, must be a Box of floats with finite bounds; wrap the environment")
    boxes = _boxes(observations)
    size = int(np.prod(actions.shape or ()))
    parts = [AXES[: min(len(AXES), size - first)] for first in range(0, size, len(AXES))]
    return Spec(
        arms=tuple(
            ArmSpec(name=f"part{number}", axes=axes, translation_m=UNIT, rotation_rad=UNIT)
            for number, axes in enumerate(parts)
        ),
        cameras=tuple(
            CameraSpec(name=name, height_px=box.shape[0], width_px=box.shape[1])
            for name, box in boxes.items()
            if _is_image(box)
        ),
        proprio=tuple(
            ProprioField(name=name, size=int(np.prod(box.shape))) for name, box in boxes.items() if not _is_image(box)
        ),
        rate_hz=RATE_HZ,
    )


class GymnasiumCell:
    """An environment as a cell in this process; implements `Cell` and, on the side, `Clock`.

    A step is made when time goes on by one control period. An episode ends in a success where `success` says so, in a
    failure where the environment has terminated otherwise, and in a timeout where it was truncated.

    Args:
        environment: Any that `spec_of` takes.
        expert: Drives in demonstrations, and takes over in training; None: there is neither.
        patience: Steps of a training episode after which the expert takes over, until it ends; None: never.
        success: Says whether the task is done.

    Raises:
        SpecError: If its spaces do not fit.
    """

    def __init__(
        self,
        environment: gymnasium.Env[Any, Any],
        *,
        expert: Expert | None = None,
        patience: int | None = None,
        success: Judge = told_by_info,
    ) -> None:
        self.spec = spec_of(environment.observation_space, environment.action_space)
        self._environment = environment
        self._boxes = _boxes(environment.observation_space)
        self._expert = expert
        self._patience = patience
        self._success = success
        self._space = ActionSpace(self.spec)
        self._period_ns = round(self.spec.period_s * 1e9)
        self._now_ns = 0
        self._seen: Any = None
        self._proposed: np.ndarray | None = None
        self._windows = self._at_rest()
        self._kind: EpisodeKind | None = None
        self._steps = 0
        self._done, self._over = False, False
        self._events: tuple[str, ...] = ()

    # Clock -----------------------------------------------------------------------------------------------------
    def now_ns(self) -> int:
        """Return the time in nanoseconds, one control period for each step made."""
        return self._now_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        """Step the environment once for each control period until `when_ns`, as long as its episode runs."""
        while self._now_ns < when_ns:
            self._now_ns = min(when_ns, self._now_ns + self._period_ns)
            if self._kind is not None and not self._over:
                self._step(self._kind)

    # Cell ------------------------------------------------------------------------------------------------------
    def observe(self) -> Observation:
        """Return what the environment returned last.

        Raises:
            RobotError: If it has not been reset, or a number is not finite.
        """
        if self._seen is None:
            raise RobotError("environment has not been reset, must be before it is observed; call reset")
        named = self._seen if isinstance(self._seen, dict) else {next(iter(self._boxes)): self._seen}
        images = {name: np.array(named[name]) for name, box in self._boxes.items() if _is_image(box)}
        numbers = [np.ravel(named[name]) for name in self._boxes if name not in images]
        proprio = np.concatenate(numbers).astype(np.float32)
        if not np.isfinite(proprio).all():
            raise RobotError(f"observation is {proprio}, must be finite; the environment is broken")
        return Observation(images=images, proprio=proprio, stamp_ns=self._now_ns)

    def send(self, action: np.ndarray) -> None:
        """Set the action of the next step, float32 (A,) in [-1, 1]."""
        self.spec.check_action(action)
        self._proposed = action

    def executed(self) -> dict[str, ExecutedMotion]:
        """Return what was executed in the newest step, once; otherwise that nothing was."""
        windows, self._windows = self._windows, self._at_rest()
        return windows

    def mode(self) -> Mode:
        """Return who drives now; an environment never holds."""
        if self._kind is None:
            return Mode.READY
        return Mode.HUMAN if self._in_hand(self._kind) else Mode.POLICY

    def reason(self) -> Refusal | None:
        """Return None: an environment never holds."""
        return None

    def events(self) -> tuple[str, ...]:
        """Return how the episode has ended, once: "success", "failure" or `TIME_IS_UP`."""
        events, self._events = self._events, ()
        return events

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        """Reset the environment.

        Raises:
            SpecError: If the objects shall stay where they are: an environment always puts them back.
        """
        if not scene:
            raise SpecError("scene is False, must be True for an environment, which always resets; use no way back")
        self._kind, self._proposed, self._steps = None, None, 0
        self._done, self._over, self._events = False, False, ()
        self._seen, _ = self._environment.reset(seed=seed)

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """Begin an episode.

        Raises:
            SpecError: If it is a demonstration, and there is no expert.
        """
        if kind is EpisodeKind.DEMO and self._expert is None:
            raise SpecError("expert is None, must be there to demonstrate; give the cell one, or ask for no demos")
        self._kind = kind
        self._windows = self._at_rest()

    def claim(self, verdict: Verdict) -> None:
        """Ignore what a model claims: the environment says itself whether the task is done."""

    def ask(self, request: HelpRequest | None) -> None:
        """Ignore what the policy asks for: nobody stands at an environment."""

    def finish(self) -> None:
        """End the episode; the environment waits for its next reset."""
        self._kind = None

    def truth(self) -> bool:
        """Return whether the task is done, by the environment itself."""
        return self._done

    def _in_hand(self, kind: EpisodeKind) -> bool:
        """Return whether the expert drives the next step."""
        if kind is EpisodeKind.DEMO:
            return True
        if kind is EpisodeKind.EVAL or self._expert is None or self._patience is None:
            return False
        return self._steps >= self._patience

    def _step(self, kind: EpisodeKind) -> None:
        """Make one step: the expert's, the policy's, or, where it sent nothing, that of zeros."""
        source, entries, clipped = Source.HOLD, np.zeros(self.spec.action_size), False
        if self._expert is not None and self._in_hand(kind):
            wanted = self._entries(self._expert(self._seen))
            source, entries = Source.HUMAN, np.clip(wanted, -1.0, 1.0)
            clipped = bool(np.abs(wanted).max() > 1.0 + 1e-5)
        elif self._proposed is not None:
            source, entries = Source.POLICY, np.clip(self._proposed.astype(np.float64), -1.0, 1.0)
        self._proposed = None
        self._seen, reward, terminated, truncated, info = self._environment.step(self._action(entries))
        self._steps += 1
        self._done = self._success(float(reward), info)
        self._over = self._done or terminated or truncated
        if self._over:
            self._events = ("success" if self._done else "failure" if terminated else TIME_IS_UP,)
        commands = self._space.to_commands(entries.astype(np.float32), self._now_ns)
        self._windows = {
            arm: ExecutedMotion(
                twist=command.twist,
                gripper=None,
                human_twist=command.twist if source is Source.HUMAN else np.zeros(6),
                human_gripper=0,
                source=source,
                clipped=clipped,
            )
            for arm, command in commands.items()
        }

    def _entries(self, action: np.ndarray) -> np.ndarray:
        """Return the expert's action as entries, float64 (A,), within the bounds of the space in [-1, 1].

        Raises:
            SpecError: If it is not finite or of another size.
        """
        low, high = self._bounds()
        if np.size(action) != low.size or not np.isfinite(action).all():
            raise SpecError(f"action of the expert is {action}, must be {low.size} finite numbers; correct the expert")
        entries: np.ndarray = 2.0 * (np.ravel(action).astype(np.float64) - low) / (high - low) - 1.0
        return entries

    def _action(self, entries: np.ndarray) -> np.ndarray:
        """Return entries (A,) in [-1, 1] as an action of the environment."""
        low, high = self._bounds()
        space = self._environment.action_space
        values: np.ndarray = low + 0.5 * (entries + 1.0) * (high - low)
        return values.reshape(space.shape or ()).astype(space.dtype)

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        space = self._environment.action_space
        assert isinstance(space, spaces.Box)
        return np.ravel(space.low).astype(np.float64), np.ravel(space.high).astype(np.float64)

    def _at_rest(self) -> dict[str, ExecutedMotion]:
        rest = ExecutedMotion(
            twist=np.zeros(6), gripper=None, human_twist=np.zeros(6), human_gripper=0, source=Source.HOLD, clipped=False
        )
        return {arm.name: rest for arm in self.spec.arms}


def _boxes(space: spaces.Space[Any]) -> dict[str, spaces.Box]:
    """Return the boxes of an observation by name.

    Raises:
        SpecError: If there is something else, or a name does not fit.
    """
    parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {STATE: space}
    found = {}
    for name, part in parts.items():
        if not isinstance(part, spaces.Box):
            raise SpecError(f"observation space is {space}, must be a Box or a Dict of Boxes; flatten it by a wrapper")
        if part.dtype == np.uint8 and len(part.shape) == 3 and part.shape[2] != COLOURS:
            raise SpecError(f"shape of image {name} is {part.shape}, must be (H, W, 3), RGB; convert it by a wrapper")
        found[check_name(name, "name in the observation space")] = part
    return found


def _is_image(box: spaces.Box) -> bool:
    return box.dtype == np.uint8 and len(box.shape) == 3


def _is_bounded(space: spaces.Space[Any]) -> bool:
    """Return whether an action space is a box of floats that can be scaled to [-1, 1]."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return False
    return space.is_bounded("both") and bool(np.all(space.low < space.high))
