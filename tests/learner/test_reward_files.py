"""A reward model comes back from its file as it was, or not at all."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from reward_models.classifier.config import ClassifierConfig
from reward_models.model_per_task import ModelPerTask
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from robot_stack.learner.fitting import fit_reward, load_reward, load_trunk, save_reward, write_tensors
from robot_stack.types.errors import ResumeError, RewardError
from tests.learner.bench import SPEC

TINY = ProgressConfig(members=2, window=4, width=16, layers=1, steps=3, batch=8, held_out=1)
BOTH = TINY.model_copy(update={"confirm": ClassifierConfig(width=8, steps=3, batch=8)})


def episodes() -> list[ScoredEpisode]:
    rng = np.random.default_rng(0)
    return [
        ScoredEpisode(frames=rng.normal(size=(12, 5)).astype(np.float32), success=i < 4, done_frames=3)
        for i in range(6)
    ]


@pytest.mark.parametrize("config", [TINY, BOTH], ids=["alone", "confirmed"])
def test_saved_and_loaded_it_scores_the_same(tmp_path: Path, config: ProgressConfig) -> None:
    model, report, judged = fit_reward(episodes(), config, text="open the drawer", seed=0, on_step=lambda *_: None)
    assert report.version == model.version
    assert (judged is None) is (config is TINY)
    save_reward(tmp_path / "reward.safetensors", model)
    again = load_reward(tmp_path / "reward.safetensors", model.version, config)
    assert (again.version, again.text) == (model.version, "open the drawer")
    frames = episodes()[0].frames
    for expected, got in zip(model.score(frames), again.score(frames), strict=True):
        assert np.array_equal(expected, got)


def test_file_of_an_older_program_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "reward.safetensors"
    write_tensors(path, {"mean": torch.zeros(5), "scale": torch.ones(5)}, {"version": "1"})
    lacking = r"lacks \['calibration', 'done_known', 'done_reach', .*\], must be written by this program"
    with pytest.raises(RewardError, match=lacking):
        load_reward(path, "1", TINY)


@pytest.mark.parametrize("damage", ["truncated", "empty", "folder"])
@pytest.mark.parametrize("what", ["reward", "trunk"])
def test_file_that_the_disk_damaged_is_named_with_what_to_do(tmp_path: Path, what: str, damage: str) -> None:
    path = tmp_path / f"{what}.safetensors"
    if damage == "folder":
        path.mkdir()
    else:
        write_tensors(path, {"mean": torch.zeros(500)}, {"version": "1"})
        os.truncate(path, 200 if damage == "truncated" else 0)
    read = partial(load_reward, path, "1", TINY) if what == "reward" else partial(load_trunk, path, SPEC, "cpu")
    with pytest.raises(
        ResumeError, match=rf"{path} is unreadable \(.+\), must be .* of this run; restore it, or start"
    ):
        read()


def test_another_version_or_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "reward.safetensors"
    model, _, _ = fit_reward(episodes(), TINY, text="open the drawer", seed=0, on_step=lambda *_: None)
    save_reward(path, model)
    with pytest.raises(RewardError, match="must be 0123"):
        load_reward(path, "0123", TINY)
    with pytest.raises(RewardError, match="of other settings"):
        load_reward(path, model.version, TINY.model_copy(update={"width": 32}))
    with pytest.raises(RewardError, match="of other settings"):
        load_reward(path, model.version, BOTH)


def test_a_model_per_task_scores_each_by_its_own_part_and_comes_back(tmp_path: Path) -> None:
    quiet = dict(seed=0, on_step=lambda *_: None)
    there, _, _ = fit_reward(episodes(), TINY, text="open the drawer", **quiet)
    back, _, _ = fit_reward(episodes()[::-1], TINY, text="close the drawer", **quiet)
    model = ModelPerTask({"in": there, "out": back}, {"in": (1.0,), "out": (-1.0,)}, column=-1)
    save_reward(tmp_path / "reward.safetensors", model)
    again = load_reward(tmp_path / "reward.safetensors", model.version, TINY)
    assert isinstance(again, ModelPerTask)
    assert (again.column, again.models["out"].text, again.text) == (-1, "close the drawer", "open the drawer")
    for sign, one in ((1.0, there), (-1.0, back)):
        frames = episodes()[0].frames.copy()
        frames[:, -1] = sign
        for expected, got in zip(one.score(frames, 3), again.score(frames, 3), strict=True):
            assert np.array_equal(expected, got)
        assert np.array_equal(one.standardised(frames), again.standardised(frames))
    assert not np.array_equal(there.score(frames).progress, back.score(frames).progress)
    with pytest.raises(RewardError, match="must be 0123"):
        load_reward(tmp_path / "reward.safetensors", "0123", TINY)
