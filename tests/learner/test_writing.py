"""Formulas by a language model: asked over HTTP on what was recorded, told what came of each answer, the best kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from benchmarks.tiny_run import header_of, steps_of, write_run
from reward_models.expression.asking import EpisodeValues, Tried, question, read
from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.paths import RunPaths
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason
from tests.reward_models.bad_server import Behaviour, Server, hangs_up, says

WAY = np.linspace(0.0, 1.0, 11)


def recorded(end: float = 1.0, *, success: bool = True) -> EpisodeValues:
    return EpisodeValues(
        values={"tcp_pose": np.outer(end * WAY, np.ones(6)), "gripper": np.ones((11, 1))}, success=success
    )


EPISODES = [recorded(), recorded(1.2), recorded(0.5, success=False)]
GOOD = {"progress": "tcp_pose[0]", "success": "tcp_pose[0] > 0.9"}


def test_the_question_says_what_was_recorded_and_what_earlier_answers_were_worth() -> None:
    refused = Tried(formulas=None, refusal="progress: formula reads elbow, must read some of gripper, tcp_pose")
    (text,) = question("insert the peg", EPISODES, [("{...}", refused)]).user
    assert isinstance(text, str)
    assert text.startswith("Task of the robot: insert the peg\n")
    assert "- tcp_pose, 6 numbers (x, y, z of the tool in metres" in text
    assert "[5] begins at 0 ± 0, ends at 1.1 ± 0.1, from 0 to 1.2" in text
    assert "formula reads elbow" in text


@pytest.mark.parametrize("around", ["{}", "Here it is:\n```json\n{}\n```\nIt rises.", "{} {{", "{{x, y}}: {}"])
def test_an_answer_is_read_whatever_stands_around_it(around: str) -> None:
    tried = read(around.replace("{}", json.dumps(GOOD)), EPISODES)
    assert tried.formulas is not None
    assert tried.voc > 0.99  # the second episode is clamped at its end
    assert (tried.ends_done, tried.early_done, tried.failures_done) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "no JSON object"),
        ("I cannot help with that.", "no JSON object"),
        ("[" * 5000, "no JSON object"),
        ('{"progress": "tcp_pose[0]"}', "no JSON object"),
        ('{"progress": 1, "success": "1"}', "no JSON object"),
        ('{"progress": ' + "1" * 5000 + ', "success": "1"}', "no JSON object"),
        (json.dumps({**GOOD, "progress": "max(tcp_pose[:2] < 0 < tcp_pose)"}), "joins 2 and 6 numbers"),
        (json.dumps({**GOOD, "progress": "__import__('os').system('true')"}), "progress: formula holds"),
        (json.dumps({**GOOD, "success": "peg_pose[2] < 0"}), "success: formula reads peg_pose"),
        (json.dumps({**GOOD, "success": "tcp_pose < 0"}), "success: formula comes to 6 numbers"),
    ],
)
def test_an_answer_that_cannot_be_taken_says_why(answer: str, says: str) -> None:
    tried = read(answer, EPISODES)
    assert tried.formulas is None
    assert says in tried.refusal
    assert tried.worth == -np.inf


def test_formulas_that_call_failures_or_beginnings_done_are_worth_less() -> None:
    worth = [
        read(json.dumps({**GOOD, "success": success}), EPISODES).worth
        for success in ("tcp_pose[0] > 0.9", "tcp_pose[0] > 0.45", "1", "0", "1 / 0")
    ]
    assert worth[0] == max(worth)
    assert worth[2] < worth[1]
    assert worth[3] == worth[4]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with three demonstrations, whose proprio is noise."""
    folder = tmp_path / "run"
    resolved = write_run(folder)
    with EpisodeStore(RunPaths(folder).store.root, resolved.spec(), resolved.task.name) as store:
        for number in range(3):
            name = f"{number:06d}-demo-a"
            store.begin(header_of(resolved, name))
            for step in steps_of(resolved.spec(), name, 12, EndReason.SUCCESS):
                store.append(step)
            label = Label(
                episode_id=name, verdict=Verdict.SUCCESS, source=LabelSource.OPERATOR, stamp_unix_s=float(number)
            )
            store.append_label(label)
    return folder


