"""What all successes have in common is asked of another frame; where they differ or are bare, nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reward_models.progress.common_look import FEWEST, GONE, KEPT, CommonLook, covered
from tests.reward_models.pictured import PLAIN, SIDE, THUMBNAILS, pictured


def ends(seeds: range, **how: Any) -> list[np.ndarray]:
    return [pictured(seed, **how).frames[-4:] for seed in seeds]


def picture(frames: np.ndarray) -> np.ndarray:
    return frames[:, PLAIN:].reshape(len(frames), SIDE, SIDE, 3)


@pytest.fixture(scope="module")
def look() -> CommonLook:
    return CommonLook.of(ends(range(8)), THUMBNAILS)


def test_other_successes_fit_and_a_hand_without_the_part_does_not(look: CommonLook) -> None:
    assert look.fits(np.concatenate(ends(range(20, 30)))).all()
    assert not look.fits(np.concatenate(ends(range(20, 30), part=False))).any()


def test_of_whole_episodes_a_frame_fits_until_the_part_has_gone() -> None:
    look = CommonLook.of([pictured(seed).frames for seed in range(8)], THUMBNAILS)
    lost = pictured(30, lost_at=0.5).frames
    fits = look.fits(lost)
    assert fits[: len(lost) // 2].all()
    assert not fits[len(lost) // 2 + 1 :].any()


def test_the_first_successes_may_be_long_and_many() -> None:
    many = [np.concatenate([pictured(seed).frames] * 8) for seed in range(10)]
    look = CommonLook.of(many, THUMBNAILS)
    assert 0.5 * KEPT < len(look.known) <= KEPT + len(many)
    assert look.fits(many[3]).all()


def test_what_differs_among_successes_and_a_bare_table_are_not_compared() -> None:
    rng = np.random.default_rng(0)
    busy = ends(range(8))
    for own in busy:  # another cloth under the hand in every success
        picture(own)[:, 5:] = 2 * rng.normal(size=3)
    look = CommonLook.of(busy, THUMBNAILS)
    other = busy[0].copy()
    picture(other)[:, 5:] = (3.0, -3.0, 3.0)
    picture(other)[:, 0, 0] = 3.0  # something lies on the bare table
    assert look.fits(other).all()
    picture(other)[:, 1:5, 3:5] = 0.0
    assert not look.fits(other).any()


def test_less_than_a_tenth_of_a_picture_is_no_reason(look: CommonLook) -> None:
    one = ends(range(40, 41))[0][-1:]
    rows, columns = np.divmod((look.columns[:, 0] - PLAIN) // 3, SIDE)
    for changed in (GONE - 1, GONE):
        spoilt = one.copy()
        picture(spoilt)[0, rows[:changed], columns[:changed]] += 3.0
        assert look.fits(spoilt)[0] == (changed < GONE)


def test_one_success_with_something_strange_in_view_hides_no_cell(look: CommonLook) -> None:
    shown = ends(range(8))
    picture(shown[2])[:, 1:3, 3:5] += 1.0
    busy = CommonLook.of(shown, THUMBNAILS)
    assert {*look.columns[:, 0].tolist()} <= {*busy.columns[:, 0].tolist()}
    picture(shown[5])[:, 1:3, 3:5] -= 1.0
    assert len(CommonLook.of(shown, THUMBNAILS).columns) < len(look.columns)


def test_odd_cells_count_camera_by_camera() -> None:
    start, stop = THUMBNAILS[0]
    two = (THUMBNAILS[0], (stop, 2 * stop - start))

    def doubled(frames: np.ndarray) -> np.ndarray:
        return np.concatenate([frames, frames[:, start:]], axis=1)

    look = CommonLook.of([doubled(own) for own in ends(range(8))], two)
    assert set(look.camera.tolist()) == {0, 1}
    spoilt = doubled(ends(range(40, 41))[0][-1:])
    for number in (0, 1):
        cells = look.columns[look.camera == number][: GONE - 1]
        spoilt[0, cells] += 3.0
    assert look.fits(spoilt).all()


def test_a_blank_picture_is_told_from_a_scene() -> None:
    frames = pictured(40).frames
    assert not covered(frames, THUMBNAILS).any()
    dull = frames.copy()
    picture(dull)[3:6] = 0.05 * np.random.default_rng(0).normal(size=(3, SIDE, SIDE, 3))
    assert np.flatnonzero(covered(dull, THUMBNAILS)).tolist() == [3, 4, 5]
    assert not covered(dull, ()).any()


def test_of_few_successes_nothing_is_known() -> None:
    look = CommonLook.of(ends(range(FEWEST - 1)), THUMBNAILS)
    assert not len(look.columns)
    assert look.fits(np.concatenate(ends(range(3), part=False))).all()
    assert len(CommonLook.of(ends(range(FEWEST)), THUMBNAILS).columns)


def test_another_success_is_accepted_beside_the_others_and_no_cell_is_given_up(look: CommonLook) -> None:
    one, alike = (ends(range(seed, seed + 1), light=0.9)[0] for seed in (40, 41))
    both = look.with_few([one])
    assert not look.fits(one).any()
    assert both.fits(np.concatenate([one, alike, *ends(range(20, 25))])).all()
    assert np.array_equal(both.columns, look.columns)
    assert not both.fits(np.concatenate(ends(range(20, 25), part=False))).any()
    assert not both.fits(np.concatenate(ends(range(40, 45), part=False, light=0.9))).any()
    mixed = one.copy()
    picture(mixed)[:, :5] = picture(ends(range(20, 21))[0])[:, :5]  # the hand of one scene and the block of another
    assert not both.fits(mixed).any()
    assert CommonLook.of([], ()).with_few([one]).fits(mixed).all()


def test_without_thumbnails_every_frame_fits() -> None:
    look = CommonLook.of(ends(range(8)), ())
    assert look.fits(np.concatenate(ends(range(8))) + 100.0).all()
    assert look.fits(np.zeros((0, PLAIN))).shape == (0,)
