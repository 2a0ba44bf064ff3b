"""A small causal transformer over the frames of an episode so far.

After ReWiND (arXiv:2505.10911): a position embedding on the first frame only, because with one on every frame the
model reads the clock instead of the scene. Deviations: frozen task features instead of DINOv2, no words, since a model
is of one task, proprio as a second input, and beside the progress head one for done, one for pairs of frames, and one
that the transformer alone needed many times as many steps to learn. It reads from a single frame how much is left to
do, in a unit of its own: what it reads now over what it read at the start is a first guess at progress, which the
transformer corrects.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

LEAST_LEFT = 1.0
"""For the guess, the way at the start is this at least: an episode that begins near its end has hardly any."""
SUREST = 0.99
"""The guess is kept within this and 1 less it."""

TEMPERATURE = 0.1
"""Difference of Φ at which the further one is named in three cases of four (σ(1) = 0.73), but for lapses."""
LAPSE = 0.1
"""Share of answers that say nothing of the pair, as in the paper: so that a wrong answer costs a bounded loss."""


class ProgressNetwork(nn.Module):
    """The network of one member of the ensemble. Shapes: B clips, K frames, D inputs, W width."""

    def __init__(self, inputs: int, *, width: int, layers: int) -> None:
        super().__init__()
        self.see = nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width), nn.Tanh(), nn.Dropout(0.1))
        self.first = nn.Parameter(torch.zeros(width))
        layer = nn.TransformerEncoderLayer(
            width, nhead=4, dim_feedforward=2 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.heads = nn.Linear(width, 2)
        self.left = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))
        self.pair = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def embed(self, frames: Tensor) -> Tensor:
        """Embed frames (B, K, D) as tokens (B, K, W)."""
        tokens: Tensor = self.see(frames)
        return tokens

    def judge(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of progress and of done of each frame, each (B, K), from the tokens of its past."""
        tokens = torch.cat([seen[:, :1] + self.first, seen[:, 1:]], dim=1)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        out = self.heads(self.body(tokens, mask=mask, is_causal=True))
        return out[..., 0] + self.frame_progress_logit(seen), out[..., 1]

    def frame_progress_logit(self, seen: Tensor) -> Tensor:
        """Return the logit of :math:`1 - l_t / l_0`, (B, K), from the tokens of frames.

        l is what is left to do, as read from a frame by itself.
        """
        left = functional.softplus(self.left(seen)[..., 0])
        share = 1 - left / left[:, :1].clamp_min(LEAST_LEFT)
        return torch.logit(share.clamp(1 - SUREST, SUREST))

    def compare(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the hop from one frame to another, in [-1, 1], shape (B,); tokens (B, W) each.

        It is 0 from a frame to itself, however little was learned.
        """
        there: Tensor = self.pair(torch.cat([before, after], dim=1))
        nowhere: Tensor = self.pair(torch.cat([before, before], dim=1))
        return torch.tanh(there - nowhere)[:, 0]


def preference_loss(first: Tensor, second: Tensor, further: Tensor) -> Tensor:
    r"""Compute the mean loss :math:`-\mu \log P - (1 - \mu) \log(1 - P)` of N pairs.

    :math:`P = (1 - \epsilon) \sigma((\Phi_2 - \Phi_1) / \tau) + \epsilon / 2`, ε = `LAPSE`, τ = `TEMPERATURE`.

    Source: Christiano et al., 2017, arXiv:1706.03741, section 2.2.3: the Bradley-Terry model, with answers that are
    given at random in one case in ten, and ½ for "the same". Deviation: what is compared is Φ of two frames instead of
    sums of rewards, over τ, since Φ is bounded.

    Args:
        first: Φ of the first frames, in [0, 1], shape (N,).
        second: Φ of the second ones, same.
        further: μ: 1 where the second got further, 0 where the first did, 0.5 for the same, shape (N,).
    """
    p = (1 - LAPSE) * torch.sigmoid((second - first) / TEMPERATURE) + LAPSE / 2
    return -(further * p.log() + (1 - further) * (1 - p).log()).mean()
