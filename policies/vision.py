"""The source of a learner's features: frozen and replayed, or from an encoder that it trains.

A trained encoder has a running average, which targets see with (fault 14: targets use target parameters of
everything that trains) and which is published to act with.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from policies.learner import TensorBatch, published_tensors
from policies.optimiser import follow


class Seen(NamedTuple):
    """The features of a batch, each (B, F).

    Attributes:
        now: Of o; carries the gradient into a trained encoder.
        following: Of o', by the trained encoder, without gradient.
        target: Of o', by its running average, without gradient.
    """

    now: Tensor
    following: Tensor
    target: Tensor


class Vision(nn.Module):
    """A module that passes frozen features through, or encodes the images of a batch.

    Args:
        trunk: First weights of an encoder to train; None where features come frozen.
        tau: Share by which the running average follows, per critic update.
    """

    def __init__(self, trunk: nn.Module | None, *, tau: float) -> None:
        super().__init__()
        self._tau = tau
        self.trunk = None if trunk is None else copy.deepcopy(trunk).requires_grad_(True)
        self.average = None if trunk is None else copy.deepcopy(trunk).requires_grad_(False)

    def trained_parameters(self) -> Iterator[nn.Parameter]:
        """Return the encoder's parameters that the critic's optimiser trains; none where it is frozen."""
        return iter(()) if self.trunk is None else self.trunk.parameters()

    def now(self, batch: TensorBatch) -> Tensor:
        """Return the features of o, (B, F); they carry the gradient into a trained encoder."""
        return batch.features if self.trunk is None else self.trunk(batch.images)

    def see(self, batch: TensorBatch) -> Seen:
        """Return the features of o and o'."""
        if self.trunk is None or self.average is None:
            return Seen(batch.features, batch.next_features, batch.next_features)
        now = self.now(batch)
        with torch.no_grad():
            return Seen(now, self.trunk(batch.next_images), self.average(batch.next_images))

    def follow(self) -> None:
        """Move the running average one step towards the trained encoder."""
        if self.trunk is not None and self.average is not None:
            follow(self.average, self.trunk, self._tau)

    def published_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the running average, by name; nothing where features come frozen."""
        return {} if self.average is None else published_tensors(self.average)
