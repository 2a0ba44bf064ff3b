"""Policies and episodes pushed and pulled, with the Hub's own client against a local server, and as folders."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from robot_stack.cli.main import main
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.hub.folder import CARD, receive
from robot_stack.hub.remote import upload
from robot_stack.types.errors import ConfigError, StackError, StoreError
from tests.hub.hub_server import COMMIT, TOKEN, HubServer
from tests.report.fake_run import write_run

hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: pip install 'robot-stack[hub]'")

SECRETS = ("link.token", "wire.key", "console.url", "learner.address")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs/peg, which has a policy, and the secrets of a run."""
    place = tmp_path_factory.mktemp("place")
    run = place / "runs/peg"
    write_run(run, online=6, stored=2)
    digest = load_resolved(run / "run.yaml").spec().digest
    tensors = {"actor.weight": np.arange(6, dtype=np.float32)}
    save_file(tensors, run / "policy.safetensors", {"spec_digest": digest, "version": "7", "algorithm": "rlpd"})
    for name in SECRETS:
        (run / name).write_text("a secret of this lab")
    return place


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "place"))


@pytest.fixture
def server() -> Iterator[HubServer]:
    serving = HubServer()
    yield serving
    serving.close()


def said(place: Path, *words: str, endpoint: str = "", token: str = TOKEN) -> tuple[int, str]:
    """Run the command; returns its exit code and everything that it said.

    With an endpoint in a process of its own, since the Hub's client reads its surroundings when it is imported.
    """
    if not endpoint:
        heard = io.StringIO()
        with contextlib.chdir(place), contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            return main(words), heard.getvalue()
    home = {"HF_HOME": str(place / "hf"), "HF_ENDPOINT": endpoint, "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "robot_stack.cli.main", *words],
        cwd=place, env={**os.environ, **home}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def same(one: Path, other: Path, *names: str) -> bool:
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


TRAVEL = ("run.yaml", "policy.safetensors", "eval_policy.json")


def test_a_policy_goes_through_a_folder_and_comes_back(place: Path) -> None:
    code, words = said(place, "push", "peg", "--folder", "given", "--license", "mit")
    assert code == 0, words
    assert sorted(path.name for path in (place / "given").iterdir()) == sorted([CARD, *TRAVEL])
    assert not any("secret" in path.read_text(errors="ignore") for path in (place / "given").iterdir())
    code, words = said(place, "pull", "mine", "--folder", "given")
    assert code == 0, words
    assert "Next: robot-stack eval mine" in words
    assert same(place / "runs/peg", place / "runs/mine", *TRAVEL)


def test_whose_limits_they_are_is_said_of_a_real_arms_policy(place: Path) -> None:
    run = place / "runs/peg"
    resolved = load_run("fr3_table")
    (run / "run.yaml").write_text(resolved.to_yaml())
    save_file({"a": np.zeros(1)}, run / "policy.safetensors", {"version": "7", "spec_digest": resolved.spec().digest})
    assert said(place, "push", "peg", "--folder", "given")[0] == 0
    code, words = said(place, "pull", "mine", "--folder", "given")
    assert code == 0, words
    assert "are those of its maker's cell, and nobody has checked them" in words
    assert "Next: read and correct them" in words


def test_the_hubs_own_parser_reads_the_card(place: Path) -> None:
    assert said(place, "push", "peg", "--folder", "given", "--license", "mit")[0] == 0
    card = hub.ModelCard.load(place / "given" / CARD)
    assert (card.data.library_name, card.data.pipeline_tag, card.data.license) == ("robot-stack", "robotics", "mit")
    (result,) = card.data.eval_results
    assert result.metric_value == 0.97
    assert "95 % interval 92 to 99 %" in result.metric_name
    assert {"rlpd", "human-in-the-loop"} <= set(card.data.tags)
    assert "**97 of 100 (92 to 99 %)**" in card.text
    assert "not a safety-rated function" in card.text
    assert "| demonstrations | 3 |" in card.text


@pytest.mark.parametrize("before", [None, 6])
def test_a_run_that_was_not_evaluated_claims_nothing(place: Path, before: int | None) -> None:
    """Nor does one whose evaluation is of parameters that have been replaced."""
    path = place / "runs/peg/eval_policy.json"
    if before is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), "params_version": before}))
    assert said(place, "push", "peg", "--folder", "given")[0] == 0
    card = hub.ModelCard.load(place / "given" / CARD)
    assert card.data.eval_results is None
    assert "of 100" not in card.text.partition("## How it was trained")[0].replace("52 of 100", "")
    assert not (place / "given/eval_policy.json").exists()


