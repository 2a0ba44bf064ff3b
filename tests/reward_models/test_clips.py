"""Training clips say of each frame what is true of it, and nothing of what is not known."""

from __future__ import annotations

import numpy as np
import pytest

from reward_models.progress.clips import UNKNOWN, ScoredEpisode, done_labels, draw_clips, prefix_indices
from reward_models.progress.config import ProgressConfig

LENGTH = 41
PLAIN = ProgressConfig(window=8, rewind=0.0, stall=0.0)


def numbered(*, success: bool = True, refused: bool = False) -> ScoredEpisode:
    """An episode whose only feature is the number of the frame."""
    return ScoredEpisode(frames=np.arange(LENGTH, dtype=np.float32)[:, None], success=success, refused=refused)


def test_done_is_asked_of_the_end_and_the_start_but_not_between() -> None:
    indices = np.array([0, 90, 91, 95, 96, 100])
    assert done_labels(indices, 101, 5).tolist() == [0, 0, UNKNOWN, UNKNOWN, 1, 1]


def test_prefix_has_its_first_and_last_frame_and_an_even_spread() -> None:
    assert prefix_indices(22, 12).tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]
    assert prefix_indices(0, 4).tolist() == [0, 0, 0, 0]
    assert prefix_indices(2, 5).tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize("settings", [{}, {"rewind": 1.0}, {"stall": 1.0}])
def test_progress_of_each_frame_is_its_share_of_the_episode(settings: dict[str, float]) -> None:
    config = PLAIN.model_copy(update=settings)
    clips = draw_clips([numbered()], config, np.random.default_rng(0), 64)
    np.testing.assert_allclose(clips.progress, clips.frames[..., 0] / (LENGTH - 1), atol=1e-6)
    assert np.array_equal(clips.done, done_labels(clips.frames[..., 0], LENGTH, 2))


def test_plain_clips_only_run_forward() -> None:
    clips = draw_clips([numbered()], PLAIN, np.random.default_rng(0), 64)
    assert (np.diff(clips.progress, axis=1) >= 0).all()


def test_rewound_clips_end_before_their_furthest_point() -> None:
    config = PLAIN.model_copy(update={"rewind": 1.0})
    clips = draw_clips([numbered()], config, np.random.default_rng(0), 64)
    furthest = clips.progress.max(axis=1)
    assert (clips.progress[furthest > 0.2, -1] < furthest[furthest > 0.2]).all()


def test_stalled_clips_hold_their_last_frame() -> None:
    config = PLAIN.model_copy(update={"stall": 1.0})
    clips = draw_clips([numbered()], config, np.random.default_rng(0), 64)
    held = (clips.frames[:, -2] == clips.frames[:, -1]).mean()
    plain = draw_clips([numbered()], PLAIN, np.random.default_rng(0), 64)
    assert held > (plain.frames[:, -2] == plain.frames[:, -1]).mean() + 0.5


def test_failure_is_never_done_and_its_progress_is_not_known() -> None:
    clips = draw_clips([numbered(), numbered(success=False)], PLAIN, np.random.default_rng(0), 200)
    failed = (clips.progress == UNKNOWN).all(axis=1)
    assert 0.25 < failed.mean() < 0.45
    assert (clips.done[failed] == 0).all()
    assert (clips.progress[~failed] >= 0).all()


def test_refused_success_weighs_more() -> None:
    config = PLAIN.model_copy(update={"negative_weight": 7.0})
    clips = draw_clips([numbered(), numbered(success=False, refused=True)], config, np.random.default_rng(0), 64)
    assert set(clips.weight.tolist()) == {1.0, 7.0}
    assert (clips.done[clips.weight == 7.0] == 0).all()
