"""The whole cell in one process, recorded by a real episode store."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Label, Verdict
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell, build_operator
from robot_stack.workcell.build_safety import build_safety
from robot_stack.workcell.local_cell import LocalCell

pytestmark = pytest.mark.long

EASY = ("task.sim.clearance_m=0.008", "task.sim.start_height_m=0.03", "task.sim.start_range_m=[0.03, 0.03, 0.0]")


class StoreSink:
    """A StepSink straight into a store."""

    def __init__(self, store: EpisodeStore) -> None:
        self._store = store

    def begin(self, header: EpisodeHeader) -> None:
        self._store.begin(header)

    def push(self, step: Step) -> None:
        self._store.append(step)

    def label(self, label: Label) -> None:
        self._store.append_label(label)


class Idle:
    """A policy that has learned nothing."""

    version, age_s = 1, 0.0

    def __init__(self, actions: int) -> None:
        self._actions = actions

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return np.zeros(self._actions, np.float32)


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("peg_insert", EASY)


def _record(
    resolved: ResolvedRun, folder: Path, kind: EpisodeKind, policy: Policy | None
) -> tuple[EpisodeOutcome, StoredEpisode]:
    spec, task = resolved.spec(), resolved.task.name
    cell = build_local_cell(resolved, seed=2)
    name = episode_id(0, kind, "a")
    header = EpisodeHeader(episode_id=name, kind=kind, task=task, actor="a", started_unix_s=1.0, seed=5)
    with EpisodeStore(folder, spec, task) as store:
        loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=100))
        outcome = loop.run_episode(header, policy, StoreSink(store))
        return outcome, store.read(name)


def test_demonstration_is_recorded_as_the_persons(resolved: ResolvedRun, tmp_path: Path) -> None:
    outcome, episode = _record(resolved, tmp_path, EpisodeKind.DEMO, None)
    assert outcome.end is episode.end is EndReason.SUCCESS
    assert outcome.truth is True
    assert episode.length == outcome.steps
    assert len(episode.arrays["proprio"]) == episode.length + 1
    source = episode.arrays["source"]
    assert set(source) <= {Source.HUMAN, Source.IDLE}
    assert (source == Source.HUMAN).sum() > 10
    human = source == Source.HUMAN
    assert np.abs(episode.arrays["human"][human]).max(axis=1).min() > 0
    assert not episode.arrays["proposed"].any()
    gap = np.abs(episode.arrays["executed"] - episode.arrays["human"])[human]
    assert np.median(gap) < 0.1  # what was executed is what was asked, after filter and blending


def test_takeover_is_human_and_the_time_after_the_release_is_idle(resolved: ResolvedRun, tmp_path: Path) -> None:
    _, episode = _record(resolved, tmp_path, EpisodeKind.ONLINE, Idle(resolved.spec().action_size))
    runs = [(Source(int(s)), len(list(g))) for s, g in groupby(episode.arrays["source"])]
    kinds = [kind for kind, _ in runs]
    assert kinds[0] is Source.POLICY
    assert Source.HUMAN in kinds
    after = {kinds[i + 1] for i, kind in enumerate(kinds[:-1]) if kind is Source.HUMAN}
    assert after <= {Source.IDLE}
    idle = [length for kind, length in runs if kind is Source.IDLE]
    longest = resolved.teleop.release_s + resolved.spec().period_s
    assert max(idle, default=0) * resolved.spec().period_s <= longest + 1e-9
    human = episode.arrays["source"] == Source.HUMAN
    assert episode.arrays["human"][human].any(axis=1).all()
    assert not episode.arrays["human"][episode.arrays["source"] == Source.POLICY].any()


def test_watched_episode_has_no_human_step(resolved: ResolvedRun, tmp_path: Path) -> None:
    outcome, episode = _record(resolved, tmp_path, EpisodeKind.EVAL, Idle(resolved.spec().action_size))
    assert outcome.end is EndReason.TIMEOUT
    assert outcome.human_steps == 0
    assert Source.HUMAN not in episode.arrays["source"]


def test_proprio_starts_at_zero_pose_and_follows_the_arm(resolved: ResolvedRun) -> None:
    cell = build_local_cell(resolved, seed=0)
    cell.reset(3)
    cell.start("000000-online-a", EpisodeKind.ONLINE)
    first = cell.observe()
    assert first is not None
    np.testing.assert_allclose(first.proprio[:6], 0.0, atol=2e-3)
    action = np.zeros(resolved.spec().action_size, np.float32)
    action[2] = -0.5  # up: z of the tool points down
    for _ in range(5):
        cell.send(action)
        cell.sleep_until_ns(cell.now_ns() + 100_000_000)
    later = cell.observe()
    assert later is not None
    assert -0.5 * 5 * 0.011 < later.proprio[2] < -0.01
    assert later.stamp_ns - first.stamp_ns == 500_000_000


class Shaking(Idle):
    """A policy during whose third action the peg is torn away by a force that no simulation can follow."""

    def __init__(self, cell: LocalCell, actions: int) -> None:
        super().__init__(actions)
        self._cell, self._acts = cell, 0

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        self._acts += 1
        if self._acts == 3:
            self._cell.world.data.qfrc_applied[0] = 1e20
        return super().act(observation, deterministic=deterministic)


def test_a_scene_that_blows_up_ends_its_episode_as_a_fault_and_the_next_one_runs(
    resolved: ResolvedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    spec, task = resolved.spec(), resolved.task.name
    cell = build_local_cell(resolved, seed=2)
    loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=20))
    policies = [Shaking(cell, spec.action_size), Idle(spec.action_size)]
    with EpisodeStore(tmp_path / "store", spec, task) as store:
        outcomes = []
        for number, policy in enumerate(policies):
            name = episode_id(number, EpisodeKind.EVAL, "a")
            header = EpisodeHeader(
                episode_id=name, kind=EpisodeKind.EVAL, task=task, actor="a", started_unix_s=1.0, seed=5
            )
            outcomes.append(loop.run_episode(header, policy, StoreSink(store)))
        torn, whole = (store.read(outcome.header.episode_id) for outcome in outcomes)
    assert [outcome.end for outcome in outcomes] == [EndReason.FAULT, EndReason.TIMEOUT]
    assert [outcome.truth for outcome in outcomes] == [None, False], "of the scene that has jumped nothing is true"
    assert "scene has blown up and jumped back" in outcomes[0].ticks.hold_reasons[0]
    assert (torn.length, whole.length) == (2, 20)
    moved = np.abs(np.diff(torn.arrays["proprio"], axis=0)).max(axis=0)
    assert (moved < 0.02).all(), "where the scene has jumped to was recorded"


def test_a_scene_that_has_blown_up_lets_time_pass_and_no_more_until_it_is_reset(
    resolved: ResolvedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    cell = build_local_cell(resolved, seed=0)
    cell.reset(3)
    cell.start("000000-eval-a", EpisodeKind.EVAL)
    assert cell.truth() is False
    cell.claim(Verdict.SUCCESS)
    cell.world.data.qfrc_applied[0] = 1e20
    until_ns = cell.now_ns() + 800_000_000
    cell.sleep_until_ns(until_ns)
    assert cell.now_ns() == until_ns
    assert cell.truth() is None
    assert not cell.events(), "an operator who looks at what has jumped says nothing"
    for ask in (cell.observe, partial(cell.reset, 3, scene=False)):
        with pytest.raises(RobotError, match="has blown up and jumped back"):
            ask()
    cell.finish()
    cell.reset(3)
    assert cell.truth() is False
    assert cell.observe() is not None


def test_silent_policy_is_held(resolved: ResolvedRun) -> None:
    cell = build_local_cell(resolved, seed=0)
    cell.reset(3)
    cell.start("000000-eval-a", EpisodeKind.EVAL)
    cell.send(np.zeros(resolved.spec().action_size, np.float32))
    cell.sleep_until_ns(cell.now_ns() + 50_000_000)
    assert cell.mode() is Mode.POLICY
    cell.sleep_until_ns(cell.now_ns() + 1_000_000_000)
    assert cell.mode() is Mode.HOLD
    cell.reset(3)
    assert cell.mode() is Mode.READY


def test_same_seeds_same_episode(resolved: ResolvedRun, tmp_path: Path) -> None:
    _, one = _record(resolved, tmp_path / "one", EpisodeKind.DEMO, None)
    _, two = _record(resolved, tmp_path / "two", EpisodeKind.DEMO, None)
    np.testing.assert_array_equal(one.arrays["executed"], two.arrays["executed"])
    np.testing.assert_array_equal(one.arrays["proprio"], two.arrays["proprio"])


@pytest.mark.parametrize("age_s", [0.04, 0.1, 0.11, 0.13, 0.2])
def test_a_delayed_observation_is_what_the_cell_looked_like_so_long_ago(resolved: ResolvedRun, age_s: float) -> None:
    late, fresh = build_local_cell(resolved, seed=2, observation_age_s=age_s), build_local_cell(resolved, seed=2)
    for cell in (late, fresh):
        cell.reset(5)
        cell.start("000000-demo-a", EpisodeKind.DEMO)  # the scripted operator moves the arm
    first, same = late.observe(), fresh.observe()
    assert first is not None
    assert same is not None
    assert first.age_s == 0.0  # nothing has moved before
    np.testing.assert_array_equal(first.proprio, same.proprio)
    start_ns, period_ns, age_ns = late.now_ns(), 100_000_000, round(1e9 * age_s)
    for tick in range(1, 12):
        late.sleep_until_ns(start_ns + tick * period_ns)
        seen = late.observe()
        assert seen is not None
        assert seen.stamp_ns == late.now_ns() == start_ns + tick * period_ns
        if tick * period_ns < age_ns:
            continue
        fresh.sleep_until_ns(late.now_ns() - age_ns)
        wanted = fresh.observe()
        assert wanted is not None
        assert seen.age_s == pytest.approx(age_s)
        np.testing.assert_array_equal(seen.proprio, wanted.proprio)
        for camera, image in wanted.images.items():
            np.testing.assert_array_equal(seen.images[camera], image)
        moved = np.abs(seen.proprio - first.proprio).max()
    assert moved > 1e-3


def test_a_cell_in_this_process_waits_for_no_operators_page() -> None:
    required = load_run("peg_insert", ["run.operator_required=true", "task.episode_steps=20"])
    cell = build_local_cell(required, seed=2)
    cell.reset(3)
    cell.start("000000-eval-a", EpisodeKind.EVAL)
    first = cell.observe()
    for _ in range(5):
        cell.send(np.array([1.0, 0.0, 0.0, 0.0], np.float32))
        cell.sleep_until_ns(cell.now_ns() + 100_000_000)
    last = cell.observe()
    assert first is not None
    assert last is not None
    assert cell.mode() is Mode.POLICY
    assert np.abs(last.proprio - first.proprio).max() > 0.01


def test_a_cell_whose_arms_do_not_get_ready_says_so(resolved: ResolvedRun) -> None:
    cell = build_local_cell(resolved, seed=2)
    required = load_run("peg_insert", ["run.operator_required=true"])
    cell.anew(build_safety(required), build_operator(required, 2))
    with pytest.raises(RobotError, match=r"cell is DISARMED after its reset \(.*operator.*\), must be ready"):
        cell.reset(3)
