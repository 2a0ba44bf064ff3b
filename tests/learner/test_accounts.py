"""What a run keeps of itself: statistics, budget of updates, seeds, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import DataObject, data, integers, lists, sampled_from

from robot_stack.learner.data.replay_restorer import ReplayRestorer
from robot_stack.learner.status import StatusBoard
from robot_stack.learner.update_loop import Governor
from robot_stack.processes.memory import tree_megabytes
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.rollout.episode_runner import reset_seed
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, ResetType
from tests.examples import examples
from tests.learner.bench import SPEC, TASK, header_of, label_of, steps_of

P, H, IDLE = Source.POLICY, Source.HUMAN, Source.IDLE


def _statistics(*episodes: tuple[str, list[Source], EndReason | None]) -> EpisodeStatistics:
    statistics = EpisodeStatistics(10.0)
    for name, sources, end in episodes:
        kind = EpisodeKind.DEMO if "demo" in name else EpisodeKind.ONLINE
        statistics.begin(header_of(name, kind))
        for step in steps_of(name, sources, end):
            statistics.add(step)
    return statistics


def test_row_says_what_the_episode_came_to() -> None:
    name = "000003-online-a"
    statistics = _statistics((name, [P, H, H, IDLE, H, P, H], EndReason.SUCCESS))
    statistics.label(label_of(name, Verdict.SUCCESS, LabelSource.MODEL))
    statistics.label(label_of(name, Verdict.FAILURE, LabelSource.OPERATOR))
    statistics.label(label_of(name, Verdict.FAILURE, LabelSource.TRUTH))
    row = statistics.episodes[name].row(10.0, "v1")
    assert (row.steps, row.duration_s, row.human_steps) == (7, 0.7, 5)
    assert row.interventions == 2  # IDLE in between is the same one
    assert (row.end, row.success, row.declared, row.refused) == (EndReason.SUCCESS, False, True, True)
    assert (row.truth, row.reward_version) == (False, "v1")


def test_outcome_is_the_persons_word_then_the_models_then_the_end() -> None:
    name = "000003-online-a"
    statistics = _statistics((name, [P], EndReason.TIMEOUT))
    account = statistics.episodes[name]
    found = [account.success]
    for source, verdict in (
        (LabelSource.TRUTH, Verdict.SUCCESS),
        (LabelSource.MODEL, Verdict.SUCCESS),
        (LabelSource.OPERATOR, Verdict.FAILURE),
    ):
        statistics.label(label_of(name, verdict, source))
        found.append(account.success)
    assert found == [False, False, True, False]


def test_newest_verdict_counts_by_its_stamp_and_not_by_its_arrival() -> None:
    name = "000003-online-a"
    said = [
        replace(label_of(name, verdict), stamp_unix_s=stamp)
        for verdict, stamp in ((Verdict.SUCCESS, 1.0), (Verdict.FAILURE, 3.0), (Verdict.SUCCESS, 2.0))
    ]
    for order in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        statistics = _statistics((name, [P], EndReason.TIMEOUT))
        for number in order:
            statistics.label(said[number])
        assert statistics.episodes[name].verdicts == {LabelSource.OPERATOR: Verdict.FAILURE}


def test_step_counted_before_is_not_counted_again() -> None:
    name = "000003-online-a"
    statistics = _statistics((name, [P, H, P], EndReason.TIMEOUT))
    account = statistics.begin(header_of(name))
    for step in steps_of(name, [P, H, P], EndReason.TIMEOUT):
        statistics.add(step)
    assert (account.steps, account.human_steps, account.end) == (3, 1, EndReason.TIMEOUT)


def test_human_share_is_of_steps() -> None:
    statistics = _statistics(
        ("000000-online-a", [P] * 8, EndReason.TIMEOUT), ("000001-online-a", [H] * 2, EndReason.TIMEOUT)
    )
    assert statistics.human_share(statistics.accounts) == pytest.approx(0.2)
    assert statistics.human_share([]) == 0.0


def test_online_steps_include_the_running_episode_and_no_demo() -> None:
    statistics = _statistics(
        ("000000-demo-a", [H] * 5, EndReason.SUCCESS),
        ("000001-online-a", [P] * 3, EndReason.TIMEOUT),
        ("000002-online-a", [P] * 2, None),
    )
    assert statistics.online_steps == 5
    assert len(statistics.ended(EpisodeKind.ONLINE)) == 1
    assert len(statistics.demos()) == 1


def test_recent_success_wants_a_full_window_and_no_help() -> None:
    statistics = _statistics(
        ("000000-online-a", [P], EndReason.TIMEOUT),
        ("000001-online-a", [P], EndReason.SUCCESS),
        ("000002-online-a", [P, H], EndReason.SUCCESS),
    )
    assert np.isnan(statistics.recent_success(4))
    assert statistics.recent_success(2) == 0.5
    assert statistics.recent_success(3) == pytest.approx(1 / 3)


def _stored(name: str, sources: list[Source], end: EndReason | None) -> StoredEpisode:
    count = len(sources)
    arrays = {
        "source": np.array(sources, np.uint8),
        "params_version": np.arange(count, dtype=np.int64),
        "clipped": np.zeros(count, np.bool_),
    }
    return StoredEpisode(header=header_of(name, _kind(name)), spec=SPEC, end=end, arrays=arrays)


def _kind(name: str) -> EpisodeKind:
    return EpisodeKind.DEMO if "demo" in name else EpisodeKind.ONLINE


def _slow_recent_success(statistics: EpisodeStatistics, window: int) -> float:
    ended = [a for a in statistics.ended(EpisodeKind.ONLINE) if not a.discarded]
    online = [a for a in ended if a.params_version > statistics.counts_above][-window:]
    return float(np.mean([a.success and a.alone for a in online])) if len(online) == window else float("nan")


@pytest.mark.long
@settings(max_examples=examples(200), deadline=None)
@given(data())
def test_running_counts_are_what_counting_all_episodes_comes_to(choose: DataObject) -> None:
    statistics = EpisodeStatistics(10.0)
    names = [f"{number:06d}-{kind}-a" for number, kind in enumerate(("demo", *["online"] * 4))]
    statistics.counts_above = choose.draw(sampled_from([-1, 1]))
    for _ in range(choose.draw(integers(1, 30))):
        name, what = choose.draw(sampled_from(names)), choose.draw(sampled_from(["steps", "disk", "label", "forget"]))
        sources = choose.draw(lists(sampled_from([P, P, H, IDLE]), max_size=4))
        end = choose.draw(sampled_from([None, EndReason.SUCCESS, EndReason.TIMEOUT]))
        if what == "steps":
            statistics.begin(header_of(name, _kind(name)))
            for step in steps_of(name, sources, end):
                statistics.add(step)
        elif what == "disk":
            statistics.recount(_stored(name, sources, end))
        elif what == "label":
            statistics.label(label_of(name, choose.draw(sampled_from(list(Verdict)))))
        else:
            statistics.forget(name)
        online = [a for a in statistics.accounts if a.header.kind is EpisodeKind.ONLINE]
        assert statistics.online_steps == sum(a.steps for a in online)
        assert statistics.online_ended == len(statistics.ended(EpisodeKind.ONLINE))
        for window in (1, 2, 4):
            np.testing.assert_equal(statistics.recent_success(window), _slow_recent_success(statistics, window))


def test_what_is_asked_at_each_update_looks_at_no_more_episodes_than_it_needs() -> None:
    looked: list[str] = []

    class Looked(EpisodeHeader):
        @property
        def goes_back(self) -> bool:
            looked.append(self.episode_id)
            return False

    statistics = EpisodeStatistics(10.0)
    for number in range(50):
        name = f"{number:06d}-online-a"
        statistics.recount(_stored(name, [P], EndReason.SUCCESS))
        statistics.episodes[name].header = Looked(**asdict(header_of(name)))
    statistics.recent_success(5)
    assert looked == [f"{number:06d}-online-a" for number in range(49, 44, -1)]
    statistics.episodes = {}
    assert (statistics.online_steps, statistics.online_ended) == (50, 50), "counted as they came"


def test_a_discarded_episode_says_nothing_of_the_policy() -> None:
    ends = [EndReason.SUCCESS] * 8 + [EndReason.OPERATOR] * 2
    episodes = [(f"{number:06d}-online-a", [P], end) for number, end in enumerate(ends)]
    statistics = _statistics(*episodes)
    board = StatusBoard(statistics, cast(ReplayRestorer, SimpleNamespace(cache=None)))
    assert statistics.recent_success(8) == pytest.approx(6 / 8)
    assert board.status().counters["success_last20"] == pytest.approx(0.8)
    for name, *_ in episodes[8:]:
        statistics.label(label_of(name, Verdict.DISCARD))
    assert statistics.recent_success(8) == 1.0
    assert np.isnan(statistics.recent_success(9))
    counters = board.status().counters
    assert [counters[f"{of}_last20"] for of in ("success", "autonomous")] == [1.0, 1.0]
    assert counters["episodes"] == 10.0
    assert [account.row(10.0, "").discarded for account in statistics.accounts] == [False] * 8 + [True] * 2


def test_statistics_may_be_read_while_they_grow() -> None:
    statistics, stop, errors = EpisodeStatistics(10.0), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            try:
                assert statistics.online_steps == 0
                statistics.ended(EpisodeKind.ONLINE)
            except RuntimeError as error:
                errors.append(error)
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(3000):
            statistics.begin(header_of(f"{number:06d}-online-a"))
    finally:
        stop.set()
        reader.join(30.0)
        sys.setswitchinterval(interval)
    assert errors == []


def test_governor_holds_the_ratio() -> None:
    governor = Governor(utd=2.5, pretrain=10)
    assert governor.may_update(9, 0)
    assert not governor.may_update(10, 0)
    assert [governor.allowed(steps) for steps in (0, 1, 2, 4)] == [10, 12, 15, 20]
    assert [governor.made_per_step(governor.allowed(steps), steps) for steps in (1, 2, 4)] == [2.0, 2.5, 2.5]
    assert governor.may_update(14, 2)
    assert not governor.may_update(15, 2)


@pytest.mark.parametrize(
    ("updates", "steps", "said"),
    [
        (10 + 60, 100, "updates per online step are 0.6, must be 8 as asked"),
        (10 + 639, 100, "updates per online step are 6.4"),
        (10 + 640, 100, ""),
        (10 + 800, 100, ""),
        (0, 100, "updates per online step are 0.0"),
        (10, 99, ""),
    ],
)
def test_a_learner_that_makes_fewer_updates_than_asked_says_so(updates: int, steps: int, said: str) -> None:
    line = Governor(utd=8.0, pretrain=10).shortfall(updates, steps)
    assert line.startswith(said)
    assert bool(line) == bool(said)
    assert "\n" not in line


def test_held_out_resets_are_never_trained_on() -> None:
    seeds = {
        kind: {reset_seed(run, kind, number) for run in (0, 1, 7, 255, 256, 2**31) for number in range(3000)}
        for kind in (EpisodeKind.DEMO, EpisodeKind.ONLINE, EpisodeKind.EVAL)  # nobody resets for an earlier one
    }
    assert not seeds[EpisodeKind.EVAL] & (seeds[EpisodeKind.DEMO] | seeds[EpisodeKind.ONLINE])
    assert not seeds[EpisodeKind.DEMO] & seeds[EpisodeKind.ONLINE]


def test_evaluation_is_the_same_for_every_run_and_online_training_is_not() -> None:
    assert reset_seed(0, EpisodeKind.EVAL, 4) == reset_seed(1, EpisodeKind.EVAL, 4)
    for kind in (EpisodeKind.DEMO, EpisodeKind.ONLINE):
        assert reset_seed(0, kind, 4) != reset_seed(1, kind, 4)
        assert reset_seed(0, kind, 4) != reset_seed(0, kind, 5)


def test_memory_of_a_process_includes_its_children() -> None:
    script = "b = b'x' * 60_000_000; print('ready', flush=True); import sys; sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        alone = tree_megabytes(child.pid)
        assert 50 < alone < 500
        assert tree_megabytes(os.getpid()) > alone
    finally:
        child.communicate(timeout=10)
    assert tree_megabytes(child.pid) == 0.0


def _back(account: EpisodeAccount) -> EpisodeAccount:
    account.header = replace(account.header, reset=ResetType.CARRIED, task_id="out")
    return account


def test_demonstrations_of_one_way_alone_never_count_as_enough() -> None:
    names = [f"{number:06d}-demo-a" for number in range(6)]
    statistics = EpisodeStatistics(10.0, [TASK, "out"])
    for name in names:
        statistics.begin(header_of(name, EpisodeKind.DEMO))
        for step in steps_of(name, [H], EndReason.SUCCESS):
            statistics.add(step)
    assert [a.header.episode_id for a in statistics.demos()] == names[:1]
    _back(statistics.episodes[names[4]])
    assert [a.header.episode_id for a in statistics.demos()] == [names[0], names[1], names[4]]
    _back(statistics.episodes[names[5]])
    assert [a.header.episode_id for a in statistics.demos()] == [names[0], names[1], names[2], names[4], names[5]]


def test_a_second_try_from_where_the_first_ended_is_known_as_one() -> None:
    starts = [(TASK, ResetType.NOMINAL)] + [(task_id, ResetType.CARRIED) for task_id in ("out", "out", TASK, TASK)]
    statistics = EpisodeStatistics(10.0, [TASK, "out"])
    for number, (task_id, start) in enumerate(starts):
        account = statistics.begin(header_of(f"{number:06d}-online-a"))
        account.header = replace(account.header, reset=start, task_id=task_id)
        statistics.begin(header_of(f"{number:06d}-online-b", actor="b"))  # another cell meanwhile
    statistics.episodes = dict(reversed(statistics.episodes.items()))  # as after a restart
    told = [statistics.again(a) for a in reversed(statistics.accounts) if a.header.actor == "a"]
    assert told == [False, False, True, False, True]
