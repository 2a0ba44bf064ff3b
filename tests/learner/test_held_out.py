"""Each online episode is asked of a critic that no update has shown it, and training is the same without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.tiny_run import header_of, write_run
from policies.learner import TensorBatch
from policies.settings import Sampling
from robot_stack.learner import held_out
from robot_stack.learner.data.batches import HostBatches
from robot_stack.learner.held_out import HeldOutEpisodes
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import MetricsLog, read_rows
from robot_stack.runs.rows import CriticRow, of_kind
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, Step
from tests.learner import bench
from tests.learner.driven import Driven
from tests.replay.recorded import small_spec

GAMMA = 0.9
UPDATES = 4000
"""Of the run so far, most of them by a learner before."""
H, P, IDLE = Source.HUMAN, Source.POLICY, Source.IDLE


class Additive:
    """A critic whose Q is the sum of an action's entries, and whose targets are .25 above it; counts its rows."""

    def __init__(self, *, grippers: bool = False) -> None:
        self.rows = 0
        self.values_discrete_grippers = grippers

    def values(self, batch: TensorBatch, actions: Sequence[Tensor]) -> list[Tensor]:
        self.rows = len(batch.reward)
        return [action.sum(dim=1) for action in actions]

    def targets(self, batch: TensorBatch, rng: torch.Generator) -> Tensor:
        return batch.action.sum(dim=1) + 0.25


class Learner:
    """Has a critic, and counts how often it was copied."""

    def __init__(self, *, grippers: bool = False) -> None:
        self.updates, self.copies, self.critic = 7, 0, Additive(grippers=grippers)

    def critic_snapshot(self) -> Additive:
        self.copies += 1
        return self.critic


class Asked:
    """A replay of one spec and the questions about its episodes."""

    def __init__(self, folder: Path, learner: Any, spec: Spec = bench.SPEC, **sampling: int) -> None:
        self.spec = spec
        self.replay = Replay(spec)
        self.statistics = EpisodeStatistics(spec.rate_hz)
        self.path = folder / "metrics.jsonl"
        self.metrics = MetricsLog(self.path)
        self.questions = HeldOutEpisodes(
            learner, batches=HostBatches(self.replay), replay=self.replay, statistics=self.statistics,
            metrics=self.metrics, sampling=Sampling(gamma=GAMMA, **sampling), grippers=spec.gripper_indices,
            earlier=[], seed=0,
        )  # fmt: skip

    def play(
        self,
        name: str,
        sources: Sequence[Source],
        *,
        executed: float = 0.5,
        proposed: float = 0.25,
        end: EndReason = EndReason.SUCCESS,
        said: Verdict | None = None,
        pressed: bool = False,
    ) -> None:
        """An episode, between whose beginning and first step an update is made."""
        header = replace(bench.header_of(name), task=bench.TASK)
        self.statistics.begin(header)
        self.replay.begin(header)
        self.questions.before_update(GAMMA, UPDATES)
        ones = np.ones(self.spec.action_size, np.float32)
        for t in range(len(sources) + 1):
            last = t == len(sources)
            action = None if last else ActionRow(
                executed=executed * ones, proposed=proposed * ones, human=executed * ones, source=sources[t],
                gripper_pressed=pressed, params_version=1,
            )  # fmt: skip
            images = {c.name: np.zeros(c.shape, np.uint8) for c in self.spec.cameras}
            seen = replace(bench.observation_of(t), images=images)
            seen = replace(seen, proprio=np.zeros(self.spec.proprio_size, np.float32))
            step = Step(episode_id=name, index=t, observation=seen, action=action, end=end if last else None)
            self.replay.add_step(step)
            self.statistics.add(step)
        if said is not None:
            label = Label(episode_id=name, verdict=said, source=LabelSource.OPERATOR, stamp_unix_s=1.0)
            self.replay.add_label(label)
            self.statistics.label(label)

    def rows(self) -> list[CriticRow]:
        self.questions.finish()
        return of_kind(read_rows(self.path).rows, CriticRow)


NAME = "000005-online-a"
ENTRIES = bench.SPEC.action_size