def written(run: Path, *script: Behaviour, rounds: int = 3) -> tuple[int, Server]:
    settings = run.parent / "server.yaml"
    with Server(*script) as server:
        settings.write_text(json.dumps({"server": {"url": server.url, "model": "any", "timeout_s": 5.0}}))
        words = [
            "reward",
            "write",
            str(run),
            "--settings",
            str(settings),
            "--out",
            str(run.parent / "new/formulas.yaml"),
        ]
        return main([*words, "--rounds", str(rounds)]), server


def test_a_place_that_takes_no_file_is_told_before_the_first_question(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.parent / "new").touch()
    code, server = written(run)
    (run.parent / "new").unlink()
    assert code == 1
    assert "a trial of writing" in capsys.readouterr().err
    assert not server.paths


def test_the_best_answer_is_written_as_settings_and_each_is_told_to_the_model(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    better = {"progress": "norm(tcp_pose - first(tcp_pose))", "success": "norm(tcp_pose - first(tcp_pose)) > 0"}
    answers = ({"progress": "elbow", "success": "1"}, better, {"progress": "0", "success": "0"})
    code, server = written(run, *(says(json.dumps(answer)) for answer in answers))
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert YAML(typ="safe").load(run.parent / "new/formulas.yaml") == better
    assert "1 of 3 answers could not be taken" in printed.out
    asked = [body["messages"][-1]["content"][0]["text"] for body in server.bodies]
    assert "formula reads elbow" not in asked[0]
    assert "formula reads elbow, must read some of" in asked[1]
    assert "rank correlation" in asked[2]
    assert printed.out.splitlines()[-1].startswith("Next: read them, then robot-stack reward eval")


@pytest.mark.long
def test_what_is_printed_next_judges_the_formulas_on_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run is of another reward model, and has fitted none yet."""
    good = {"progress": "norm(tcp_pose - first(tcp_pose))", "success": "norm(tcp_pose - first(tcp_pose)) > 0.01"}
    code, _ = written(run, says(json.dumps(good)), rounds=1)
    assert code == 0
    *_, last = capsys.readouterr().out.splitlines()
    _, _, command = last.partition("then robot-stack ")
    assert main([*command.split(), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["sections"]["about"]["episodes"]["success"] == 3


@pytest.mark.long
def test_an_answer_that_was_good_is_kept_when_the_server_dies(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = written(run, says(json.dumps({"progress": "1", "success": "1"})), hangs_up)
    assert code == 0, capsys.readouterr().err
    assert (run.parent / "new/formulas.yaml").exists()


def test_a_run_of_several_tasks_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resolved = load_run("peg_in_and_out")
    RunPaths(run).resolved.write_text(resolved.to_yaml())
    code, _ = written(run, says(json.dumps(GOOD)))
    assert code == 1
    assert "has 2 tasks, must have one" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "says_"),
    [
        ((says("no"),), "none holds formulas that can be taken (the answer is no JSON object"),
        ((says(json.dumps(GOOD), finish_reason="length"),), "the answer is longer than 2000 tokens"),
        ((hangs_up,), "gave no answer, must answer"),
    ],
)
def test_a_server_without_an_answer_writes_nothing(
    run: Path, script: tuple[Behaviour, ...], says_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = written(run, *script, rounds=1)
    assert code == 1
    assert says_ in capsys.readouterr().err
    assert not list((run.parent / "new").iterdir())


@pytest.mark.long
@pytest.mark.parametrize(
    ("content", "says_"),
    [
        ("{}", "server of"),
        ("{server: {url: 'http://127.0.0.1:1/v1'}}", "server.model of"),
        ("{server: {url: ftp://x, model: m}}", "server.url of"),
        ("[", "must be readable YAML"),
    ],
)
def test_settings_that_name_no_server_are_refused(
    run: Path, content: str, says_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = run.parent / "server.yaml"
    settings.write_text(content)
    assert main(["reward", "write", str(run), "--settings", str(settings), "--out", str(run.parent / "out.yaml")]) == 1
    assert says_ in capsys.readouterr().err
