"""An evaluation sees observations as old as those of online training."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.rollout.evaluate import Evaluation, training_age_s
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import ControlRow
from robot_stack.types.transition import EpisodeKind


def test_the_age_is_the_median_over_the_ticks_of_training_episodes(tmp_path: Path) -> None:
    rows: list[tuple[str, EpisodeKind, list[float | None]]] = [
        ("a", EpisodeKind.DEMO, [5.0] * 9),
        ("a", EpisodeKind.ONLINE, [30.0, None, 34.0]),
        ("b", EpisodeKind.ONLINE, [36.0, 38.0, 90.0]),
    ]
    for actor, kind, ages in rows:
        log = MetricsLog(RunPaths(tmp_path).actor / f"{actor}.jsonl")
        log.log(ControlRow(episode_id="000000", episode_kind=kind, age_ms=ages))
        log.close()
    assert training_age_s(load_run("peg_insert"), tmp_path) == pytest.approx(0.036)


def test_where_nobody_measured_it_the_slowest_camera_says_it(tmp_path: Path) -> None:
    resolved = load_run("peg_insert", ["cameras.front.rate_hz=20"])
    assert {camera.rate_hz for camera in resolved.cameras.values()} > {20}
    assert training_age_s(resolved, tmp_path) == pytest.approx(0.05)


def test_the_result_says_how_old_they_were() -> None:
    result = Evaluation(successes=[True, False], durations_s=[4.0, 12.0], ages_s=[0.0, 0.04, 0.04])
    assert result.summary()["observation_age_ms"] == 40.0


def test_the_result_counts_each_of_several_tasks_and_one_task_alone_once() -> None:
    took = {"successes": [True, False, True], "durations_s": [4.0, 8.0, 6.0], "ages_s": []}
    told = Evaluation(**took, task_ids=["blue", "green", "blue"]).summary()
    assert (told["episodes"], told["success"], told["cycle_s"]) == (3, 2, 5.0)
    blue, green = told["tasks"]["blue"], told["tasks"]["green"]
    assert (blue["episodes"], blue["success"], blue["cycle_s"]) == (2, 2, 5.0)
    assert (green["episodes"], green["success"], green["cycle_s"]) == (1, 0, None)
    assert "tasks" not in Evaluation(**took, task_ids=["blue"] * 3).summary()
