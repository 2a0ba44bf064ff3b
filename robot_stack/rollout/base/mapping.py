"""What a base policy is shown and what its answers mean, by the names and units of a run's `base:` section."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from robot_stack.config.base import ServedBase
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.pose import Pose
from robot_stack.types.spec import Spec

PLACE_SIZE = 6
CORNER = math.sqrt(3.0)
"""From the middle of the box of steps to a corner, in steps."""
FARTHEST = 1e6
"""Steps of ours that one of a base may be long before it is clipped and shortened: more would overflow."""
MOST_STEPS = 1000
"""Actions of a chunk; policies plan a few dozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An observation in the terms of a base policy.

    Attributes:
        images: Its name of a camera -> RGB uint8 (H, W, 3).
        state: float32 (S,), in its units.
        text: What is to be done.
        noise: What each step of the chunk starts from, float32 (D,); None where it draws its own.
    """

    images: Mapping[str, np.ndarray]
    state: np.ndarray
    text: str
    noise: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a base policy says of itself before it is asked; None where it does not say.

    Attributes:
        name: For messages.
        cameras: Names of the images that it wants.
        state: Entries of its state.
        actions: Entries of its action.
        rate_hz: Actions of its chunks per second.
        noise: Numbers of noise that it takes with a question; None: it takes none, or does not say so.
    """

    name: str
    cameras: frozenset[str] | None = None
    state: int | None = None
    actions: int | None = None
    rate_hz: float | None = None
    noise: int | None = None


