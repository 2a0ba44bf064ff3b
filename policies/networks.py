"""Networks on frozen features: heads per slice, MLPs with layers of HIL-SERL or of RLPD, ensembles in one product.

Shapes: B batch, F features, P proprio, A action, E critics, H hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from policies.action_layout import CHOICES
from policies.encoders.activation import NormTanh
from policies.encoders.heads import make_head
from policies.encoders.trunk import FeaturePart
from policies.precision import exactly
from policies.settings import Layers


class StateEncoder(nn.Module):
    """A trained head on each part of the features and on the proprio vector.

    Proprio comes in SI units and is standardised here, with fixed numbers taken from the demonstrations.

    Args:
        head: Width of each head; with 0 there are none, and the features themselves are the state.
    """

    def __init__(self, parts: Sequence[FeaturePart], proprio_mean: Tensor, proprio_std: Tensor, *, head: int) -> None:
        super().__init__()
        self.proprio_mean: Tensor
        self.proprio_scale: Tensor
        self._slices = tuple(part.slice for part in parts)
        self.register_buffer("proprio_mean", proprio_mean.clone())
        self.register_buffer("proprio_scale", proprio_std.clamp_min(1e-3).reciprocal())
        known = FeaturePart(slice=slice(0, len(proprio_mean)), maps=None)
        self.heads = nn.ModuleList([make_head(part, head) if head else nn.Identity() for part in parts])
        self.proprio = make_head(known, head) if head else nn.Identity()
        self.size = sum(head or part.size for part in (*parts, known))

    def forward(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Encode features (B, F) of any float type and proprio (B, P) to a state (B, size)."""
        wide = features.to(proprio.dtype)
        parts = [head(wide[:, part]) for head, part in zip(self.heads, self._slices, strict=True)]
        known = ((proprio - self.proprio_mean) * self.proprio_scale).clamp(-5, 5)
        return torch.cat([*parts, self.proprio(known)], dim=1)


def mlp(inputs: int, hidden: Sequence[int], layers: Layers = "hil_serl", *, critic: bool = False) -> nn.Sequential:
    """Build an MLP of a dense layer per hidden width, with what `Layers` says behind it.

    Args:
        critic: Whether it is a critic's, which has LayerNorm with either kind of layers.
    """
    built: list[nn.Module] = []
    for width in hidden:
        if layers == "hil_serl":
            built += [nn.Linear(inputs, width), NormTanh(width)]
        else:
            norm = [nn.LayerNorm(width, eps=1e-6)] if critic else []
            built += [_xavier(inputs, width), *norm, nn.ReLU()]
        inputs = width
    return nn.Sequential(*built)


def _xavier(inputs: int, outputs: int) -> nn.Linear:
    """Return a dense layer that starts as those of RLPD do."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _dense(layers: Layers) -> Callable[[int, int], nn.Linear]:
    """Return the constructor of a dense layer that starts as `Layers` says."""
    return nn.Linear if layers == "hil_serl" else _xavier


class EnsembleLinear(nn.Module):
    """An ensemble of E linear layers in one batched product: (E, B, inputs) -> (E, B, outputs)."""

    def __init__(self, members: int, inputs: int, outputs: int, layers: Layers = "hil_serl") -> None:
        super().__init__()
        if layers == "hil_serl":
            bound = shift = 1 / math.sqrt(inputs)
        else:
            bound, shift = math.sqrt(6 / (inputs + outputs)), 0.0
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-shift, shift))

    def forward(self, x: Tensor) -> Tensor:
        """Apply all members in one batched product."""
        return torch.baddbmm(self.bias, x, self.weight)


class EnsembleNormReLU(nn.Module):
    """A LayerNorm with scales of each member, and a ReLU: (E, B, width) -> (E, B, width)."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise and scale each row, and set to 0 what is below it."""
        normed = functional.layer_norm(x, x.shape[-1:], eps=1e-6)
        return torch.addcmul(self.bias, normed.to(self.weight.dtype), self.weight).relu()


