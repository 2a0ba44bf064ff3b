"""The acting policy of advantage-conditioned cloning: a flow that is told to do better than expected."""

from __future__ import annotations

import torch
from torch import Tensor

from policies.flow_bc.policy import FlowPolicy
from policies.learner import LearnerSpec
from policies.recap.config import RecapConfig

BETTER, NOT_TOLD, WORSE = 1.0, 0.0, -1.0
"""What a flow is told of a chunk: that it did better than expected, nothing, or that it did not."""


class RecapPolicy(FlowPolicy):
    """A flow over chunks that is told how good they are to be; acts as one that does better than expected.

    One that is never told anything acts so too: another word would be an input that it has not learned.
    """

    def __init__(self, spec: LearnerSpec, config: RecapConfig) -> None:
        super().__init__(spec, config, conditions=1)
        self._acts_as = BETTER if config.condition_dropout < 1 else NOT_TOLD

    def state(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Encode observations and say that what follows is to be good, (B, S + 1)."""
        return self.told(features, proprio, torch.full_like(proprio[:, :1], self._acts_as))

    def told(self, features: Tensor, proprio: Tensor, worth: Tensor) -> Tensor:
        """Encode observations and what is said of the chunks behind them, (B, 1); returns (B, S + 1)."""
        return torch.cat([self.encoder(features, proprio), worth], dim=1)
