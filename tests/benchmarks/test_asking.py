"""What an operator who looks on request is compared by."""

from __future__ import annotations

from pathlib import Path

from benchmarks.learning.asking import ALWAYS, ON_REQUEST, resolve, table, training_figures
from robot_stack.config.teleop import looks_on_request
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AskingRow, EpisodeRow, HelpRow
from robot_stack.types.help import HelpEnd, HelpKind
from robot_stack.types.transition import EpisodeKind

EPISODES = [
    EpisodeRow(
        episode_id=str(i), episode_kind=EpisodeKind.ONLINE, steps=80, duration_s=8.0, human_steps=20 * i, success=True
    )
    for i in range(2)
]


def test_both_learn_alike_and_differ_in_who_watches() -> None:
    always, on_request = (resolve(name, 3, 5.0) for name in (ALWAYS, ON_REQUEST))
    assert always.run.asking is None
    assert on_request.run.asking is not None
    assert [looks_on_request(run.teleop) for run in (always, on_request)] == [False, True]
    same = {"asking": None}
    assert always.run.model_copy(update={"cell": ""}) == on_request.run.model_copy(update={"cell": "", **same})


def test_attention_is_all_of_the_robots_time_or_what_was_asked_for(tmp_path: Path) -> None:
    always = training_figures(tmp_path, EPISODES)
    assert (always["attention_s"], always["robot_s"], always["in_hand_s"]) == (16.0, 16.0, 2.0)
    assert always["asked"] is None
    assert always["alone"] == [True, False]
    log = MetricsLog(RunPaths(tmp_path).actor / "bench.jsonl")
    log.log(HelpRow(episode_id="1", reason=HelpKind.STALL, end=HelpEnd.TAKEN, needed=True))
    log.log(
        AskingRow(episode_id="1", on_request=True, requests=1, missed=2, duration_s=8.0, asked_s=1.0, in_hand_s=2.0)
    )
    log.close()
    asked = training_figures(tmp_path, EPISODES)
    assert (asked["attention_s"], asked["asked"]["share_needed"]) == (3.0, 1.0)
    made = [
        {"attention": name, "seed": 0, "success": 9, "resets": 10, **run}
        for name, run in ((ALWAYS, always), (ON_REQUEST, asked))
    ]
    page = table(made)
    assert "| always | 0 | 9 of 10 | 16 s | 16 s (100%) | 2 s | - | - | - |" in page
    assert "| on_request | 0 | 9 of 10 | 16 s | 3 s (19%) | 2 s | 1 | 1 (100%) | 2 |" in page
