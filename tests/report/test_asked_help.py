"""Help that was asked for: how often, how much of it was needed, what was missed, and what attention it took."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from robot_stack.report.asked_help import help_figures, help_section
from robot_stack.report.write import write_report
from robot_stack.runs.metrics import MetricsLog, read_rows, row_from
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AskingRow, HelpRow, MetricsRow
from robot_stack.types.help import HelpEnd, HelpKind


def asked(needed: bool | None, end: HelpEnd = HelpEnd.TAKEN, reason: HelpKind = HelpKind.STALL) -> HelpRow:
    return HelpRow(episode_id="a", reason=reason, text="no progress for 2.0 s", end=end, needed=needed)


def episode(*, on_request: bool = True, missed: int = 0) -> AskingRow:
    return AskingRow(
        episode_id="a", on_request=on_request, missed=missed, duration_s=8.0, asked_s=1.0, in_hand_s=2.0,
        evaluate_ms_p99=1.5,
    )  # fmt: skip


ROWS: list[MetricsRow] = [
    asked(True), asked(True), asked(False, HelpEnd.DISMISSED, HelpKind.DISTANCE), asked(None, HelpEnd.OVER),
    episode(), episode(missed=2),
]  # fmt: skip


def test_shares_are_of_what_is_known() -> None:
    found = help_figures(ROWS)
    assert found is not None
    assert (found["requests"], found["needed"], found["not_needed"], found["missed"]) == (4, 2, 1, 2)
    assert found["share_needed"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["share_missed"] == 0.5
    assert found["ends"] == {"taken": 2, "dismissed": 1, "withdrawn": 0, "over": 1}
    assert found["reasons"] == {"stall": 3, "distance": 1, "samples": 0, "critics": 0}


@pytest.mark.parametrize(("on_request", "attention_s"), [(True, 6.0), (False, 16.0)])
def test_attention_is_all_the_time_unless_the_operator_waits_to_be_asked(on_request: bool, attention_s: float) -> None:
    found = help_figures([episode(on_request=on_request)] * 2)
    assert found is not None
    assert (found["attention_s"], found["robot_time_s"], found["in_hand_s"]) == (attention_s, 16.0, 4.0)
    assert (found["share_needed"], found["share_missed"]) == (None, None)


def test_how_long_the_base_led_is_said_where_it_did() -> None:
    rows = [replace(asked(None, HelpEnd.OVER), base_s=4.0), replace(asked(None, HelpEnd.WITHDRAWN), base_s=1.5), *ROWS]
    found = help_figures(rows)
    assert found is not None
    assert found["base_s"] == 5.5
    assert "Nobody answered in time for 6 s, in which the base policy led the arm" in help_section(found, rows)
    assert "base policy" not in help_section(help_figures(ROWS), ROWS)


def test_a_run_that_never_asks_has_no_such_figures() -> None:
    assert help_figures([]) is None
    assert help_section(None, []) == ""


def test_the_report_of_a_run_says_it_in_a_sentence(tmp_path) -> None:
    folder = tmp_path / "run"
    (folder / "actor").mkdir(parents=True)
    log = MetricsLog(folder / "actor" / "actor.jsonl")
    for row in ROWS:
        log.log(row)
    log.close()
    page = write_report(folder).read_text()
    assert "The policy asked 4 times" in page
    assert "2 requests were needed and 1 were not (67 % needed); 2 needs came without a request" in page
    assert "looked only when asked: 6 s of 16 s of robot time, 4 s of them in hand" in page
    summary = json.loads(RunPaths(folder).summary.read_text())
    assert summary["asking"]["requests"] == 4


def test_rows_come_back_as_they_were_written(tmp_path) -> None:
    log = MetricsLog(tmp_path / "actor.jsonl")
    for row in ROWS:
        log.log(row)
    log.close()
    read = read_rows(tmp_path / "actor.jsonl").rows
    assert [type(row) for row in read] == [type(row) for row in ROWS]
    assert help_figures(read) == help_figures(ROWS)


def test_a_row_with_an_unknown_reason_is_no_row() -> None:
    with pytest.raises(ValueError, match="reason"):
        row_from({"kind": "help", "episode_id": "a", "reason": "boredom"})
