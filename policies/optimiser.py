"""Adam as all learners use it: in one kernel, and so that its steps can be part of a CUDA graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def make_adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
    """Build a fused Adam; on a GPU it also keeps its count of steps there."""
    listed = list(parameters)
    return torch.optim.Adam(listed, learning_rate, fused=True, capturable=_on_gpu(listed))


def load_adam(optimiser: torch.optim.Adam, state: Mapping[str, Any]) -> None:
    """Restore an Adam's state from `state_dict`, also of one trained on another kind of device."""
    optimiser.load_state_dict(dict(state))
    for group in optimiser.param_groups:
        group["capturable"] = _on_gpu(group["params"])


def _on_gpu(parameters: Iterable[Tensor]) -> bool:
    return any(parameter.is_cuda for parameter in parameters)
