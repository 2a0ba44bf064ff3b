"""A small causal transformer over the frames of an episode so far.

After ReWiND (arXiv:2505.10911): a position embedding on the first frame only, because with one on every frame the
model reads the clock instead of the scene. Deviations: frozen task features instead of DINOv2, proprio as a second
input, a done head beside the progress head, no text.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ProgressNetwork(nn.Module):
    """Frames (B, K, D) of a prefix -> progress logit (B, K) and done logit (B, K)."""

    def __init__(self, inputs: int, *, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width), nn.Tanh(), nn.Dropout(0.1))
        self.first = nn.Parameter(torch.zeros(width))
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=2 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.heads = nn.Linear(width, 2)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of progress and done for each frame given the ones before it."""
        tokens = self.embed(frames)
        tokens = torch.cat([tokens[:, :1] + self.first, tokens[:, 1:]], dim=1)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        out = self.heads(self.body(tokens, mask=mask, is_causal=True))
        return out[..., 0], out[..., 1]
