"""What the learners of chunks share: a flow that is cloned, draws for all ranks, one state for all that they train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from policies.device import upload
from policies.distributed import ALONE, Ranks
from policies.flow import FlowField, flow_loss, on_line
from policies.graphs import CudaRecorder, Graphs
from policies.learner import LearnerSpec, TensorBatch, published_tensors
from policies.optimiser import descend, load_adam
from policies.precision import fast
from policies.vision import Vision


@dataclass(frozen=True, slots=True)
class Draws:
    """The random numbers of one update, drawn on the host for every device, in the order in which it takes them."""

    values: tuple[Tensor, ...]


class ChunkLearner(ABC):
    """The base of the learners whose policies decide on chunks; those implement `policies.learner.Learner`.

    On a GPU, updates on frozen features run as CUDA graphs.

    Attributes:
        published: Running average of the policy: what acts and is evaluated.
        vision: Source of the features.
        kept: Names of the attributes that are networks and part of the learner's state.
        optimisers: By the name of what they train.
    """

    published: nn.Module
    vision: Vision
    kept: tuple[str, ...]
    optimisers: dict[str, torch.optim.Adam]

    def __init__(self, spec: LearnerSpec, *, chunk: int, seed: int, device: str) -> None:
        torch.manual_seed(seed)
        self.updates = 0
        self.ranks: Ranks = ALONE
        self._spec, self._device = spec, device
        self._size = chunk * spec.actions
        self._rng = torch.Generator().manual_seed(seed)
        repeatable = torch.device(device).type == "cuda" and spec.trunk is None
        self._graphs = Graphs(CudaRecorder()) if repeatable else None

    def update(self, batch: TensorBatch) -> dict[str, Tensor]:
        """Make one update; return detached metrics."""
        rows = len(batch.reward)
        draws = Draws(self._draws(rows))
        if self._graphs is None or self.ranks.count > 1:
            metrics = self._compute(batch, draws)
        else:
            metrics = self._graphs.run((rows, self._phase), self._compute, batch, draws)
        self.updates += 1
        return metrics

    @property
    def _phase(self) -> Hashable:
        """Return what tells updates apart that compute different things."""
        return None

    @abstractmethod
    def _draws(self, rows: int) -> tuple[Tensor, ...]:
        """Draw the random numbers of an update on `rows` rows."""

    @abstractmethod
    def _compute(self, batch: TensorBatch, draws: Draws) -> dict[str, Tensor]:
        """Compute one update as a function of tensors alone, so that it can be recorded."""

    def noise(self, rows: int) -> Tensor:
        """Draw standard normal noise of whole chunks, (rows, C * A)."""
        return self._draw(torch.randn, rows, self._size)

    def _draw(self, draw: Callable[..., Tensor], rows: int, size: int) -> Tensor:
        """Draw this rank's part of what all ranks draw together, (rows, size)."""
        return upload(self.ranks.mine(draw(self.ranks.count * rows, size, generator=self._rng)), self._device)

    def flow_draws(self, rows: int) -> tuple[Tensor, Tensor]:
        """Draw what `clone` needs: noise (rows, C * A) and times in [0, 1], (rows, 1)."""
        return self.noise(rows), self._draw(torch.rand, rows, 1)

    def clone(
        self,
        name: str,
        encoder: Callable[[Tensor, Tensor], Tensor],
        field: FlowField,
        batch: TensorBatch,
        features: Tensor,
        weight: Tensor,
        drawn: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Make one step of a flow towards the chunks of a batch; returns its loss, detached.

        Args:
            name: Of its optimiser.
            encoder: What turns features and proprio into what the flow is told.
            field: The flow.
            batch: (B, ...); its rows weigh as `Batch.imitation` says.
            features: Of o, (B, F).
            weight: Of each entry of the chunks, 0 where nothing is to be learned, (B, C * A).
            drawn: Noise and times, as `flow_draws` draws them.
        """
        noise, time = drawn
        with fast(self._device):
            velocity = field(encoder(features, batch.proprio), on_line(noise, batch.action, time), time)
        count = self.ranks.mean_count(weight.any(dim=1))
        loss = flow_loss(velocity, noise, batch.action, weight, batch.imitation, count)
        self.descend(name, loss)
        return loss.detach()

    def descend(self, name: str, loss: Tensor) -> None:
        """Make one step of an optimiser down the gradient of a loss."""
        descend(self.optimisers[name], loss, self.ranks)

    def actor_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the published average of the policy, by name."""
        return published_tensors(self.published)

    def trunk_tensors(self) -> dict[str, np.ndarray]:
        """Return the running average of a trained encoder, by name; nothing where it is frozen."""
        return self.vision.published_tensors()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next update depends on."""
        return {
            **{name: getattr(self, name).state_dict() for name in self.kept},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "rng": self._rng.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned, and drop recorded graphs."""
        for name in self.kept:
            getattr(self, name).load_state_dict(state[name])
        for name, optimiser in self.optimisers.items():
            load_adam(optimiser, state["optimisers"][name])
        self._rng.set_state(state["rng"])
        self.updates = state["updates"]
        if self._graphs is not None:
            self._graphs.forget()
