"""A run of a task and its way back in turn, in one process: two reward models, one policy, ended and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.learning.lockstep import train_online
from reward_models.model_per_task import ModelPerTask
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.fitting import load_reward
from robot_stack.learner.settings import learning_settings
from robot_stack.replay.stored_episode import read_episode
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import EpisodeRow, RewardFitRow, of_kind
from robot_stack.types.transition import ResetType

pytestmark = pytest.mark.long

DIRECTIONS = {"peg_insert": 1.0, "peg_insert_back": -1.0}
TINY = (
    "training.demos=4",
    "encoder.settings.steps=10",
    "encoder.settings.batch=16",
    "reward.settings.steps=10",
    "reward.settings.batch=8",
    "algorithm.settings.pretrain_updates=20",
    "algorithm.settings.batch_size=16",
    "algorithm.settings.utd=0.5",
    "algorithm.settings.critics=2",
    "algorithm.settings.hidden=[32, 32]",
    "algorithm.settings.head=8",
    "task.episode_steps=70",
    "task.sim.clearance_m=0.008",
    "task.sim.socket_range_m=[0.02, 0.02]",
)


def tiny_run(episodes: int, run: str = "peg_in_and_out") -> ResolvedRun:
    return load_run(run, [*TINY, f"training.max_episodes={episodes}"])


def ended_twice(folder: Path, first: ResolvedRun, longer: ResolvedRun) -> Path:
    """The folder of a run that has ended once, and was gone on with for more episodes."""
    train_online(first, folder)
    (folder / "policy.safetensors").unlink()
    train_online(longer, folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ended_twice(tmp_path_factory.mktemp("runs") / "both", tiny_run(2), tiny_run(3))


def test_demonstrations_go_by_turns_and_online_training_begins_where_the_last_episode_left(folder: Path) -> None:
    headers = [read_episode(path, images=False).header for path in sorted((folder / "store/episodes").glob("*.zarr"))]
    demos = [(header.task_id, header.reset) for header in headers if header.kind == "demo"]
    assert demos[:2] == [("peg_insert", ResetType.NOMINAL), ("peg_insert_back", ResetType.CARRIED)]
    assert [task_id for task_id, _ in demos].count("peg_insert_back") >= 2
    assert {header.task for header in headers} == {"peg_insert"}
    at = tiny_run(1).spec().part("direction").start
    for path in (folder / "store/episodes").glob("*.zarr"):
        episode = read_episode(path, images=False)
        assert set(episode.arrays["proprio"][:, at]) == {DIRECTIONS[episode.header.task_id]}


def test_each_way_has_a_reward_model_of_its_own_which_comes_back_after_a_restart(folder: Path) -> None:
    resolved, rows = tiny_run(3), read_rows(folder / "metrics.jsonl").rows
    (fit, *_) = of_kind(rows, RewardFitRow)
    assert fit.version != fit.others["peg_insert_back"].version
    path = folder / f"progress_{fit.version}.safetensors"
    model = load_reward(path, fit.version, learning_settings(resolved).reward)
    assert isinstance(model, ModelPerTask)
    assert {task_id: one.text for task_id, one in model.models.items()} == {
        turn.id: turn.text for turn in resolved.task.turns
    }
    assert any(row.kind == "resume" for row in rows)
    scored = {row.reward_version for row in of_kind(rows, EpisodeRow)}
    assert fit.version in scored


def test_what_counts_as_success_of_late_is_of_the_task_alone(folder: Path) -> None:
    rows = of_kind(read_rows(folder / "metrics.jsonl").rows, EpisodeRow)
    assert {row.reset for row in rows} <= {"nominal", "carried"}
    assert {row.task_id for row in rows} == set(DIRECTIONS)
