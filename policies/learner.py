"""The Protocols that every algorithm implements, and the batch as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from policies.distributed import Ranks
from policies.encoders.trunk import FeaturePart
from robot_stack.types.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerSpec:
    """The sizes and statistics that a learner is built from.

    Attributes:
        parts: Parts of the features that get a head of their own.
        proprio_mean: Mean of the proprio vector over the demonstrations, float32, shape (P,), SI units.
        proprio_std: Its standard deviation, same shape.
        actions: A, over all arms.
        grippers: Positions of discrete grippers in an action.
        trunk: Encoder that is trained end to end, at its first weights; None where the features come frozen.
        noise: D, numbers of the noise of the run's base that are chosen here; 0 without.
    """

    parts: tuple[FeaturePart, ...]
    proprio_mean: Tensor
    proprio_std: Tensor
    actions: int
    grippers: tuple[int, ...] = ()
    trunk: nn.Module | None = None
    noise: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBatch:
    """A `Batch` as tensors on a device; fields as there, features as float32.

    Attributes:
        images: Camera -> uint8 (B, H, W, 3) of o where the trunk is trained; empty otherwise.
        next_images: Of o'.
    """

    features: Tensor
    proprio: Tensor
    action: Tensor
    proposed: Tensor
    reward: Tensor
    discount: Tensor
    next_features: Tensor
    next_proprio: Tensor
    expert: Tensor
    imitation: Tensor
    human: Tensor
    label: Tensor
    gripper_change: Tensor
    mc_return: Tensor
    images: Mapping[str, Tensor] = field(default_factory=dict)
    next_images: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def from_numpy(cls, batch: Batch) -> TensorBatch:
        """Wrap a `Batch` without a copy; only float16 features become float32, once, here."""
        tensors = {name: torch.from_numpy(getattr(batch, name)) for name in _COLUMNS}
        for name in ("features", "next_features"):
            tensors[name] = tensors[name].float()
        return cls(**tensors, images=_images(batch.images), next_images=_images(batch.next_images))

    @classmethod
    def for_imitation(
        cls,
        features: np.ndarray,
        proprio: np.ndarray,
        action: np.ndarray,
        label: np.ndarray,
        images: Mapping[str, np.ndarray] | None = None,
    ) -> TensorBatch:
        """Build a batch of expert rows alone, without reward or successor, for learners that only imitate.

        Columns are as in `Batch`.
        """
        count = len(action)
        seen, known = torch.from_numpy(features).float(), torch.from_numpy(proprio)
        return cls(
            features=seen,
            proprio=known,
            action=torch.from_numpy(action),
            proposed=torch.from_numpy(action),
            reward=torch.zeros(count),
            discount=torch.zeros(count),
            next_features=seen,
            next_proprio=known,
            expert=torch.ones(count, dtype=torch.bool),
            imitation=torch.ones(count),
            human=torch.ones(count, 1, dtype=torch.bool),
            label=torch.from_numpy(label),
            gripper_change=torch.zeros(count, 0, dtype=torch.bool),
            mc_return=torch.full((count,), torch.nan),
            images=_images(images),
        )

    def to(self, device: str) -> TensorBatch:
        """Copy the batch to a device."""
        moved = {name: getattr(self, name).to(device) for name in _COLUMNS}
        images, after = ({n: p.to(device) for n, p in seen.items()} for seen in (self.images, self.next_images))
        return TensorBatch(**moved, images=images, next_images=after)


_COLUMNS = tuple(name for name in TensorBatch.__slots__ if "images" not in name)


def _images(images: Mapping[str, np.ndarray] | None) -> dict[str, Tensor]:
    return {name: torch.from_numpy(pixels) for name, pixels in (images or {}).items()}


def published_tensors(module: nn.Module) -> dict[str, np.ndarray]:
    """Return the state of a network as it is published, by name: weights as fp16, constants such as scales as they are.

    A joint angle of 1.5 rad that is known to a milliradian does not fit into fp16.
    """
    weights = dict(module.named_parameters())
    state = {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}
    return {name: (tensor.half() if name in weights else tensor).numpy() for name, tensor in state.items()}


class Module(Protocol):
    """What the acting side needs of an `nn.Module`."""

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Say whether weights have gradients; an `nn.Module` has this."""
        ...

    def eval(self) -> Any:
        """Turn off what acts in training only; an `nn.Module` has this."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return the weights by name."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Restore the weights that `state_dict` returned."""
        ...


