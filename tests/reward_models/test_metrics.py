"""Metrics against worked numbers and other implementations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, spearmanr

from reward_models.metrics import clock_scores, mean_voc, voc, wilson_interval


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.2, 0.9], 1.0),
        ([0.9, 0.2, 0.1], -1.0),
        ([0.0, 0.0, 1.0], 1.5 / math.sqrt(3.0)),  # ranks 1.5, 1.5, 3
        ([0.0, 1.0, 0.5, 2.0], 0.8),
    ],
)
def test_voc_of_worked_examples(values: list[float], expected: float) -> None:
    assert voc(np.array(values)) == pytest.approx(expected)


@given(st.lists(st.integers(0, 5), min_size=3, max_size=30).filter(lambda values: len(set(values)) > 1))
def test_voc_is_spearmans_correlation_with_time(values: list[int]) -> None:
    assert voc(np.array(values)) == pytest.approx(spearmanr(values, range(len(values))).statistic, abs=1e-9)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5, 0.5], [0.1, math.nan, 0.3]])
def test_voc_of_a_series_without_an_order_is_nan(values: list[float]) -> None:
    assert math.isnan(voc(np.array(values)))


def test_mean_voc_counts_an_episode_without_an_order_as_zero() -> None:
    assert mean_voc([np.array([0.1, 0.2]), np.array([0.3, 0.3])]) == pytest.approx(0.5)
    assert math.isnan(mean_voc([]))


def test_clock_has_a_perfect_order_from_zero_to_one() -> None:
    scores = clock_scores(11)
    assert voc(scores) == pytest.approx(1.0)
    assert (scores[0], scores[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(95, 100, 0.8882, 0.9785), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (0, 0, 0.0, 1.0)],
)
def test_wilson_interval_of_worked_examples(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_agrees_with_scipy(counts: tuple[int, int]) -> None:
    interval = binomtest(*counts).proportion_ci(method="wilson")
    assert wilson_interval(*counts) == pytest.approx((interval.low, interval.high), abs=1e-6)
