"""A cell with two arms in one process, recorded by a real episode store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.data.training_data import distance_progress, to_go
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.teleop.selection import ArmSelector
from robot_stack.types.command import Mode, Source
from robot_stack.types.event import Label
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.robot import TeleopSample
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell
from sim.hands import Seen
from sim.operator import Role

pytestmark = pytest.mark.long


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


class OneHand:
    """An operator with one device: drives the left arm from 1 to 2 s, changes, drives the right arm from 3 to 4 s."""

    def __init__(self) -> None:
        self._selector = ArmSelector(["left", "right"])
        self._begun_ns: int | None = None

    def begin(self, role: Role, task_id: str | None = None) -> None:
        self._begun_ns = None

    def see(self, seen: Seen) -> None:
        pass

    def sample(self, now_ns: int, mode: Mode) -> dict[str, TeleopSample]:
        if self._begun_ns is None and mode in (Mode.POLICY, Mode.HUMAN):
            self._begun_ns = now_ns
        since_s = -1.0 if self._begun_ns is None else (now_ns - self._begun_ns) / 1e9
        held = 1.0 <= since_s < 2.0 or 3.0 <= since_s < 4.0
        events = ("next_arm",) if 2.5 <= since_s < 2.52 else ()
        twist = np.array([0.0, 0.3, 0, 0, 0, 0]) * held
        return self._selector.route(TeleopSample(stamp_ns=now_ns, twist=twist, deadman=held, events=events))


def record(
    resolved: ResolvedRun,
    folder: Path,
    kind: EpisodeKind,
    policy: Policy | None,
    steps: int = 100,
    operator: OneHand | None = None,
) -> tuple[EpisodeOutcome, StoredEpisode, Replay]:
    spec, task = resolved.spec(), resolved.task.name
    cell, replay = build_local_cell(resolved, seed=2), Replay(spec)
    if operator is not None:
        cell._operator = operator  # type: ignore[assignment]
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
    assert distance_progress(episode.arrays["proprio"], resolved.spec())[-1] == pytest.approx(1.0)


def test_a_policy_moves_both_arms_and_a_person_takes_both(resolved: ResolvedRun, tmp_path: Path) -> None:
    outcome, episode, _ = record(resolved, tmp_path, EpisodeKind.ONLINE, Forward(), steps=60)
    arrays = episode.arrays
    alone = (arrays["sources"] == Source.POLICY).all(axis=1)
    assert alone[3:10].all()
    np.testing.assert_allclose(arrays["executed"][8], arrays["proposed"][8], atol=0.02)
    assert outcome.human_steps > 0
    assert not ((arrays["sources"] == Source.POLICY).any(axis=1) & (arrays["source"] == Source.HUMAN)).any()


def test_with_one_device_a_person_corrects_one_arm_and_then_the_other(resolved: ResolvedRun, tmp_path: Path) -> None:
    _, episode, replay = record(resolved, tmp_path, EpisodeKind.ONLINE, Forward(), steps=55, operator=OneHand())
    arrays, labels = episode.arrays, replay.frames.column("label")
    left = (arrays["sources"] == [Source.HUMAN, Source.HOLD]).all(axis=1)
    right = (arrays["sources"] == [Source.HOLD, Source.HUMAN]).all(axis=1)
    assert 8 <= left.sum() <= 12
    assert 8 <= right.sum() <= 12
    assert np.flatnonzero(left).max() < np.flatnonzero(right).min()
    for driven, mine, other in ((left, slice(0, 3), slice(3, 7)), (right, slice(3, 7), slice(0, 3))):
        steps = np.flatnonzero(driven)
        settled = steps[4:-1]  # between the blend of the handover and the release
        assert (np.abs(arrays["executed"][settled][:, mine]).max(axis=1) > 0.2).all()
        np.testing.assert_allclose(arrays["executed"][settled][:, other], 0.0, atol=1e-6)
        assert not labels[steps[:2]][:, mine].any()  # the handover blends
        assert labels[steps[2:]][:, mine].all()
        assert not labels[steps][:, other].any()
    between = (arrays["sources"] == Source.POLICY).all(axis=1)
    assert between[np.flatnonzero(left).max() : np.flatnonzero(right).min()].sum() >= 4  # it had its turn in between


def test_the_same_seeds_are_the_same_episode(resolved: ResolvedRun, tmp_path: Path) -> None:
    _, one, _ = record(resolved, tmp_path / "one", EpisodeKind.DEMO, None, steps=25)
    _, two, _ = record(resolved, tmp_path / "two", EpisodeKind.DEMO, None, steps=25)
    np.testing.assert_array_equal(one.arrays["executed"], two.arrays["executed"])
    np.testing.assert_array_equal(one.arrays["proprio"], two.arrays["proprio"])
