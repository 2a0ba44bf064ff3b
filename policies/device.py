"""Which device the learner computes on, and how what it reads gets there."""

from __future__ import annotations

import torch
from torch import Tensor

from robot_stack.types.errors import ConfigError


def find_device(wanted: str) -> str:
    """The device that "auto", "cpu" or "cuda" stands for on this machine: "cpu" or "cuda".

    Raises:
        ConfigError: If CUDA is asked for and torch finds none.
    """
    present = torch.cuda.is_available()
    if wanted == "cuda" and not present:
        raise ConfigError(
            "run.device is 'cuda', must be 'auto' or 'cpu' where torch finds no GPU; change it, or install the GPU's "
            f"driver and a torch built for it (this one is {torch.__version__})"
        )
    return "cuda" if present and wanted != "cpu" else "cpu"


def upload(tensor: Tensor, device: torch.device | str) -> Tensor:
    """A tensor of the host on a device, without waiting for it: on its way to a GPU it lies in pinned memory."""
    if torch.device(device).type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
