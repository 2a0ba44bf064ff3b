"""Progress through stages and weights for imitation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.stages import imitation_weights, stage_labels, stage_shares, staged_progress


def test_a_stage_counts_by_its_mean_share_not_by_its_frames() -> None:
    shares = stage_shares(np.array([[10, 30], [300, 100]]))
    assert shares == pytest.approx([0.5, 0.5])


@given(st.lists(st.lists(st.integers(1, 50), min_size=3, max_size=3), min_size=1, max_size=6))
def test_progress_through_a_demonstration_never_falls_and_ends_near_one(lengths: list[list[int]]) -> None:
    shares = stage_shares(np.array(lengths))
    first = lengths[0]
    stage, tau = stage_labels(np.cumsum([0, *first[:-1]]).tolist(), sum(first))
    phi = staged_progress(stage, tau, shares)
    assert shares.sum() == pytest.approx(1.0)
    assert (np.diff(phi) >= -1e-12).all()
    assert phi[0] == 0.0 or len(phi) == 1
    assert phi[-1] == pytest.approx(1.0 - 0.001 * shares[-1], abs=1e-9)


@pytest.mark.parametrize("lengths", [[[3, 0]], [[]], [3, 4]])
def test_a_stage_without_frames_is_refused(lengths: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="stage lengths"):
        stage_shares(np.array(lengths))


@pytest.mark.parametrize("starts", [[], [1, 2], [0, 4, 4], [0, 9]])
def test_stages_that_do_not_cover_the_demonstration_are_refused(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="must rise from 0"):
        stage_labels(starts, 8)


def test_weights_of_imitation() -> None:
    gain = np.array([0.2, 0.01, 0.005, 0.0, -0.01, np.nan])
    weight = imitation_weights(gain)
    mean, std = gain[:5].mean(), gain[:5].std()
    soft = [(g - (mean - 2 * std)) / (4 * std + 1e-8) for g in (0.01, 0.005, 0.0)]
    assert weight[0] == 1.0
    assert weight[1:4] == pytest.approx(soft)
    assert weight[4] == 0.0
    assert weight[5] == 1.0


def test_without_any_score_all_is_imitated() -> None:
    assert imitation_weights(np.full(3, np.nan)).tolist() == [1.0, 1.0, 1.0]
