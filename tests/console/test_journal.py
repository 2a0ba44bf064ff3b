"""What operators said is on disk before anybody is told, and is sent once, whatever dies in between."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from robot_stack.console.journal import Journal, said_before
from robot_stack.console.record_of import RunRecord, Tail
from robot_stack.console.verdicts import operator_label
from robot_stack.datasets.store_view import Note
from robot_stack.disk.jsonl import append_row, mapping
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Verdict
from tests.console.page_rig import FakeCell

FIRST = operator_label("000001-online-actor", Verdict.SUCCESS, 1.5)
SECOND = operator_label("000002-online-actor", Verdict.FAILURE, 2.5)
THIRD = operator_label("000003-online-actor", Verdict.DISCARD, 99.0)


def opened(folder) -> Journal:
    journal = Journal(folder)
    journal.open()
    return journal


def test_labels_wait_over_a_restart_until_they_are_sent(tmp_path):
    journal = opened(tmp_path)
    journal.add(FIRST)
    journal.add(SECOND)
    journal.sent(FIRST)
    assert opened(tmp_path).waiting == [SECOND]
    opened(tmp_path).sent(SECOND, "the episode is not there")
    again = opened(tmp_path)
    assert again.waiting == []
    assert again.refused == {SECOND.episode_id: "the episode is not there"}


def test_a_refusal_is_of_the_verdict_that_was_refused_and_not_of_a_later_one(tmp_path):
    journal = opened(tmp_path)
    journal.add(FIRST)
    journal.sent(FIRST, "the episode is not there")
    later = operator_label(FIRST.episode_id, Verdict.DISCARD, 7.5)
    journal.add(later)
    assert journal.refused == opened(tmp_path).refused == {}
    journal.sent(later)
    assert journal.refused == opened(tmp_path).refused == {}


def test_a_store_without_a_learner_is_told_what_can_no_longer_be_taken_back(tmp_path):
    journal = opened(tmp_path)
    for label in (FIRST, SECOND, THIRD):
        journal.add(label)
    journal.sent(FIRST)  # taken back
    assert said_before(tmp_path, 90.0) == [SECOND]
    assert said_before(tmp_path, float("inf")) == [SECOND, THIRD]


def test_what_is_in_the_store_of_a_deployment_waits_no_longer(run, tmp_path):
    cell = FakeCell(run, tmp_path)
    cell.journal.add(FIRST)
    cell.journal.add(SECOND)
    deployed = RunPaths(RunPaths(tmp_path).deployed).store.labels
    deployed.parent.mkdir(parents=True)
    append_row(deployed, asdict(FIRST))
    news = RunRecord(tmp_path).read()
    news.tell(cell.desk.heard)
    cell.desk.stored(news.labels)
    assert cell.journal.waiting == [SECOND]
    assert cell.desk.heard.verdicts.counts(FIRST.episode_id) == FIRST


def test_half_a_line_of_a_killed_process_costs_that_line_alone(tmp_path):
    opened(tmp_path).add(FIRST)
    path = tmp_path / "console" / "labels.jsonl"
    path.write_bytes(path.read_bytes() + b'{"episode_id": "00')
    journal = opened(tmp_path)
    assert journal.waiting == [FIRST]
    journal.add(SECOND)
    assert opened(tmp_path).waiting == [FIRST, SECOND]


@pytest.mark.parametrize("line", ["[]", "null", '{"sent": 3}', '{"verdict": "maybe"}', '{"episode_id": "x"}'])
def test_lines_of_somebody_else_are_left_alone(tmp_path, line):
    opened(tmp_path).add(FIRST)
    path = tmp_path / "console" / "labels.jsonl"
    path.write_text(f"{line}\n{path.read_text()}")
    assert opened(tmp_path).waiting == [FIRST]


def test_notes_go_where_the_episodes_are_and_are_read_as_notes(tmp_path):
    journal = opened(tmp_path)
    journal.note("e", "before there was a store", 1.0)
    assert (tmp_path / "console" / "notes.jsonl").exists()
    (tmp_path / "store").mkdir()
    journal.note("e", "slipped", 2.0)
    journal.note("e", "slipped, then fell", 3.0)
    assert journal.notes() == {"e": "slipped, then fell"}
    lines = (tmp_path / "store" / "notes.jsonl").read_text().splitlines()
    assert Note(**json.loads(lines[-1])) == Note(episode_id="e", text="slipped, then fell", stamp_unix_s=3.0)


def test_a_disk_that_refuses_is_told_and_nothing_half_is_left(tmp_path):
    journal = opened(tmp_path)
    path = tmp_path / "console" / "labels.jsonl"
    path.mkdir()
    with pytest.raises(StoreError, match="is not written"):
        journal.add(FIRST)
    assert journal.waiting == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "console").write_text("a file in its place")
    with pytest.raises(StoreError, match="must be; free some space"):
        Journal(tmp_path).open()


def test_a_tail_gives_each_whole_line_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path, mapping)
    assert tail.rows() == []
    path.write_text('{"n": 1}\nnonsense\n{"n": 2}\n{"n":')
    assert tail.rows() == [{"n": 1}, {"n": 2}]
    assert tail.rows() == []
    path.write_text('{"n": 1}\nnonsense\n{"n": 2}\n{"n": 3}\n')
    assert tail.rows() == [{"n": 3}]
    path.write_text('{"n": 9}\n')
    assert tail.rows() == [{"n": 9}], "begun anew"


def test_of_a_file_that_is_very_long_the_newest_part_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("robot_stack.console.record_of.MOST_BYTES", 30)
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(10)))
    assert Tail(path, mapping).rows() == [{"n": 7}, {"n": 8}, {"n": 9}], "9 bytes a line, and 3 of a cut one"