@pytest.mark.long
def test_a_policy_goes_over_the_hub_and_comes_back(place: Path, server: HubServer) -> None:
    code, words = said(place, "push", "peg", "--hub", "someone/peg", "--private", endpoint=server.url)
    assert code == 0, words
    assert "Pushed: " in words
    assert sorted(server.repositories["models/someone/peg"]) == sorted([CARD, *TRAVEL])
    assert server.private == {"models/someone/peg": True}
    assert "robot-stack pull --hub someone/peg" in server.repositories["models/someone/peg"][CARD].decode()
    server.repositories["models/someone/peg"]["extra.py"] = b"raise SystemExit('executed')"
    code, words = said(place, "pull", "mine", "--hub", "someone/peg", endpoint=server.url)
    assert code == 0, words
    assert same(place / "runs/peg", place / "runs/mine", *TRAVEL)
    assert sorted(path.name for path in (place / "runs/mine").iterdir()) == sorted(TRAVEL)
    (place / "runs/peg/eval_policy.json").unlink()
    code, words = said(place, "push", "peg", "--hub", "someone/peg", endpoint=server.url)
    assert code == 0, words
    assert sorted(server.repositories["models/someone/peg"]) == [CARD, "policy.safetensors", "run.yaml"], (
        "a second time"
    )


def test_what_is_to_be_private_is_not_sent_to_a_public_place(place: Path, server: HubServer) -> None:
    server.repositories["models/someone/peg"], server.private["models/someone/peg"] = {}, False
    code, words = said(place, "push", "peg", "--hub", "someone/peg", "--private", endpoint=server.url)
    assert code == 1
    assert "is there already and public, must be private" in words
    assert server.repositories["models/someone/peg"] == {}


def test_each_policy_goes_with_its_own_result(place: Path) -> None:
    for name in ("bc", "best"):
        shutil.copyfile(place / "runs/peg/policy.safetensors", place / f"runs/peg/{name}.safetensors")
    (place / "runs/peg/summary.json").write_text("{}")
    for name, result in (("bc", 0.52), ("best", None)):
        code, words = said(place, "push", "peg", "--folder", name, "--policy", name)
        assert code == 0, words
        card = hub.ModelCard.load(place / name / CARD)
        assert (card.data.eval_results[0].metric_value if card.data.eval_results else None) == result
        assert "97 of 100" not in card.text
        assert (place / name / "eval_policy.json").exists() == (result is not None)
        assert not (place / name / "summary.json").exists()


@pytest.mark.parametrize("before", [{}, {"v3.0": "f" * 40, "v2.1": "e" * 40}])
def test_pushed_episodes_have_the_tag_by_which_lerobot_loads_them(
    place: Path, server: HubServer, monkeypatch: pytest.MonkeyPatch, before: dict[str, str]
) -> None:
    name = "datasets/someone/episodes"
    server.repositories[name], server.private[name], server.tags[name] = {}, False, dict(before)
    (place / "given").mkdir()
    (place / "given/README.md").write_text("episodes")
    monkeypatch.setattr(hub, "HfApi", partial(hub.HfApi, endpoint=server.url, token=TOKEN))
    assert upload(hub, place / "given", "someone/episodes", "dataset", private=False).endswith("/commit/1")
    assert server.tags[name] == before | {"v3.0": COMMIT}


