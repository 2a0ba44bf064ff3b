"""Metrics of an episode from its progress."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reward_models.evaluate.opd import opd

curves = arrays(np.float64, st.integers(2, 40), elements=st.floats(0.0, 1.0))

THERE_AND_BACK = np.array([0.0, 0.4, 0.8, 0.4, 0.4])


def test_the_numbers_are_those_of_the_paper() -> None:
    metrics = opd(THERE_AND_BACK)
    assert metrics.milestone == 0.75
    assert metrics.peak == 0.8
    assert metrics.path == pytest.approx(0.4 * 0.4 / 1.2)
    assert metrics.regret == pytest.approx(0.8 / 5)
    assert metrics.stagnation == pytest.approx(1 / 4)


@given(curves)
def test_metrics_stay_in_their_range(phi: np.ndarray) -> None:
    metrics = opd(phi)
    for value in (metrics.milestone, metrics.peak, metrics.regret, metrics.stagnation):
        assert 0.0 <= value <= 1.0
    assert metrics.path <= 1.0 + 1e-9


@given(st.integers(2, 40))
def test_going_straight_to_the_goal_is_perfect(frames: int) -> None:
    metrics = opd(np.linspace(0, 1, frames))
    assert metrics.path == pytest.approx(1.0)
    assert metrics.regret == 0.0


@given(st.floats(0.0, 1.0), st.integers(2, 20))
def test_standing_still_has_no_path(phi: float, frames: int) -> None:
    metrics = opd(np.full(frames, phi))
    assert metrics.path == 0.0
    assert metrics.stagnation == 1.0


@pytest.mark.parametrize("bad", [[0.5], [0.1, float("nan")], [0.0, 1.2], [-0.1, 0.0]])
def test_what_is_no_progress_curve_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two frames"):
        opd(np.array(bad))
