"""One reader of JSON lines: a torn last line does not count, a bad one is named with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.disk.jsonl import append_row, mapping, read_jsonl
from tests.disk.full import full_after


def test_rows_are_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_jsonl(path, mapping).rows == []
    append_row(path, {"a": 1})
    append_row(path, {"b": "ü"})
    assert read_jsonl(path, mapping).rows == [{"a": 1}, {"b": "ü"}]


def test_a_torn_last_line_does_not_count_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}')
    found = read_jsonl(path, mapping)
    assert found.rows == [{"a": 1}]
    assert found.torn
    assert not found.damaged


def test_a_bad_line_is_named_with_file_and_line_and_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a"\n\n[7]\n\xff\xfe\n{"b": 3}\n{"a": 2}\n')
    found = read_jsonl(path, lambda value: mapping(value)["a"])
    assert found.rows == [1, 2]
    assert list(found.damaged) == [f"rows.jsonl line {number}" for number in (2, 4, 5, 6)]
    assert "must be a JSON object" in found.damaged["rows.jsonl line 4"]
    assert "KeyError" in found.damaged["rows.jsonl line 6"]


def test_half_a_line_of_a_killed_process_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a":')
    append_row(path, {"a": 2})
    assert read_jsonl(path, mapping).rows == [{"a": 1}, {"a": 2}]


def test_a_disk_that_refuses_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, {"a": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robot_stack.disk.jsonl.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        append_row(path, {"a": 2})
    assert path.read_bytes() == b'{"a": 1}\n'


def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_row(path, {"a": "y" * 50_000})
    before = path.read_bytes()
    with full_after(len(before) + 7), pytest.raises(OSError, match="File too large"):
        append_row(path, {"text": "x" * 20})
    assert path.read_bytes() == before