@dataclass(frozen=True, slots=True)
class BaseMapping:
    """The names and units of a base policy.

    Attributes:
        config: The section of the run.
        spec: What is sensed, without the base's own field.
        text: Of the task, where the section has none.
    """

    config: ServedBase
    spec: Spec
    text: str
    _actions: list[tuple[int, int, float, float]] = field(init=False)

    def __post_init__(self) -> None:
        """Find the place of each name."""
        names, placed = self.spec.action_names, []
        for index, entry in enumerate(self.config.action):
            if entry.name is not None:
                place = names.index(entry.name)
                share = 1.0 if place in self.spec.gripper_indices else self.config.rate_hz / self.spec.rate_hz
                placed.append((place, index, share * entry.scale, share * entry.offset))
        object.__setattr__(self, "_actions", placed)

    @property
    def state_size(self) -> int:
        """Return S, the entries of the state that the base is shown."""
        sizes = {field.name: field.size for field in self.spec.proprio} | dict.fromkeys(self.spec.places, PLACE_SIZE)
        return sum(sizes[shown.field] for shown in self.config.state)

    def check(self, told: Told) -> None:
        """Hold what a base says of itself against the section.

        Raises:
            ConfigError: If it wants or gives something else; one line for each.
        """
        shown, given = frozenset(self.config.cameras.values()), len(self.config.action)
        said = []
        if told.cameras is not None and told.cameras != shown:
            said.append(f"base.cameras shows {sorted(shown)}, must show {sorted(told.cameras)}; name them so")
        if told.state is not None and told.state != self.state_size:
            said.append(
                f"base.state has {self.state_size} numbers, must have {told.state}; list what it was trained on"
            )
        if told.actions is not None and told.actions != given:
            said.append(f"base.action has {given} entries, must have {told.actions}; null stands for one not wanted")
        if told.rate_hz is not None and abs(told.rate_hz - self.config.rate_hz) > 1e-3 * told.rate_hz:
            said.append(f"base.rate_hz is {self.config.rate_hz:g}, must be {told.rate_hz:g}; correct it")
        if self.config.noise is not None and told.noise != self.config.noise:
            wanted = "left out, as it takes none" if told.noise is None else f"{told.noise}"
            said.append(f"base.noise is {self.config.noise}, must be {wanted}; correct it")
        if said:
            raise ConfigError("\n".join(f"{line} (of {told.name})" for line in said))

    def question(self, observation: Observation, noise: np.ndarray | None = None) -> Question:
        """Say an observation in the base's terms, with the noise that its answer is to start from.

        Raises:
            SpecError: If the pose of an arm is wanted and not known.
        """
        parts = [self._shown(shown.field, observation) * shown.scale + shown.offset for shown in self.config.state]
        images = {theirs: observation.images[ours] for ours, theirs in self.config.cameras.items()}
        state, text = np.concatenate([np.zeros(0), *parts]).astype(np.float32), self.config.text or self.text
        return Question(images=images, state=state, text=text, noise=noise)

    def _shown(self, name: str, observation: Observation) -> np.ndarray:
        arm = self.spec.places.get(name)
        if arm is None:
            return observation.proprio[self.spec.part(name)]
        if arm not in observation.T_base_tcp:
            raise SpecError(
                f"base.state shows {name} where nobody says where the tool of {arm} is, must show recorded fields "
                f"alone; leave it out, there are {[field.name for field in self.spec.proprio]}"
            )
        place = observation.T_base_tcp[arm]
        return np.concatenate([place.position_m, place.rotation.as_rotvec()])

    def chunk(self, answer: np.ndarray) -> np.ndarray:
        """Return the actions of an answer (T, N) as ours, float32 (T, A).

        What moves an arm is per step of ours, along the axes that the section names, and may be longer than a step of
        ours; what moves a gripper is clipped to [-1, 1].

        Raises:
            SpecError: If it is of another shape, or not finite.
        """
        wanted = len(self.config.action)
        if answer.ndim != 2 or answer.shape[1] != wanted or not 1 <= len(answer) <= MOST_STEPS:
            raise SpecError(
                f"answer of the base has shape {answer.shape}, must be (1 to {MOST_STEPS}, {wanted}), a row for each "
                "step; list its entries in base.action"
            )
        if not np.issubdtype(answer.dtype, np.number) or not np.isfinite(answer).all():
            raise SpecError("answer of the base has entries that are no finite numbers; see its own log")
        ours = np.zeros((len(answer), self.spec.action_size), np.float32)
        for place, index, scale, offset in self._actions:
            most = 1.0 if place in self.spec.gripper_indices else FARTHEST
            ours[:, place] = np.clip(answer[:, index] * scale + offset, -most, most)
        return ours

    def limited(self, action: np.ndarray) -> np.ndarray:
        """Shorten the action of a tick, (A,), along the axes that the section names, to what a step of ours can be.

        Along the axes of the base it keeps its direction: a triple is no longer than to a corner of the box of steps.
        """
        if self.config.frame == "tool":
            return np.clip(action, -1.0, 1.0)
        action = action.copy()
        for _, triple in self._triples():
            action[triple] /= max(1.0, float(np.linalg.norm(action[triple])) / CORNER)
        return action

    def _triples(self) -> Iterator[tuple[str, slice]]:
        """Yield each arm and where its translation, and then its rotation, is in an action; each along three axes."""
        offset = 0
        for arm in self.spec.arms:
            yield from ((arm.name, slice(begin, begin + 3)) for begin in range(offset, offset + len(arm.axes), 3))
            offset += arm.size

    def turned(self, action: np.ndarray, T_base_tcp: Mapping[str, Pose]) -> np.ndarray:
        """Return an action of ours, float32 (A,), along the axes of the tool, which is where `T_base_tcp` says.

        What is too long for a step of ours is shortened and keeps its direction.

        Raises:
            SpecError: If the pose of an arm is not known.
        """
        if self.config.frame == "tool":
            return action
        action = action.copy()
        for arm, triple in self._triples():
            if arm not in T_base_tcp:
                raise SpecError(
                    f"base.frame is 'base' where nobody says how the tool of {arm} is turned, must be 'tool'; "
                    "have the base's server turn its actions"
                )
            turned = action[triple] @ T_base_tcp[arm].matrix
            action[triple] = turned / max(1.0, np.abs(turned).max())
        return action
