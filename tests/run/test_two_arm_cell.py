"""A cell with two arms in one process, recorded by a real episode store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.run.build import build_local_cell
from robot_stack.run.control_loop import ControlLoop, EpisodeOutcome, LoopLimits, episode_id
from robot_stack.run.training_data import nearer, to_go
from robot_stack.types.command import Source
from robot_stack.types.event import Label
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step


class StoreSink:
    """A StepSink straight into a store, and into a replay."""

    def __init__(self, store: EpisodeStore, replay: Replay) -> None:
        self._store, self._replay = store, replay

    def begin(self, header: EpisodeHeader) -> None:
        self._store.begin(header)
        self._replay.begin(header)

    def push(self, step: Step) -> None:
        self._store.append(step)
        self._replay.add_step(step)

    def label(self, label: Label) -> None:
        self._store.append_label(label)


class Forward:
    """A policy that moves both arms towards each other."""

    version, age_s = 1, 0.0

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return np.array([0.2, 0, 0, 0.3, 0, 0, 0.1], np.float32)


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("two_arm_insert", ["task.sim.clearance_m=0.006", "teleop.operator.patience_s=1.5"])


def record(
    resolved: ResolvedRun, folder: Path, kind: EpisodeKind, policy: Policy | None, steps: int = 100
) -> tuple[EpisodeOutcome, StoredEpisode, Replay]:
    spec, task = resolved.spec(), resolved.task.name
    cell, replay = build_local_cell(resolved, seed=2), Replay(spec)
    name = episode_id(0, kind, "a")
    header = EpisodeHeader(episode_id=name, kind=kind, task=task, actor="a", started_unix_s=1.0, seed=5)
    with EpisodeStore(folder, spec, task) as store:
        loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=steps))
        outcome = loop.run_episode(header, policy, StoreSink(store, replay))
        return outcome, store.read(name), replay


def test_a_demonstration_with_two_hands_is_recorded_as_the_persons_for_both_arms(
    resolved: ResolvedRun, tmp_path: Path
) -> None:
    outcome, episode, replay = record(resolved, tmp_path, EpisodeKind.DEMO, None)
    assert outcome.end is EndReason.SUCCESS
    assert outcome.truth is True
    human = episode.arrays["source"] == Source.HUMAN
    assert human.mean() > 0.8
    assert (episode.arrays["sources"][human] == Source.HUMAN).all()
    moved = np.abs(episode.arrays["executed"]).max(axis=0)
    assert (moved[[0, 3, 6]] > 0.2).all()  # each arm forward, and the peg turned
    assert next(step.action.sources for step in episode.steps() if step.action)
    assert replay.frames.column("label")[: len(human)][human].all()
    left = to_go(episode.arrays["proprio"], resolved.spec())
    assert left.shape == (episode.length + 1, 7)
    np.testing.assert_allclose(left[-1], 0.0, atol=1e-6)
    assert nearer(episode.arrays["proprio"], resolved.spec())[-1] == pytest.approx(1.0)


def test_a_policy_moves_both_arms_and_a_person_takes_both(resolved: ResolvedRun, tmp_path: Path) -> None:
    outcome, episode, _ = record(resolved, tmp_path, EpisodeKind.ONLINE, Forward(), steps=60)
    arrays = episode.arrays
    alone = (arrays["sources"] == Source.POLICY).all(axis=1)
    assert alone[3:10].all()
    np.testing.assert_allclose(arrays["executed"][8], arrays["proposed"][8], atol=0.02)
    assert outcome.human_steps > 0
    assert not ((arrays["sources"] == Source.POLICY).any(axis=1) & (arrays["source"] == Source.HUMAN)).any()


def test_the_same_seeds_are_the_same_episode(resolved: ResolvedRun, tmp_path: Path) -> None:
    _, one, _ = record(resolved, tmp_path / "one", EpisodeKind.DEMO, None, steps=25)
    _, two, _ = record(resolved, tmp_path / "two", EpisodeKind.DEMO, None, steps=25)
    np.testing.assert_array_equal(one.arrays["executed"], two.arrays["executed"])
    np.testing.assert_array_equal(one.arrays["proprio"], two.arrays["proprio"])
