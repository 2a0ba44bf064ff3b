"""A task and its way back in turn: who begins where, and when the scene is put back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.config.resolve import load_run
from robot_stack.replay.stored_episode import header_from
from robot_stack.rollout.control_loop import EpisodeOutcome
from robot_stack.rollout.task_schedule import Carried, RoundRobin, TaskSchedule, Turn, run_in_turn, schedule_of
from robot_stack.transport.codec import decode_header, encode_header
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, ResetType
from tests.rollout.outcomes import outcome

NOMINAL, CARRIED, BACK = Turn("in", fresh=True), Turn("in", fresh=False), Turn("out", fresh=False)


def in_turn(every: int = 25, tries: int = 3) -> TaskSchedule:
    return Carried(["in", "out"], every=every, tries=tries)


def starts(turns: TaskSchedule, went: list[bool]) -> list[Turn]:
    found = []
    for number, success in enumerate(went):
        found.append(turns.next(number))
        turns.ended(found[-1], success=success)
    return [*found, turns.next(len(went))]


def test_a_task_without_a_way_back_starts_anew_each_time() -> None:
    assert starts(RoundRobin(["in"]), [True, False, True]) == [NOMINAL] * 4


def test_several_tasks_begin_anew_one_after_the_other_however_they_went_and_after_a_restart() -> None:
    found = starts(RoundRobin(["a", "b", "c"]), [True, False, False, True])
    assert [turn.task_id for turn in found] == ["a", "b", "c", "a", "b"]
    assert all(turn.fresh for turn in found)
    assert RoundRobin(["a", "b", "c"]).next(4) == found[4]


def test_where_one_ends_the_other_begins() -> None:
    assert starts(in_turn(), [True, True, True, True]) == [NOMINAL, BACK, CARRIED, BACK, CARRIED]


def test_of_three_tasks_each_begins_where_the_one_before_ended() -> None:
    found = starts(Carried(["a", "b", "c"], every=9, tries=9), [True, True, False, True, True])
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
def test_the_operators_verdict_decides_whether_it_was_done(told: EpisodeOutcome, following: Turn) -> None:
    turns = in_turn()
    assert run_in_turn(turns, turns.next(0), lambda: told) is told
    assert turns.next(0) == following


def test_an_episode_that_could_not_be_run_leaves_a_scene_that_must_be_put_back() -> None:
    turns = in_turn()
    run_in_turn(turns, turns.next(0), lambda: outcome(EndReason.SUCCESS))

    def fails() -> EpisodeOutcome:
        raise RobotError("nobody has said that it is done")

    with pytest.raises(RobotError):
        run_in_turn(turns, turns.next(0), fails)
    assert turns.next(0) == NOMINAL


def test_a_configured_way_back_is_the_second_of_two_tasks_with_ids() -> None:
    task = load_run("peg_in_and_out").task
    assert [(turn.id, turn.told) for turn in task.turns] == [("peg_insert", (1.0,)), ("peg_insert_back", (-1.0,))]
    assert task.turn(None) == task.turn("peg_insert") == task.turns[0]
    assert [turn.id for turn in load_run("peg_insert").task.turns] == ["peg_insert"]
    with pytest.raises(SpecError, match="task id is 'out', must be one of peg_insert, peg_insert_back"):
        task.turn("out")


def test_the_schedule_of_a_configured_task_is_as_long_as_its_file_says() -> None:
    went = [True] * 10
    fresh = [turn.fresh for turn in starts(schedule_of(load_run("peg_in_and_out").task), went)]
    assert fresh == [True] + 9 * [False] + [True]
    assert all(turn.fresh for turn in starts(schedule_of(load_run("peg_insert").task), went))


def header(**changes: object) -> EpisodeHeader:
    told = {"episode_id": "e", "kind": EpisodeKind.ONLINE, "task": "insert", "actor": "a", "started_unix_s": 1.0}
    return EpisodeHeader(**{**told, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [header(), header(task_id="insert_back", reset=ResetType.CARRIED)])
def test_the_task_of_an_episode_comes_over_the_link(told: EpisodeHeader) -> None:
    assert decode_header(encode_header(told)) == told


@pytest.mark.parametrize(
    ("reset", "read"),
    [
        ("nominal", header()),
        ("carried", header(reset=ResetType.CARRIED)),
        ("back", header(reset=ResetType.CARRIED, task_id="insert_back")),
    ],
)
def test_an_episode_of_before_tasks_had_ids_is_read_as_of_the_task_that_it_was_of(
    reset: str, read: EpisodeHeader
) -> None:
    raw = {"episode_id": "e", "kind": "online", "task": "insert", "actor": "a", "started_unix_s": 1.0, "reset": reset}
    assert header_from(raw) == read
    assert read.first_task is (reset != "back")
