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
SUCCESS = ("success", "is_success")
"""Keys of an info that say whether the task is done, as suites have them."""
STATE = "state"
"""Name of an observation that has none."""

Expert = Callable[[Any], np.ndarray]
"""Returns an action of the environment for its observation."""
Judge = Callable[[float, Mapping[str, Any]], bool]
"""Says by reward and info of a step whether the task is done."""


def told_by_info(reward: float, info: Mapping[str, Any]) -> bool:
    """Return whether the task is done, as `info["success"]` or `info["is_success"]` says.

    Raises:
        SpecError: If neither is there.
    """
    for key in SUCCESS:
        if key in info:
            return bool(info[key])
    raise SpecError(
        f"info has {sorted(info)}, must have {' or '.join(map(repr, SUCCESS))}; judge by the reward: success: reward"
    )


def told_by_reward(reward: float, info: Mapping[str, Any], *, above: float = 0.0) -> bool:
    """Return whether the task is done: it is rewarded above that then, and never before."""
    return reward > above


def spec_of(observations: spaces.Space[Any], actions: spaces.Space[Any], rate_hz: float = RATE_HZ) -> Spec:
    """Return the shapes of observation and action of an environment.

    Boxes of uint8 images (H, W, 3) become cameras and all other boxes proprio fields; entries of the action become axes
    of one arm, or where there are more than six of several, whose names mean nothing.

    Raises:
        SpecError: If an observation is not a Box or a Dict of Boxes, or the action not a Box with finite bounds.
    """
    if not _is_bounded(actions):
        raise SpecError(f"action space is {actions}, must be a Box of floats with finite bounds; wrap the environment")
    boxes = _boxes(observations)
    if all(map(_is_image, boxes.values())):
        raise SpecError(f"observation space is {observations}, must have numbers beside images; add some by a wrapper")
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
        rate_hz=rate_hz,
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
        rate_hz: The control rate that is recorded.

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
        rate_hz: float = RATE_HZ,
    ) -> None:
        self.spec = spec_of(environment.observation_space, environment.action_space, rate_hz)
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
        self._broken: str | None = None

    # Clock -----------------------------------------------------------------------------------------------------
    def now_ns(self) -> int:
        """Return the time in nanoseconds, one control period for each step made."""
        return self._now_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        """Step the environment once for each control period until `when_ns`, as long as its episode runs."""
        while self._now_ns < when_ns:
            self._now_ns = min(when_ns, self._now_ns + self._period_ns)
            if self._kind is None or self._over or self._broken is not None:
                continue
            try:
                self._step(self._kind)
            except RobotError as error:  # the clock is not where a control loop looks for faults: who observes is told
                self._broken = str(error)

    # Cell ------------------------------------------------------------------------------------------------------
    def observe(self) -> Observation:
        """Return what the environment returned last.

        Raises:
            RobotError: If it has not been reset, or what came of the newest step is not of its spaces or not finite.
        """
        if self._broken is not None:
            raise RobotError(self._broken)
        if self._seen is None:
            raise RobotError("environment has not been reset, must be before it is observed; call reset")
        shown = self._seen if isinstance(self._seen, dict) else {next(iter(self._boxes)): self._seen}
        parts = {name: _checked(name, shown.get(name), box) for name, box in self._boxes.items()}
        images = {name: part for name, part in parts.items() if _is_image(self._boxes[name])}
        proprio = np.concatenate([part for name, part in parts.items() if name not in images])
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
            RobotError: If the episode before was broken off, once: nobody shall go on as if it had been a failure.
        """
        if not scene:
            raise SpecError("scene is False, must be True for an environment, which always resets; use no way back")
        broken, self._broken = self._broken, None
        if broken is not None:
            raise RobotError(f"the episode before was broken off: {broken}")
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

    def milestones(self) -> dict[str, bool]:
        """Return nothing: an environment has one stage."""
        return {}

    def insertion(self) -> None:
        """Return None: an environment is not scored as an insertion."""

    def close(self) -> None:
        """Close the environment; it cannot be observed any more."""
        self._environment.close()

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
        if not np.isfinite(float(reward)):
            raise RobotError(f"reward of step {self._steps} is {reward}, must be finite; repair the environment")
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
        # rounding may leave the bounds by a bit, and an environment that checks its actions does not forgive that
        return np.clip(values, low, high).reshape(space.shape or ()).astype(space.dtype)

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
        if part.dtype == np.uint8 and len(part.shape) in (2, 4):
            raise SpecError(
                f"shape of {name} is {part.shape} uint8, must be (H, W, 3) for an image; leave out the wrapper that "
                "stacks it or makes it grey (FrameStackObservation, GrayscaleObservation)"
            )
        found[check_name(name, "name in the observation space")] = part
    return found


def _checked(name: str, value: Any, box: spaces.Box) -> np.ndarray:
    """Return a part of an observation: an image uint8 (H, W, 3), or numbers float32 (n,).

    Raises:
        RobotError: If it is of another shape or kind than its space says, or not finite.
    """
    array = np.asarray(value)
    wanted = box.dtype if _is_image(box) else np.dtype(np.float32)
    fits = array.dtype == wanted if _is_image(box) else np.issubdtype(array.dtype, np.number) or array.dtype == bool
    if value is None or array.shape != box.shape or not fits:
        got = "missing" if value is None else f"{array.dtype} {array.shape}"
        raise RobotError(f"observation {name!r} is {got}, must be {box.dtype} {box.shape}; repair the environment")
    if _is_image(box):
        return array.copy()
    numbers = np.ravel(array).astype(np.float32)
    if not np.isfinite(numbers).all():
        raise RobotError(f"observation {name!r} is {numbers}, must be finite; repair the environment")
    return numbers


def _is_image(box: spaces.Box) -> bool:
    return box.dtype == np.uint8 and len(box.shape) == 3


def _is_bounded(space: spaces.Space[Any]) -> bool:
    """Return whether an action space is a box of floats that can be scaled to [-1, 1]."""
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
        return False
    return space.is_bounded("both") and bool(np.all(space.low < space.high))
