"""`robot-stack reward`: on synthetic episodes with a model that costs nothing, and on a synthetic run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from reward_models.interface import ClipQuery
from reward_models.progress.config import ProgressConfig
from robot_stack.cli.main import main
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward import evaluation as reward_evaluation
from robot_stack.learner.reward import synthetic as generated
from robot_stack.types.spec import Spec
from sim.episodes import GeneratedEpisode
from tests.report.fake_run import write_run
from tests.reward_models.watermarked import Watermark

TEXT = "insert the orange peg into the blue socket"


def synthetic(
    resolved: ResolvedRun, counts: dict[str, int], *, seed: Sequence[int], **_: object
) -> list[GeneratedEpisode]:
    """Episodes whose progress is in the first pixel of both views."""
    found = []
    for number, kind in enumerate(kind for kind, count in counts.items() for _ in range(count)):
        rng = np.random.default_rng((*seed, number))
        frames = int(rng.integers(8, 14))
        best = {"success": 1.0, "regress_recover": 1.0, "mismatch": 1.0, "partial": 0.45, "stall": 0.5}.get(kind, 0.2)
        shown = np.minimum(np.linspace(0, 1.6, frames), best)
        images = rng.integers(0, 256, (frames, 8, 8, 3), np.uint8)
        images[:, 0, 0] = np.round(255 * shown)[:, None].astype(np.uint8)
        success = kind in ("success", "regress_recover")
        found.append(
            GeneratedEpisode(
                kind=kind,
                seed=number,
                text="open the drawer" if kind == "mismatch" else TEXT,
                images={"front": images, "wrist": images},
                proprio=np.full((frames, resolved.spec().proprio_size), 0.1, np.float32),
                actions=np.zeros((frames - 1, 4), np.float32),
                success=success,
                done_at=int((shown >= 1).argmax()) if success else None,
                progress=shown * (kind != "mismatch"),
                stages=np.zeros(frames, np.int8),
            )
        )
    return found


def reads(query: ClipQuery) -> float:
    return float(query.frames[-1].view("front")[0, 0, 0]) / 255 if query.instruction.text == TEXT else 0.0


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No simulator and no fit; the list holds how many demonstrations each fit was given."""
    fitted: list[int] = []

    def fit(
        demos: Sequence[GeneratedEpisode],
        spec: Spec,
        *,
        seed: int,
        config: ProgressConfig,
        on_step: Callable[[int, int, float], None],
    ) -> Watermark:
        fitted.append(len(demos))
        on_step(1, 1, 0.0)
        return Watermark(reads)

    monkeypatch.setattr(reward_evaluation, "generate", synthetic)
    monkeypatch.setattr(reward_evaluation, "fit_embedded", fit)
    return fitted


def test_synthetic_episodes_end_in_json_table_and_page(
    cheap: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "eval.json"
    assert main(["reward", "eval", "--generated", "--out", str(out), "--episodes", "40"]) == 0
    assert cheap == [12]
    found = json.loads(out.read_text())
    assert found["sections"]["about"]["episodes"]["scored"] == 40
    assert found["fit_s"] >= 0
    assert found["beats_null"]["clock"] is True
    assert found["causal"] is True
    assert found["final_phi"]["success"] == pytest.approx(1.0)
    said = capsys.readouterr()
    assert said.out.startswith("watermark: ")
    assert "  left beside: false done 0 of " in said.out
    assert said.out.count(", a kind it never saw") == 12  # all kinds of failure; it was fitted on successes
    assert "By kind of failure" in out.with_suffix(".html").read_text()
    assert f"Report: {out.with_suffix('.html')}" in said.out.splitlines()
    assert "scored episode 40 of 40" in said.err
    assert out.with_suffix(".csv").read_text().count("\n") == 41
    assert "<html" in out.with_suffix(".html").read_text()


def test_json_is_the_file_and_all_there_is_on_stdout(
    cheap: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "eval.json"
    arguments = ["reward", "eval", "--generated", "--out", str(out), "--episodes", "14", "--every", "2", "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(out.read_text())
    assert found["sections"]["about"]["dt_s"] == 0.2


def test_number_of_episodes_in_the_help_is_the_one_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reward", "eval", "--help"])
    assert f"synthetic: {generated.FULL};" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [("reward",), ("reward", "eval"), ("reward", "eval", "x", "--generated"), ("reward", "audit"),
     ("reward", "fit", "x"), ("reward", "eval", "x", "--every", "0")],
)  # fmt: skip
def test_wrong_usage_is_exit_code_two(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2


def test_too_few_synthetic_episodes_are_refused_before_anything_is_made(
    cheap: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reward", "eval", "--generated", "--episodes", "3"]) == 1
    assert "must be at least 14" in capsys.readouterr().err
    assert cheap == []


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "peg"
    write_run(folder, online=12, stored=12)
    return folder


def test_run_is_evaluated_with_its_own_model_and_labels(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reward_evaluation, "run_model", lambda folder, resolved: Watermark(reads))
    out = tmp_path / "own.json"
    assert main(["reward", "eval", str(run_folder), "--out", str(out), "--episodes", "8"]) == 0
    found = json.loads(out.read_text())
    assert found["sections"]["about"]["episodes"]["scored"] == 8
    assert (found["fit_s"], found["mae"]) == (None, None)
    assert capsys.readouterr().out.splitlines()[-1] == f"Next: open it, or robot-stack reward audit {run_folder}"


def test_run_without_a_reward_model_is_refused_in_words(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reward", "eval", str(run_folder)]) == 1
    assert "finish its demonstrations first" in capsys.readouterr().err


def test_audit_prints_groups_and_where_the_page_is(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reward", "audit", str(run_folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("demonstrations: 0 episodes")
    assert lines[1].startswith("online training, first third: 4 episodes, highest Φ ")
    assert f"Report: {run_folder / 'reward_audit.html'}" in lines
    assert main(["reward", "audit", str(run_folder), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"opd", "false_done", "missed", "telling"}
