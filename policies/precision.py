"""The precision of matrix products: which are made in bf16, and which never."""

from __future__ import annotations

import torch
from torch import Tensor

CAPABILITIES: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
"""What this processor can do; unknown, and so none, before torch 2.11."""
FAST_BF16 = {
    "cpu": any(CAPABILITIES.get(name, False) for name in ("avx512_bf16", "amx_bf16")),
    "cuda": True,
}
"""Which kinds of device multiply bf16 faster than float32."""


def fast(device: torch.device | str, *, allowed: bool = True) -> torch.autocast:
    """Autocast matrix products to bf16 where the processor multiplies those faster: 4 times on AVX512-BF16, measured.

    Weights, last layers and losses stay float32. What lies between the products follows its input: on the CPU norms
    and activations are bf16 behind a product, with statistics summed in float32; on the GPU the norms of a ResNet are
    too, and LayerNorm returns float32. One block per optimiser step: the cast weights are cached in it.

    Args:
        device: Where the products are made.
        allowed: Whether bf16 may be used at all.
    """
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=allowed and FAST_BF16[kind])


def exactly(tensor: Tensor) -> torch.autocast:
    """Keep float32 also inside `fast`: for last layers, whose outputs are values and actions."""
    return torch.autocast(tensor.device.type, enabled=False)
