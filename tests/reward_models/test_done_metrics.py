"""When "done" is said: the rule of the cell, against the one that runs there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.evaluate.done_metrics import DoneRule, latched_at
from reward_models.evaluate.estimate import Rate, mean_of, of_groups
from reward_models.progress.calibrate import calibration_error
from robot_stack.config.resolve import load_run
from robot_stack.learner.reward.success import ProprioGate, SuccessRule
from robot_stack.types.errors import RewardError

probabilities = st.lists(st.sampled_from([0.1, 0.79, 0.8, 0.95, math.nan]), min_size=1, max_size=15)


@given(probabilities, st.integers(1, 4), st.integers(0, 3))
def test_rule_says_done_when_the_cells_own_rule_does(said: list[float], n: int, more: int) -> None:
    resolved = load_run("peg_insert", [f"task.success.n_of_m={{n: {n}, m: {n + more}}}"])
    spec, success = resolved.spec(), resolved.task.success
    rng = np.random.default_rng(len(said))
    proprio = rng.uniform(0, 0.12, (len(said), spec.proprio_size)).astype(np.float32)
    gate = ProprioGate(success, spec)
    allowed = np.array([gate.open_at(row) for row in proprio])
    running = SuccessRule(success, spec)
    slow = next((t for t, (p, row) in enumerate(zip(said, proprio, strict=True)) if running.update(p, row)), None)
    assert latched_at(np.array(said), DoneRule(threshold=success.threshold, n=n, m=n + more), allowed) == slow


def test_an_unreadable_score_is_no_hit_and_takes_its_place() -> None:
    rule = DoneRule(threshold=0.8, n=2, m=2)
    assert latched_at(np.array([0.9, math.nan, 0.9]), rule) is None
    assert latched_at(np.array([0.9, math.nan, 0.9, 0.9]), rule) == 3


@pytest.mark.parametrize(
    ("threshold", "n", "m"), [(0.0, 1, 1), (1.0, 1, 1), (math.nan, 1, 1), (0.8, 0, 3), (0.8, 4, 3)]
)
def test_a_rule_that_no_frames_can_fulfil_is_refused(threshold: float, n: int, m: int) -> None:
    with pytest.raises(RewardError, match="done rule is"):
        DoneRule(threshold=threshold, n=n, m=m)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_calibration_error_is_the_weighted_gap_of_the_bins(rows: list[tuple[float, bool]]) -> None:
    slow = 0.0
    for low in range(10):
        members = [(p, t) for p, t in rows if min(int(p * 10), 9) == low]
        if members:
            slow += abs(sum(p - t for p, t in members)) / len(rows)
    said, true = (np.array(column) for column in zip(*rows, strict=True))
    assert calibration_error(said, true) == pytest.approx(slow, abs=1e-9)


def test_calibration_of_no_frames_is_not_known() -> None:
    assert math.isnan(calibration_error(np.zeros(0), np.zeros(0, bool)))


def test_none_of_seventy_three_bounds_the_rate_below_five_percent_and_none_of_seventy_does_not() -> None:
    assert Rate.of(0, 73).high < 0.05
    assert Rate.of(0, 70).high > 0.05


def test_mean_leaves_out_what_is_not_known_and_its_interval_holds_it() -> None:
    found = mean_of([0.0, 1.0, math.nan, 1.0, 0.0], np.random.default_rng(0))
    assert (found.value, found.n) == (0.5, 4)
    assert 0.0 <= found.low < 0.5 < found.high <= 1.0
    assert mean_of([math.nan], np.random.default_rng(0)).n == 0


def test_interval_of_a_group_figure_narrows_with_episodes() -> None:
    rng = np.random.default_rng(1)

    def width(count: int) -> float:
        rows = np.random.default_rng(2).normal(size=count)
        found = of_groups(lambda values: float(values.mean()), [rows], rng)
        return found.high - found.low

    assert width(400) < 0.5 * width(20)
    assert of_groups(lambda a, b: 0.0, [np.zeros(0), np.zeros(3)], rng).n == 0
