"""Metrics of a run: rows of a known kind, each whole on its line, and read back as they were written."""

from __future__ import annotations

import json
import resource
import threading
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from robot_stack.runs.metrics import MetricsLog, plain, read_rows, row_from
from robot_stack.runs.rows import (
    ControlRow,
    EpisodeRow,
    FaultRow,
    FitReport,
    FitRow,
    MetricsRow,
    QuarantineRow,
    RewardFitRow,
    UpdateRow,
    of_kind,
)
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EndReason, EpisodeKind

EPISODE = EpisodeRow(
    episode_id="000004-online-a",
    episode_kind=EpisodeKind.ONLINE,
    end=EndReason.TIMEOUT,
    steps=57,
    duration_s=5.7,
    success=True,
    truth=False,
)
ROWS: list[MetricsRow] = [
    EPISODE,
    ControlRow(
        episode_id="e", episode_kind=EpisodeKind.DEMO, steps=2, jitter_ms=[0.5, None], hold_reasons=["x"], link=True
    ),
    UpdateRow(updates=100, env_steps=40, metrics={"q": 0.25, "critic_loss": None}),
    FitRow(demos=3, demo_ids=["a", "b"]),
    RewardFitRow(version="v1", classifier={"threshold": 0.5}, others={"back": FitReport(version="v2", failures=1)}),
    QuarantineRow(episode_id="e", reason="torn"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.kind))
def test_a_row_is_read_as_it_was_written(tmp_path: Path, row: MetricsRow) -> None:
    log = MetricsLog(tmp_path / "m.jsonl")
    log.log(row)
    log.close()
    found = read_rows(tmp_path / "m.jsonl")
    assert not found.damaged
    (read,) = found.rows
    assert read.t > 0
    assert replace(read, t=0.0) == row


def test_each_kind_has_a_name_of_its_own() -> None:
    kinds = [kind.__dataclass_fields__["kind"].default for kind in get_args(MetricsRow)]
    assert len(set(kinds)) == len(kinds) == 17


def test_a_row_of_an_older_version_loads() -> None:
    row = row_from(
        {"t": 7.0, "kind": "episode", "episode_id": "e", "episode_kind": "online", "steps": 3, "duration_s": 0.3,
         "success": True, "reset": "back", "of_an_older_version": [1, 2]}
    )  # fmt: skip
    assert isinstance(row, EpisodeRow)
    assert (row.t, row.end, row.truth, row.reward_version) == (7.0, None, None, "")
    assert not row.first_task


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ([1], "must be a JSON object"),
        ({}, "row of kind None: Unable to extract tag"),
        ({"kind": "episod"}, "does not match any of the expected tags"),
        ({"kind": "fault"}, "row of kind 'fault': reason: Field required"),
        ({"kind": "resume", "updates": "many", "env_steps": 1}, "updates: Input should be a valid integer"),
    ],
)
def test_what_is_no_row_is_refused_with_what_is_wrong(raw: object, why: str) -> None:
    with pytest.raises(ValueError, match="(?s)" + why.replace("[", r"\[")) as refused:
        row_from(raw)
    assert "\n" not in str(refused.value)


def test_bad_rows_are_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"kind": "fault", "reason": "a"}\n{"kind": "fault"}\nx\n{"kind": "fault", "reason": "b"}\n')
    found = read_rows(path)
    assert [row.reason for row in of_kind(found.rows, FaultRow)] == ["a", "b"]
    assert list(found.damaged) == ["m.jsonl line 2", "m.jsonl line 3"]


def test_an_episode_succeeded_by_the_simulators_word_else_by_what_counted() -> None:
    assert not EPISODE.succeeded
    assert replace(EPISODE, truth=None).succeeded


def test_values_are_numbers_and_nan_is_null() -> None:
    values = {
        "loss": torch.tensor(0.5), "share": np.float32(0.25), "count": np.int64(3), "missing": float("nan"),
        "far": float("inf"), "series": np.array([1.0, np.nan]), "nested": {"a": [np.float64(2)]}, "word": "x",
        "flag": True,
    }  # fmt: skip
    assert plain(values) == {
        "loss": 0.5, "share": 0.25, "count": 3, "missing": None, "far": None, "series": [1.0, None],
        "nested": {"a": [2.0]}, "word": "x", "flag": True,
    }  # fmt: skip


def test_a_nan_is_none_when_it_is_read(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "m.jsonl")
    log.log(replace(EPISODE, progress_last=float("nan")))
    log.close()
    (row,) = of_kind(read_rows(tmp_path / "m.jsonl").rows, EpisodeRow)
    assert row.progress_last is None


def test_torn_last_row_is_left_out_and_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    log = MetricsLog(path)
    log.log(FaultRow(reason="a"))
    log.close()
    with path.open("a") as file:
        file.write('{"t": 1.0, "kind": "fault", "reas')
    assert [row.reason for row in of_kind(read_rows(path).rows, FaultRow)] == ["a"]
    log = MetricsLog(path)
    log.log(FaultRow(reason="c"))
    log.close()
    assert [row.reason for row in of_kind(read_rows(path).rows, FaultRow)] == ["a", "c"]


def test_row_that_the_disk_refuses_ends_nobody_and_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    log = MetricsLog(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80, hard))
    try:
        for n in range(4):
            log.log(FaultRow(reason=str(n)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.log(FaultRow(reason="4"))
    log.log(FaultRow(reason="5"))
    log.close()
    whole = of_kind(read_rows(path).rows, FaultRow)
    assert [row.reason for row in whole] == ["0", "4", "5"]
    assert [row.lost_rows for row in whole] == [0, 3, 0]


def test_metrics_of_several_threads_stay_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    log = MetricsLog(path)

    def write() -> None:
        for _ in range(50):
            log.log(FaultRow(reason="y" * 500))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    log.close()
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 200


def test_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"opening metrics\.jsonl failed: Is a directory"):
        MetricsLog(tmp_path / "metrics.jsonl")


def test_no_metrics_yet_is_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.jsonl").rows == []
