"""Training clips say of each frame what is true of it, and nothing of what is not known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reward_models.progress.clips import (
    UNKNOWN,
    Clips,
    ClipSource,
    ScoredEpisode,
    done_labels,
    prefix_indices,
    progress_labels,
)
from reward_models.progress.config import ProgressConfig

LENGTH = 41
PLAIN = ProgressConfig(window=8, rewind=0.0, recover=0.0, stall=0.0, shuffle=0.0)


def numbered(*, success: bool = True, refused: bool = False) -> ScoredEpisode:
    """An episode whose only feature is the number of the frame."""
    return ScoredEpisode(frames=np.arange(LENGTH, dtype=np.float32)[:, None], success=success, refused=refused)


def draw(episodes: list[ScoredEpisode], config: ProgressConfig, count: int) -> Clips:
    return ClipSource(episodes, config, np.random.default_rng(0)).draw(count)


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
    clips = draw([numbered()], config, 64)
    np.testing.assert_allclose(clips.progress, clips.frames[..., 0] / (LENGTH - 1), atol=1e-6)
    assert np.array_equal(clips.done, done_labels(clips.frames[..., 0], LENGTH, 2))


def test_plain_clips_only_run_forward() -> None:
    clips = draw([numbered()], PLAIN, 64)
    assert (np.diff(clips.progress, axis=1) >= 0).all()


def test_rewound_clips_end_before_their_furthest_point() -> None:
    config = PLAIN.model_copy(update={"rewind": 1.0})
    clips = draw([numbered()], config, 64)
    furthest = clips.progress.max(axis=1)
    assert (clips.progress[furthest > 0.2, -1] < furthest[furthest > 0.2]).all()


def test_stalled_clips_hold_their_last_frame() -> None:
    config = PLAIN.model_copy(update={"stall": 1.0})
    clips = draw([numbered()], config, 64)
    held = (clips.frames[:, -2] == clips.frames[:, -1]).mean()
    plain = draw([numbered()], PLAIN, 64)
    assert held > (plain.frames[:, -2] == plain.frames[:, -1]).mean() + 0.5


def test_failure_is_never_done_and_its_progress_is_not_known() -> None:
    clips = draw([numbered(), numbered(success=False)], PLAIN, 200)
    failed = (clips.progress == UNKNOWN).all(axis=1)
    assert 0.25 < failed.mean() < 0.45
    assert (clips.done[failed] == 0).all()
    assert (clips.progress[~failed] >= 0).all()


def test_refused_success_weighs_more() -> None:
    config = PLAIN.model_copy(update={"negative_weight": 7.0})
    clips = draw([numbered(), numbered(success=False, refused=True)], config, 64)
    assert set(clips.weight.tolist()) == {1.0, 7.0}
    assert (clips.done[clips.weight == 7.0] == 0).all()


def test_a_clip_out_of_order_is_not_done_and_nobody_knows_how_far() -> None:
    clips = draw([numbered()], PLAIN.model_copy(update={"shuffle": 1.0}), 32)
    assert (clips.progress == UNKNOWN).all()
    assert (clips.done == 0).all()
    assert (np.diff(clips.frames[..., 0], axis=1) < 0).any(axis=1).mean() > 0.8


def test_marked_stages_count_by_their_share_of_all_demonstrations() -> None:
    slow = ScoredEpisode(frames=np.zeros((40, 1), np.float32), success=True, stage_starts=(0, 30))
    fast = ScoredEpisode(frames=np.zeros((20, 1), np.float32), success=True, stage_starts=(0, 5))
    failed = ScoredEpisode(frames=np.zeros((7, 1), np.float32), success=False)
    first, second, third = progress_labels([slow, fast, failed])
    assert first[30] == second[5] == pytest.approx((30 / 40 + 5 / 20) / 2)
    assert (third == UNKNOWN).all()
    plain, _, _ = progress_labels([slow, ScoredEpisode(frames=fast.frames, success=True), failed])
    assert plain[30] == pytest.approx(30 / 39)


def test_recovered_clips_go_back_and_then_at_least_as_far_as_before() -> None:
    config = PLAIN.model_copy(update={"rewind": 1.0, "recover": 1.0, "window": 30})
    clips = draw([numbered()], config, 64)
    fell = (np.diff(clips.progress, axis=1) < 0).any(axis=1)
    assert fell.mean() > 0.8
    assert (clips.progress[:, -1] >= clips.progress.max(axis=1) - 1e-6).all()


def test_progress_that_is_known_better_than_by_the_clock_is_taken() -> None:
    known = np.linspace(0, 1, LENGTH) ** 2
    episode = ScoredEpisode(frames=numbered().frames, success=True, progress=known)
    clips = draw([episode], PLAIN, 16)
    np.testing.assert_allclose(clips.progress, known[clips.frames[..., 0].astype(int)], atol=1e-6)


def test_nothing_is_learned_from_frames_of_a_failure_that_are_ruled_out() -> None:
    late = np.arange(LENGTH) >= 20
    failed = replace(numbered(success=False, refused=True), ruled_out=late)
    clips = draw([numbered(), failed], PLAIN.model_copy(update={"shuffle": 0.3}), 200)
    mine = (clips.progress == UNKNOWN).all(axis=1) & (clips.weight == PLAIN.negative_weight)
    number = clips.frames[mine][..., 0]
    assert (clips.done[mine][number >= 20] == UNKNOWN).all()
    assert (clips.done[mine][number < 20] == 0).all()
    assert (number >= 20).any()


def staged(lengths: tuple[int, ...]) -> ScoredEpisode:
    """A success that passes through the same states at its own pace in each stage: its only feature is the state."""
    states = np.concatenate([k + np.arange(n) / n for k, n in enumerate(lengths)] + [np.array([float(len(lengths))])])
    starts = tuple(int(start) for start in np.cumsum([0, *lengths[:-1]]))
    return ScoredEpisode(frames=states.astype(np.float32)[:, None], success=True, stage_starts=starts)


def targets_at(state: float, episodes: list[ScoredEpisode]) -> np.ndarray:
    """The target of one and the same state in each episode."""
    labels = progress_labels(episodes)
    return np.array([np.interp(state, e.frames[:, 0], label) for e, label in zip(episodes, labels, strict=True)])


@pytest.mark.parametrize("state", [0.5, 1.0, 1.25, 2.0, 2.75])
def test_one_state_has_one_target_in_all_paces_once_stages_are_marked(state: float) -> None:
    paces = [staged(lengths) for lengths in ((40, 20, 20), (10, 60, 10), (20, 20, 80), (30, 30, 30))]
    plain = targets_at(state, [replace(episode, stage_starts=()) for episode in paces])
    assert np.ptp(plain) > 0.1
    assert np.ptp(targets_at(state, paces)) < 0.02


def test_within_a_stage_the_target_is_linear_and_stages_have_their_mean_shares() -> None:
    paces = [staged((10, 30)), staged((30, 10))]
    first, second = progress_labels(paces)
    assert (first[10], second[30]) == (pytest.approx(0.5, abs=0.02), pytest.approx(0.5, abs=0.02))
    for label, start in ((first, 10), (second, 30)):
        assert np.ptp(np.diff(label[:start])) < 1e-9
        assert np.ptp(np.diff(label[start:])) < 1e-3
        assert (np.diff(label) > 0).all()


def test_once_four_successes_are_marked_the_clock_says_nothing_of_the_others() -> None:
    marked = [staged((10, 30))] * 4
    unmarked = replace(staged((20, 20)), stage_starts=())
    assert (progress_labels([*marked, unmarked])[-1] == UNKNOWN).all()
    assert (progress_labels([*marked[:3], unmarked])[0] == np.linspace(0, 1, 41)).all()
    odd = replace(unmarked, stage_starts=(0, 5, 9))
    assert (progress_labels([*marked, odd])[0] == np.linspace(0, 1, 41)).all()