class ActingNetwork(Module, Protocol):
    """The network that an actor process runs: a small `nn.Module` on features, built by its algorithm."""

    chunk: int
    """Ticks that one decision covers."""

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return whole actions (B, chunk * A) in [-1, 1].

        Args:
            features: (B, F).
            proprio: (B, P), SI units.
            tick: Control ticks since the episode began.
            rng: Draws the exploration noise.
            deterministic: No noise.
        """
        ...


class Learner(Protocol):
    """A learner of any algorithm: it learns from batches and resumes exactly from its own state."""

    name: str
    ranks: Ranks
    """Who trains with it: one process unless several have joined."""

    @property
    def updates(self) -> int:
        """Return the number of updates made so far."""
        ...

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one update from a batch and return detached scalar metrics."""
        ...

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of an encoder trained end to end, by name; empty where it is frozen."""
        ...

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors that an actor needs to act, by name, see `published_tensors`."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all state that a resumed learner needs."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        ...


@runtime_checkable
class WatchesEpisodes(Protocol):
    """A learner whose schedule follows how its episodes end."""

    def episode_ended(self, *, success: bool, alone: bool) -> None:
        """Count an ended online episode; called in order, from the update loop's thread."""
        ...


@runtime_checkable
class ChoosesNoise(Protocol):
    """A network that chooses the noise of the run's base beside acting."""

    def noise(self, features: Tensor, proprio: Tensor, *, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return the noise of the base's next answer, (B, D)."""
        ...


@runtime_checkable
class ExploresSmoothly(Protocol):
    """An acting network whose noise may last from one decision to the next, so that its actions are no single draws."""

    def samples(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator) -> Tensor:
        """Draw whole actions (B, chunk * A), each with noise of its own; the noise that it acts with is left alone."""
        ...


@runtime_checkable
class ValuesActions(Protocol):
    """A network that values whole actions by several critics; it goes to the actor where the policy asks for help."""

    def values(self, features: Tensor, proprio: Tensor, action: Tensor) -> Tensor:
        """Return Q(o, a) of whole actions (B, chunk * A) by each of E critics, (E, B)."""
        ...


class JudgingCritic(Module, ValuesActions, Protocol):
    """A network of critics alone, as an actor builds it."""


@runtime_checkable
class PublishesCritic(Protocol):
    """A learner whose critics can be sent to an actor beside the policy."""

    def critic_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the network that its algorithm names as `critic`, see `published_tensors`."""
        ...


class AskedCritic(Protocol):
    """A critic as it was at one moment, which later updates do not change.

    Attributes:
        values_discrete_grippers: Whether they are part of the actions that it values, or have a critic of their own.
    """

    values_discrete_grippers: bool

    def values(self, batch: TensorBatch, actions: Sequence[Tensor]) -> list[Tensor]:
        """Return Q(o, a) for each of several whole actions (B, C * A) at the observations of a batch, each (B,)."""
        ...

    def targets(self, batch: TensorBatch, rng: torch.Generator) -> Tensor:
        """Return the value that each row of a batch is trained towards, (B,); `rng` draws the next action."""
        ...


@runtime_checkable
class HasCritic(Protocol):
    """A learner whose critic can be asked about what it has not been trained on."""

    @property
    def updates(self) -> int:
        """Return the number of updates made so far."""
        ...

    def critic_snapshot(self) -> AskedCritic:
        """Copy the critic as it is now; called between updates, from the update loop's thread."""
        ...
