"""What bad input gets: an error that says what is, what must be and what to do, a count, and no draw."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind, Step
from tests.replay.recorded import TASK, header_of, small_spec, steps_of

SPEC = small_spec()
P, H = Source.POLICY, Source.HUMAN


def online(replay: Replay, episode_id: str = "a", count: int = 3) -> None:
    replay.begin(header_of(episode_id))
    for step in steps_of(SPEC, episode_id, [P] * count):
        replay.add_step(step)


def draw(replay: Replay, size: int = 64, fraction: float = 0.0) -> np.ndarray:
    return replay.draw(np.random.default_rng(0), size, gamma=0.9, expert_fraction=fraction).rows


def observed(**change: Any) -> Callable[[Step], Step]:
    return lambda step: replace(step, observation=replace(step.observation, **change))


def acted(**change: Any) -> Callable[[Step], Step]:
    def spoil(step: Step) -> Step:
        assert step.action is not None
        return replace(step, action=replace(step.action, **change))

    return spoil


def vector(value: float, size: int) -> np.ndarray:
    return np.full(size, value, np.float32)


IMAGE = np.zeros((8, 8, 3), np.uint8)
SPOILT = {
    "proprio is": observed(proprio=vector(np.nan, 3)),
    r"proprio is \[inf": observed(proprio=vector(np.inf, 3)),
    "age_s is nan, must be finite": observed(age_s=float("nan")),
    "skew_s is inf, must be finite": observed(skew_s=float("inf")),
    r"cameras are \['front'\], must be \['front', 'wrist'\]": observed(images={"front": IMAGE}),
    "image wrist is float32": observed(images={"front": IMAGE, "wrist": IMAGE.astype(np.float32)}),
    r"executed is \[nan": acted(executed=vector(np.nan, 7)),
    r"proposed is \[inf": acted(proposed=vector(np.inf, 7)),
    r"human is \[2": acted(human=vector(2.0, 7)),
    "params_age_s is nan, must be finite": acted(params_age_s=float("nan")),
    r"source is 9, must be one of \[0, 1, 2, 3\]": acted(source=9),
}


@pytest.mark.parametrize("message", SPOILT)
def test_a_spoilt_step_is_refused_in_words_counted_and_never_drawn(message: str) -> None:
    replay = Replay(SPEC)
    replay.begin(header_of("a"))
    good = list(steps_of(SPEC, "a", [P] * 4))
    for step in good[:2]:
        replay.add_step(step)
    before = draw(replay)
    for times in (1, 2):
        with pytest.raises(SpecError, match=f"step a/2: {message}.*; it was not taken, mend its source"):
            replay.add_step(SPOILT[message](good[2]))
        assert replay.refused["steps"] == times
    np.testing.assert_array_equal(draw(replay), before)
    for step in good[2:]:
        assert replay.add_step(step)
    assert set(replay.frames.column("frame")[draw(replay)]) == {0, 1, 2, 3}


@pytest.mark.parametrize("message", SPOILT)
def test_a_spoilt_step_leaves_the_store_as_it_was(message: str, tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.begin(header_of("a"))
        good = list(steps_of(SPEC, "a", [P]))
        with pytest.raises(SpecError, match=message):
            store.append(SPOILT[message](good[0]))
        assert store.durable("a") == -1
        assert all(store.append(step) for step in good)
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.episodes == ("a",)


def test_features_beyond_float16_are_refused_counted_and_never_drawn() -> None:
    replay = Replay(SPEC, feature_size=2, keep_images=False)
    online(replay)
    features = np.ones((4, 2), np.float16)
    features[2, 1] = np.inf
    with pytest.raises(StoreError, match="features of a from frame 0 on are not all finite"):
        replay.set_features("a", features)
    assert replay.refused["features"] == 1
    with pytest.raises(StoreError, match="replay size is 0"):
        draw(replay)
    features[2, 1] = 1.0
    replay.set_features("a", features)
    assert np.isfinite(replay.sample(np.random.default_rng(0), 32, gamma=0.9, expert_fraction=0.0).features).all()


def test_scores_out_of_range_are_refused_counted_and_never_shape_a_reward() -> None:
    replay = Replay(SPEC)
    online(replay)
    replay.activate_scores("v")
    for values in ([0.1, 0.2, 0.3, np.inf], [0.1, 0.2, 0.3, -1.0]):
        progress = np.array(values, np.float32)
        with pytest.raises(StoreError, match=r"must be in \[0, 1\] or NaN"):
            replay.add_scores(EpisodeScores(episode_id="a", version="v", progress=progress, success=progress))
    assert replay.refused["scores"] == 2
    reward = replay.draw(np.random.default_rng(0), 64, gamma=0.9, expert_fraction=0.0).reward
    assert set(reward) == {0.0}


def test_a_camera_missing_from_an_old_episode_is_named(tmp_path: Path) -> None:
    old = small_spec(cameras=("front",))
    with EpisodeStore(tmp_path, old, TASK) as store:
        store.begin(header_of("a"))
        for step in steps_of(old, "a", [P] * 3):
            store.append(step)
        episode = store.read("a")
    replay = Replay(SPEC)
    with pytest.raises(StoreError, match=r"episode a: spec.cameras is \[.*front.*\], must be \[.*wrist.*; record it"):
        replay.add_episode(episode)
    assert replay.refused["episodes"] == 1
    with pytest.raises(StoreError, match="replay size is 0"):
        draw(replay)


def test_a_camera_lost_from_an_episode_on_disk_sets_that_episode_aside(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        for episode_id in ("a", "b"):
            store.begin(header_of(episode_id))
            for step in steps_of(SPEC, episode_id, [P] * 3):
                store.append(step)
    shutil.rmtree(tmp_path / "episodes" / "a.zarr" / "image_wrist")
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.episodes == ("b",)
        assert "image_wrist" in store.quarantined["a"]


def test_an_empty_expert_pool_is_an_error_unless_no_expert_row_is_wanted() -> None:
    replay = Replay(SPEC)
    online(replay)
    with pytest.raises(StoreError, match="expert pool is 0 transitions, must be 1 or more for an expert"):
        draw(replay, fraction=0.5)
    assert len(draw(replay, fraction=0.0)) == 64
    replay.begin(header_of("d", EpisodeKind.DEMO))
    for step in steps_of(SPEC, "d", [H], EndReason.SUCCESS):
        replay.add_step(step)
    assert len(draw(replay, fraction=0.5)) == 64


def test_a_batch_larger_than_its_pools_draws_rows_again() -> None:
    replay = Replay(SPEC)
    online(replay, count=3)
    counts = np.bincount(draw(replay, size=3000))
    assert len(counts) == 3
    assert counts.min() > 850


def test_an_empty_replay_is_an_error() -> None:
    with pytest.raises(StoreError, match="replay size is 0 transitions, must be 1 or more; record or load"):
        draw(Replay(SPEC))
