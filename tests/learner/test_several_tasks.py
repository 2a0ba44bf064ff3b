"""A run of two tasks of one scene in one process: by turns, told apart, each with its own reward model, resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from reward_models.model_per_task import ModelPerTask
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.fitting import load_reward
from robot_stack.learner.settings import learning_settings
from robot_stack.replay.stored_episode import read_episode
from robot_stack.rollout.evaluate import evaluate
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import EpisodeRow, RewardFitRow, of_kind
from tests.learner.test_there_and_back import ended_twice, tiny_run

pytestmark = pytest.mark.slow

TOLD = {"peg_blue": [1.0, 0.0], "peg_green": [0.0, 1.0]}


def two_sockets(episodes: int) -> ResolvedRun:
    return tiny_run(episodes, "peg_two_sockets")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ended_twice(tmp_path_factory.mktemp("runs") / "both", two_sockets(2), two_sockets(4))


def test_episodes_take_turns_and_each_frame_says_of_which_task_it_is(folder: Path) -> None:
    episodes = [read_episode(path, images=False) for path in sorted((folder / "store/episodes").glob("*.zarr"))]
    part = two_sockets(1).spec().part("task")
    for kind in ("demo", "online"):
        own = [e for e in episodes if e.header.kind == kind]
        assert {e.header.task_id for e in own} == set(TOLD)
        for episode in own:
            assert episode.arrays["proprio"][:, part].tolist() == [TOLD[episode.header.task_id]] * (episode.length + 1)
    for episode in episodes:
        number = int(episode.header.episode_id.partition("-")[0])
        assert episode.header.task_id == list(TOLD)[number % 2]
        assert episode.header.reset == "nominal"


def test_each_task_has_a_reward_model_of_its_own_which_comes_back_after_a_restart(folder: Path) -> None:
    resolved, rows = two_sockets(4), read_rows(folder / "metrics.jsonl").rows
    (fit, *_) = of_kind(rows, RewardFitRow)
    path = folder / f"progress_{fit.version}.safetensors"
    model = load_reward(path, fit.version, learning_settings(resolved).reward)
    assert isinstance(model, ModelPerTask)
    assert {task_id: one.text for task_id, one in model.models.items()} == {
        turn.id: turn.text for turn in resolved.task.turns
    }
    assert any(row.kind == "resume" for row in rows)
    assert {row.task_id for row in of_kind(rows, EpisodeRow)} == set(TOLD)


def test_an_evaluation_counts_each_task_by_itself(folder: Path) -> None:
    summary = evaluate(two_sockets(4), load_params(folder / "policy.safetensors"), 3).summary()
    assert {task_id: own["episodes"] for task_id, own in summary["tasks"].items()} == {"peg_blue": 2, "peg_green": 1}
    assert summary["success"] == sum(own["success"] for own in summary["tasks"].values())