class Critic(nn.Module):
    """An ensemble of E independent Q functions on one encoded state."""

    def __init__(
        self,
        encoder: StateEncoder,
        actions: int,
        *,
        members: int,
        hidden: Sequence[int],
        layers: Layers = "hil_serl",
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.members = members
        inputs = encoder.size + actions
        built: list[nn.Module] = []
        for width in hidden:
            norm = NormTanh(width) if layers == "hil_serl" else EnsembleNormReLU(members, width)
            built += [EnsembleLinear(members, inputs, width, layers), norm]
            inputs = width
        self.body = nn.Sequential(*built)
        self.out = EnsembleLinear(members, inputs, 1, layers)

    def forward(self, features: Tensor, proprio: Tensor, action: Tensor) -> Tensor:
        """Return the Q values (E, B) of actions at observations."""
        return self.on_state(self.encoder(features, proprio), action)

    def on_state(self, state: Tensor, action: Tensor) -> Tensor:
        """Return the Q values (E, B) of actions at an already encoded state (B, size)."""
        joint = torch.cat([state, action], dim=1)
        hidden = self.body(joint.expand(self.members, -1, -1))
        with exactly(hidden):
            return self.out(hidden.to(self.out.weight.dtype))[..., 0]


class GripperCritic(nn.Module):
    """A critic with a Q value per choice of each discrete gripper (arXiv:2410.21845, section III).

    Source: Luo et al., 2024 (HIL-SERL).
    """

    def __init__(
        self, encoder: StateEncoder, grippers: int, *, hidden: Sequence[int], layers: Layers = "hil_serl"
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.grippers = grippers
        self.body = mlp(encoder.size, hidden, layers, critic=True)
        self.out = _dense(layers)(hidden[-1], grippers * len(CHOICES))

    def forward(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Return the Q values (B, G, choices) of all gripper choices."""
        hidden = self.body(self.encoder(features, proprio))
        with exactly(hidden):
            q: Tensor = self.out(hidden.to(self.out.weight.dtype))
        return q.unflatten(1, (self.grippers, len(CHOICES)))


class GaussianActor(nn.Module):
    """A tanh-squashed diagonal Gaussian policy (Haarnoja et al., 2018, arXiv:1801.01290, appendix C)."""

    def __init__(
        self,
        encoder: StateEncoder,
        actions: int,
        *,
        hidden: Sequence[int],
        std_min: float = 0.02,
        std_max: float = 0.1,
        layers: Layers = "hil_serl",
    ) -> None:
        super().__init__()
        self.log_std_range: Tensor
        self.encoder = encoder
        self.body = mlp(encoder.size, hidden, layers)
        self.mean = _dense(layers)(hidden[-1], actions)
        self.log_std = _dense(layers)(hidden[-1], actions)
        if layers == "hil_serl":  # it starts near the middle and narrow, where RLPD's starts wide
            nn.init.uniform_(self.mean.weight, -1e-2, 1e-2)
            nn.init.zeros_(self.mean.bias)
            nn.init.uniform_(self.log_std.weight, -1e-2, 1e-2)
            nn.init.constant_(self.log_std.bias, -2.5)
        self.register_buffer("log_std_range", torch.tensor([math.log(std_min), math.log(std_max)]))

    def forward(self, features: Tensor, proprio: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation before the squash, each (B, A)."""
        hidden = self.hidden(features, proprio)
        with exactly(hidden):
            wide = hidden.to(self.mean.weight.dtype)
            return self.mean(wide), self.log_std(wide).clamp(self.log_std_range[0], self.log_std_range[1])

    def hidden(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Return the last hidden layer, (B, H)."""
        hidden: Tensor = self.body(self.encoder(features, proprio))
        return hidden

    def sample(self, features: Tensor, proprio: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sample a reparameterised action (B, A) in (-1, 1).

        Returns it with its log probability (B,) and the squashed mean (B, A).
        """
        mean, log_std = self(features, proprio)
        raw = mean + log_std.exp() * noise
        gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        # log(1 - tanh(u)^2), in the form that does not lose digits
        squash = 2 * (math.log(2) - raw - nn.functional.softplus(-2 * raw))
        return torch.tanh(raw), (gaussian - squash).sum(dim=1), torch.tanh(mean)

    def deterministic(self, features: Tensor, proprio: Tensor) -> Tensor:
        """Return the squashed mean, (B, A)."""
        return torch.tanh(self(features, proprio)[0])
