"""The loop records what was executed, ends for the right reason, and never bursts, blinds on or sends NaN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_stack.rollout.control_loop import BLIND_LIMIT_S, ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.types.command import Source
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.interfaces import Policy
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.spec import ProprioField
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.learner.bench import SPEC, header_of, observation_of
from tests.rollout.fake_cell import (
    GRIPPING,
    PERIOD_NS,
    FakeCell,
    FakePolicy,
    FakeScores,
    GrippingCell,
    ListSink,
    motion,
)

STEPS = 6


def _run(
    cell: FakeCell,
    policy: Policy | None = None,
    *,
    kind: EpisodeKind = EpisodeKind.ONLINE,
    scores: FakeScores | None = None,
    steps: int = STEPS,
    max_params_age_s: float | None = None,
    deterministic: bool = False,
    stages: tuple[str, ...] = (),
) -> tuple[EpisodeOutcome, ListSink]:
    sink = ListSink()
    limits = LoopLimits(episode_steps=steps, max_params_age_s=max_params_age_s, stages=stages)
    loop = ControlLoop(cell, SPEC, cell, limits)
    header = header_of(episode_id(4, kind, "a"), kind, seed=11)
    return loop.run_episode(header, policy, sink, scores=scores, deterministic=deterministic), sink


def _labels(sink: ListSink) -> list[tuple[LabelSource, Verdict]]:
    return [(label.source, label.verdict) for label in sink.labels]


def test_what_was_executed_is_recorded_beside_what_was_proposed() -> None:
    cell = FakeCell(executed=[motion(0.0), motion(0.5), motion(-0.3, Source.HUMAN, human=-0.4, clipped=True)])
    _, sink = _run(cell, FakePolicy(0.9))
    first, second = sink.steps[0].action, sink.steps[1].action
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(first.executed, [0.5, 0, 0], atol=1e-6)
    np.testing.assert_allclose(first.proposed, [0.9, 0, 0], atol=1e-6)
    assert not first.human.any()
    assert (first.source, first.clipped, first.params_version, first.params_age_s) == (Source.POLICY, False, 7, 0.25)
    np.testing.assert_allclose(second.executed, [-0.3, 0, 0], atol=1e-6)
    np.testing.assert_allclose(second.proposed, [0.9, 0, 0], atol=1e-6)
    np.testing.assert_allclose(second.human, [-0.4, 0, 0], atol=1e-6)
    assert (second.source, second.clipped) == (Source.HUMAN, True)


def test_a_gripper_that_nobody_told_stays_at_what_it_was_told_last() -> None:
    by_hand = motion(0.2, Source.HUMAN, human=0.2)
    cell = GrippingCell(executed=[motion(0.5), motion(0.5), motion(0.5, gripper=0.0), by_hand, by_hand])
    loop, sink = ControlLoop(cell, GRIPPING, cell, LoopLimits(episode_steps=4)), ListSink()
    header = header_of(episode_id(1, EpisodeKind.DEMO, "a"), EpisodeKind.DEMO)
    for _ in range(2):
        loop.run_episode(header, None, sink)
    rows = [step.action for step in sink.steps if step.action is not None]
    assert [float(row.executed[3]) for row in rows] == pytest.approx([-0.2, -1, -1, -1] + 4 * [-0.2], abs=1e-6)
    assert [float(row.human[3]) for row in rows] == pytest.approx([-0.2, -1, -1, -1] + 4 * [-0.2], abs=1e-6)


def test_an_opening_that_is_not_one_number_is_refused_before_anything_moves() -> None:
    cell, spec = FakeCell(), replace(SPEC, proprio=(*SPEC.proprio, ProprioField(name="gripper", size=2)))
    with pytest.raises(SpecError, match="size of proprio field 'gripper' is 2, must be 1"):
        ControlLoop(cell, spec, cell, LoopLimits(episode_steps=STEPS))
    assert cell.calls == []


def test_what_moved_before_the_first_frame_is_of_no_step() -> None:
    _, sink = _run(FakeCell(executed=[motion(0.8), motion(0.1)]), FakePolicy())
    for step in sink.steps[:-1]:
        assert step.action is not None
        assert step.action.executed[0] == pytest.approx(0.1)


def test_t_actions_have_t_plus_one_frames() -> None:
    outcome, sink = _run(FakeCell(), FakePolicy())
    assert outcome.steps == STEPS
    assert [step.index for step in sink.steps] == list(range(STEPS + 1))
    assert [step.action is not None for step in sink.steps] == [True] * STEPS + [False]
    assert [step.end for step in sink.steps] == [None] * STEPS + [EndReason.TIMEOUT]
    stamps = [step.observation.stamp_ns for step in sink.steps]
    assert stamps == sorted(set(stamps))
    assert outcome.duration_s == pytest.approx(STEPS * SPEC.period_s)


def test_arm_is_reset_started_and_always_told_to_hold_at_the_end() -> None:
    cell = FakeCell()
    _run(cell, FakePolicy())
    assert cell.calls == ["reset 11", "start online", "finish"]


@pytest.mark.parametrize(
    ("event", "end", "verdict"),
    [
        ("success", EndReason.SUCCESS, Verdict.SUCCESS),
        ("failure", EndReason.FAILURE, Verdict.FAILURE),
        ("discard", EndReason.OPERATOR, Verdict.DISCARD),
    ],
)
def test_persons_word_ends_the_episode_and_becomes_a_label(event: str, end: EndReason, verdict: Verdict) -> None:
    outcome, sink = _run(FakeCell(events={3: event}), FakePolicy())
    assert (outcome.end, outcome.operator, outcome.steps) == (end, verdict, 3)
    assert _labels(sink) == [(LabelSource.OPERATOR, verdict)]


def test_stop_is_a_fault() -> None:
    for cell in (FakeCell(events={2: "stop"}), FakeCell(stopped=2)):
        outcome, sink = _run(cell, FakePolicy())
        assert (outcome.end, outcome.steps) == (EndReason.FAULT, 2)
        assert sink.steps[-1].end is EndReason.FAULT


def test_fault_of_the_robot_ends_the_episode_with_its_last_frame() -> None:
    outcome, sink = _run(FakeCell(broken=3), FakePolicy())
    assert outcome.end is EndReason.FAULT
    assert outcome.ticks.hold_reasons == ["driver is silent"]
    assert [step.end for step in sink.steps] == [None, None, EndReason.FAULT]


def test_policy_that_cannot_act_on_what_it_sees_ends_the_episode_with_its_last_frame() -> None:
    class Refusing(FakePolicy):
        def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
            if len(self.deterministic) == 2:
                raise SpecError("features are of another encoder")
            return super().act(observation, deterministic=deterministic, interrupted=interrupted)

    cell = FakeCell()
    outcome, sink = _run(cell, Refusing())
    assert outcome.end is EndReason.FAULT
    assert outcome.ticks.hold_reasons == ["features are of another encoder"]
    assert [step.end for step in sink.steps] == [None, None, EndReason.FAULT]
    assert cell.calls[-1] == "finish"


def test_start_that_fails_after_it_handed_over_is_taken_back() -> None:
    class HalfStarted(FakeCell):
        def start(self, episode_id: str, kind: EpisodeKind) -> None:
            super().start(episode_id, kind)
            raise RobotError("no answer from safety")

    cell = HalfStarted()
    with pytest.raises(RobotError, match="no answer"):
        _run(cell, FakePolicy())
    assert cell.calls[-1] == "finish"
    assert cell.sent == []


def test_failed_reset_records_nothing() -> None:
    class Stuck(FakeCell):
        def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
            raise RobotError("arm is not at its start")

    sink = ListSink()
    cell = Stuck()
    loop = ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=3))
    with pytest.raises(RobotError):
        loop.run_episode(header_of("000001"), FakePolicy(), sink)
    assert (sink.headers, sink.steps, sink.labels) == ([], [], [])


def test_model_may_declare_success_and_the_claim_is_put_to_the_person() -> None:
    cell = FakeCell()
    outcome, sink = _run(cell, FakePolicy(), scores=FakeScores(after=2))
    assert (outcome.end, outcome.declared, outcome.refused, outcome.steps) == (EndReason.SUCCESS, True, False, 2)
    assert cell.calls[-2:] == ["finish", "claim success"]
    assert _labels(sink) == [(LabelSource.MODEL, Verdict.SUCCESS)]


def test_refused_success_leaves_both_words() -> None:
    outcome, sink = _run(FakeCell(answer="failure"), FakePolicy(), scores=FakeScores(after=2))
    assert (outcome.declared, outcome.refused, outcome.operator) == (True, True, Verdict.FAILURE)
    assert _labels(sink) == [(LabelSource.MODEL, Verdict.SUCCESS), (LabelSource.OPERATOR, Verdict.FAILURE)]


def test_person_who_says_nothing_is_not_waited_for_any_longer() -> None:
    cell = FakeCell()
    _run(cell, FakePolicy(), scores=FakeScores(after=2))
    assert cell.now_ns() - cell.ticks_ns[-1] < 1_000_000_000


def test_persons_word_goes_before_the_models() -> None:
    outcome, sink = _run(FakeCell(events={2: "failure"}), FakePolicy(), scores=FakeScores(after=2))
    assert (outcome.end, outcome.declared) == (EndReason.FAILURE, False)
    assert _labels(sink) == [(LabelSource.OPERATOR, Verdict.FAILURE)]


def test_nan_action_is_never_sent() -> None:
    cell = FakeCell()
    outcome, sink = _run(cell, FakePolicy(float("nan")))
    assert cell.sent == []
    assert outcome.steps == STEPS
    for step in sink.steps[:-1]:
        assert step.action is not None
        assert not step.action.proposed.any()


def test_parameters_that_are_too_old_do_not_move_the_arm() -> None:
    for age_s, sent in ((4.0, STEPS), (6.0, 0)):
        cell = FakeCell()
        _run(cell, FakePolicy(age_s=age_s), max_params_age_s=5.0)
        assert len(cell.sent) == sent


def test_policy_is_asked_once_a_tick_and_not_on_the_last_frame() -> None:
    cell, policy = FakeCell(), FakePolicy()
    _run(cell, policy, deterministic=True)
    assert policy.deterministic == [True] * STEPS
    assert len(cell.sent) == STEPS


def test_demonstration_sends_nothing() -> None:
    cell = FakeCell(executed=[motion(0.2, Source.HUMAN, human=0.2)])
    outcome, sink = _run(cell, None, kind=EpisodeKind.DEMO)
    assert cell.sent == []
    assert outcome.human_steps == STEPS
    assert all(step.action is None or step.action.params_version == 0 for step in sink.steps)


def test_blind_cell_is_a_fault_after_the_limit() -> None:
    limit = round(BLIND_LIMIT_S / SPEC.period_s)
    cell = FakeCell(blind=lambda tick: tick >= 2)
    outcome, sink = _run(cell, FakePolicy(), steps=100)
    assert (outcome.end, outcome.steps) == (EndReason.FAULT, 1)
    assert outcome.ticks.blind_ticks == cell.tick - 1 == limit + 1
    assert len(sink.steps) == 2


def test_single_blind_ticks_are_counted_and_no_fault() -> None:
    steps = 2 * round(BLIND_LIMIT_S / SPEC.period_s)
    silent = Refusal(kind=RefusalKind.BASE_SILENT, text="the base does not answer")
    outcome, sink = _run(FakeCell(blind=lambda tick: tick % 2 == 1, refusal=silent), FakePolicy(), steps=steps)
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, steps)
    assert outcome.ticks.blind_ticks == steps
    assert outcome.ticks.hold_reasons == [str(silent)]
    assert [step.index for step in sink.steps] == list(range(steps + 1))


def test_a_verdict_while_nothing_is_observed_is_of_the_next_frame_and_a_stop_is_at_once() -> None:
    outcome, sink = _run(Waiting(blind=lambda tick: 3 <= tick < 8, events={5: "success"}), FakePolicy(), steps=100)
    assert (outcome.end, outcome.operator, outcome.steps) == (EndReason.SUCCESS, Verdict.SUCCESS, 3)
    np.testing.assert_array_equal(sink.steps[-1].observation.proprio, observation_of(8).proprio)
    outcome, _ = _run(FakeCell(blind=lambda tick: tick >= 3, stopped=4), FakePolicy(), steps=100)
    assert (outcome.end, outcome.ticks.blind_ticks) == (EndReason.FAULT, 2)


class Waiting(FakeCell):
    """A cell whose events wait until they are asked for, as those of a real one do."""

    def events(self) -> tuple[str, ...]:
        said = [self._says.pop(tick) for tick in sorted(self._says) if tick <= self.tick]
        return tuple(event for event in said if event)


def test_overrun_skips_ticks_and_never_bursts() -> None:
    cell = FakeCell(late_ns={3: 7 * PERIOD_NS // 2})
    outcome, _ = _run(cell, FakePolicy(), steps=8)
    gaps = np.diff(cell.ticks_ns)
    assert gaps[2] == 9 * PERIOD_NS // 2
    assert gaps[3] == PERIOD_NS // 2  # back on the grid, half a period after the late tick
    assert (gaps[4:] == PERIOD_NS).all()
    assert max(outcome.ticks.jitter_s) == pytest.approx(0.35)


def test_evaluation_ends_at_the_truth() -> None:
    cell = FakeCell(truth=lambda tick: tick >= 4)
    outcome, _ = _run(cell, FakePolicy(), kind=EpisodeKind.EVAL)
    assert (outcome.end, outcome.steps, outcome.truth) == (EndReason.SUCCESS, 4, True)


@pytest.mark.parametrize("kind", [EpisodeKind.ONLINE, EpisodeKind.DEMO])
def test_training_never_acts_on_the_truth(kind: EpisodeKind) -> None:
    cell = FakeCell(truth=lambda tick: True)
    outcome, sink = _run(cell, None if kind is EpisodeKind.DEMO else FakePolicy(), kind=kind)
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, STEPS)
    assert cell.truth_reads == 1  # once it is over, for the audit
    assert _labels(sink) == [(LabelSource.TRUTH, Verdict.SUCCESS)]


def test_episode_that_ends_at_its_first_frame_leaves_no_step() -> None:
    outcome, sink = _run(FakeCell(events={0: "discard"}), FakePolicy())
    assert (outcome.end, outcome.steps, sink.steps) == (EndReason.OPERATOR, 0, [])


def test_episode_ids_sort_by_number() -> None:
    ids = [episode_id(number, EpisodeKind.ONLINE, "a") for number in (2, 10, 100_000)]
    assert ids == sorted(ids)
    assert episode_id(1, EpisodeKind.DEMO, "a") != episode_id(1, EpisodeKind.DEMO, "b")


def test_a_stage_that_an_operator_marks_begins_at_the_frame_that_is_shown_then() -> None:
    cell = FakeCell(events={2: "stage", 4: "stage"})
    outcome, sink = _run(cell, FakePolicy(), stages=("open", "fill", "close"))
    assert [(mark.stage, mark.frame, mark.name) for mark in sink.marks] == [(1, 2, "fill"), (2, 4, "close")]
    assert {mark.episode_id for mark in sink.marks} == {outcome.header.episode_id}
    assert {mark.source for mark in sink.marks} == {LabelSource.OPERATOR}
    assert outcome.steps == STEPS


def test_a_mark_after_the_last_stage_or_at_the_first_frame_changes_nothing_and_is_told() -> None:
    cell = FakeCell(events={0: "stage", 2: "stage", 4: "stage"})
    outcome, sink = _run(cell, FakePolicy(), stages=("open", "close"))
    assert [mark.frame for mark in sink.marks] == [2]
    first, last = outcome.refused_marks
    assert "at frame 0, must be within 1" in first
    assert "must be of one from 1 to 1: the task has open, close; mark no more" in last
    assert outcome.steps == STEPS


class LateKeys(FakeCell):
    """A cell whose keys wait until they are asked for, and one of them comes at the end of the episode."""

    def __init__(self, pressed: str, when: str, **options: Any) -> None:
        super().__init__(**options)
        self._pressed, self._when = pressed, when

    def events(self) -> tuple[str, ...]:
        return super().events() if self._when not in self.calls else self._take()

    def claim(self, verdict: Verdict) -> None:
        super().claim(verdict)
        self.calls.append("claimed")

    def _take(self) -> tuple[str, ...]:
        pressed, self._pressed = self._pressed, ""
        return (pressed,) if pressed else ()


@pytest.mark.parametrize(
    ("cell", "scores", "end", "labels"),
    [
        (LateKeys("failure", "finish", broken=3), None, EndReason.FAULT, ["operator failure"]),
        (LateKeys("failure", "finish", blind=lambda tick: tick >= 2), None, EndReason.FAULT, ["operator failure"]),
        (LateKeys("discard", "finish"), None, EndReason.TIMEOUT, ["operator discard"]),
        (LateKeys("success", "finish"), None, EndReason.TIMEOUT, ["operator success"]),
        (LateKeys("failure", "finish"), FakeScores(2), EndReason.SUCCESS, ["model success", "operator failure"]),
        (LateKeys("discard", "claimed"), FakeScores(2), EndReason.SUCCESS, ["model success", "operator discard"]),
    ],
)
def test_a_verdict_that_is_pressed_as_the_end_comes_is_recorded(
    cell: FakeCell, scores: FakeScores | None, end: EndReason, labels: list[str]
) -> None:
    outcome, sink = _run(cell, FakePolicy(), scores=scores)
    assert outcome.end is end
    assert [f"{source} {verdict}" for source, verdict in _labels(sink)] == labels


class Unfinished(FakeCell):
    """A cell that does not take in that an episode is over, and whose link says nothing from then on."""

    def finish(self) -> None:
        super().finish()
        raise RobotError("safety process has not answered end_episode within 5 s")

    def events(self) -> tuple[str, ...]:
        if "finish" in self.calls:
            raise RobotError("link to the cell failed")
        return super().events()


@pytest.mark.parametrize(
    ("events", "scores", "end", "labels"),
    [
        ({3: "success"}, None, EndReason.SUCCESS, [(LabelSource.OPERATOR, Verdict.SUCCESS)]),
        ({3: "discard"}, None, EndReason.OPERATOR, [(LabelSource.OPERATOR, Verdict.DISCARD)]),
        ({}, FakeScores(after=2), EndReason.SUCCESS, [(LabelSource.MODEL, Verdict.SUCCESS)]),
        ({}, None, EndReason.TIMEOUT, []),
    ],
)
def test_an_episode_whose_end_the_cell_does_not_take_in_keeps_its_end_and_verdict_and_is_a_fault(
    events: dict[int, str], scores: FakeScores | None, end: EndReason, labels: list[tuple[LabelSource, Verdict]]
) -> None:
    outcome, sink = _run(Unfinished(events=events), FakePolicy(), scores=scores)
    assert [step.end for step in sink.steps] == [None] * outcome.steps + [end]
    assert _labels(sink) == labels
    assert outcome.end is EndReason.FAULT
    assert outcome.ticks.hold_reasons[-1] == "safety process has not answered end_episode within 5 s"
