"""`robot-stack eval RUN --robustness` prints a row for each held-out range as it comes, and keeps the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robot_stack.cli import eval as verb
from robot_stack.cli import main
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.rollout import evaluate as evaluating
from robot_stack.rollout.evaluate import Evaluation
from robot_stack.types.errors import ConfigError
from robot_stack.workcell import variations
from sim.randomise import KEY, RandomiseConfig


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """The folder of a run whose policy is somebody else's matter: its evaluations are told."""
    (tmp_path / "run.yaml").write_text(load_run("peg_insert").to_yaml())

    def told(resolved, folder, params, tested, episodes) -> Evaluation:
        varied = load_resolved(folder / "run.yaml", [f"task.sim.{KEY}.tested=[{', '.join(tested)}]"])
        won = 1 if "noise" in varied.section(f"task.sim.{KEY}", RandomiseConfig).varying else episodes
        successes = [number < won for number in range(episodes)]
        return Evaluation(successes=successes, durations_s=[2.0] * episodes, ages_s=[0.03])

    monkeypatch.setattr(evaluating, "evaluate_held_out", told)
    monkeypatch.setattr(
        verb, "run_and_policy", lambda name, policy: (load_resolved(tmp_path / "run.yaml"), tmp_path, None)
    )
    return tmp_path


def test_each_row_has_counts_interval_and_cycle(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["eval", "peg", "--robustness", "--episodes", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| varied | success (95 % interval) | cycle |"
    assert lines[2] == "| as in training | 10 of 10 (72 to 100 %) | 2.0 s |"
    assert "| noise of 8 grey levels on each pixel | 1 of 10 (2 to 40 %) | 2.0 s |" in lines
    assert len(lines) == 2 + len(variations.rows(load_run("peg_insert"))) + 1
    kept = json.loads((folder / "robustness_policy.json").read_text())
    assert (kept["policy"], kept["rows"]["noise"]["success"]) == ("policy", 1)
    assert kept["rows"]["camera"]["varied"] == "cameras moved by 0.01 m and cameras tilted by 0.035 rad"


def test_as_json_it_is_what_is_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["eval", "peg", "--robustness", "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "robustness_policy.json").read_text())


def test_rows_that_count_more_of_the_same_parameters_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = folder / "robustness_policy.json"

    def counted() -> dict[str, int]:
        return {row: found["episodes"] for row, found in json.loads(kept.read_text())["rows"].items()}

    def ended(resolved, folder, params, tested, episodes) -> Evaluation:
        if tested:
            raise KeyboardInterrupt
        return Evaluation(successes=[True] * episodes, durations_s=[2.0] * episodes, ages_s=[0.03])

    assert main.main(["eval", "peg", "--robustness", "--episodes", "10"]) == 0
    monkeypatch.setattr(evaluating, "evaluate_held_out", ended)
    for episodes, of_first in (("2", 10), ("20", 20)):
        with pytest.raises(KeyboardInterrupt):
            verb.run("peg", episodes=int(episodes), robustness=True)
        assert counted() == {**dict.fromkeys(variations.rows(load_run("peg_insert")), 10), "none": of_first}
    assert f"Not kept: {kept} counts 10 episodes of this row and policy" in capsys.readouterr().out
    capsys.readouterr()
    monkeypatch.setattr(evaluating, "evaluate_held_out", lambda *said: ended(*said[:3], (), said[4]))
    assert main.main(["eval", "peg", "--robustness", "--episodes", "2", "--json"]) == 0
    assert {found["episodes"] for found in json.loads(capsys.readouterr().out)["rows"].values()} == {2}
    assert set(counted().values()) == {10, 20}
    monkeypatch.setattr(evaluating, "evaluate_held_out", ended)
    table = json.loads(kept.read_text())
    kept.write_text(json.dumps({**table, "params_version": 3}))
    with pytest.raises(KeyboardInterrupt):
        verb.run("peg", episodes=2, robustness=True)
    assert counted() == {"none": 2}


def test_a_table_is_of_what_is_so_and_not_of_what_a_model_says(folder: Path) -> None:
    with pytest.raises(ConfigError, match="judge is 'model', must be 'truth' with --robustness"):
        verb.run("peg", judge="model", robustness=True)


def test_a_place_that_takes_no_table_is_told_before_the_first_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "robustness_policy.json").mkdir()
    assert main.main(["eval", "peg", "--robustness", "--episodes", "2"]) == 1
    said = capsys.readouterr()
    assert "robustness_policy.json is a folder, must be a file" in said.err
    assert said.out == ""
