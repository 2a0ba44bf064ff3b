from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_run
from robot_stack.disk.jsonl import mapping, read_jsonl
from robot_stack.replay.annotations import LabelLog
from robot_stack.report.headline import advice, headline
from robot_stack.report.run_folder import read_run
from robot_stack.report.summary import build_summary, write_summary
from robot_stack.report.targets import figures
from robot_stack.runs.paths import RunPaths
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EpisodeKind
from tests.report.fake_run import ASKED, PRETRAIN, UTD, Played, write_run

KEYS = {
    "task": None,
    "seed": None,
    "demos": {"episodes"},
    "bc": {"episodes", "success", "wilson95", "cycle_s"},
    "policy": {"episodes", "success", "wilson95", "cycle_s"},
    "training": {"episodes", "env_steps", "robot_time_s", "wall_s", "human_share_first20", "human_share_last20"},
    "reward": {"false_done_rate", "false_done_wilson95", "missed_rate", "voc_heldout", "voc_clock"},
    "control": {"rate_hz", "jitter_p99_ms", "observation_age_p99_ms", "holds"},
    "learner": {"updates", "utd", "utd_asked", "updates_per_s", "params_age_p99_s"},
    "critic": {
        "episodes",
        "corrections",
        "corrections_share",
        "own_steps",
        "own_share",
        "td_error",
        "q_gradient_share",
        "learned_from",
    },
    "replay": {"transitions", "bytes_per_transition"},
    "memory_mb": None,
}


def play(steps: int = 5, human: int = 0, *, declared: bool = True, truth: bool = True) -> Played:
    sources = (Source.HUMAN,) * human + (Source.POLICY,) * (steps - human)
    return Played(sources=sources, declared=declared, truth=truth)


def run_of(folder: Path, plays: list[Played]) -> Path:
    write_run(folder, demos=2, plays=plays, stored=0)
    return folder


def raw_rows(path: Path) -> list[dict[str, Any]]:
    return read_jsonl(path, mapping).rows


