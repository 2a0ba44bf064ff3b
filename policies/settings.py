"""What the settings of all algorithms have in common; read where no torch is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

Layers = Literal["hil_serl", "rlpd"]
"""What stands behind each dense layer, and with which weights it starts.

`hil_serl`: LayerNorm and tanh (arXiv:2410.21845); an actor starts near the middle and narrow. `rlpd`: ReLU, with
LayerNorm before it in the critics alone (arXiv:2302.02948); weights start as Xavier's uniform says and biases at 0, so
that an actor starts with a standard deviation of about 1 before the squash.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The way in which an algorithm's batches are drawn from the replay.

    Attributes:
        gamma: Discount per control tick.
        expert_fraction: Share of demo and human rows.
        n_step: Transitions that a return runs over.
        chunk: Ticks of action per row.
    """

    gamma: float = 0.97
    expert_fraction: float = 0.5
    n_step: int = 1
    chunk: int = 1


@runtime_checkable
class LearnerConfig(Protocol):
    """The settings that the update loop reads of any algorithm; a pydantic model."""

    @property
    def batch_size(self) -> int:
        """Return the number of rows of a batch."""
        ...

    @property
    def pretrain_updates(self) -> int:
        """Return the number of updates before online training."""
        ...

    @property
    def utd(self) -> float:
        """Return the number of updates per online environment step."""
        ...

    @property
    def shaping_weight(self) -> float:
        """Return the weight of progress in the reward; 0 for an algorithm that reads no reward."""
        ...

    @property
    def sampling(self) -> Sampling:
        """Return how batches are drawn from the replay."""
        ...

    def model_dump_json(self) -> str:
        """Return the settings as JSON, from which an actor reads them back."""
        ...
