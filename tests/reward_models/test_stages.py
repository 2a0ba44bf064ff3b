"""Progress through stages and weights for imitation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.progress.clips import stage_labels, stage_shares, staged_progress


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