def rewrite(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_finished_run_has_every_key_and_misses_nothing(finished_run: Path) -> None:
    summary = build_summary(finished_run)
    assert set(KEYS) | {"missing"} == set(summary)
    for group, names in KEYS.items():
        assert names is None or names <= set(summary[group])
    assert summary["missing"] == []
    assert (summary["task"], summary["seed"], summary["demos"]) == ("peg_insert", 0, {"episodes": 3})
    assert (summary["bc"]["success"], summary["policy"]["success"]) == (52, 97)
    assert summary["control"]["rate_hz"] == pytest.approx(10.0)


def test_the_file_holds_what_is_returned_and_no_draft_stays(own_run: Path) -> None:
    (own_run / "summary.json").write_text("of an earlier report")
    assert (
        write_summary(read_run(own_run)) == json.loads((own_run / "summary.json").read_text()) == build_summary(own_run)
    )
    assert not list(own_run.glob("*.partial"))


def test_false_dones_count_against_failures_and_misses_against_successes(tmp_path: Path) -> None:
    plays = [play(declared=True, truth=True)] * 6 + [play(declared=False, truth=True)] * 2
    plays += [play(declared=True, truth=False)] * 1 + [play(declared=False, truth=False)] * 3
    reward = build_summary(run_of(tmp_path / "r", plays))["reward"]
    assert reward["false_done_rate"] == 1 / 4
    assert reward["false_done_wilson95"] == pytest.approx(wilson_interval(1, 4), abs=1e-4)
    assert reward["missed_rate"] == 2 / 8


def test_model_of_an_environment_that_judges_itself_has_missed_nothing(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "r", [play(declared=False, truth=True)] * 3 + [play(declared=False, truth=False)])
    (folder / "run.yaml").write_text(load_run("mountain_car").to_yaml())
    summary = build_summary(folder)
    assert {summary["reward"][name] for name in ("missed_rate", "missed", "false_done_rate", "false_done")} == {None}
    assert not [words for words in advice(summary) if "reward model" in words]


def test_without_a_failed_episode_the_false_done_rate_is_unknown_and_its_interval_is_everything(tmp_path: Path) -> None:
    summary = build_summary(run_of(tmp_path / "r", [play()] * 3))
    assert summary["reward"]["false_done_rate"] is None
    assert summary["reward"]["false_done_wilson95"] == [0.0, 1.0]
    assert "reward.false_done_rate: no training episode failed" in summary["missing"]


def test_human_shares_are_of_steps_in_the_first_and_last_twenty(tmp_path: Path) -> None:
    plays = [play(10, human=4)] * 20 + [play(10, human=9)] * 5 + [play(10)] * 19 + [play(30, human=11)]
    training = build_summary(run_of(tmp_path / "r", plays))["training"]
    assert training["human_share_first20"] == pytest.approx(80 / 200)
    assert training["human_share_last20"] == pytest.approx(11 / 220)
    assert training["env_steps"] == 20 * 10 + 5 * 10 + 19 * 10 + 30
    assert training["robot_time_s"] == pytest.approx(training["env_steps"] / 10)


def test_a_discarded_episode_is_in_no_share_and_no_verdict_of_the_model(tmp_path: Path) -> None:
    wrong = replace(play(10, human=10, declared=True, truth=False), operator=Verdict.DISCARD)
    summary = build_summary(run_of(tmp_path / "r", [play(10)] * 18 + [wrong] * 2))
    assert summary["training"]["human_share_last20"] == 0.0
    assert (summary["training"]["episodes"], summary["training"]["env_steps"]) == (20, 200)
    assert (summary["reward"]["false_done_rate"], summary["reward"]["missed_rate"]) == (None, 0.0)


def test_updates_on_the_demonstrations_do_not_count_in_the_utd(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "r", [play()] * 4)
    learner = build_summary(folder)["learner"]
    assert learner["updates"] == PRETRAIN + UTD * 20
    assert learner["utd"] == UTD
    assert learner["utd_asked"] == ASKED
    rows = raw_rows(folder / "metrics.jsonl")
    rewrite(folder / "metrics.jsonl", [row for row in rows if row["kind"] != "fit"])
    assert build_summary(folder)["learner"]["utd"] == UTD  # from the slope of the rows


def test_an_episode_written_again_by_a_resumed_learner_counts_once(own_run: Path) -> None:
    before = build_summary(own_run)
    rows = raw_rows(own_run / "metrics.jsonl")
    again = [row for row in rows if row["kind"] in ("episode", "update")]
    rewrite(own_run / "metrics.jsonl", rows + again)
    after = build_summary(own_run)
    assert after["training"] == before["training"]
    assert after["reward"] == before["reward"]


def test_a_verdict_that_came_after_the_row_is_taken_from_the_labels(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "r", [play(truth=False, declared=True), play()])
    rows = raw_rows(folder / "metrics.jsonl")
    rewrite(folder / "metrics.jsonl", [row | ({"truth": None} if "truth" in row else {}) for row in rows])
    assert build_summary(folder)["reward"]["false_done_rate"] == 1.0


def test_what_an_operator_said_after_the_row_is_what_counts(tmp_path: Path) -> None:
    plays = [play(declared=False), play(), play(), replace(play(), operator=Verdict.FAILURE)]
    folder = run_of(tmp_path / "r", plays)
    rows = raw_rows(folder / "metrics.jsonl")
    rewrite(folder / "metrics.jsonl", [row | ({"truth": None} if "truth" in row else {}) for row in rows])
    log = LabelLog(folder / "store" / "labels.jsonl")
    log.open()
    kept = [asdict(label) for label in log.rows if label.source is not LabelSource.TRUTH]
    rewrite(folder / "store" / "labels.jsonl", kept)
    before = read_run(folder).episodes(EpisodeKind.ONLINE)
    assert [(row.success, row.refused) for row in before] == [
        (False, False), (True, False), (True, False), (False, True),
    ]  # fmt: skip
    log.open()
    said = (Verdict.SUCCESS, Verdict.FAILURE, Verdict.DISCARD, Verdict.SUCCESS)
    for row, verdict in zip(before, said, strict=True):
        log.append(Label(episode_id=row.episode_id, verdict=verdict, source=LabelSource.OPERATOR, stamp_unix_s=2e9))
    after = read_run(folder).episodes(EpisodeKind.ONLINE)
    assert [(row.success, row.refused, row.discarded) for row in after] == [
        (True, False, False), (False, True, False), (False, False, True), (True, False, False),
    ]  # fmt: skip


def test_episodes_of_several_actors_are_in_the_order_of_their_start(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "r", [play() for _ in range(4)])
    path = folder / "metrics.jsonl"
    online = {
        name: at for at, name in enumerate(row.episode_id for row in read_run(folder).episodes(EpisodeKind.ONLINE))
    }

    def of_two(row: dict[str, Any]) -> dict[str, Any]:
        """Let a second actor, which counts for itself, have begun the second half of the episodes."""
        at = online.get(row.get("episode_id", ""))
        if at is None:
            return row
        actor, number = ("left", at) if at < 2 else ("right", at - 2)
        started = {"started_unix_s": 1000.0 + at} if "started_unix_s" in row else {}
        return row | {"episode_id": f"{number:06d}-online-{actor}", **started}

    rewrite(path, [of_two(row) for row in raw_rows(path)])
    wanted = ["000000-online-left", "000001-online-left", "000000-online-right", "000001-online-right"]
    assert [row.episode_id for row in read_run(folder).episodes(EpisodeKind.ONLINE)] == wanted
    assert [row.episode_id for row in read_run(folder).critic()] == wanted


def test_times_are_of_training_episodes_only(own_run: Path) -> None:
    path = own_run / "a0.jsonl"
    rows = raw_rows(path)
    ages = np.concatenate([row["age_ms"] for row in rows if row["episode_kind"] == "online"])
    rewrite(path, [row | ({"age_ms": [900.0]} if row["episode_kind"] == "demo" else {}) for row in rows])
    control = build_summary(own_run)["control"]
    assert control["observation_age_p99_ms"] == pytest.approx(np.percentile(ages, 99), abs=1e-3)


def test_holds_that_a_person_asked_for_are_left_out(own_run: Path) -> None:
    path = own_run / "a0.jsonl"
    rows = [row | {"holds": 3, "holds_by_operator": 2} for row in raw_rows(path)]
    rewrite(path, rows)
    assert build_summary(own_run)["control"]["holds"] == 30


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("run.yaml", "task"),
        ("metrics.jsonl", "learner.updates"),
        ("a0.jsonl", "control.jitter_p99_ms"),
        ("eval_bc.json", "bc.success"),
        ("memory.json", "memory_mb"),
    ],
)
def test_a_missing_file_is_named_and_its_figures_are_null(own_run: Path, name: str, key: str) -> None:
    (own_run / name).unlink()
    summary = build_summary(own_run)
    group, _, figure = key.partition(".")
    assert (summary[group][figure] if figure else summary[group]) is None
    assert any(line.startswith(f"{key}: ") for line in summary["missing"])


