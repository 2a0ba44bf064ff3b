"""The verbs on a run folder: a policy that has learned nothing, in the simulator, for real."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from policies.acting import actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.learner import LearnerSpec
from policies.registry import find_algorithm
from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.learner.fitting import image_shapes, write_tensors
from robot_stack.learner.reward import success_model
from robot_stack.runs.paths import RunPaths
from tests.rollout.test_judged import SaysSo


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose policy was never trained, and whose episodes are over after half a second."""
    folder = tmp_path_factory.mktemp("runs") / "untrained"
    folder.mkdir()
    resolved = load_run("peg_insert", ["task.episode_steps=5"])
    RunPaths(folder).resolved.write_text(resolved.to_yaml())
    spec = resolved.spec()
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(image_shapes(spec), 4)
    size = spec.proprio_size
    sizes = LearnerSpec(
        parts=trunk.parts, proprio_mean=torch.zeros(size), proprio_std=torch.ones(size), actions=spec.action_size
    )
    algorithm = find_algorithm("bc")
    config = algorithm.config(head=8, hidden=(16,))
    learner = algorithm.builders().learner(sizes, config, seed=0)
    tensors = pack_tensors(trunk, learner.actor_tensors())
    metadata = actor_metadata(trunk, algorithm="bc", config=config)
    write_tensors(
        folder / "policy.safetensors",
        {name: torch.from_numpy(np.array(value)) for name, value in tensors.items()},
        {**metadata, "version": "1", "spec_digest": spec.digest},
    )
    return folder


def test_eval_counts_the_successes_of_the_saved_policy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(folder), "--episodes", "2", "--json"]) == 0
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert (result["episodes"], result["success"], result["cycle_s"]) == (2, 0, None)
    assert result["wilson95"][1] < 1
    assert said.err.splitlines() == ["episode 1 of 2: failure", "episode 2 of 2: failure"]


def test_what_eval_counts_is_kept_for_the_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = RunPaths(folder).evaluation("policy")
    kept.write_text("broken")
    assert main(["eval", str(folder), "--episodes", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    told = json.loads(kept.read_text())
    said |= {"successes": [False] * 2, "durations_s": [0.5] * 2, "params_version": 1}
    assert {"run": folder.name, "policy": "policy", **told} == said
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"]["episodes"] == 2


def test_a_quick_look_replaces_no_longer_evaluation_of_the_same_policy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = RunPaths(folder).evaluation("policy")
    kept.unlink(missing_ok=True)
    for episodes, kept_episodes in ((2, 2), (1, 2), (2, 2)):
        assert main(["eval", str(folder), "--episodes", str(episodes)]) == 0
        assert json.loads(kept.read_text())["episodes"] == kept_episodes
        assert ("Not kept" in capsys.readouterr().out) is (episodes < kept_episodes)
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "params_version": 0}))  # it was trained on since
    assert main(["eval", str(folder), "--episodes", "1"]) == 0
    assert json.loads(kept.read_text())["episodes"] == 1


def test_a_place_that_takes_no_evaluation_is_told_before_the_first_episode(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = RunPaths(folder).evaluation("policy")
    kept.unlink(missing_ok=True)
    kept.mkdir()
    assert main(["eval", str(folder), "--episodes", "1"]) == 1
    kept.rmdir()
    assert capsys.readouterr().err == f"{kept} is a folder, must be a file; name one in it\n"


def test_eval_says_its_result_in_a_sentence_and_what_comes_next(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(folder), "--episodes", "1"]) == 0
    result, kept, following = capsys.readouterr().out.splitlines()
    assert result.startswith("policy: 0 of 1 succeeded (95 % interval 0 to ")
    assert kept == f"Kept in {RunPaths(folder).evaluation('policy')}"
    assert following == f"Next: robot-stack report {folder}"


def test_eval_can_be_judged_by_the_runs_own_success_model(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["eval", str(folder), "--episodes", "2", "--judge", "model"]) == 1
    assert "must be at least 1; finish its demonstrations first" in capsys.readouterr().err
    monkeypatch.setattr(success_model, "run_success_model", lambda folder, resolved: SaysSo(after=3))
    kept = RunPaths(folder).evaluation("policy")
    kept.write_text("{}")
    assert main(["eval", str(folder), "--episodes", "2", "--judge", "model"]) == 0
    assert kept.read_text() == "{}", "of episodes that the simulator ends"
    result, judged, _ = capsys.readouterr().out.splitlines()
    assert result.startswith("policy: 0 of 2 succeeded")
    assert judged == (
        "success model: declared 2 of 2; 2 of them falsely (95 % interval of all episodes 34 to 100.0 %); "
        "missed 0 of 0 that were done"
    )


def test_report_writes_a_page_of_what_there_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Report: {folder / 'report.html'}"
    assert lines[-1].startswith("Next: ")
    assert "<html" in (folder / "report.html").read_text()


def test_report_gives_its_summary_to_scripts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "peg_insert"
