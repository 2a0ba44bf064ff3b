"""`robot-stack reward`: on synthetic episodes with a model that costs nothing, and on a synthetic run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from reward_models.interface import ClipQuery
from reward_models.progress.config import ProgressConfig
from robot_stack.cli.main import main
from robot_stack.cli.reward import PER_ROW
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward import evaluation as reward_evaluation
from robot_stack.learner.reward import generalisation, labelled
from robot_stack.learner.reward import probing as reward_probing
from robot_stack.learner.reward import synthetic as generated
from robot_stack.runs.paths import RunPaths
from robot_stack.types.event import Verdict
from robot_stack.types.spec import Spec
from sim.episodes import GeneratedEpisode
from tests.report.fake_run import VERSION, write_run
from tests.reward_models import seeing_server
from tests.reward_models.bad_server import Server, raw, says
from tests.reward_models.seeing_server import sees
from tests.reward_models.spoken import BRIGHT, DIM
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
    said = " ".join(capsys.readouterr().out.split())
    assert f"synthetic: {generated.FULL};" in said
    assert f"of a row of --robustness: {PER_ROW})" in said


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


@pytest.mark.parametrize("words", [[], ["--robustness"]])
@pytest.mark.parametrize("place", ["folder", "file/x.json", "n" * 300, "folder/page.html"])
def test_a_place_that_figures_cannot_go_to_is_refused_before_anything_is_fitted(
    cheap: list[int], tmp_path: Path, words: list[str], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Minutes of fitting ended in IsADirectoryError, and the figures were gone."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    if place.endswith(".html"):
        place = place if not words else "folder"
    assert main(["reward", "eval", "--generated", *words, "--out", str(tmp_path / place)]) == 1
    assert f"{tmp_path / place}"[:60] in capsys.readouterr().err
    assert cheap == []
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "file", tmp_path / "folder"]


def test_table_of_robustness_has_a_row_as_soon_as_it_is_measured(
    cheap: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generalisation, "generate", synthetic)
    out = tmp_path / "table.json"
    words = ["reward", "eval", "--generated", "--robustness", "--episodes", "14", "--out", str(out)]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("| varied | VOC | error of Φ | AUC | false done | missed | alarms")
    assert lines[2].startswith("| as in training | 0.977 | 0.000 | 1.000 | 0 of 12 | 0 of 2 |")
    assert lines[2].endswith(" | - | none |")
    assert lines[-1] == f"Figures: {out}"
    found = json.loads(out.read_text())
    assert (found["seed"], found["episodes"], found["model"], found["task"]) == (0, 14, "watermark", "peg_insert")
    assert len(found["rows"]) == len(lines) - 3
    assert cheap == [12]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize("words", [["x"], ["x", "--model", "grm"]])
def test_what_is_recorded_cannot_vary(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reward", "eval", *words, "--robustness"]) == 1
    assert "--robustness is of recorded episodes or a run's model, must be" in capsys.readouterr().err


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "peg"
    write_run(folder, online=12, stored=12)
    return folder


def test_run_is_evaluated_with_its_own_model_and_labels(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reward_evaluation, "run_model", lambda folder, resolved: Watermark(reads))
    run = shutil.copytree(run_folder, tmp_path / "own")
    paths, out = RunPaths(run), tmp_path / "own.json"
    for file in (paths.trunk, paths.reward(VERSION)):
        file.touch()
    assert main(["reward", "eval", str(run), "--out", str(out), "--episodes", "8"]) == 0
    found = json.loads(out.read_text())
    assert found["sections"]["about"]["episodes"]["scored"] == 8
    assert (found["fit_s"], found["mae"]) == (None, None)
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "  whether it was trained on them is not known: its fit did not note its episodes"
    assert said[-1] == f"Next: open it, or robot-stack reward audit {run}"


def plain(resolved: ResolvedRun, counts: dict[str, int], *, seed: Sequence[int], **_: object) -> list[GeneratedEpisode]:
    """The same episodes, their progress in the brightness of every pixel, which survives a resize."""
    made = synthetic(resolved, counts, seed=seed)
    for one in made:
        images = one.images["front"]  # of both views
        shown = images[:, 0, 0].astype(np.float64)[:, None, None] / 255
        images[:] = np.round(DIM + (BRIGHT - DIM) * shown).astype(np.uint8)
    return made


def settings_file(folder: Path, server: Server, **more: object) -> Path:
    path = folder / "settings.yaml"
    path.write_text(json.dumps({"server": {"url": server.url, "model": "any"}, **more}))
    return path


@pytest.mark.long
def test_a_large_model_is_judged_over_http_with_its_cost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reward_evaluation, "generate", plain)
    out, count = tmp_path / "eval.json", str(len(generated.SHARES))
    with Server(sees(seeing_server.roboreward)) as server:
        settings = settings_file(tmp_path, server, frames=2)
        arguments = ["--model", "roboreward", "--settings", str(settings), "--episodes", count, "--out", str(out)]
        assert main(["reward", "eval", "--generated", *arguments]) == 0
        asked = len(server.bodies)
    found = json.loads(out.read_text())
    assert found["sections"]["about"]["model"] == "roboreward"
    assert found["sections"]["about"]["dt_s"] == 0.5  # every fifth frame, as a run asks
    assert found["sections"]["about"]["episodes"]["scored"] == len(generated.SHARES)
    assert found["voc_success"] == 1.0
    cost = found["sections"]["cost"]
    assert cost["queries"] > asked > 0  # what shows a black camera is not asked
    assert found["sections"]["robustness"]["front dark"]["unreadable"] == 1.0
    assert cost["queries_per_frame"] == 1.0
    assert 0 < cost["ms_p50"] <= cost["ms_p95"]
    assert "; 1.0 questions a frame" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--model", "gmr"],
            "reward model is 'gmr', must be one of classifier, clip, expression, grm, .*did you mean 'grm'",
        ),
        (["--model", "grm"], "settings of reward model grm are missing, must say where it is"),
        (["--settings", "there.yaml"], "settings there.yaml are of no model, must be of one; name it with --model"),
        (["--model", "grm", "--settings", "nowhere.yaml"], "settings file is nowhere.yaml, must be readable YAML"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_before_anything_is_made(
    cheap: list[int], capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["reward", "eval", "--generated", *arguments]) == 1
    assert re.search(words, " ".join(capsys.readouterr().err.split()))
    assert cheap == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "holds a list, must be a mapping as under settings: in a run's file"),
        ("{server: {url: 'http://127.0.0.1:1/v1', model: any}, fushion: mean}", "model grm are wrong: fus"),
        ("{server: [", "must be readable YAML"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(
    cheap: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert main(["reward", "eval", "--generated", "--model", "grm", "--settings", str(path)]) == 1
    assert words in " ".join(capsys.readouterr().err.split())


def test_probe_asks_a_server_by_its_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reward_probing, "generate", plain)
    models = json.dumps({"data": [{"id": "GRM-3B"}]}).encode()
    with Server(lambda handler, body: handler.reply(200, models), sees(seeing_server.grm)) as server:
        assert main(["reward", "probe", server.url, "--model", "grm"]) == 0
        assert {body["model"] for body in server.bodies[1:]} == {"GRM-3B"}
    assert capsys.readouterr().out.startswith("grm answers sensibly: ")


def test_probe_of_lrm_by_its_address_asks_the_adapters_that_are_served(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reward_probing, "generate", plain)
    monkeypatch.setenv("REWARD_TOKEN", "s3cret-token")
    settings = tmp_path / "place.yaml"
    settings.write_text("server: {token_env: REWARD_TOKEN, timeout_s: 20, concurrency: 1}")
    models = json.dumps({"data": [{"id": "Qwen"}, {"id": "progress"}]}).encode()
    with Server(lambda handler, body: handler.reply(200, models), sees(seeing_server.lrm)) as server:
        assert main(["reward", "probe", server.url, "--model", "lrm", "--settings", str(settings)]) == 0
        assert {body["model"] for body in server.bodies[1:]} == {"progress"}
        assert {headers["Authorization"] for headers in server.headers} == {"Bearer s3cret-token"}
    assert capsys.readouterr().out.startswith("lrm answers sensibly: ")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("weights: {model: x}", "settings name a place, must not beside the URL"),
        ("server: {url: 'http://127.0.0.1:1/v1'}", "settings name a place, must not beside the URL"),
        ("server: here", "server of the settings is 'here', must be a mapping"),
        ("server: {timeout: 3}", "server of the settings is wrong: timeout: Extra inputs"),
        ("server: {timeout_s: 3}", "models at {url} are GRM-3B, other, must be one; name it with --served"),
    ],
)
def test_probe_of_a_url_with_settings_that_do_not_fit_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, words: str
) -> None:
    settings = tmp_path / "place.yaml"
    settings.write_text(place)
    models = json.dumps({"data": [{"id": "GRM-3B"}, {"id": "other"}]}).encode()
    with Server(raw(models)) as server:
        assert main(["reward", "probe", server.url, "--model", "grm", "--settings", str(settings)]) == 1
        assert words.replace("{url}", server.url) in " ".join(capsys.readouterr().err.split())
        assert main(["reward", "probe", server.url, "--model", "lrm"]) == 1
    assert "must be at least one of contrastive, progress, completion" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (["probe", "grm"], "add --run RUN"),
        (["eval", "--generated", "--model", "grm"], "give RUN in place of --generated"),
    ],
)
def test_views_that_the_simulated_cell_lacks_are_refused_before_anything_is_recorded(
    command: list[str],
    instead: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = tmp_path / "grm.yaml"
    settings.write_text("{views: [front, left_wrist], server: {url: 'http://127.0.0.1:1/v1', model: any}}")
    monkeypatch.setattr(reward_probing, "generate", None)
    monkeypatch.setattr(reward_evaluation, "generate", None)
    assert main(["reward", *command, "--settings", str(settings)]) == 1
    assert capsys.readouterr().err.strip() == (
        "cameras of cell sim are ['front', 'wrist'], must include ['left_wrist'], which the model's views name; "
        f"name those in views, or {instead}"
    )


def test_probe_of_a_server_that_answers_the_wrong_way_round_is_exit_code_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reward_probing, "generate", plain)
    with Server(sees(seeing_server.grm_inverted)) as server:
        settings = settings_file(tmp_path, server)
        assert main(["reward", "probe", "grm", "--settings", str(settings), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["sensible"] is False
    assert found["sentence"].startswith("grm does not answer sensibly: the finished clip goes from ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://127.0.0.1:1/v1"], "kind of the model at http://127.0.0.1:1/v1 is missing, must be named"),
        (["http://127.0.0.1:1/v1", "--model", "grm"], "does not say which models it has (ConnectError"),
        (["grm", "--model", "vlac"], "--model and --served are given with 'grm', must go with a URL"),
        (["grm"], "settings of reward model grm are missing"),
        (["progress"], "reward model progress is fitted in a run, must be probed in one; add --run RUN"),
        (["grmm"], "did you mean 'grm'?"),
    ],
)
def test_probe_of_what_cannot_be_asked_says_why(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["reward", "probe", *arguments]) == 1
    assert words in " ".join(capsys.readouterr().err.split())


def test_probe_of_a_run_takes_its_demonstrations_and_reads_no_more(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    reading = labelled.read_episode
    monkeypatch.setattr(labelled, "read_episode", lambda path: opened.append(path.stem) or reading(path))
    with Server(says("<score>+0%</score>")) as server:
        settings = settings_file(tmp_path, server)
        assert main(["reward", "probe", "grm", "--settings", str(settings), "--run", str(run_folder)]) == 1
        assert server.bodies
    assert "the finished clip goes from" in capsys.readouterr().out
    stored = sorted(path.stem for path in labelled.store_of(run_folder).episodes.iterdir())
    labels = labelled.labels_of(run_folder)
    assert opened == [name for name in stored if labels.get(name) is Verdict.SUCCESS][:2]


@pytest.mark.long
def test_a_dataset_is_evaluated_with_a_large_model_or_a_model_of_the_same_cell(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(run_folder / "store", data)
    assert main(["reward", "eval", str(data)]) == 1
    assert f"reward model for {data} is missing, must be named" in " ".join(capsys.readouterr().err.split())
    assert main(["reward", "eval", str(data), "--model", "progress"]) == 1
    assert "must be a large one, formulas with settings, or a run, whose own model is fitted" in " ".join(
        capsys.readouterr().err.split()
    )
    other = tmp_path / "other"
    other.mkdir()
    text = (run_folder / "run.yaml").read_text()
    (other / "run.yaml").write_text(text.replace("translation_m: 0.01", "translation_m: 0.005", 1))
    assert main(["reward", "eval", str(data), "--model", str(other)]) == 1
    assert f"cell of {data} is (" in (said := " ".join(capsys.readouterr().err.split()))
    assert "take episodes of that cell" in said
    with Server(says("ANSWER: 3")) as server:
        settings = settings_file(tmp_path, server, frames=1)
        arguments = ["--model", "roboreward", "--settings", str(settings), "--every", "50", "--episodes", "6"]
        assert main(["reward", "eval", str(data), *arguments, "--out", str(tmp_path / "e.json")]) == 0
    found = json.loads((tmp_path / "e.json").read_text())
    assert (found["sections"]["about"]["model"], found["voc_success"]) == ("roboreward", 0.0)


def test_a_run_without_the_wanted_model_is_refused(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reward", "eval", str(run_folder), "--model", "classifier"]) == 1
    assert "finish its demonstrations first" in capsys.readouterr().err
    assert main(["reward", "eval", str(run_folder), "--model", "vlac"]) == 1
    assert "settings of reward model vlac are missing" in " ".join(capsys.readouterr().err.split())


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