@pytest.mark.long
def test_episodes_go_over_the_hub_in_lerobots_format(place: Path, server: HubServer) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")
    code, words = said(place, "push", "peg", "--data", "--hub", "someone/episodes", endpoint=server.url)
    assert code == 0, words
    there = server.repositories["datasets/someone/episodes"]
    assert {CARD, "meta/info.json"} <= set(there)
    (place / "card.md").write_bytes(there[CARD])
    card = hub.DatasetCard.load(place / "card.md")
    assert "LeRobot" in card.data.tags
    assert "2 episodes" in card.text
    code, words = said(place, "pull", "episodes", "--data", "--hub", "someone/episodes", endpoint=server.url)
    assert code == 0, words
    code, words = said(place, "data", "import", "episodes", "--format", "lerobot", "--out", "again")
    assert code == 0, words
    assert "2 episodes" in words
    assert not (place / "episodes/.cache").exists()


@pytest.mark.long
def test_episodes_go_through_a_folder_without_a_hub(place: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")
    code, words = said(place, "push", "peg", "--data", "--folder", "given")
    assert code == 0, words
    assert "2 episodes" in hub.DatasetCard.load(place / "given" / CARD).text
    (take,) = (line for line in words.splitlines() if line.startswith("Taken with: robot-stack "))
    code, words = said(place, *take.replace("EPISODES", "mine").split()[3:])
    assert code == 0, words
    assert "2 episodes" in words


@pytest.mark.long
def test_a_download_that_broke_off_goes_on(place: Path, server: HubServer) -> None:
    server.repositories["datasets/someone/episodes"] = {"meta/a.json": b"a", "meta/b.json": b"b"}
    server.private["datasets/someone/episodes"] = False
    server.refused = {"meta/b.json"}
    words = ("pull", "episodes", "--data", "--hub", "someone/episodes")
    code, answer = said(place, *words, endpoint=server.url)
    assert code == 1, answer
    assert not (place / "episodes").exists()
    server.refused = set()
    code, answer = said(place, *words, endpoint=server.url)
    assert code == 0, answer
    assert sorted(path.name for path in (place / "episodes/meta").iterdir()) == ["a.json", "b.json"]


@pytest.mark.long
def test_of_pulled_episodes_only_what_a_dataset_is_made_of_is_taken(place: Path, server: HubServer) -> None:
    wanted = {CARD, "meta/info.json", "meta/episodes/chunk-000/file-000.parquet", "data/chunk-000/file-000.parquet",
              "videos/observation.images.front/chunk-000/file-000.mp4"}  # fmt: skip
    others = {"evil.py", "data/evil.py", "meta/__init__.py", "videos/sub/evil.so", "robot_stack.json"}
    server.repositories["datasets/someone/episodes"] = dict.fromkeys(wanted | others, b"x")
    server.private["datasets/someone/episodes"] = False
    code, answer = said(place, "pull", "episodes", "--data", "--hub", "someone/episodes", endpoint=server.url)
    assert code == 0, answer
    there = (path for path in (place / "episodes").rglob("*") if path.is_file())
    assert {str(path.relative_to(place / "episodes")) for path in there} == wanted


REFUSED: dict[str, tuple[tuple[str, ...], str | None, str]] = {  # None: refused before the Hub is asked
    "no_repository": (("pull", "x", "--hub", "someone/none"), TOKEN, "someone/none is not on the Hub or not for you"),
    "not_logged_in": (("push", "peg", "--hub", "someone/peg"), "hf_wrong", "log in with: hf auth login"),
    "no_name_of_one": (("push", "peg", "--hub", "a/b/c"), None, "must be OWNER/NAME as on the Hub"),
    "no_run": (("push", "nothing", "--hub", "a/b"), None, "run is 'nothing'"),
    "no_policy": (("push", "peg", "--policy", "best", "--folder", "x"), None, "must be one of ['policy']"),
    "taken": (("pull", "peg", "--hub", "someone/peg"), None, "must be new or empty"),
    "too_long": (("push", "peg", "--data", "--folder", "x" * 300), None, "push failed: File name too long"),
    "long_name": (("pull", "x" * 300, "--folder", "y"), None, "must be 1 to 128 letters"),
    "outside_of_runs": (("pull", "../../x", "--folder", "y"), None, "name is '../../x', must be 1 to 128 letters"),
    "no_name": (("pull", "", "--folder", "y"), None, "name is '', must be 1 to 128 letters"),
    "data_of_a_folder": (("pull", "x", "--data", "--folder", "y"), None, "data import y --format lerobot --out x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_in_a_sentence(place: Path, server: HubServer, case: str) -> None:
    words, token, expected = REFUSED[case]
    before = sorted(place.rglob("runs/*/*"))
    code, answer = said(place, *words) if token is None else said(place, *words, endpoint=server.url, token=token)
    assert code == 1, answer
    assert expected in answer
    assert "Traceback" not in answer
    assert sorted(place.rglob("runs/*/*")) == before


@pytest.mark.parametrize("words", [("pull", "x"), ("push", "peg")])
def test_a_hub_that_cannot_be_reached_is_told_from_one_that_refuses(place: Path, words: tuple[str, str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        code, answer = said(place, *words, "--hub", "someone/peg", endpoint=url)
    assert code == 1
    assert "Traceback" not in answer
    assert "Hub cannot be reached for someone/peg" in answer


def _no_policy(given: Path) -> None:
    (given / "policy.safetensors").unlink()


def _garbage(given: Path) -> None:
    (given / "policy.safetensors").write_bytes(b"\x80\x04cposix\nsystem\n")


def _other_spec(given: Path) -> None:
    save_file({"a": np.zeros(1)}, given / "policy.safetensors", {"spec_digest": "0" * 64, "version": "7"})


def _no_spec(given: Path) -> None:
    save_file({"a": np.zeros(1)}, given / "policy.safetensors", {"version": "7"})


def _version_in_words(given: Path) -> None:
    digest = load_run("peg_insert").spec().digest
    save_file({"a": np.zeros(1)}, given / "policy.safetensors", {"version": "abc", "spec_digest": digest})


def _summary_is_a_list(given: Path) -> None:
    (given / "summary.json").write_text("[1]")


def _no_run(given: Path) -> None:
    (given / "run.yaml").write_text("import: os")


def _unknown_key(given: Path) -> None:
    with (given / "run.yaml").open("a") as file:
        file.write("\nsurprise: 1\n")


def _no_json(given: Path) -> None:
    (given / "summary.json").write_text("{")


def _deep_json(given: Path) -> None:
    (given / "summary.json").write_text("[" * 100_000)


def _link(given: Path) -> None:
    (given / "policy.safetensors").rename(given.parent / "elsewhere.safetensors")
    (given / "policy.safetensors").symlink_to(given.parent / "elsewhere.safetensors")


def test_a_run_that_would_start_a_program_is_not_taken(place: Path) -> None:
    given = place / "given"
    given.mkdir()
    for name in TRAVEL:
        shutil.copyfile(place / "runs/peg" / name, given / name)
    base = (
        "run.base={kind: lerobot, checkpoint: /tmp/a, python: /tmp/evil, cameras: {front: top}, state: [tcp_pose], "
        "action: [fr3.x, fr3.y, fr3.z, fr3.rz], rate_hz: 10}"
    )
    (given / "run.yaml").write_text(load_run("peg_insert", [base]).to_yaml())
    with pytest.raises(ConfigError, match="has a base policy of kind 'lerobot', must have none: it would start"):
        receive(given, place / "runs/mine")
    assert not (place / "runs/mine").exists()


def test_a_large_reward_model_of_its_maker_does_not_come_along(place: Path) -> None:
    given = place / "given"
    given.mkdir()
    for name in TRAVEL:
        shutil.copyfile(place / "runs/peg" / name, given / name)
    large = (
        "run.reward.rescore={name: vlac, settings: {weights: {model: /tmp/theirs, trust_remote_code: true}, "
        "accept_license: cc-by-nc-sa-4.0}}"
    )
    (given / "run.yaml").write_text(load_run("peg_insert", [large]).to_yaml())
    code, answer = said(place, "pull", "mine", "--folder", "given")
    assert code == 0
    assert "The large reward model 'vlac' of its maker is left out" in answer
    assert load_resolved(place / "runs/mine/run.yaml").run.reward.rescore is None
    assert "theirs" not in (place / "runs/mine/run.yaml").read_text()


def test_a_large_reward_model_that_is_a_plug_in_elsewhere_does_not_come_along_either(place: Path) -> None:
    given = place / "given"
    given.mkdir()
    for name in TRAVEL:
        shutil.copyfile(place / "runs/peg" / name, given / name)
    large = "run.reward.rescore={name: yesno, settings: {server: {url: 'http://127.0.0.1:1', model: m}}}"
    text = load_run("peg_insert", [large]).to_yaml()
    assert "name: yesno" in text
    (given / "run.yaml").write_text(text.replace("name: yesno", "name: theirs"))
    code, answer = said(place, "pull", "mine", "--folder", "given")
    assert code == 0, answer
    assert "The large reward model 'theirs' of its maker is left out" in answer
    assert load_resolved(place / "runs/mine/run.yaml").run.reward.rescore is None


@pytest.mark.parametrize("said", ["robot_stack.suites.experts:swing_up", "episodes.evil:swing"])
def test_a_run_of_an_environment_is_not_taken(place: Path, said: str) -> None:
    given = place / "given"
    given.mkdir()
    resolved = load_run("mountain_car")
    (given / "run.yaml").write_text(resolved.to_yaml().replace("robot_stack.suites.experts:swing_up", said))
    weights = {"a": np.zeros(1)}
    save_file(weights, given / "policy.safetensors", {"version": "7", "spec_digest": resolved.spec().digest})
    with pytest.raises(ConfigError, match=r"has the environment 'MountainCar.*', must have none: it is made by code"):
        receive(given, place / "runs/mine")
    assert not (place / "runs/mine").exists()


@pytest.mark.parametrize("text", ["[1]", '{"wilson95": 3}', "{"])
def test_what_is_no_evaluation_is_not_given_away(place: Path, text: str) -> None:
    (place / "runs/peg/eval_policy.json").write_text(text)
    code, answer = said(place, "push", "peg", "--folder", "given")
    assert code == 1
    assert "eval_policy.json is unreadable" in answer
    assert answer.endswith("must be an evaluation; run robot-stack eval again\n")
    assert not (place / "given").exists()


@pytest.mark.parametrize("spoil", [_garbage, _other_spec, _no_spec])
def test_a_policy_that_nobody_could_load_is_not_given_away(place: Path, spoil) -> None:
    spoil(place / "runs/peg")
    code, answer = said(place, "push", "peg", "--folder", "given")
    assert code == 1
    assert "policy.safetensors" in answer
    assert not (place / "given").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        _no_policy, _garbage, _other_spec, _no_spec, _version_in_words, _no_run, _unknown_key, _no_json, _deep_json,
        _summary_is_a_list, _link,
    ],
)  # fmt: skip
def test_what_is_not_sound_is_refused_and_nothing_is_written(place: Path, spoil) -> None:
    given, run = place / "given", place / "runs/peg"
    given.mkdir()
    for name in TRAVEL:
        shutil.copyfile(run / name, given / name)
    out = place / "runs/mine"
    assert receive(given, out).task.name == "peg_insert"
    shutil.rmtree(out)
    spoil(given)
    with pytest.raises(StackError) as refused:
        receive(given, out)
    assert isinstance(refused.value, StoreError | ConfigError)
    assert not out.exists()
    assert not list((place / "runs").glob(".*"))
