"""A success model judges episodes where no learner is: it ends them, its verdict can be refused, and it is counted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence

import pytest

from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.deploy import succeeded
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.rollout.evaluate import Evaluation
from robot_stack.rollout.judged import BackgroundJudge, JudgedSink, Judgement
from robot_stack.types.errors import RewardError
from robot_stack.types.interfaces import Judge
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EndReason, EpisodeKind, Step
from tests.learner.bench import SPEC, header_of, observation_of
from tests.rollout.fake_cell import PERIOD_NS, FakeCell, FakePolicy, ListSink

STEPS = 12
OVER = EndReason.TIMEOUT


class SaysSo:
    """A judge that declares success once it has seen a number of steps of an episode."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.seen: list[tuple[str, int]] = []
        self.begun: list[str] = []

    def begin(self, episode_id: str) -> None:
        self.begun.append(episode_id)
        self.seen = []

    def see(self, step: Step) -> None:
        self.seen.append((step.episode_id, step.index))

    def newest(self, episode_id: str) -> LiveScore | None:
        if not self.seen or self.seen[-1][0] != episode_id:
            return None
        index = self.seen[-1][1]
        declared = len(self.seen) >= self.after
        return LiveScore(episode_id=episode_id, index=index, progress=0.5, success=0.5, declared=declared, version="m")


def run(cell: FakeCell, judge: Judge, kind: EpisodeKind = EpisodeKind.EVAL) -> tuple[EpisodeOutcome, Judgement]:
    sink = JudgedSink(ListSink(), judge, cell.truth)
    loop = ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=STEPS))
    told = loop.run_episode(header_of(episode_id(1, kind, "a"), kind), FakePolicy(), sink, scores=judge)
    return told, sink.judgement(told)


def test_its_word_ends_an_episode_and_the_simulators_does_not() -> None:
    told, made = run(FakeCell(truth=lambda tick: tick >= 3), SaysSo(after=7))
    assert (told.end, told.declared, told.steps) == (EndReason.SUCCESS, True, 7)
    assert succeeded(told)
    assert made == Judgement(declared=True, done_at=3, false=False, delay_s=pytest.approx(0.4))


def test_without_a_judge_the_simulators_word_ends_an_evaluation_as_before() -> None:
    cell = FakeCell(truth=lambda tick: tick >= 3)
    loop = ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=STEPS))
    header = header_of(episode_id(1, EpisodeKind.EVAL, "a"), EpisodeKind.EVAL)
    assert loop.run_episode(header, FakePolicy(), ListSink()).steps == 3


def test_a_false_word_is_counted_as_one_and_no_success() -> None:
    told, made = run(FakeCell(truth=lambda tick: False), SaysSo(after=2))
    assert told.declared
    assert not succeeded(told)
    assert made == Judgement(declared=True, done_at=None, false=True, delay_s=None)


def test_what_it_missed_is_counted_though_the_task_was_done() -> None:
    told, made = run(FakeCell(truth=lambda tick: tick >= 5), SaysSo(after=100))
    assert told.end is EndReason.TIMEOUT
    assert made == Judgement(declared=False, done_at=5, false=False, delay_s=None)


def test_on_a_real_cell_nobody_knows_better_and_the_operator_may_refuse() -> None:
    told, made = run(FakeCell(), SaysSo(after=4))
    assert succeeded(told)
    assert made == Judgement(declared=True, done_at=None, false=None, delay_s=None)
    told, _ = run(FakeCell(answer="failure"), SaysSo(after=4))
    assert told.refused
    assert not succeeded(told)


def test_what_comes_true_while_it_waits_for_the_operator_is_no_success() -> None:
    cell = FakeCell()
    begun_ns = cell.now_ns()
    cell.truth = lambda: cell.now_ns() > begun_ns + 5 * PERIOD_NS  # type: ignore[method-assign]
    told, made = run(cell, SaysSo(after=4))
    assert (told.steps, told.truth) == (4, False)
    assert made == Judgement(declared=True, done_at=None, false=True, delay_s=None)


def judgements() -> list[Judgement]:
    right = [Judgement(declared=True, done_at=4, false=False, delay_s=0.3 + 0.1 * n) for n in range(3)]
    return [
        *right,
        Judgement(declared=True, done_at=None, false=True, delay_s=None),
        Judgement(declared=False, done_at=7, false=False, delay_s=None),
        Judgement(declared=False, done_at=None, false=False, delay_s=None),
    ]


def summary_of(judged: Sequence[Judgement]) -> dict:
    count = len(judged)
    told = Evaluation(successes=[True] * count, durations_s=[1.0] * count, ages_s=[], judged=list(judged)).summary()
    return json.loads(json.dumps(told))


def test_the_summary_tells_how_often_it_spoke_was_wrong_late_and_silent() -> None:
    assert summary_of(judgements())["success_model"] == {
        "declared": 4,
        "false_done": 1,
        "false_done_wilson95": [0.0301, 0.5635],
        "done": 4,
        "missed": 1,
        "delay_s": 0.4,
    }
    nobody_knows = summary_of([Judgement(declared=True, done_at=None, false=None, delay_s=None)])["success_model"]
    assert nobody_knows == {
        "declared": 1, "false_done": None, "false_done_wilson95": None, "done": None, "missed": None, "delay_s": None
    }  # fmt: skip
    assert "success_model" not in summary_of([])


class Slow(SaysSo):
    """A judge that is still looking until it is let go."""

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.free = threading.Event()

    def see(self, step: Step) -> None:
        assert self.free.wait(30.0)
        super().see(step)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("nothing came in 30 s")


def test_the_loop_does_not_wait_for_a_judge_in_the_background() -> None:
    slow = Slow(after=1)
    with BackgroundJudge(slow) as judge:
        told, _ = run(FakeCell(), judge)
        assert told.end is EndReason.TIMEOUT
        assert slow.seen == []
        slow.free.set()
        wait_for(lambda: len(slow.seen) == STEPS + 1)
        newest = judge.newest(told.header.episode_id)
        assert newest is not None
        assert newest.declared
    assert slow.begun == [told.header.episode_id]


def test_what_was_not_looked_at_is_dropped_when_the_next_episode_begins_and_at_the_end() -> None:
    slow = Slow(after=1)
    with BackgroundJudge(slow) as judge:
        run(FakeCell(), judge)
        judge.begin("next")
        slow.free.set()
        wait_for(lambda: "next" in slow.begun)
        assert slow.seen == []
        slow.free.clear()
        for index in range(4):
            judge.see(Step(episode_id="next", index=index, observation=observation_of(index), action=None, end=OVER))
        slow.free.set()
    assert len(slow.seen) <= 4


def test_a_word_on_an_episode_that_is_over_ends_none_that_came_after() -> None:
    slow = Slow(after=1)
    slow.free.set()
    with BackgroundJudge(slow) as judge:
        run(FakeCell(), judge)
        wait_for(lambda: len(slow.seen) > 0)
        assert judge.newest(episode_id(2, EpisodeKind.EVAL, "a")) is None


def test_a_judge_that_breaks_ends_the_deployment_instead_of_judging_no_more() -> None:
    class Broken(SaysSo):
        def see(self, step: Step) -> None:
            raise ValueError("no such feature")

    with BackgroundJudge(Broken(1)) as judge:
        judge.see(Step(episode_id="e", index=0, observation=observation_of(0), action=None, end=EndReason.TIMEOUT))
        with pytest.raises(RewardError, match=r"the success model failed \(ValueError\('no such feature'\)\)"):
            wait_for(lambda: judge.newest("e") is not None)
