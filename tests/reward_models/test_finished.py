"""What all finished tasks have in common is asked of another; where they differ, nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from reward_models.progress.finished import FEWEST, ODD, FinishedLook
from tests.reward_models.pictured import PLAIN, SIDE, THUMBNAILS, pictured


def ends(seeds: range, **how: bool) -> list[np.ndarray]:
    return [pictured(seed, **how).frames[-4:] for seed in seeds]


@pytest.fixture(scope="module")
def known() -> np.ndarray:
    return np.concatenate(ends(range(8)))


@pytest.fixture(scope="module")
def look() -> FinishedLook:
    return FinishedLook.of(ends(range(8)), THUMBNAILS)


def test_other_successes_fit_and_a_hand_without_the_part_does_not(look: FinishedLook, known: np.ndarray) -> None:
    assert len(look.columns) > ODD
    assert look.fits(np.concatenate(ends(range(20, 30))), known).all()
    assert not look.fits(np.concatenate(ends(range(20, 30), part=False)), known).any()


def test_a_bare_table_and_what_differs_among_successes_are_not_compared(known: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    busy = [own.copy() for own in ends(range(8))]
    for own in busy:  # another cloth under the hand in every success
        own[:, PLAIN:].reshape(-1, SIDE, SIDE, 3)[:, 5:] = 2 * rng.normal(size=3)
    look = FinishedLook.of(busy, THUMBNAILS)
    rows = (look.columns - PLAIN) // 3 // SIDE
    assert rows.max() < 5  # only the hand and the part are alike
    bare = known[-1:].copy()
    bare[:, PLAIN:].reshape(1, SIDE, SIDE, 3)[:, :2, :1] += 3.0  # something lies on the table, far from the hand
    assert look.fits(bare, np.concatenate(busy)).all()


def test_of_few_successes_nothing_is_known(known: np.ndarray) -> None:
    look = FinishedLook.of(ends(range(FEWEST - 1)), THUMBNAILS)
    assert not len(look.columns)
    assert look.fits(np.concatenate(ends(range(3), part=False)), known).all()


def test_without_thumbnails_every_frame_fits(known: np.ndarray) -> None:
    look = FinishedLook.of(ends(range(8)), ())
    assert look.fits(known + 100.0, known).all()
