"""The command: fast, exact about mistakes, and quiet about its insides."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import resource
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from robot_stack.cli import main as command
from robot_stack.cli import sim
from robot_stack.cli.extras import EXTRA_OF, EXTRAS_OF_VERB, remedy
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import StackError

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def start(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "robot_stack.cli.main", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60
    )


def test_help_answers_within_half_a_second() -> None:
    took_s = []
    for _ in range(3):  # processor time, and the best of three: other programs share the cores
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert start("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took_s) < 0.5


def test_help_names_every_verb_and_exit_code() -> None:
    said = start("--help").stdout
    for word in (*command.VERBS, "0 done", "1 failed", "2 wrong usage", "3 robot or safety failed"):
        assert word in said


@pytest.mark.parametrize("verb", command.VERBS)
def test_verb_takes_exactly_what_its_parser_gives(verb: str) -> None:
    words = {
        "sim": [],
        "reward": ["eval", "x"],
        "data": ["list", "x"],
        "calibrate": ["pose", "x", "--pose", "p"],
        "camera": ["x", "wrist"],
        "completion": ["bash"],
        "push": ["x", "--folder", "y"],
        "pull": ["x", "--folder", "y"],
    }
    positional = words.get(verb, ["x"])
    options = vars(command.parser().parse_args([verb, *positional]))
    del options["verb"]
    module = importlib.import_module(command.module_of(verb))
    inspect.signature(module.run).bind(**options)


@pytest.mark.parametrize(
    "arguments",
    [(), ("dance",), ("eval",), ("eval", "x", "--episodes", "0"), ("sim", "--seed", "-1"), ("sim", "--episodes", "3")],
)
def test_wrong_usage_is_exit_code_two(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(arguments)
    assert left.value.code == 2
    assert "usage: robot-stack" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "..", "a/b", "/tmp/a", "x" * 300])
def test_a_dry_run_has_a_name_that_is_one_folder(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.parser().parse_args(["sim", "--name", name])
    assert left.value.code == 2
    assert f"name is {name[:200]!r}, must be 1 to 128 letters" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("train", "peg_insert", "--address", "nonsense"),
        ("train", "peg_insert", "--address", "127.0.0.1:65536"),
        ("reward", "serve", "x", "--port", "70000"),
        ("up", "peg_insert", "--timeout-s", "nan"),
        ("up", "peg_insert", "--timeout-s", "-5"),
        ("up", "peg_insert", "--timeout-s", "0"),
    ],
    ids=" ".join,
)
def test_a_number_out_of_range_is_wrong_usage(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.parser().parse_args(words)
    assert left.value.code == 2
    assert f"is {words[-1]!r}, must be " in capsys.readouterr().err


def test_a_run_may_be_ended_after_days() -> None:
    assert command.parser().parse_args(["up", "x", "--timeout-s", "172800"]).timeout_s == 172800.0


@pytest.mark.parametrize(("said", "meant"), [("shw", "show"), ("reprot", "report"), ("doctro", "doctor")])
def test_a_mistyped_verb_names_the_one_that_is_near(said: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main([said])
    assert left.value.code == 2
    assert f"there is no verb {said!r}; did you mean {meant!r}?" in capsys.readouterr().err


def test_a_word_that_is_near_no_verb_lists_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["xyzzy"])
    assert f"choose from {', '.join(command.VERBS)}" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"robot-stack {version('robot-stack')}\n"


def test_wrong_configuration_is_exit_code_one_without_a_traceback() -> None:
    result = start("show", "peg_insrt")
    assert result.returncode == 1
    assert "did you mean 'peg_insert'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_last_line_says_what_comes_next_with_what_was_asked(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--root", str(tmp_path), "--set", "seed=3"]
    assert command.main(["show", "peg_insert", *asked]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Next: robot-stack up peg_insert {' '.join(asked)}"


def test_json_is_all_there_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["show", "peg_insert", "--set", "seed=7", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["run.seed"]["value"] == 7


def raising(error: BaseException) -> Callable[..., int]:
    """A verb's `run` that raises."""

    def fail(**_: object) -> int:
        raise error

    return fail


SAYS = """
import sys
from robot_stack.cli import env, main
env.run = lambda **_: print({text}) or {code}
sys.exit(main.main())
"""


def saying(text: str, code: int, **given: object) -> subprocess.CompletedProcess[bytes]:
    """Run a verb that says something, and then ends with an exit code, in a process of its own."""
    words = [sys.executable, "-c", SAYS.format(text=text, code=code), "env", "x"]
    return subprocess.run(words, **{"stderr": subprocess.PIPE, "timeout": 60, "check": False, **given})


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("text", ["'short'", "'long' * 100_000", "'at once', flush=True"])
def test_a_reader_that_leaves_early_changes_no_exit_code(text: str, code: int) -> None:
    read, write = os.pipe()
    os.close(read)
    said = saying(text, code, stdout=write)
    os.close(write)
    assert (said.returncode, said.stderr) == (code, b"")


