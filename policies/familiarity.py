"""How far a frame's features are from the demonstrations: nearest neighbours among whitened principal components.

Fitted by the learner on the frozen features of the demonstrations and sent to the actor with the parameters, at most
`MOST_ROWS` frames in `COMPONENTS` numbers each. Source: nearest neighbours in a frozen encoder's features as a detector
of what was not trained on, Sun et al., 2022, arXiv:2204.06507. Deviations: whitened principal components in place of
normalised features; the distance is relative to that of the demonstrations from each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

COMPONENTS = 16
MOST_ROWS = 512
NEIGHBOURS = 5
LEAST_ROWS = NEIGHBOURS + 2
SMALLEST = 1e-3
"""Of the largest standard deviation: components below it are noise of the floating point, and are not blown up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Familiarity:
    """The demonstrations as features are compared with them.

    Attributes:
        mean: Of the features, float32, shape (F,).
        projection: To whitened components, float32, shape (F, D).
        rows: The demonstrations' frames there, float32, shape (N, D).
        scale: Median distance of such a frame from the others.
    """

    mean: np.ndarray
    projection: np.ndarray
    rows: np.ndarray
    scale: float

    @classmethod
    def fit(cls, features: np.ndarray) -> Familiarity | None:
        """Fit on features of demonstrations, shape (N, F); None of too few, without any, or where all are alike."""
        finite = features[np.isfinite(features).all(axis=1)].astype(np.float64)
        if len(finite) < LEAST_ROWS or not finite.size:
            return None
        kept = finite[np.linspace(0, len(finite) - 1, min(MOST_ROWS, len(finite))).round().astype(int)]
        mean = kept.mean(axis=0)
        _, singular, directions = np.linalg.svd(kept - mean, full_matrices=False)
        deviations = singular / np.sqrt(len(kept) - 1)
        used = (deviations > SMALLEST * deviations[0]) & (np.arange(len(deviations)) < COMPONENTS)
        if deviations[0] == 0.0 or not used.any():
            return None
        projection = (directions[used] / deviations[used, None]).T
        rows = (kept - mean) @ projection
        among = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        scale = float(np.median(np.sort(among, axis=1)[:, 1 : NEIGHBOURS + 1].mean(axis=1)))
        if scale == 0.0:
            return None
        return cls(
            mean=mean.astype(np.float32),
            projection=projection.astype(np.float32),
            rows=rows.astype(np.float32),
            scale=scale,
        )

    def distance(self, features: np.ndarray) -> float:
        """Return the distance of one frame's features, shape (F,); 1 is that of the demonstrations from each other."""
        at = (features.astype(np.float32) - self.mean) @ self.projection
        nearest = np.partition(np.linalg.norm(self.rows - at, axis=1), NEIGHBOURS - 1)[:NEIGHBOURS]
        return float(nearest.mean()) / self.scale

    def tensors(self) -> dict[str, np.ndarray]:
        """Return it as it is published, by name."""
        return {
            "mean": self.mean,
            "projection": self.projection,
            "rows": self.rows,
            "scale": np.array([self.scale], np.float32),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, np.ndarray]) -> Familiarity | None:
        """Build it from what was published; None of nothing."""
        if not tensors:
            return None
        scale = float(tensors["scale"][0])
        return cls(mean=tensors["mean"], projection=tensors["projection"], rows=tensors["rows"], scale=scale)
