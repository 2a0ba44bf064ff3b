"""A demonstration of a pick in one process, recorded by a real episode store: its gripper is learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from robot_stack.workcell.build import build_local_cell
from tests.workcell.test_two_arm_cell import StoreSink

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("pick_insert")


@pytest.fixture(scope="module")
def recorded(resolved: ResolvedRun, tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredEpisode, Replay]:
    spec, task = resolved.spec(), resolved.task.name
    cell, replay, folder = build_local_cell(resolved, seed=2), Replay(spec), tmp_path_factory.mktemp("pick")
    name = episode_id(0, EpisodeKind.DEMO, "a")
    header = EpisodeHeader(episode_id=name, kind=EpisodeKind.DEMO, task=task, actor="a", started_unix_s=1.0, seed=5)
    with EpisodeStore(Path(folder), spec, task) as store:
        loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=resolved.task.episode_steps))
        assert loop.run_episode(header, None, StoreSink(store, replay)).end is EndReason.SUCCESS
        return store.read(name), replay


def test_the_gripper_changes_once_and_every_tick_of_it_is_a_label(
    resolved: ResolvedRun, recorded: tuple[StoredEpisode, Replay]
) -> None:
    episode, replay = recorded
    (entry,) = resolved.spec().discrete_gripper_indices
    steps = len(episode.arrays["executed"])
    pressed = episode.arrays["executed"][:, entry]
    assert set(pressed) == {-1.0, 0.0}
    assert 2 <= (pressed == -1.0).sum() <= 12
    assert replay.frames.column("gripper_change")[:steps].sum() == 1
    assert replay.frames.column("gripper_change")[:steps, 0].argmax() == (pressed == -1.0).argmax()
    assert replay.frames.column("label")[:steps, entry].all()


def test_the_gate_of_success_holds_at_the_end_and_not_with_the_peg_on_the_table(
    resolved: ResolvedRun, recorded: tuple[StoredEpisode, Replay]
) -> None:
    proprio, spec = recorded[0].arrays["proprio"], resolved.spec()
    holds = np.ones(len(proprio), np.bool_)
    for name, condition in resolved.task.success.gate.items():
        values = proprio[:, spec.part(name)]
        for bounds, fits in ((condition.min, np.greater_equal), (condition.max, np.less_equal)):
            for column, bound in enumerate(bounds or ()):
                holds &= bound is None or fits(values[:, column], bound)
    assert holds[-1]
    assert not holds[: len(holds) * 2 // 3].any()
