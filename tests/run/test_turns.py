"""A task and its way back in turn: who begins where, and when the scene is put back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.task_schedule import TaskSchedule, Turn, run_in_turn
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason
from tests.run.outcomes import outcome

NOMINAL, CARRIED, BACK = Turn("in", fresh=True), Turn("in", fresh=False), Turn("out", fresh=False)


def in_turn(every: int = 25, tries: int = 3) -> TaskSchedule:
    return TaskSchedule(["in", "out"], every=every, tries=tries)


def starts(turns: TaskSchedule, went: list[bool]) -> list[Turn]:
    found = []
    for success in went:
        found.append(turns.next())
        turns.ended(found[-1], success=success)
    return [*found, turns.next()]


def test_a_task_without_a_way_back_starts_anew_each_time() -> None:
    assert starts(TaskSchedule(["in"]), [True, False, True]) == [NOMINAL] * 4


def test_where_one_ends_the_other_begins() -> None:
    assert starts(in_turn(), [True, True, True, True]) == [NOMINAL, BACK, CARRIED, BACK, CARRIED]


def test_of_three_tasks_each_begins_where_the_one_before_ended() -> None:
    found = starts(TaskSchedule(["a", "b", "c"], every=9, tries=9), [True, True, False, True, True])
    assert [turn.task_id for turn in found] == ["a", "b", "c", "c", "a", "b"]


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
    assert found[0] == NOMINAL
    for before, success, after in zip(found, went, found[1:], strict=False):
        if after == BACK:
            assert (before != BACK and success) or (before == BACK and not success)
        if after == CARRIED:
            assert (before == BACK and success) or (before != BACK and not success)
    fresh = [i for i, start in enumerate(found) if start == NOMINAL]
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
def test_the_persons_word_decides_whether_it_was_done(told: EpisodeOutcome, following: Turn) -> None:
    turns = in_turn()
    assert run_in_turn(turns, turns.next(), lambda: told) is told
    assert turns.next() == following


def test_an_episode_that_could_not_be_run_leaves_a_scene_that_must_be_put_back() -> None:
    turns = in_turn()
    run_in_turn(turns, turns.next(), lambda: outcome(EndReason.SUCCESS))

    def fails() -> EpisodeOutcome:
        raise RobotError("nobody has said that it is done")

    with pytest.raises(RobotError):
        run_in_turn(turns, turns.next(), fails)
    assert turns.next() == NOMINAL