def test_a_reader_of_errors_that_leaves_early_ends_no_command() -> None:
    read, write = os.pipe()
    os.close(read)
    said = saying("'done' if [print('progress', file=__import__('sys').stderr, flush=True)] else ''", 0,
                  stdout=subprocess.PIPE, stderr=write)  # fmt: skip
    os.close(write)
    assert (said.returncode, said.stdout) == (0, b"done\n")


def test_an_output_that_is_to_be_unbuffered_is() -> None:
    text = "__import__('os')._exit(3) if [print('said before')] else ''"
    said = saying(text, 0, stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert (said.returncode, said.stdout) == (3, b"said before\n")


@pytest.mark.parametrize("code", [0, 1])
def test_a_closed_output_changes_no_exit_code(code: int) -> None:
    said = saying("'short'", code, preexec_fn=lambda: os.close(1))
    assert (said.returncode, said.stderr) == (code, b"")


@pytest.mark.parametrize("text", ["'short'", "'long' * 100_000"])
def test_a_full_disk_under_the_output_is_a_failure_in_one_line(text: str) -> None:
    with Path("/dev/full").open("w") as full:
        said = saying(text, 0, stdout=full)
    assert said.returncode == 1
    assert said.stderr.startswith(b"env failed: No space left on device (standard output); ")
    assert len(said.stderr.splitlines()) == 1


def test_what_an_output_has_no_letter_for_is_replaced() -> None:
    said = saying("'\u03a6 0.5'", 0, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (said.returncode, said.stdout, said.stderr) == (0, b"? 0.5\n", b"")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "peg_insert", "--folder", "FILE"),
        ("record", "peg_insert", "--folder", "FILE/x"),
        ("up", "peg_insert", "--folder", "LONG"),
        ("up", "peg_insert", "--folder", "FILE"),
        ("calibrate", "board", "FILE/x.png"),
    ],
)
def test_a_place_that_the_disk_refuses_is_told_in_one_line(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    said = [word.replace("FILE", str(tmp_path / "file")).replace("LONG", str(tmp_path / ("x" * 300))) for word in words]
    assert command.main(said) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert " failed: " in line


@pytest.mark.parametrize(
    ("raised", "code"), [(StackError("disk is full, must have room"), 1), (KeyboardInterrupt(), 130)]
)
def test_errors_become_a_sentence_and_an_exit_code(
    raised: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("robot_stack.cli.env.run", raising(raised))
    assert command.main(["env", "x"]) == code
    assert capsys.readouterr().err.strip() in (str(raised), "interrupted")


@pytest.mark.parametrize(
    ("verb", "words", "extras"),
    [("sim", (), "ros,dry-run"), ("up", ("peg_insert",), "ros"), ("record", ("sim",), "ros")],
)
def test_without_ros_a_verb_that_starts_nodes_says_what_brings_it(
    verb: str, words: tuple[str, ...], extras: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "rclpy", None)
    assert command.main([verb, *words]) == 1
    said = capsys.readouterr().err
    assert f"rclpy is missing, must be there for `{verb}`; source the setup file of ROS 2" in said
    assert f"pip install 'robot-stack[{extras}]'" in said


def test_without_ros_an_environment_runs_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "rclpy", None)

    def begun(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sim, "train_online", begun)
    assert command.main(["sim", "--plain", "--task", "mountain_car"]) == command.INTERRUPTED


def test_only_where_ros_is_missing_its_wheels_are_named() -> None:
    assert remedy("torch", "sim") == "pip install 'robot-stack[dry-run]'"
    assert remedy("torch", "train") == "pip install 'robot-stack[learner]'"
    assert remedy("rclpy", "sim").endswith("or pip install 'robot-stack[ros,dry-run]'")
    assert remedy("rclpy", "up").endswith("or pip install 'robot-stack[ros]'")


def test_every_extra_that_is_named_is_one() -> None:
    named = {each for extras in (*EXTRA_OF.values(), *EXTRAS_OF_VERB.values()) for each in extras.split(",")}
    assert named <= set(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])


@pytest.mark.parametrize("error", [ZeroDivisionError(), TimeoutError()])
def test_defects_are_not_hidden(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robot_stack.cli.env.run", raising(error))
    with pytest.raises(type(error)):
        command.main(["env", "x"])


@pytest.mark.parametrize("verb", ["eval", "report"])
def test_unknown_run_lists_the_runs_there_are(verb: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "monday").mkdir(parents=True)
    result = start(verb, "tuesday", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith("run is 'tuesday', must be one of monday")


@pytest.mark.parametrize("verb", ["eval", "report"])
def test_folder_of_something_else_is_left_alone(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([verb, str(tmp_path)]) == 1
    assert "must hold run.yaml" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_eval_refuses_a_policy_that_was_not_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunPaths(tmp_path).resolved.touch()
    (tmp_path / "bc.safetensors").touch()
    assert command.main(["eval", str(tmp_path)]) == 1
    assert "must be one of ['bc']" in capsys.readouterr().err
