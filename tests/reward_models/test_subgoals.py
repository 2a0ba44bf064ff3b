"""Sub-goals that are found are those that the features were made with."""

from __future__ import annotations

import numpy as np
import pytest

from reward_models.progress.subgoals import sub_goals


def there_and_on(corners: list[tuple[float, ...]], lengths: list[int], *, noise: float = 0.0, seed: int = 0):
    """Features that go straight from corner to corner, turned into 12 dimensions; and the corners."""
    parts = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(corners[:-1], corners[1:], lengths, strict=True)]
    way = np.concatenate([*parts, [corners[-1]]])
    turned, _ = np.linalg.qr(np.random.default_rng(9).normal(size=(12, way.shape[1])))
    features = way @ turned.T
    return features + noise * np.random.default_rng(seed).normal(size=features.shape), (0, *np.cumsum(lengths)[:-1])


OUT_AND_BACK = [(0.0, 0.0), (1.0, 0.0), (0.2, 0.4), (1.0, 0.6)]


@pytest.mark.parametrize("lengths", [[40, 60, 50], [30, 100, 40], [80, 30, 60]])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_a_way_with_corners_is_cut_at_them(lengths: list[int], noise: float) -> None:
    features, wanted = there_and_on(OUT_AND_BACK, lengths, noise=noise)
    found = sub_goals(features, 3)
    assert len(found) == 3
    assert np.abs(np.subtract(found, wanted)).max() <= 0.08 * len(features), (found, wanted)


def test_a_straight_way_has_no_sub_goal() -> None:
    features, _ = there_and_on([(0.0, 0.0), (1.0, 1.0)], [90], noise=0.02)
    assert sub_goals(features) == ()
    assert sub_goals(features, 2) == ()


def test_a_pause_is_no_sub_goal() -> None:
    features, _ = there_and_on([(0.0, 0.0), (1.0, 1.0)], [90], noise=0.01)
    assert sub_goals(np.concatenate([features[:40], np.repeat(features[40:41], 30, axis=0), features[40:]])) == ()


def test_of_more_turns_than_stages_the_clearest_are_kept() -> None:
    features, wanted = there_and_on([(0.0, 0.0), (1.0, 0.0), (0.7, 0.0), (1.5, 0.0), (0.0, 0.1)], [40, 20, 40, 60])
    assert len(sub_goals(features)) > 2
    (_, cut) = sub_goals(features, 2)
    assert abs(cut - wanted[3]) <= 6


def test_fewer_turns_than_stages_propose_nothing() -> None:
    features, _ = there_and_on([(0.0, 0.0), (1.0, 0.0), (0.0, 0.2)], [40, 40])
    assert len(sub_goals(features, 2)) == 2
    assert sub_goals(features, 3) == ()


@pytest.mark.parametrize("features", [np.zeros((0, 3)), np.zeros(4), np.array([[np.nan, 1.0]])])
def test_features_that_are_none_are_refused(features: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"must be \(T, F\), at least one, all finite"):
        sub_goals(features)


def test_one_frame_or_frames_that_never_change_have_no_stages() -> None:
    assert sub_goals(np.zeros((1, 3))) == ()
    assert sub_goals(np.zeros((50, 3))) == ()
    with pytest.raises(ValueError, match="stages are 1, must be at least 2"):
        sub_goals(np.zeros((5, 3)), 1)
