"""Edits of thumbnails take something away where there is something, and leave all else of a frame as it is."""

from __future__ import annotations

import numpy as np
import pytest

from reward_models.progress.clips import UNKNOWN, ClipSource, ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.separation import CHANGED, Separation, pictures
from tests.reward_models.pictured import PART, PLAIN, SIDE, THUMBNAILS, pictured
from tests.reward_models.synthetic import TEXT

ONLY = ProgressConfig(window=8, rewind=0.0, recover=0.0, stall=0.0, mismatch=0.0, shuffle=0.0, separate=1.0)


@pytest.fixture(scope="module")
def episodes() -> list[ScoredEpisode]:
    return [pictured(seed) for seed in range(6)]


def editor(episodes: list[ScoredEpisode], seed: int = 0) -> Separation:
    return Separation([e.frames for e in episodes], THUMBNAILS, np.random.default_rng(seed))


def test_pictures_are_a_view_of_the_inputs_by_row_column_and_colour() -> None:
    frames = np.arange(2 * (PLAIN + SIDE * SIDE * 3)).reshape(2, -1)
    seen = pictures(frames, THUMBNAILS[0])
    assert seen.shape == (2, SIDE, SIDE, 3)
    assert seen[1, 2, 3, 1] == frames[1, PLAIN + (2 * SIDE + 3) * 3 + 1]


def test_an_edit_changes_one_block_of_a_thumbnail_and_nothing_else(episodes: list[ScoredEpisode]) -> None:
    made, first = editor(episodes), episodes[0].frames
    for _ in range(50):
        edited = made.apart(first[-3:], first)
        assert edited is not None
        assert np.array_equal(edited[:, :PLAIN], first[-3:, :PLAIN])
        changed = (edited != first[-3:]).reshape(3, -1)[:, PLAIN:].reshape(3, SIDE, SIDE, 3).any(axis=(0, 3))
        rows, columns = np.nonzero(changed)
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert max(height, width) <= round(0.7 * SIDE)
        gap = np.abs(edited - first[-3:])[:, PLAIN:].reshape(3, SIDE, SIDE, 3)
        assert gap[:, rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].mean() >= CHANGED - 1e-6


def test_the_frames_that_it_was_given_stay_as_they_are(episodes: list[ScoredEpisode]) -> None:
    before = [e.frames.copy() for e in episodes]
    made = editor(episodes)
    for _ in range(20):
        made.apart(episodes[1].frames[5:9], episodes[1].frames)
    assert all(np.array_equal(e.frames, kept) for e, kept in zip(episodes, before, strict=True))


def test_the_part_goes_in_many_edits(episodes: list[ScoredEpisode]) -> None:
    """Nobody says where it is; there is simply not much else to be seen."""
    made, last = editor(episodes), episodes[0].frames[-1:]
    part = pictures(last, THUMBNAILS[0])[(slice(None), *PART)]
    gone = 0
    for _ in range(200):
        edited = made.apart(last, episodes[0].frames)
        if edited is not None:
            now = pictures(edited, THUMBNAILS[0])[(slice(None), *PART)]
            gone += bool(np.abs(now - part).mean() > 0.5)
    assert gone > 40


def test_where_there_is_nothing_to_be_seen_nothing_is_taken_away() -> None:
    blank = [ScoredEpisode(frames=np.zeros_like(pictured(0).frames), success=True, thumbnails=THUMBNAILS)]
    assert editor(blank).apart(blank[0].frames[-2:], blank[0].frames) is None


def test_a_clip_is_neither_done_nor_on_its_way_from_where_something_goes(episodes: list[ScoredEpisode]) -> None:
    clips = ClipSource(episodes, TEXT, ONLY, np.random.default_rng(0)).draw(64)
    gone = clips.whole == 0
    assert gone.any(axis=1).mean() > 0.9
    assert (np.diff(clips.whole, axis=1) <= 0).all()  # what is gone stays away
    assert (clips.progress[gone] == 0).all()
    assert (clips.done[gone] == 0).all()
    assert (clips.progress[~gone] > 0).any()


def test_of_a_failure_nobody_knows_whether_all_was_there(episodes: list[ScoredEpisode]) -> None:
    shown = [*episodes, pictured(50, part=False, success=False)]
    clips = ClipSource(shown, TEXT, ONLY, np.random.default_rng(0)).draw(64)
    failed = (clips.progress == UNKNOWN).all(axis=1)
    assert 0.2 < failed.mean() < 0.5
    assert (clips.whole[failed] == UNKNOWN).all()
    assert (clips.done[failed] == 0).all()


def test_without_thumbnails_or_share_clips_are_as_they_were() -> None:
    from tests.reward_models.synthetic import episodes as plain

    never = ONLY.model_copy(update={"separate": 0.0})
    for source in (
        ClipSource(plain(3), TEXT, ONLY, np.random.default_rng(0)),
        ClipSource([pictured(1)], TEXT, never, np.random.default_rng(0)),
    ):
        assert (source.draw(16).whole == 1).all()
