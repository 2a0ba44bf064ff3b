"""Metrics of an episode from its progress."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reward_models.opd import OpdVersion, opd, smoothed

curves = arrays(np.float64, st.integers(2, 40), elements=st.floats(0.0, 1.0))
versions = st.sampled_from(["paper", "code-1", "code-1.5"])

THERE_AND_BACK = np.array([0.0, 0.4, 0.8, 0.4, 0.4])


@pytest.mark.parametrize(
    ("version", "path", "regret", "stagnation"),
    [
        ("paper", 0.4 * 0.4 / 1.2, 0.8 / 5, 1 / 4),
        ("code-1", 0.4**2 / 1.2, 0.8 / 5, 2 / 5),
        ("code-1.5", 0.8**2 / 1.2, (0.8 / 5) / 0.8, 2 / 5),
    ],
)
def test_each_version_has_its_own_numbers(version: OpdVersion, path: float, regret: float, stagnation: float) -> None:
    metrics = opd(THERE_AND_BACK, version=version)
    assert metrics.version == version
    assert metrics.milestone == 0.75
    assert metrics.peak == 0.8
    assert metrics.path == pytest.approx(path)
    assert metrics.regret == pytest.approx(regret)
    assert metrics.stagnation == pytest.approx(stagnation)
    assert metrics.success == 0.0


def test_only_the_newest_version_knows_recovery_and_scores() -> None:
    assert np.isnan(opd(THERE_AND_BACK, version="paper").recovery)
    newest = opd(THERE_AND_BACK, version="code-1.5")
    assert newest.recovery == pytest.approx(1e-6 / (0.4 + 1e-6))
    assert newest.failure_score == pytest.approx(0.5 * 0.8 + 0.3 + 0.2)
    assert np.isnan(newest.success_score)
    done = opd(np.array([0.0, 0.6, 0.3, 1.0]), version="code-1.5")
    assert done.recovery == 1.0
    assert done.success_score == pytest.approx(0.5 * done.path + 0.3 * (1 - done.regret) + 0.2 * (1 - done.stagnation))
    assert np.isnan(done.failure_score)


def test_an_episode_without_a_fall_has_nothing_to_recover() -> None:
    assert opd(np.array([0.0, 0.5, 0.7]), version="code-1.5").recovery == 1.0


@given(curves, versions)
def test_metrics_stay_in_their_range(phi: np.ndarray, version: OpdVersion) -> None:
    metrics = opd(phi, version=version)
    for value in (metrics.milestone, metrics.peak, metrics.regret, metrics.stagnation, metrics.success):
        assert 0.0 <= value <= 1.0
    assert metrics.path <= 1.0 + 1e-9


@given(st.integers(2, 40))
def test_going_straight_to_the_goal_is_perfect(frames: int) -> None:
    metrics = opd(np.linspace(0, 1, frames), version="paper")
    assert metrics.path == pytest.approx(1.0)
    assert metrics.regret == 0.0
    assert metrics.success == 1.0


@given(st.floats(0.0, 1.0), st.integers(2, 20))
def test_standing_still_has_no_path(phi: float, frames: int) -> None:
    metrics = opd(np.full(frames, phi), version="paper")
    assert metrics.path == 0.0
    assert metrics.stagnation == 1.0


@pytest.mark.parametrize("bad", [[0.5], [0.1, float("nan")], [0.0, 1.2], [-0.1, 0.0]])
def test_what_is_no_progress_curve_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two frames"):
        opd(np.array(bad), version="paper")


@given(curves)
def test_smoothing_keeps_length_and_range(phi: np.ndarray) -> None:
    calm = smoothed(phi)
    assert calm.shape == phi.shape
    assert ((calm >= -1e-12) & (calm <= 1 + 1e-12)).all()


def test_smoothing_takes_out_a_lone_outlier() -> None:
    assert smoothed(np.array([0.1, 0.1, 0.9, 0.1, 0.1, 0.1])).max() == pytest.approx(0.1)
