"""Progress by optimal transport: against an exact solver, and on episodes whose progress is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from reward_models.live import find_live
from reward_models.metrics import mean_voc
from reward_models.otr.config import OtrConfig
from reward_models.otr.model import OtrModel, fit, restore
from reward_models.otr.transport import costs_between, transport
from reward_models.progress.clips import ScoredEpisode
from robot_stack.learner.fitting import load_reward, save_reward
from robot_stack.types.errors import RewardError

DIRECTIONS = np.random.default_rng(7).normal(size=(3, 20))
CONFIG = OtrConfig()


def frames_of(progress: np.ndarray, seed: int, noise: float = 0.03) -> np.ndarray:
    """A bent way through twenty features, with noise and a place of its own at the start."""
    rng = np.random.default_rng(seed)
    x = np.stack([progress, np.sin(2.5 * progress), progress**2], axis=1)
    way = x @ DIRECTIONS + (1 - progress[:, None]) * 0.15 * rng.normal(size=20)
    return (way + noise * rng.normal(size=way.shape)).astype(np.float32)


def success(frames: int, seed: int, **more: object) -> ScoredEpisode:
    progress = np.linspace(0.0, 1.0, frames)
    return ScoredEpisode(frames=frames_of(progress, seed), success=True, done_frames=3, refused=False, **more)  # type: ignore[arg-type]


def fitted(config: OtrConfig = CONFIG) -> OtrModel:
    episodes = [success(frames, seed) for seed, frames in enumerate((30, 41, 50, 38, 44))]
    return fit(episodes, config, text="t", seed=0, on_step=lambda *_: None)[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_costs_what_an_exact_solver_says(seed: int) -> None:
    costs = np.random.default_rng(seed).uniform(size=(3, 12, 12))
    plans = transport(costs, entropy=0.01, iterations=3000)
    np.testing.assert_allclose(plans.sum(axis=2), 1 / 12, rtol=1e-9)
    np.testing.assert_allclose(plans.sum(axis=1), 1 / 12, rtol=2e-2)
    for plan, cost in zip(plans, costs, strict=True):
        rows, columns = linear_sum_assignment(cost)
        exact = cost[rows, columns].mean()
        assert exact * 0.999 <= (plan * cost).sum() <= exact * 1.05 + 1e-3


def test_costs_are_mean_squared_differences() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 5)), rng.normal(size=(2, 6, 5))
    wanted = ((a[:, :, None] - b[:, None]) ** 2).mean(axis=-1)
    np.testing.assert_allclose(costs_between(a, b), wanted, atol=1e-12)


@pytest.mark.parametrize("references", [1, 3])
def test_successes_rise_and_an_error_stays_small(references: int) -> None:
    model = fitted(OtrConfig(references=references))
    lengths = (25, 35, 60)
    scored = [model.score(success(frames, 100 + i).frames).progress for i, frames in enumerate(lengths)]
    assert mean_voc(scored) > 0.97
    for phi in scored:
        assert np.abs(phi - np.linspace(0.0, 1.0, len(phi))).mean() < 0.08


def test_an_episode_that_turns_back_or_stalls_is_no_progress() -> None:
    model = fitted()
    there = np.linspace(0.0, 0.7, 25)
    back = model.score(frames_of(np.concatenate([there, there[::-1]]), 50)).progress
    assert back[24] > 0.55
    assert back[-1] < 0.2
    stalled = model.score(frames_of(np.concatenate([there, np.full(30, 0.7)]), 51)).progress
    assert np.abs(stalled[25:] - 0.7).max() < 0.12


def test_done_is_the_end_and_nothing_before() -> None:
    model = fitted()
    said = model.score(success(45, 60).frames).success
    assert said[-1] > 0.8
    assert (said[:36] < 0.1).all()
    stopped = model.score(frames_of(np.linspace(0.0, 0.85, 40), 61)).success
    assert (stopped < 0.5).all()


def test_each_frame_knows_its_own_past_only() -> None:
    model, frames = fitted(), success(40, 70).frames
    whole = model.score(frames)
    for upto in (1, 2, 17):
        part = model.score(frames[:upto])
        np.testing.assert_array_equal(part.progress, whole.progress[:upto])
    late = model.score(frames, start=30)
    np.testing.assert_array_equal(late.progress, whole.progress[30:])
    np.testing.assert_array_equal(late.success, whole.success[30:])
    assert len(model.score(frames, start=40).progress) == 0


def test_what_was_stored_scores_alike_and_damage_is_told(tmp_path: Path) -> None:
    model, frames = fitted(), success(40, 80).frames
    path = tmp_path / "reward.safetensors"
    save_reward(path, model)
    again = load_reward(path, model.version, CONFIG)
    np.testing.assert_array_equal(again.score(frames).progress, model.score(frames).progress)
    tensors, texts = model.stored()
    with pytest.raises(RewardError, match="its file is damaged or of other settings"):
        restore({**tensors, "labels": tensors["labels"] + 0.1}, texts, CONFIG)
    with pytest.raises(RewardError, match=r"lacks .'labels'., must be written by this program"):
        restore({name: t for name, t in tensors.items() if name != "labels"}, texts, CONFIG)
    with pytest.raises(RewardError, match="is damaged or of other settings"):
        restore(tensors, texts, OtrConfig(points=8))


def test_thumbnails_are_not_read_and_progress_labels_are() -> None:
    def shown(episode: ScoredEpisode, seed: int) -> np.ndarray:
        noise = np.random.default_rng(seed).normal(size=(len(episode.frames), 12)).astype(np.float32)
        return np.concatenate([noise, episode.frames], axis=1)

    late = np.linspace(0.0, 1.0, 40) ** 3
    plain = [success(40, seed, progress=late) for seed in range(4)]
    episodes = [
        ScoredEpisode(
            frames=shown(each, i), success=True, done_frames=3, refused=False, progress=late, thumbnails=((0, 12),)
        )
        for i, each in enumerate(plain)
    ]
    model = fit(episodes, CONFIG, text="t", seed=0, on_step=lambda *_: None)[0]
    frames = shown(success(40, 90), 9)
    phi = model.score(frames).progress
    assert np.abs(phi - late).mean() < 0.08
    other = frames.copy()
    other[:, :12] = 5.0
    np.testing.assert_array_equal(model.score(other).progress, phi)


def test_the_report_is_of_successes_that_are_no_reference() -> None:
    episodes = [success(frames, seed) for seed, frames in enumerate((30, 41, 50))]
    steps: list[tuple[int, int]] = []
    model, report, nothing = fit(episodes, CONFIG, text="t", seed=0, on_step=lambda n, of, _: steps.append((n, of)))
    assert (report.version, nothing) == (model.version, None)
    assert steps == [(1, 2), (2, 2)]
    assert report.voc_heldout > 0.95
    assert report.false_done == 0.0


def test_too_few_successes_are_refused() -> None:
    failure = ScoredEpisode(frames=success(30, 1).frames, success=False, done_frames=3, refused=False)
    with pytest.raises(RewardError, match="successful episodes are 1, must be at least 2"):
        fit([success(30, 0), failure], CONFIG, text="t", seed=0, on_step=lambda *_: None)


def test_it_is_a_live_model_by_name() -> None:
    part = find_live("otr")
    assert part.says_progress
    assert part.config.model_validate_json(json.dumps({"references": 2})) == OtrConfig(references=2)
    tensors, texts = fitted().stored()
    assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())
    assert part.builders().restore(tensors, texts, CONFIG).version == texts["version"]
