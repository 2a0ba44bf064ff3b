"""A learner that was killed and resumed draws the same batches and computes the same losses as one that was not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.tiny_run import write_run
from robot_stack.types.event import LabelSource, Verdict
from tests.learner.driven import DEMOS, Driven

pytestmark = pytest.mark.long

PRETRAIN = 20
SAVED = 60
AFTER_SAVED = 7
LAST = 140
RUNNING = "000012-online-b"
"""Has begun when the checkpoint is written, ends after it."""


def _train_online(first: int) -> Any:
    """Two episodes of two actors at once, the second with an operator's verdict against the model's."""

    def arrive(run: Driven) -> None:
        a, b = f"{first:06d}-online-a", f"{first + 1:06d}-online-b"
        for name in (b, a):  # not in the order of their names
            run.begin(name)
        run.send(b, stop=6)
        run.send(a, end="success")
        run.send(b, start=6, end="failure")
        run.say(a, Verdict.SUCCESS, LabelSource.MODEL)
        run.say(b, Verdict.SUCCESS, LabelSource.MODEL)
        run.say(b, Verdict.FAILURE)

    return arrive


def _refit(run: Driven) -> None:
    assert run.learner is not None
    refitter = run.learner.reward.refitter
    refitter.fit()
    refitter.completed_at = len(run.training.parts.statistics.accounts)


def _save(run: Driven) -> None:
    run.begin(RUNNING)
    run.send(RUNNING, stop=5)
    run.take()
    run.training.parts.store.flush()
    run.loop.save(wait=True)


BEFORE = {PRETRAIN: _train_online(2), 25: _train_online(4), 33: _refit, 40: _train_online(6)}
AFTER = {
    70: lambda run: run.send(RUNNING, start=5, end="success"),
    75: lambda run: run.say("000002-online-a", Verdict.FAILURE),
    80: _train_online(20),
    90: _refit,
    100: lambda run: run.say("000006-online-a", Verdict.DISCARD),
    110: _train_online(30),
}


@dataclass(frozen=True, kw_only=True)
class Both:
    """The run that nobody killed, and the one that was resumed from a copy of its folder."""

    whole: Driven
    resumed: Driven


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("exact") / "run"
    resolved = write_run(folder, "algorithm.settings.utd=20.0", f"algorithm.settings.pretrain_updates={PRETRAIN}")
    whole = Driven(folder, resolved)
    whole.demonstrate()
    whole.start()
    whole.run(SAVED, BEFORE)
    _save(whole)
    whole.run(SAVED + AFTER_SAVED, {})
    whole.copy(folder.parent / "killed")
    whole.run(LAST, AFTER)
    resumed = Driven(folder.parent / "killed", resolved)
    resumed.start()
    resumed.run(LAST, AFTER)
    yield Both(whole=whole, resumed=resumed)
    whole.close()
    resumed.close()


def test_batches_are_of_the_same_rows(both: Both) -> None:
    found = both.resumed.told.batches
    assert len(found) == LAST - SAVED
    assert found == both.whole.told.batches[-len(found) :]
    seen = {name for batch in found for name, _ in batch}
    assert {RUNNING, "000020-online-a", "000031-online-b", *DEMOS} <= seen


def test_rewards_discounts_and_features_are_the_same_to_the_bit(both: Both) -> None:
    found = both.resumed.told.rewards
    assert found == both.whole.told.rewards[-len(found) :]


def test_losses_are_the_same_to_the_bit(both: Both) -> None:
    found = both.resumed.told.losses
    assert len(found) >= 50
    assert found == both.whole.told.losses[-len(found) :]
    assert len({loss["critic_loss"] for loss in found}) == len(found)


def test_networks_and_optimisers_are_the_same_to_the_bit(both: Both) -> None:
    a, b = (run.loop.updater.learner.state_dict() for run in (both.whole, both.resumed))
    for (name, x), (_, y) in zip(_leaves(a), _leaves(b), strict=True):
        assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y, name


def test_counters_go_on_from_the_checkpoint(both: Both) -> None:
    a, b = (run.training.status().counters for run in (both.whole, both.resumed))
    for name in ("demos", "episodes", "env_steps", "updates", "success_last20", "human_share_last20", "progress"):
        assert a[name] == b[name], name
    assert b["params_version"] > a["params_version"]
    rows = both.resumed.training.parts.statistics.episodes
    for name, account in both.whole.training.parts.statistics.episodes.items():
        assert rows[name].row(10.0, "") == account.row(10.0, "")


def test_reward_model_of_both_is_the_same(both: Both) -> None:
    versions = {run.training.parts.scorer.version for run in (both.whole, both.resumed)}
    assert len(versions) == 1
    assert len(list(both.resumed.folder.glob("progress_*.safetensors"))) >= 3


def test_resume_decoded_no_image_of_a_finished_episode(
    both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both.whole.copy(tmp_path / "run")
    again = Driven(tmp_path / "run", both.whole.resolved)
    read: list[tuple[str, bool]] = []
    real = again.training.parts.store.read

    def reading(episode_id: str, *, images: bool = True) -> Any:
        read.append((episode_id, images))
        return real(episode_id, images=images)

    monkeypatch.setattr(again.training.parts.store, "read", reading)
    try:
        again.start()
        assert [name for name, images in read if images] == []
        cache = again.training.parts.restorer.cache
        assert cache is not None
        assert cache.damaged == 0
    finally:
        again.close()


def test_checkpoint_without_frames_is_far_below_200_mb(both: Both) -> None:
    sizes = [path.stat().st_size for path in (both.whole.folder / "checkpoints").iterdir()]
    assert sizes
    assert max(sizes) < 200e6


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{name}[{index}]")
    else:
        yield name, value
