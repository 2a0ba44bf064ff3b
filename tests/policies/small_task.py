"""A learning problem of a few numbers: random batches, small networks."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch

from policies.encoders.trunk import FeaturePart
from policies.learner import LearnerSpec, TensorBatch

FEATURES, PROPRIO, ACTIONS = 12, 5, 3
SPEC = LearnerSpec(
    parts=(FeaturePart(slice=slice(0, 8), maps=None), FeaturePart(slice=slice(8, 12), maps=None)),
    proprio_mean=torch.linspace(-1, 1, PROPRIO),
    proprio_std=torch.linspace(0.5, 2.0, PROPRIO),
    actions=ACTIONS,
)


def random_batch(seed: int, rows: int = 16, *, expert_rows: int = 8) -> TensorBatch:
    """Rows without meaning; the first `expert_rows` are an operator's, every fourth row ends its task."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    discount = torch.full((rows,), 0.97)
    discount[::4] = 0.0
    features, proprio, action = normal(rows, FEATURES), normal(rows, PROPRIO), torch.tanh(normal(rows, ACTIONS))
    corrected = torch.arange(rows)[:, None] < expert_rows // 2  # the other expert rows are of demonstrations
    return TensorBatch(
        features=features,
        proprio=proprio,
        action=action,
        proposed=torch.where(corrected, -action, action),
        reward=normal(rows),
        discount=discount,
        next_features=normal(rows, FEATURES),
        next_proprio=normal(rows, PROPRIO),
        expert=torch.arange(rows) < expert_rows,
        imitation=torch.ones(rows),
        human=(torch.arange(rows) < expert_rows)[:, None],
        label=torch.ones(rows, ACTIONS, dtype=torch.bool),
        gripper_change=torch.zeros(rows, 0, dtype=torch.bool),
        mc_return=torch.full((rows,), torch.nan),
    )


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """State as a checkpoint gives it back: tensors and plain values only."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def flat(module: torch.nn.Module) -> torch.Tensor:
    """All parameters as one vector, copied."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])
