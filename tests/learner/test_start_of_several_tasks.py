"""A run of several tasks starts from an earlier one only where each task is told as it was there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.datasets.new_store import NewStore
from robot_stack.learner.warm_start import prepare_start
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from tests.datasets.data_rig import made_episode

RUN = "peg_two_sockets"
SMALL = [f"cameras.{name}.policy_{side}_px=16" for name in ("wrist", "front") for side in ("width", "height")]
THREE = ("peg_blue", "peg_green", "peg_left")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the shipped run, and a third task for it."""
    root = tmp_path / "configs"
    for kind, name in (("runs", RUN), ("tasks", "peg_blue"), ("tasks", "peg_green")):
        (root / kind).mkdir(parents=True, exist_ok=True)
        (root / kind / f"{name}.yaml").write_text((config_root() / kind / f"{name}.yaml").read_text())
    green = (root / "tasks/peg_green.yaml").read_text()
    (root / "tasks/peg_left.yaml").write_text(green.replace("name: peg_green", "name: peg_left"))
    return root


def run_of(root: Path, tasks: tuple[str, ...], *more: str) -> ResolvedRun:
    return load_run(RUN, [f"tasks=[{', '.join(tasks)}]", *SMALL, *more], root=root)


def recorded(folder: Path, run: ResolvedRun) -> None:
    """A data set with a demonstration of each task of a run, whose frames say which it is."""
    spec = run.spec()
    (folder / "episodes").mkdir(parents=True)
    store = NewStore(root=folder, spec=spec, task=run.task.name, text=run.task.text)
    for number, turn in enumerate(run.task.turns):
        made = made_episode(f"{number:06d}-demo-a", spec, steps=5)
        proprio = made.arrays["proprio"].copy()
        proprio[:, spec.part("task")] = np.array(turn.told, np.float32)
        header = replace(made.header, task=run.task.name, task_id=turn.id)
        store.write(replace(made, header=header, arrays={**made.arrays, "proprio": proprio}))
    store.finish("test", [], {})


@pytest.mark.long
@pytest.mark.parametrize("order", [THREE, ("peg_blue", "peg_left", "peg_green")])
def test_episodes_are_taken_where_each_task_is_told_as_it_was(
    root: Path, tmp_path: Path, order: tuple[str, ...]
) -> None:
    earlier, folder = tmp_path / "earlier", tmp_path / "run"
    recorded(earlier, run_of(root, THREE))
    run = run_of(root, order, f"start_from.run={earlier}", "start_from.take=[episodes]")
    if order != THREE:
        with pytest.raises(ConfigError, match=r"000001-demo-a of task peg_green, told as \[0.0, 1.0, 0.0\]"):
            prepare_start(run, folder)
        return
    prepare_start(run, folder)
    with EpisodeStore(RunPaths(folder).store.root, run.spec(), run.task.name) as store:
        assert [store.header(name).task_id for name in store.episodes] == list(THREE)


def test_a_policy_that_was_told_other_tasks_is_refused(root: Path, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    (earlier / "run.yaml").write_text(run_of(root, ("peg_blue", "peg_green")).to_yaml())
    run = run_of(root, ("peg_blue", "peg_left"), f"start_from.run={earlier}", "start_from.take=[encoder, learner]")
    with pytest.raises(ConfigError, match="is of the tasks peg_blue, peg_green instead of peg_blue, peg_left"):
        prepare_start(run, tmp_path / "run")
