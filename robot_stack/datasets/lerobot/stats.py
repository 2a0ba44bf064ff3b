"""Statistics per feature, of an episode and of all: min, max, mean, std, count and five quantiles.

As LeRobot defines them: vectors per entry; images per channel, divided by 255, shape (3, 1, 1). Quantiles of one
episode are exact; of several, as there, the outermost of the episodes' own: a bound, no estimate.
"""

from __future__ import annotations

import numpy as np

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

FeatureStats = dict[str, np.ndarray]
Stats = dict[str, FeatureStats]


def vector_stats(values: np.ndarray) -> FeatureStats:
    """Compute statistics of numbers or bools, shape (T,) or (T, D); each float64, shape (D,), D = 1 for (T,)."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    quantiles = np.quantile(rows, list(QUANTILES.values()), axis=0)
    return {
        "min": rows.min(axis=0),
        "max": rows.max(axis=0),
        "mean": rows.mean(axis=0),
        "std": rows.std(axis=0),
        "count": np.array([len(rows)]),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def image_stats(images: np.ndarray) -> FeatureStats:
    """Compute statistics over every pixel of uint8 images, shape (T, H, W, 3); each in [0, 1], shape (3, 1, 1)."""
    found: dict[str, list[float]] = {}
    for channel in range(3):
        counts = np.bincount(images[..., channel].ravel(), minlength=256)
        for name, value in _histogram_stats(counts).items():
            found.setdefault(name, []).append(value / 255.0)
    stats = {name: np.array(values).reshape(3, 1, 1) for name, values in found.items()}
    return {**stats, "count": np.array([len(images)])}


def _histogram_stats(counts: np.ndarray) -> dict[str, float]:
    levels = np.arange(256)
    total = counts.sum()
    mean = float((counts * levels).sum() / total)
    met = np.flatnonzero(counts)
    below = np.cumsum(counts)
    return {
        "min": float(met[0]),
        "max": float(met[-1]),
        "mean": mean,
        "std": float(np.sqrt((counts * np.square(levels - mean)).sum() / total)),
        **{name: float(np.searchsorted(below, share * total)) for name, share in QUANTILES.items()},
    }


def merge_stats(known: Stats | None, more: Stats) -> Stats:
    """Merge the statistics of two sets of episodes: mean and std by the parallel formula of Chan et al., 1979."""
    if known is None:
        return more
    return {name: _merged(known[name], more[name]) for name in more}


def _merged(one: FeatureStats, two: FeatureStats) -> FeatureStats:
    count = one["count"] + two["count"]
    share = two["count"][0] / count[0]
    apart = two["mean"] - one["mean"]
    variance = (1 - share) * one["std"] ** 2 + share * two["std"] ** 2 + share * (1 - share) * apart**2
    found = {
        "min": np.minimum(one["min"], two["min"]),
        "max": np.maximum(one["max"], two["max"]),
        "mean": one["mean"] + share * apart,
        "std": np.sqrt(variance),
        "count": count,
    }
    for name, level in QUANTILES.items():
        found[name] = (np.minimum if level <= 0.5 else np.maximum)(one[name], two[name])
    return found


def to_json(stats: Stats) -> dict[str, dict[str, list[float]]]:
    """Return statistics as JSON, with lists in place of arrays."""
    return {feature: {name: value.tolist() for name, value in each.items()} for feature, each in stats.items()}


def flat(stats: Stats) -> dict[str, list[float]]:
    """Return statistics as columns of the episode table."""
    return {f"stats/{feature}/{name}": v for feature, each in to_json(stats).items() for name, v in each.items()}