def test_a_torn_file_is_reported_and_not_raised(own_run: Path) -> None:
    (own_run / "eval_policy.json").write_text('{"episodes": 1')
    with (own_run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "episode", "epi')
    summary = build_summary(own_run)
    assert summary["policy"]["success"] is None
    assert any("eval_policy.json is unreadable" in line for line in summary["missing"])
    assert summary["training"]["episodes"] == 30


NO_EVALUATIONS = (
    "[1]",
    "3",
    '{"wilson95": 3}',
    '{"episodes": 4, "success": 2, "wilson95": 3}',
    '{"episodes": 4, "success": 2, "wilson95": [0.1]}',
    '{"episodes": "4", "success": 2, "wilson95": [0.1, 0.9]}',
    '{"episodes": 4, "success": 2, "wilson95": [0.1, 0.9], "cycle_s": "x"}',
    '{"episodes": 4, "success": 2, "wilson95": [0.1, 0.9], "score": 1}',
    '{"episodes": 4, "success": 2, "wilson95": [0.1, 0.9], "tasks": {"a": 1}}',
)


@pytest.mark.parametrize("text", NO_EVALUATIONS)
@pytest.mark.parametrize("name", ["policy", "bc"])
def test_what_is_no_evaluation_is_named_and_its_figures_are_null(own_run: Path, name: str, text: str) -> None:
    (own_run / f"eval_{name}.json").write_text(text)
    summary = build_summary(own_run)
    assert summary[name]["success"] is None
    assert any(f"eval_{name}.json is unreadable" in line for line in summary["missing"])
    assert headline(summary).result == ("" if name == "policy" else "97 of 100 (92 to 99 %)")
    assert figures(summary, read_run(own_run))


def test_a_bad_row_is_named_with_file_and_line_and_costs_no_other(own_run: Path) -> None:
    path = own_run / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(['{"kind": "episode", "episode_id": "e"}', *lines]) + "\n")
    summary = build_summary(own_run)
    (problem,) = [line for line in summary["missing"] if "metrics.jsonl line 1" in line]
    assert "episode_kind: Field required" in problem
    assert summary["training"]["episodes"] == 30


