"""A run goes through its phases to the end, and an error in a thread beside the updates ends it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tiny_run import write_run
from robot_stack.config.resolve import load_run
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.data.ingest import Ingest
from robot_stack.learner.process import LEAVE_S, leave_after_s
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EndRow, EpisodeRow, FitRow, of_kind
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Verdict
from tests.learner.driven import DEMOS, Driven

pytestmark = pytest.mark.long

ONLINE = "000002-online-a"


class Running:
    """A tiny run of one online episode, on a thread."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        self.paths = RunPaths(folder)
        self.driven = Driven(folder, write_run(folder, "training.max_episodes=1", *overrides))
        self.stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.ended: Future[None] = self._pool.submit(self.driven.training.run, self.stop)

    def wait_for(self, phase: str) -> None:
        deadline_s = time.monotonic() + 120.0
        while self.driven.training.status().phase != phase and not self.ended.done():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        assert self.driven.training.status().phase == phase

    def train_online(self) -> None:
        self.driven.begin(ONLINE)
        self.driven.send(ONLINE, end="success")
        self.driven.say(ONLINE, Verdict.SUCCESS)

    def newest_checkpoint_ns(self) -> int:
        return max(path.stat().st_mtime_ns for path in self.paths.checkpoints.glob("*.pt"))

    def close(self) -> None:
        self.stop.set()
        self._pool.shutdown()
        self.driven.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    run = Running(tmp_path / "run")
    yield run
    run.close()


def test_a_run_goes_through_its_phases_and_leaves_a_policy(running: Running) -> None:
    running.wait_for("collecting_demos")
    assert running.driven.training.status().message == "0 of 2 demonstrations"
    running.driven.demonstrate()
    running.wait_for("training")
    assert not running.paths.policy("policy").exists()
    running.train_online()
    running.ended.result(60.0)
    assert running.driven.training.status().phase == "done"
    assert running.driven.training.finished_s <= time.monotonic()
    assert running.paths.policy("policy").exists()
    rows = read_rows(running.paths.metrics).rows
    assert [row.episode_id for row in of_kind(rows, EpisodeRow)] == [*DEMOS, ONLINE]
    (fit,), (end,) = of_kind(rows, FitRow), of_kind(rows, EndRow)
    assert tuple(fit.demo_ids) == DEMOS
    assert end.env_steps == 12
    assert CheckpointFolder(running.paths.checkpoints).steps()[-1] == end.updates


@pytest.mark.parametrize(
    ("signals", "parts"),
    [
        ("stall, distance, critics", {"trunk", "actor", "familiar", "critic"}),
        ("stall, samples", {"trunk", "actor"}),
    ],
)
def test_what_the_signals_of_a_run_need_goes_to_the_actor_with_its_parameters(
    tmp_path: Path, signals: str, parts: set[str]
) -> None:
    run = Running(tmp_path / "run", f"run.asking.signals=[{signals}]")
    try:
        run.wait_for("collecting_demos")
        run.driven.demonstrate()
        run.wait_for("training")
        run.train_online()
        run.ended.result(60.0)
        params = load_params(run.paths.policy("policy"))
    finally:
        run.close()
    assert {name.partition(".")[0] for name in params.tensors} == parts


def test_what_is_cloned_before_online_training_is_weighed_by_the_progress_model_that_is_fitted_first(
    tmp_path: Path,
) -> None:
    weights, trained = {}, {}
    for name in ("equal", "progress"):
        learner = (
            "run.algorithm={name: bc, settings: {pretrain_updates: 20, batch_size: 32, hidden: [32, 32], head: 8}}"
        )
        driven = Driven(tmp_path / name, write_run(tmp_path / name, learner, f"run.imitation.weights={name}"))
        try:
            driven.demonstrate()
            driven.start()
            assert driven.loop.updates == 20
            weights[name] = driven.replay.sample(np.random.default_rng(0), 64, gamma=0.9).imitation
            trained[name] = driven.loop.updater.learner.actor_tensors()
        finally:
            driven.close()
    assert (weights["equal"] == 1.0).all()
    assert weights["progress"].mean() == pytest.approx(1.0, rel=1e-4)
    assert weights["progress"].std() > 0.1
    assert any(not np.array_equal(trained["equal"][key], value) for key, value in trained["progress"].items())


def test_an_error_in_the_ingest_thread_ends_the_run_after_a_checkpoint(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("front")

    running.driven.demonstrate()
    running.wait_for("training")
    before = running.newest_checkpoint_ns()
    monkeypatch.setattr(Ingest, "take", broken)
    running.train_online()
    with pytest.raises(KeyError, match="front"):
        running.ended.result(60.0)
    assert running.newest_checkpoint_ns() > before
    assert not running.paths.policy("policy").exists()


@pytest.mark.parametrize("part", ["published", "critic"])  # actors are sent the first alone
def test_a_run_that_diverges_keeps_the_checkpoint_before_and_names_it(running: Running, part: str) -> None:
    running.driven.demonstrate()
    running.wait_for("training")
    (kept,) = running.paths.checkpoints.glob("step_*.pt")
    whole = kept.read_bytes()
    loop = running.driven.training.parts.status.loop
    assert loop is not None
    next(getattr(loop.updater.learner, part).parameters()).data.fill_(np.nan)
    if part == "critic":
        running.stop.set()
    with pytest.raises(StoreError, match=rf"{part}\..* is not finite after 20 .*; .* goes on from {kept}"):
        running.ended.result(60.0)
    assert kept.read_bytes() == whole
    assert "ingest" not in {thread.name for thread in threading.enumerate()}


def test_a_stopped_run_saves_and_leaves_the_rest_to_the_next_start(running: Running) -> None:
    running.driven.demonstrate()
    running.wait_for("training")
    running.stop.set()
    running.ended.result(60.0)
    assert running.driven.training.finished_s == float("inf")
    assert not of_kind(read_rows(running.paths.metrics).rows, EndRow)
    assert CheckpointFolder(running.paths.checkpoints).steps()


def test_a_run_is_the_same_after_a_restart_and_another_where_its_folder_was_made_anew(tmp_path: Path) -> None:
    folder, ids = tmp_path / "run", []
    for anew in (False, False, True):
        if anew:
            shutil.rmtree(folder)
        run = Driven(folder, write_run(folder))
        ids.append(run.training.backend.run_id)
        run.close()
    assert ids[0] == ids[1]
    assert ids[2] != ids[0]
    assert all(each.startswith("run-") for each in ids)


@pytest.mark.parametrize("name", ["peg_insert", "pick_insert", "drawer"])
def test_a_learner_that_is_done_outlasts_the_episode_that_an_actor_is_in(name: str) -> None:
    resolved = load_run(name)
    longest_s = resolved.task.episode_steps / resolved.run.rate_hz
    assert leave_after_s(resolved) >= longest_s + LEAVE_S, "and the reset behind it"
