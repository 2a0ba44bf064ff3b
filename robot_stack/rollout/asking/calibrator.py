r"""One decision out of several signals, calibrated on the moments at which help was and was not needed.

Each signal s is read by how unusual its value x is where no help was needed, F_s(x), and counts by how well it has told
the two kinds of moments apart: w_s = max(0, 2 AUC_s - 1), drawn towards 0 while there are few. The score is
max_s w_s F_s(x_s). Help is asked for from the score τ on, the k-th lowest of the n needed moments with
k = floor(missed (n + 1)): by exchangeability the next need lies below it with a probability of at most `missed`. Where
that would ask in more than the share `needless` of the moments without a need, τ is raised until it does not.

Source: the quantile with its finite-sample correction is that of split conformal prediction (Vovk et al., 2005;
arXiv:2107.07511, section 1), used to ask for help as in KnowNo (Ren et al., 2023, arXiv:2307.01928). Deviations:
online, over the newest moments only, since the policy changes, so that the guarantee is approximate; the bound on
needless requests.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_stack.config.asking import AskingConfig
from robot_stack.types.help import HelpKind

PRIOR = 4.0
"""Moments without any meaning that the weight of a signal starts from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement of one tick.

    Attributes:
        ask: Whether help is to be asked for.
        kind: The signal that speaks most for it.
        calibrated: Whether evidence decided, or the stall alone.
    """

    ask: bool
    kind: HelpKind
    calibrated: bool


class Calibrator:
    """A calibrator of the signals that a run's policy asks by; its memory is bounded by the settings."""

    def __init__(self, config: AskingConfig) -> None:
        self._config = config
        self._kinds = tuple(map(HelpKind, config.signals))
        self._stall = self._kinds.index(HelpKind.STALL)
        self._moments: dict[bool, deque[tuple[float, ...]]] = {
            needed: deque(maxlen=config.memory) for needed in (True, False)
        }
        self._fit()

    @property
    def calibrated(self) -> bool:
        """Return whether there is evidence to decide by."""
        return self.threshold is not None

    def learn(self, peaks: Mapping[HelpKind, float], *, needed: bool) -> None:
        """Take in a moment at which help was needed or was not.

        Args:
            peaks: The highest value of each signal then; a signal that is missing or NaN said nothing.
            needed: Which.
        """
        row = tuple(float(peaks.get(kind, math.nan)) for kind in self._kinds)
        if any(map(math.isfinite, row)):
            self._moments[needed].append(row)
            self._fit()

    def judge(self, values: Mapping[HelpKind, float]) -> Judgement:
        """Judge the signals' values at one tick."""
        row = np.array([values.get(kind, math.nan) for kind in self._kinds])
        if self.threshold is None:
            stalled = row[self._stall] >= self._config.stall_s  # False for NaN
            return Judgement(ask=bool(stalled), kind=HelpKind.STALL, calibrated=False)
        parts = self._parts(row[None])[0]
        ask = bool(parts.max() >= self.threshold)
        return Judgement(ask=ask, kind=self._kinds[int(parts.argmax())], calibrated=True)

    def figures(self) -> dict[str, float | None]:
        """Return threshold, weights and counts of evidence, for the log."""
        weights = {f"weight_{kind}": round(float(w), 3) for kind, w in zip(self._kinds, self._weights, strict=True)}
        return {
            "threshold": None if self.threshold is None else round(self.threshold, 4),
            "needed": len(self._moments[True]),
            "not_needed": len(self._moments[False]),
            **weights,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all that it has learnt, as JSON values."""
        rows = {
            needed: [[value if math.isfinite(value) else None for value in row] for row in moments]
            for needed, moments in self._moments.items()
        }
        return {"signals": [str(kind) for kind in self._kinds], "needed": rows[True], "not_needed": rows[False]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            ValueError: If it is of other signals.
        """
        if list(state["signals"]) != [str(kind) for kind in self._kinds]:
            raise ValueError(f"signals are {state['signals']}, must be {list(map(str, self._kinds))} as the run says")
        for needed, name in ((True, "needed"), (False, "not_needed")):
            self._moments[needed].clear()
            self._moments[needed].extend(
                tuple(math.nan if value is None else float(value) for value in row) for row in state[name]
            )
        self._fit()

    def _fit(self) -> None:
        """Compute weights and threshold of the moments that are remembered."""
        needed, not_needed = (_table(self._moments[which], len(self._kinds)) for which in (True, False))
        self._usual = [np.sort(column[np.isfinite(column)]) for column in not_needed.T]
        self._weights = np.array([_weight(*columns) for columns in zip(needed.T, not_needed.T, strict=True)])
        self.threshold: float | None = None
        enough = min(len(needed), len(not_needed)) >= self._config.least_evidence
        if enough and self._weights.max() > 0.0:
            wanted = _lowest(self._parts(needed).max(axis=1), self._config.missed)
            bound = _above(self._parts(not_needed).max(axis=1), self._config.needless)
            self.threshold = max(wanted, bound)

    def _parts(self, rows: np.ndarray) -> np.ndarray:
        """Return what each signal contributes to the score, (N, S); 0 where it says nothing."""
        parts = np.zeros(rows.shape)
        for column, usual in enumerate(self._usual):
            known = np.isfinite(rows[:, column])
            if len(usual) and known.any():
                values = rows[known, column]
                below, up_to = (np.searchsorted(usual, values, side=side) for side in ("left", "right"))
                parts[known, column] = self._weights[column] * (below + up_to) / (2 * len(usual))
        return parts


def _table(moments: Sequence[tuple[float, ...]] | deque[tuple[float, ...]], signals: int) -> np.ndarray:
    return np.array(list(moments), np.float64).reshape(-1, signals)


def _weight(needed: np.ndarray, not_needed: np.ndarray) -> float:
    """Return how well a signal tells needed moments from others, in [0, 1): 0 for none, or the wrong way round."""
    high, low = needed[np.isfinite(needed)], not_needed[np.isfinite(not_needed)]
    if not len(high) or not len(low):
        return 0.0
    difference = high[:, None] - low[None, :]
    auc = float((difference > 0).mean() + 0.5 * (difference == 0).mean())
    count = min(len(high), len(low))
    return max(0.0, (2.0 * auc - 1.0) * count / (count + PRIOR))


def _lowest(scores: np.ndarray, share: float) -> float:
    """Return the score below which at most that share of needs will lie; the lowest seen while there are too few."""
    place = max(1, math.floor(share * (len(scores) + 1)))
    return float(np.sort(scores)[place - 1])


def _above(scores: np.ndarray, share: float) -> float:
    """Return the lowest threshold that at most that share of the scores reaches."""
    allowed = math.floor(share * len(scores))
    if allowed >= len(scores):
        return -math.inf
    return float(np.nextafter(np.sort(scores)[::-1][allowed], math.inf))