def test_an_empty_folder_gives_nulls_and_no_folder_is_an_error(tmp_path: Path) -> None:
    summary = build_summary(tmp_path)
    assert summary["training"]["episodes"] is None
    assert summary["reward"]["false_done_wilson95"] is None
    with pytest.raises(StoreError, match="must be an existing folder"):
        build_summary(tmp_path / "nowhere")


def test_each_target_is_judged_by_its_own_rule(own_run: Path) -> None:
    def met(name: str) -> bool | None:
        record = read_run(own_run)
        return {figure.name: figure for figure in figures(build_summary(own_run), record)}[name].met

    assert met("success of the policy") is True
    assert met("replay per transition") is True
    assert met("failures declared a success") is None
    (own_run / "eval_policy.json").write_text(
        json.dumps({"episodes": 100, "success": 94, "wilson95": [0.88, 0.97], "cycle_s": 4.0})
    )
    (own_run / "memory.json").write_text('{"peak_mb": 6000.0}')
    assert met("success of the policy") is False
    assert met("memory of all processes, peak") is False


def test_the_replay_target_shrinks_with_the_images_of_the_cell(finished_run: Path) -> None:
    record = read_run(finished_run)
    assert record.resolved is not None
    pixels = sum(camera.height_px * camera.width_px for camera in record.resolved.spec().cameras)
    line = next(f for f in figures(build_summary(finished_run), record) if f.name == "replay per transition")
    assert f"at most {105 * pixels / (2 * 128 * 128):.1f} KB" in line.target


SCORE = {
    "mean": 91.25,
    "most": 99.0,
    "parts": {"insertion": 75.0, "duration": 11.5, "jerk": 5.5, "path": 5.25, "force": 0.0, "contact": -6.0},
    "forced": 0,
    "touched": 25,
}


def test_the_score_of_an_insertion_is_told_beside_success_where_there_is_one(own_run: Path) -> None:
    assert "score" not in build_summary(own_run)["policy"]
    assert not any("score" in line.name for line in figures(build_summary(own_run), read_run(own_run)))
    path = own_run / "eval_policy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"score": SCORE}))
    summary = build_summary(own_run)
    assert summary["policy"]["score"] == SCORE
    (line,) = [line for line in figures(summary, read_run(own_run)) if "score" in line.name]
    assert line.name == "score of the policy as an insertion"
    assert line.value.startswith("91.2 of 99 (insertion 75.0, duration 11.5, ")
    assert line.value.endswith("contact -6.0)")


def test_figures_that_came_with_a_pulled_run_stay_unless_they_are_measured_here(own_run: Path, tmp_path: Path) -> None:
    came = write_summary(read_run(own_run))
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    for path in (RunPaths(own_run).resolved, RunPaths(own_run).summary):
        (pulled / path.name).write_bytes(path.read_bytes())
    summary = write_summary(read_run(pulled))
    assert summary["training"] == came["training"]
    assert summary["demos"] == came["demos"]
    assert summary["policy"] == came["policy"]
    evaluation = RunPaths(own_run).evaluation("policy")
    measured = json.loads(evaluation.read_text()) | {"success": 12}
    RunPaths(pulled).evaluation("policy").write_text(json.dumps(measured))
    assert write_summary(read_run(pulled))["policy"]["success"] == 12
    assert json.loads(RunPaths(pulled).summary.read_text())["training"] == came["training"]


@pytest.mark.parametrize("text", ["", "[1]", '{"training": 3}'])
def test_a_summary_that_cannot_be_kept_is_no_obstacle(tmp_path: Path, text: str) -> None:
    RunPaths(tmp_path).summary.write_text(text)
    assert write_summary(read_run(tmp_path))["training"]["episodes"] is None
