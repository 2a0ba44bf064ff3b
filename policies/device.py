"""The device that the learner computes on, and the transfer of tensors to it."""

from __future__ import annotations

import torch
from torch import Tensor

from robot_stack.types.errors import ConfigError


def find_device(wanted: str) -> str:
    """Resolve "auto", "cpu" or "cuda" to this machine's device: "cpu" or "cuda".

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
    """Copy a tensor of the host to a device without waiting; on its way to a GPU it lies in pinned memory."""
    if torch.device(device).type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)
