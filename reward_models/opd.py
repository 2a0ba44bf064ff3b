"""The OPD metrics: how far, how directly and how steadily an episode went, from its Φ alone.

Source: PRM-as-a-Judge (2026, arXiv:2603.21669) and its version 1.5 (arXiv:2608.14284). The paper and the two released
codes define several of them differently; the version is an argument and travels with the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

OpdVersion = Literal["paper", "code-1", "code-1.5"]

MILESTONES = (0.0, 0.25, 0.5, 0.75, 1.0)
STAGNANT = 0.005
"""|ΔΦ| of a step that counts as standing still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opd:
    """The OPD metrics of one episode, each in [0, 1]; NaN where a version does not define it.

    Attributes:
        version: Which definitions.
        milestone: MC, the highest quarter that Φ reached.
        peak: MP, the highest Φ.
        path: PPL, what was gained over the length of the way there: 1 went straight. Higher is better.
        regret: CRA, mean distance below the best Φ so far. Lower is better.
        stagnation: STR, share of steps that stand still. Lower is better.
        success: 1 if the peak counts as success, else 0.
        recovery: DRR, how much of the deepest fall was made good; 1 without a fall.
        failure_score: FNS, how near a failure came; of failures only.
        success_score: SQS, how well a success went; of successes only.
    """

    version: OpdVersion
    milestone: float
    peak: float
    path: float
    regret: float
    stagnation: float
    success: float
    recovery: float
    failure_score: float
    success_score: float


def opd(phi: np.ndarray, *, version: OpdVersion) -> Opd:
    """Compute the OPD metrics of an episode from its Φ.

    Args:
        phi: Φ per frame, in [0, 1], shape (T+1,), T >= 1, all valid. The released codes put a 0 before it.
        version: Whose definitions.

    >>> straight = opd(np.array([0.0, 0.5, 1.0]), version="paper")
    >>> straight.path, straight.regret, straight.milestone
    (1.0, 0.0, 1.0)

    Raises:
        ValueError: If there are fewer than two frames or one is not valid.
    """
    phi = np.asarray(phi, dtype=np.float64)
    if phi.ndim != 1 or len(phi) < 2 or not np.isfinite(phi).all() or (phi < 0).any() or (phi > 1).any():
        raise ValueError(f"phi has shape {phi.shape}, must be at least two frames, all valid and in [0, 1]")
    if version != "paper":
        phi = np.concatenate([[0.0], phi])
    steps = np.abs(np.diff(phi))
    way = float(steps.sum())
    peak = float(phi.max())
    regret = float((np.maximum.accumulate(phi) - phi).sum())
    count = len(steps)
    if version == "paper":
        path = _share(phi[-1] * (phi[-1] - phi[0]), way)
        below = regret / (count + 1)
        success = float(peak >= 1.0)
    elif version == "code-1":
        path = _share(phi[-1] ** 2, way)
        below = regret / count
        success = float(peak >= 1.0)
    else:
        path = min(1.0, _share(peak**2, way))
        below = min(1.0, _share(regret / count, peak))
        success = float(peak >= 0.99)
    stagnation = float((steps < STAGNANT).mean())
    newest = version == "code-1.5"
    near = 0.5 * peak + 0.3 * (peak >= 0.75) + 0.2 * (peak >= 0.5)
    well = 0.5 * path + 0.3 * (1 - below) + 0.2 * (1 - stagnation)
    return Opd(
        version=version,
        milestone=max(q for q in MILESTONES if peak >= q),
        peak=peak,
        path=path,
        regret=below,
        stagnation=stagnation,
        success=success,
        recovery=_recovery(phi) if newest else float("nan"),
        failure_score=near if newest and not success else float("nan"),
        success_score=well if newest and success else float("nan"),
    )


def smoothed(phi: np.ndarray) -> np.ndarray:
    """Smooth Φ as version 1.5 does before measuring; shape (T+1,).

    Lone outliers go to their local median, then five taps average.

    >>> smoothed(np.array([0.5, 0.5, 1.0, 0.5, 0.5])).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5]
    """
    phi = np.clip(np.asarray(phi, dtype=np.float64), 0.0, 1.0)
    padded = np.pad(phi, 2, mode="edge")
    median = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    calm = np.where(np.abs(phi - median) > 0.35, median, phi)
    return np.convolve(np.pad(calm, 2, mode="edge"), [0.1, 0.2, 0.4, 0.2, 0.1], mode="valid")


def _recovery(phi: np.ndarray) -> float:
    falls = np.maximum.accumulate(phi) - phi
    trough = int(falls.argmax())
    if falls[trough] == 0:
        return 1.0
    return float(min(1.0, (phi[trough:].max() - phi[trough] + 1e-6) / (falls[trough] + 1e-6)))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0
