"""Adam as all learners use it, in one kernel and fit for a CUDA graph, and running averages of what it trains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from policies.distributed import Ranks


def make_adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
    """Build a fused Adam; on a GPU it also keeps its count of steps there."""
    listed = list(parameters)
    return torch.optim.Adam(listed, learning_rate, fused=True, capturable=_on_gpu(listed))


def load_adam(optimiser: torch.optim.Adam, state: Mapping[str, Any]) -> None:
    """Restore an Adam's state from `state_dict`, also of one trained on another kind of device."""
    optimiser.load_state_dict(dict(state))
    for group in optimiser.param_groups:
        group["capturable"] = _on_gpu(group["params"])


def descend(optimiser: torch.optim.Adam, loss: Tensor, ranks: Ranks) -> None:
    """Make one step down the gradient of a loss, averaged over all ranks."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for parameter in parameters:  # `zero_grad` does the same in 65 us
        parameter.grad = None
    loss.backward()
    ranks.average(parameter.grad for parameter in parameters)
    optimiser.step()


@torch.no_grad()
def follow(follower: nn.Module, leader: nn.Module, share: float) -> None:
    """Move the parameters of a running average by a share of their distance to those of a trained network."""
    torch._foreach_lerp_(list[Tensor](follower.parameters()), list[Tensor](leader.parameters()), share)


def _on_gpu(parameters: Iterable[Tensor]) -> bool:
    return any(parameter.is_cuda for parameter in parameters)
