"""How far features are from the demonstrations: near 1 among them, far above it elsewhere, and nothing without them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policies.familiarity import COMPONENTS, LEAST_ROWS, MOST_ROWS, Familiarity

RNG = np.random.default_rng(0)
BASIS = RNG.normal(size=(5, 64))


def frames(count: int, seed: int, *, scale: float = 1.0) -> np.ndarray:
    """Features on a sheet of five dimensions, float16 as the replay keeps them."""
    return (np.random.default_rng(seed).normal(size=(count, 5)) * scale @ BASIS).astype(np.float16)


def fitted(features: np.ndarray) -> Familiarity:
    found = Familiarity.fit(features)
    assert found is not None
    return found


def test_new_frames_of_the_same_scene_are_about_as_far_as_demonstrations_from_each_other() -> None:
    familiarity = fitted(frames(400, 1))
    distances = [familiarity.distance(row) for row in frames(100, 2)]
    assert 0.7 < np.median(distances) < 1.4
    assert np.median([familiarity.distance(row) for row in frames(100, 3, scale=6.0)]) > 3.0


def test_a_direction_in_which_demonstrations_vary_little_counts_as_much_as_one_of_many() -> None:
    features = frames(400, 1).astype(np.float64)
    features[:, 0] += 100.0 * np.random.default_rng(4).normal(size=400)
    familiarity = fitted(features)
    along, across = features[0].copy(), features[0].copy()
    along[0] += 100.0
    across[1:] += 5.0 * BASIS[0, 1:]
    assert familiarity.distance(across) > 2 * familiarity.distance(along) > 0


@pytest.mark.parametrize(
    "features",
    [
        np.empty((0, 64), np.float16),
        np.empty((50, 0), np.float16),
        frames(LEAST_ROWS - 1, 1),
        np.ones((50, 64), np.float16),
        np.full((50, 64), np.nan, np.float16),
    ],
)
def test_without_demonstrations_that_differ_there_is_nothing_to_compare_with(features: np.ndarray) -> None:
    assert Familiarity.fit(features) is None


def test_frames_that_are_no_numbers_are_left_out_and_have_no_distance() -> None:
    features = frames(100, 1)
    spoilt = np.concatenate([features, np.full((20, 64), np.inf, np.float16)])
    np.testing.assert_array_equal(fitted(spoilt).rows, fitted(features).rows)
    assert not math.isfinite(fitted(features).distance(np.full(64, np.nan, np.float32)))


def test_it_is_small_and_comes_back_as_it_was_sent() -> None:
    familiarity = fitted(np.random.default_rng(5).normal(size=(3000, 64)).astype(np.float16))
    assert familiarity.rows.shape == (MOST_ROWS, COMPONENTS)
    again = Familiarity.from_tensors(familiarity.tensors())
    assert again is not None
    row = frames(1, 6)[0]
    assert again.distance(row) == pytest.approx(familiarity.distance(row), rel=1e-6)
    assert Familiarity.from_tensors({}) is None
