"""A logit becomes a probability on episodes that were not trained on."""

from __future__ import annotations

import numpy as np
import pytest

from reward_models.progress.calibrate import calibration_error, platt


def sigmoid(z: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-z)))


def test_a_shifted_and_stretched_logit_is_put_right() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, 4000)
    labels = (rng.random(4000) < sigmoid(z)).astype(float)
    scale, offset = platt(np.split(3 * z - 4, 200), np.split(labels, 200))
    assert scale == pytest.approx(1 / 3, rel=0.2)
    assert offset == pytest.approx(4 / 3, abs=0.4)
    before = calibration_error(sigmoid(3 * z - 4), labels)
    assert calibration_error(sigmoid(scale * (3 * z - 4) + offset), labels) < before / 3


def test_one_episode_moves_it_little() -> None:
    scale, offset = platt([np.array([-1.0, 1.0])], [np.array([1.0, 0.0])])
    assert 0.3 < scale <= 1.0
    assert abs(offset) < 0.3


@pytest.mark.parametrize("times", [10, 1000])
def test_the_frames_of_an_episode_are_alike_and_prove_no_more_when_there_are_more_of_them(times: int) -> None:
    episode, labels = np.array([-6.0, -5.0, 5.0, 6.0]), np.array([0.0, 0.0, 1.0, 1.0])
    once = platt([episode, episode], [labels, labels])
    often = platt([np.repeat(episode, times)] * 2, [np.repeat(labels, times)] * 2)
    assert often == pytest.approx(once, abs=1e-3)


def test_two_successes_that_are_told_apart_well_leave_the_threshold_near_where_the_logits_have_it() -> None:
    """As many as 190 frames of two episodes had moved it to more than half of the way to what was held out."""
    negative, positive = np.linspace(-8.0, -3.0, 90), np.full(6, 6.0)
    episode, labels = np.concatenate([negative, positive]), np.repeat([0.0, 1.0], [90, 6])
    scale, offset = platt([episode, episode], [labels, labels])
    passes_at = (np.log(0.8 / 0.2) - offset) / scale
    assert passes_at < 2.5


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_one_kind_of_label_changes_nothing(label: float) -> None:
    assert platt([np.array([3.0, -2.0])], [np.full(2, label)]) == (1.0, 0.0)


def test_error_of_calibration_is_the_gap_weighted_by_frames() -> None:
    said, was = np.array([0.95, 0.95, 0.95, 0.05]), np.array([1, 1, 0, 0])
    assert calibration_error(said, was) == pytest.approx(0.75 * (0.95 - 2 / 3) + 0.25 * 0.05)
    assert np.isnan(calibration_error(np.zeros(0), np.zeros(0)))