def test_a_persons_action_is_compared_with_the_proposal_once_the_handover_is_over(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    asked.play(NAME, [P, P, H, H, H, H, H, IDLE, P])  # a handover of .2 s at 10 Hz: two steps
    (row,) = asked.rows()
    assert (row.corrections, row.corrections_preferred) == (3, 3)
    worse = Asked(tmp_path / "worse", Learner())
    worse.play(NAME, [P, P, H, H, H, H, H, IDLE, P], proposed=0.75)
    assert [(r.corrections, r.corrections_preferred) for r in worse.rows()] == [(3, 0)]


def test_where_no_policy_proposed_anything_there_is_nothing_to_compare(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    asked.play(NAME, [H] * 6, proposed=0.0)
    assert [row.corrections for row in asked.rows()] == [0]


@pytest.mark.parametrize(("valued", "corrections"), [(False, 0), (True, 2)])
def test_a_gripper_alone_is_a_correction_where_the_critic_values_it(
    valued: bool, corrections: int, tmp_path: Path
) -> None:
    spec = small_spec()
    assert spec.gripper_indices
    asked = Asked(tmp_path, Learner(grippers=valued), spec)
    asked.play(NAME, [P, H, H, P], pressed=True)  # all in the handover: of the motions nothing counts
    (row,) = asked.rows()
    assert row.corrections == corrections


@pytest.mark.parametrize(
    ("sources", "end", "own"),
    [
        ([P] * 6, EndReason.SUCCESS, 6),
        ([P] * 6, EndReason.FAILURE, 0),
        ([P] * 6, EndReason.TIMEOUT, 0),
        ([P, P, H, P, P, P], EndReason.SUCCESS, 0),
    ],
)
def test_own_steps_are_those_of_episodes_that_the_policy_ended_well_alone(
    sources: list[Source], end: EndReason, own: int, tmp_path: Path
) -> None:
    asked = Asked(tmp_path, Learner())
    asked.play(NAME, sources, end=end, executed=0.99)
    (row,) = asked.rows()
    assert (row.own_steps, row.own_preferred) == (own, own)  # no uniform action has a sum above 3 * .99
    assert row.steps == 6


def test_q_is_set_beside_the_return_that_followed_where_that_is_known(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    asked.play(NAME, [P] * 4)
    asked.play("000006-online-a", [P] * 4, end=EndReason.TIMEOUT)
    ended, cut = asked.rows()
    assert ended.td_error == cut.td_error == pytest.approx(0.25)
    assert (ended.returns, ended.q_mean) == (4, pytest.approx(0.5 * ENTRIES))
    assert ended.return_mean == pytest.approx(np.mean([GAMMA**k for k in range(4)]), abs=1e-6)
    assert (cut.returns, cut.q_mean, cut.return_mean) == (0, None, None)
    assert ended.updates == UPDATES


def test_a_discarded_episode_and_a_demonstration_are_not_asked_about(tmp_path: Path) -> None:
    learner = Learner()
    asked = Asked(tmp_path, learner)
    header = replace(header_of(write_run(tmp_path / "run"), "000000-demo-a"), task=bench.TASK)
    asked.statistics.begin(header)
    asked.questions.before_update(GAMMA, 0)
    assert learner.copies == 0
    asked.play(NAME, [P] * 4, end=EndReason.OPERATOR, said=Verdict.DISCARD)
    assert asked.rows() == []
    assert learner.copies == 1


def test_a_learner_without_a_critic_is_not_asked(tmp_path: Path) -> None:
    asked = Asked(tmp_path, object())
    asked.play(NAME, [P] * 4)
    assert asked.rows() == []


def test_questions_wait_for_verdicts_and_then_come_one_at_a_time(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    counts = []
    for number in range(5):
        asked.play(f"{number:06d}-online-a", [P] * 3)
        asked.questions.ask()
        counts.append(len(of_kind(read_rows(asked.path).rows, CriticRow)))
    assert counts == [0, 0, 1, 2, 3]
    assert [row.episode_id[:6] for row in asked.rows()] == [f"{number:06d}" for number in range(5)]


def test_an_episode_that_begins_as_another_is_taken_back_is_asked_about_too(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    taken_back = replace(bench.header_of("000004-online-a"), task=bench.TASK)
    asked.statistics.begin(taken_back)
    asked.questions.before_update(GAMMA, 0)
    asked.statistics.forget(taken_back.episode_id)
    asked.play(NAME, [P] * 3)
    assert [row.episode_id for row in asked.rows()] == [NAME]


def test_rows_and_copies_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MOST_ROWS", 5)
    monkeypatch.setattr(held_out, "MOST_COPIES", 2)
    learner = Learner()
    asked = Asked(tmp_path, learner)
    asked.play(NAME, [P] * 40)
    (row,) = asked.rows()
    assert row.steps == learner.critic.rows == 5
    for number in range(6, 10):
        header = replace(bench.header_of(f"{number:06d}-online-a"), task=bench.TASK)
        asked.statistics.begin(header)
        asked.questions.before_update(GAMMA, 0)
    assert list(asked.questions._copies) == ["000008-online-a", "000009-online-a"]


def test_an_episode_whose_copy_gave_way_while_it_waited_is_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_out, "MOST_COPIES", 2)
    asked = Asked(tmp_path, Learner())
    for number in range(5):
        asked.play(f"{number:06d}-online-a", [P] * 3)
    assert [row.episode_id[:6] for row in asked.rows()] == ["000003", "000004"]


def test_only_whole_chunks_are_asked_about(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner(), n_step=3, chunk=3)
    asked.play(NAME, [P] * 7)
    (row,) = asked.rows()
    assert row.steps == 7  # those past the end of an episode that is over are whole too
    assert row.q_mean == pytest.approx(0.5 * ENTRIES * 3)


# the update loop ---------------------------------------------------------------------------------------------------

EPISODES = tuple(f"{number:06d}-online-a" for number in range(2, 7))


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    made = Driven(tmp_path / "run", write_run(tmp_path / "run"))
    yield made
    made.close()


def play_all(driven: Driven) -> None:
    """Five episodes, of which steps arrive while updates are made."""
    driven.demonstrate()
    driven.start()
    first = driven.loop.updates
    stream: dict[int, Any] = {}
    for number, name in enumerate(EPISODES):

        def begin(rig: Driven, name: str = name) -> None:
            rig.begin(name)
            rig.send(name, stop=6)

        def end(rig: Driven, name: str = name) -> None:
            rig.send(name, start=6, end="success")

        stream |= {first + 10 * number: begin, first + 10 * number + 5: end}
    driven.run(first + 60, stream)


@pytest.mark.long
def test_no_update_behind_the_copy_that_is_asked_has_seen_a_step_of_its_episode(driven: Driven) -> None:
    asked_at: dict[int, int] = {}
    driven_snapshot = held_out.HeldOutEpisodes.before_update

    def noted(self: HeldOutEpisodes, gamma: float, updates: int) -> None:
        known = set(self._copies)
        driven_snapshot(self, gamma, updates)
        for name in set(self._copies) - known:
            asked_at[EPISODES.index(name)] = len(driven.told.batches) - 1  # the newest batch is not trained on yet

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out.HeldOutEpisodes, "before_update", noted)
        play_all(driven)
    assert sorted(asked_at) == [0, 1, 2, 3, 4]
    for number, made in asked_at.items():
        seen = {name for batch in driven.told.batches[:made] for name, _ in batch}
        assert EPISODES[number] not in seen
        assert EPISODES[number] in {name for batch in driven.told.batches[made:] for name, _ in batch}
    driven.loop.updater.held_out.finish()
    rows = of_kind(read_rows(driven.folder / "metrics.jsonl").rows, CriticRow)
    assert [row.episode_id for row in rows] == list(EPISODES)
    assert all(row.steps == 12 and row.td_error is not None and row.ask_ms is not None for row in rows)
    assert rows[0].updates < rows[-1].updates


@pytest.mark.long
def test_training_is_the_same_to_the_bit_with_and_without_questions(tmp_path: Path) -> None:
    losses = []
    for number, silent in enumerate((False, True)):
        folder = tmp_path / str(number) / "run"
        rig = Driven(folder, write_run(folder))
        with pytest.MonkeyPatch.context() as patch:
            if silent:
                patch.setattr(held_out.HeldOutEpisodes, "before_update", lambda self, gamma, updates: None)
            play_all(rig)
        losses.append(rig.told.losses)
        counters = rig.training.status().counters
        assert ("q_own_share" in counters) is False  # an operator helped in all of them
        assert ("q_correction_share" in counters) is not silent
        rig.close()
    assert losses[0] == losses[1]


def test_a_resumed_learner_goes_on_with_the_figures_of_the_one_before(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    asked.play(NAME, [P] * 4, executed=0.99)
    asked.rows()
    earlier = of_kind(read_rows(asked.path).rows, CriticRow)
    resumed = HeldOutEpisodes(
        Learner(),  # type: ignore[arg-type]
        batches=HostBatches(asked.replay), replay=asked.replay, statistics=asked.statistics, metrics=asked.metrics,
        sampling=Sampling(gamma=GAMMA),
        grippers=(), earlier=earlier, seed=0,
    )  # fmt: skip
    assert resumed.figures.own == asked.questions.figures.own
    assert (resumed.figures.own.share, resumed.figures.own.asked, resumed.figures.episodes) == (1.0, 4, 1)
    resumed.before_update(GAMMA, 0)
    resumed.finish()
    assert len(of_kind(read_rows(asked.path).rows, CriticRow)) == 1  # what it had been trained on is not asked again


@pytest.mark.long
def test_the_figures_can_be_read_while_rows_are_added(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Learner())
    failures: list[BaseException] = []
    over = threading.Event()

    def read() -> None:
        try:
            while not over.is_set():
                assert asked.questions.figures.episodes <= 50
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        asked.play(f"{number:06d}-online-a", [P])
        asked.questions.ask()
    over.set()
    reader.join()
    assert not failures
