"""Metrics of order against worked numbers and slow, obvious definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from reward_models.decode import Semantics, hop_between, remaining_between
from reward_models.evaluate.order_metrics import negative_rate, voc_f1, voc_of_pairs, vroc
from reward_models.evaluate.rank_metrics import auc, diagonal_margin, kendall_tau, order_rate, spearman

scores = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=8).map(np.array)
curves = st.sets(st.integers(1, 95), min_size=2, max_size=12).map(lambda found: np.array(sorted(found)) / 100)


@given(scores, scores)
def test_auc_is_the_share_of_pairs_that_are_right(won: np.ndarray, lost: np.ndarray) -> None:
    slow = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a in won for b in lost])
    assert auc(won, lost) == pytest.approx(slow)


@given(scores, scores)
def test_auc_of_the_opposite_question_is_the_rest(won: np.ndarray, lost: np.ndarray) -> None:
    assert auc(won, lost) + auc(lost, won) == pytest.approx(1.0)


def test_auc_without_one_side_is_not_known() -> None:
    assert math.isnan(auc(np.array([]), np.array([0.5])))
    assert math.isnan(auc(np.array([0.5]), np.array([])))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=10))
def test_kendall_is_concordant_less_discordant_pairs_with_ties_taken_out(pairs: list[tuple[int, int]]) -> None:
    levels, values = (np.array(column, float) for column in zip(*pairs, strict=True))
    signs = [
        (np.sign(a[0] - b[0]), np.sign(a[1] - b[1]))
        for a, b in itertools.combinations(zip(levels, values, strict=True), 2)
    ]
    numerator = sum(x * y for x, y in signs)
    denominator = math.sqrt(sum(x != 0 for x, _ in signs) * sum(y != 0 for _, y in signs))
    found = kendall_tau(levels, values)
    assert math.isnan(found) if not denominator else found == pytest.approx(numerator / denominator)


@given(st.lists(scores, min_size=1, max_size=3))
def test_order_rate_is_the_share_of_tuples_that_rise(classes: list[np.ndarray]) -> None:
    tuples = list(itertools.product(*classes))
    slow = np.mean([all(a < b for a, b in itertools.pairwise(row)) for row in tuples])
    assert order_rate(classes) == pytest.approx(slow)


def test_order_rate_without_one_of_the_classes_is_not_known() -> None:
    assert math.isnan(order_rate([np.array([0.1]), np.array([])]))
    assert math.isnan(order_rate([]))


@given(scores, scores)
def test_spearman_agrees_with_scipy(one: np.ndarray, other: np.ndarray) -> None:
    length = min(len(one), len(other))
    one, other = one[:length], other[:length]
    found = spearman(one, other)
    if length < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(one, other).statistic, abs=1e-9)


def test_margin_is_the_own_text_less_the_best_other() -> None:
    matrix = np.array([[0.9, 0.2, 0.7], [0.1, 0.8, 0.3]])
    assert diagonal_margin(matrix) == pytest.approx((0.2 + 0.5) / 2)
    assert math.isnan(diagonal_margin(np.array([[0.9]])))


@given(curves, st.sampled_from(["remaining", "hop"]))
def test_a_perfect_judge_of_pairs_gives_the_order_of_the_truth(truth: np.ndarray, semantics: Semantics) -> None:
    truth = np.concatenate([[0.0], truth])
    between = remaining_between if semantics == "remaining" else hop_between
    ahead = np.array([between(a, b) for a, b in itertools.pairwise(truth)])
    back = np.array([between(b, a) for a, b in itertools.pairwise(truth)])
    assert voc_of_pairs(ahead, semantics) == pytest.approx(1.0)
    assert vroc(back, semantics) == pytest.approx(1.0)
    assert negative_rate(ahead) == 0.0


def test_signs_are_summed() -> None:
    assert voc_of_pairs(np.array([1.0, 1.0, 1.0]), "sign") == pytest.approx(1.0)
    assert voc_of_pairs(np.array([-1.0, math.nan, -1.0]), "sign") == pytest.approx(-1.0)
    assert vroc(np.array([-1.0, -1.0, -1.0]), "sign") == pytest.approx(1.0)


def test_an_unreadable_pair_is_left_out_of_the_order() -> None:
    assert voc_of_pairs(np.array([0.2, np.nan, 0.2, 0.2]), "hop") == pytest.approx(1.0)
    assert math.isnan(voc_of_pairs(np.array([np.nan, np.nan]), "hop"))


@pytest.mark.parametrize(
    ("forward", "backward", "f1"), [(0.8, 0.8, 0.8), (1.0, 0.0, 0.0), (-0.5, -0.5, 0.0), (0.9, -0.89, 0.0)]
)
def test_f1_is_zero_unless_both_directions_are_right(forward: float, backward: float, f1: float) -> None:
    assert voc_f1(forward, backward) == pytest.approx(f1)


def test_negative_rate_of_nothing_readable_is_not_known() -> None:
    assert math.isnan(negative_rate(np.array([np.nan])))
