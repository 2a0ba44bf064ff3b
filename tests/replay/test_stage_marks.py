"""Stage marks: which count, which cannot be, where stages begin by them, and that the store keeps them."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from robot_stack.replay.annotations import MarkLog, read_marks
from robot_stack.types.errors import SpecError
from robot_stack.types.event import LabelSource
from robot_stack.types.stages import MOST_STAGES, StageMark, check_mark, counting, next_mark, shifted, stage_starts
from tests.replay.test_episode_store import record, store_at

NAMES = ("open", "fill", "close")


def mark(stage: int, frame: int, *, name: str = "", removed: bool = False, of: str = "e") -> StageMark:
    return StageMark(
        episode_id=of, stage=stage, frame=frame, source=LabelSource.OPERATOR, stamp_unix_s=1.0, name=name,
        removed=removed,
    )  # fmt: skip


def test_a_mark_that_is_removed_or_not_an_operators_does_not_count() -> None:
    proposed = replace(mark(2, 9), source=LabelSource.MODEL)
    said = [mark(1, 5), mark(2, 8), proposed, mark(2, 8, removed=True)]
    assert counting(said) == (mark(1, 5),)
    assert counting(said, LabelSource.MODEL) == (proposed,)
    assert counting([*said, mark(2, 9)]) == (mark(1, 5), mark(2, 9))


def test_stages_begin_where_they_are_marked_once_all_are() -> None:
    assert stage_starts([mark(1, 5), mark(2, 8)], 10) == (0, 5, 8)
    assert stage_starts([mark(1, 5)], 10, stages=3) == ()
    assert stage_starts([], 10) == ()
    assert stage_starts([mark(2, 8)], 10) == ()
    assert stage_starts([mark(1, 8), mark(2, 5)], 10) == ()
    assert stage_starts([mark(1, 10)], 10) == ()  # of an episode that a crash has cut


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (mark(0, 3), r"of stage 0, must be of one from 1 to 2: the task has open, fill, close"),
        (mark(3, 8), r"of stage 3, must be of one from 1 to 2"),
        (mark(2, 8, name="shut"), r"names stage 2 'shut', must be 'close'"),
        (mark(1, 7, name="fill"), r"of stage 1, must be of one that is not marked; that one is at frame 5, remove it"),
        (mark(2, 10, name="close"), r"is at frame 10, must be within 1 and 9"),
        (mark(2, 0, name="close"), r"is at frame 0, must be within 1 and 9"),
        (mark(2, 5, name="close"), r"has stage 2 at frame 5, must be after frame 5, where stage 1 begins"),
        (mark(2, 4, name="close"), r"has stage 2 at frame 4, must be after frame 5, where stage 1 begins"),
        (mark(2, 8, name="close", removed=True), r"to be removed is of stage 2, must be one that counts"),
    ],
)
def test_a_mark_that_cannot_be_is_refused_in_words(wrong: StageMark, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_mark(wrong, [mark(1, 5, name="fill")], frames=10, names=NAMES)


def test_an_earlier_stage_is_marked_before_a_later_one() -> None:
    check_mark(mark(1, 4), [mark(2, 5)], frames=10)
    with pytest.raises(SpecError, match="must be before frame 5, where stage 2 begins"):
        check_mark(mark(1, 6), [mark(2, 5)], frames=10)


def test_each_press_marks_the_next_stage_until_there_is_none() -> None:
    found: list[StageMark] = []
    for frame in (3, 9):
        found.append(next_mark("e", found, frame=frame, names=NAMES, stamp_unix_s=1.0))
    assert [(each.stage, each.frame, each.name) for each in found] == [(1, 3, "fill"), (2, 9, "close")]
    with pytest.raises(SpecError, match="mark no more"):
        next_mark("e", found, frame=12, names=NAMES, stamp_unix_s=1.0)
    with pytest.raises(SpecError, match="must be after frame 9"):
        next_mark("e", found, frame=9, names=(), stamp_unix_s=1.0)
    many = [mark(stage, stage) for stage in range(1, MOST_STAGES)]
    with pytest.raises(SpecError, match="stage 0 begins with the episode"):
        next_mark("e", many, frame=99, names=(), stamp_unix_s=1.0)


def test_of_a_trimmed_episode_the_marks_within_stay() -> None:
    assert shifted([mark(1, 5), mark(2, 8), mark(3, 20)], 5, 12) == [mark(2, 3)]


def test_the_store_keeps_marks_and_refuses_those_that_cannot_be(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        record(store, "e", actions=9)
        record(store, "running", end=None)
        assert store.append_mark(mark(1, 5))
        assert not store.append_mark(mark(1, 5))  # sent again
        assert store.append_mark(mark(1, 4, of="running"))  # its frame is still on the way
        with pytest.raises(SpecError, match="at frame 10, must be within 1 and 9"):
            store.append_mark(mark(2, 10))
        with pytest.raises(SpecError, match="episode of a stage mark is 'other', must be one that has begun"):
            store.append_mark(mark(1, 1, of="other"))
        before = {path: path.read_bytes() for path in (tmp_path / "episodes" / "e.zarr").rglob("*") if path.is_file()}
        assert store.append_mark(mark(1, 5, removed=True))
        assert store.append_mark(mark(1, 6))
        assert before == {path: path.read_bytes() for path in before}  # frames are never rewritten
    with store_at(tmp_path) as store:
        assert store.quarantined == {}
        assert counting(each for each in store.marks if each.episode_id == "e") == (mark(1, 6),)


def test_a_line_that_is_no_mark_is_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "stages.jsonl"
    log = MarkLog(path)
    log.open()
    log.append(mark(1, 5))
    with path.open("a") as file:
        file.write('{"episode_id": "e", "stage": "two", "frame": 3, "source": "operator", "stamp_unix_s": 1}\n[]\n{}\n')
        for stage, frame, stamp in ((1, -3, "1"), (99999999999, 5, "1"), (0, 5, "1"), (2, 5, "9" * 500)):
            told = f'"stage": {stage}, "frame": {frame}, "stamp_unix_s": {stamp}'
            file.write(f'{{"episode_id": "e", "source": "operator", {told}}}\n')
    found = read_marks(path)
    assert found.rows == [mark(1, 5)]
    assert list(found.damaged) == [f"stages.jsonl line {number}" for number in range(2, 9)]


MARKS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from tests.replay.test_episode_store import record, store_at
from tests.replay.test_stage_marks import mark
store = store_at(Path(sys.argv[1]))
store.open()
record(store, "e", end=None)
store.flush()
store.append_mark(mark(1, 2))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_mark_survives_kill_minus_nine(tmp_path: Path) -> None:
    died = subprocess.run([sys.executable, "-c", MARKS_AND_DIES, str(tmp_path)], check=False, timeout=240)
    assert died.returncode == -signal.SIGKILL
    with store_at(tmp_path) as store:
        assert store.marks == (mark(1, 2),)
