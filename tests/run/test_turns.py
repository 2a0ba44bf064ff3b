"""A task and its way back in turn: who begins where, and when the scene is put back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.config.task import BackwardConfig, NOfM, SuccessConfig
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.task_schedule import TaskSchedule, run_in_turn
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason, ResetType
from tests.run.outcomes import outcome

NOMINAL, CARRIED, BACK = ResetType.NOMINAL, ResetType.CARRIED, ResetType.BACK


def in_turn(every: int = 25, tries: int = 3) -> TaskSchedule:
    success = SuccessConfig(threshold=0.5, n_of_m=NOfM(n=1, m=1))
    return TaskSchedule(BackwardConfig(text="take it out", success=success, every=every, tries=tries))


def starts(turns: TaskSchedule, went: list[bool]) -> list[ResetType]:
    found = []
    for success in went:
        found.append(turns.next())
        turns.ended(found[-1], success=success)
    return [*found, turns.next()]


def test_a_task_without_a_way_back_starts_anew_each_time() -> None:
    assert starts(TaskSchedule(None), [True, False, True]) == [NOMINAL] * 4


def test_where_one_ends_the_other_begins() -> None:
    assert starts(in_turn(), [True, True, True, True]) == [NOMINAL, BACK, CARRIED, BACK, CARRIED]


def test_what_failed_is_tried_again_from_where_it_ended() -> None:
    assert starts(in_turn(), [False, True, False, True]) == [NOMINAL, CARRIED, BACK, BACK, CARRIED]


def test_after_so_many_failures_in_a_row_the_scene_is_put_back_and_counting_begins_anew() -> None:
    went = [True, False, False, False, False, False, False, True]
    wanted = [NOMINAL, BACK, BACK, BACK, NOMINAL, CARRIED, CARRIED, NOMINAL, BACK]
    assert starts(in_turn(tries=3), went) == wanted


def test_every_so_many_episodes_the_scene_is_put_back() -> None:
    assert starts(in_turn(every=3), [True] * 6) == [NOMINAL, BACK, CARRIED, NOMINAL, BACK, CARRIED, NOMINAL]


@given(st.lists(st.booleans(), max_size=60), st.integers(2, 9), st.integers(1, 4))
def test_a_way_back_begins_only_at_a_done_task_or_at_a_failed_way_back(went, every, tries) -> None:
    found = starts(in_turn(every, tries), went)
    assert found[0] is NOMINAL
    for before, success, after in zip(found, went, found[1:], strict=False):
        if after is BACK:
            assert (before is not BACK and success) or (before is BACK and not success)
        if after is CARRIED:
            assert (before is BACK and success) or (before is not BACK and not success)
    fresh = [i for i, start in enumerate(found) if start is NOMINAL]
    assert all(b - a <= every for a, b in pairwise(fresh))


@pytest.mark.parametrize(
    ("told", "following"),
    [
        (outcome(EndReason.SUCCESS), BACK),
        (outcome(EndReason.SUCCESS, Verdict.SUCCESS), BACK),
        (outcome(EndReason.SUCCESS, Verdict.FAILURE), CARRIED),
        (outcome(EndReason.TIMEOUT, Verdict.SUCCESS), BACK),
        (outcome(EndReason.TIMEOUT), CARRIED),
        (outcome(EndReason.OPERATOR, Verdict.DISCARD), CARRIED),
        (outcome(EndReason.FAULT), NOMINAL),
    ],
)
def test_the_persons_word_decides_whether_it_was_done(told: EpisodeOutcome, following: ResetType) -> None:
    turns = in_turn()
    assert run_in_turn(turns, turns.next(), lambda: told) is told
    assert turns.next() is following


def test_an_episode_that_could_not_be_run_leaves_a_scene_that_must_be_put_back() -> None:
    turns = in_turn()
    run_in_turn(turns, turns.next(), lambda: outcome(EndReason.SUCCESS))

    def fails() -> EpisodeOutcome:
        raise RobotError("nobody has said that it is done")

    with pytest.raises(RobotError):
        run_in_turn(turns, turns.next(), fails)
    assert turns.next() is NOMINAL
