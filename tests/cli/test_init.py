"""A cell, a task and a run of one's own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.main import main
from robot_stack.config.files.library import config_root, names
from robot_stack.config.resolve import load_run
from robot_stack.config.robot import SimRobot
from robot_stack.sensing import connected
from robot_stack.sensing.connected import ConnectedCamera
from robot_stack.workcell.build import build_local_cell
from tests.console.browser_store import fetch

ROOT = Path(__file__).parents[2]
RUNS = [name for name in names("runs", (config_root(),)) if load_run(name).run.task is not None]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("like", RUNS)
def test_what_is_written_resolves_and_is_the_example_under_another_name(like: str) -> None:
    assert main(["init", "mine", "--like", like]) == 0
    mine, example = load_run("mine"), load_run(like)
    assert (mine.run.cell, mine.run.task, mine.task.name) == ("mine", "mine", "mine")
    assert mine.cell == example.cell
    assert mine.task.model_copy(update={"name": example.task.name}) == example.task


@pytest.mark.parametrize("like", RUNS)
def test_what_is_written_can_start(like: str) -> None:
    assert main(["init", "mine", "--like", like]) == 0
    mine = load_checked("mine")
    models = [robot.twin for robot in mine.robots.values() if isinstance(robot, SimRobot)]
    if models and all(twin is None for twin in models):  # a maker's model has to be fetched first
        cell = build_local_cell(mine, 0)
        cell.reset(0)
        assert cell.observe().proprio.shape == (mine.spec().proprio_size,)


def test_the_comments_of_the_example_stay_and_editors_find_the_schema(empty_folder: Path) -> None:
    main(["init", "mine"])
    folder = empty_folder / "hardware_configs"
    for kind, original in (("cells", "fr3_table"), ("tasks", "plug_insert"), ("runs", "fr3_table")):
        lines = (folder / kind / "mine.yaml").read_text().splitlines()
        comments = [
            line for line in (config_root() / kind / f"{original}.yaml").read_text().splitlines() if "#" in line
        ]
        assert [line for line in comments if "name:" not in line and line not in lines] == []
        schema = lines[0].rpartition("=")[2]
        assert (folder / kind / schema).resolve().is_file()


def test_the_next_command_is_the_last_word(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "mine"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [f"Written: hardware_configs/{kind}/mine.yaml" for kind in ("cells", "tasks", "runs")]
    assert lines[-1].startswith("Next: edit them, then robot-stack show mine")


def test_nothing_is_overwritten(empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = empty_folder / "hardware_configs" / "tasks" / "mine.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("name: mine\n")
    assert main(["init", "mine"]) == 1
    assert "is taken by hardware_configs/tasks/mine.yaml, must be new" in capsys.readouterr().err
    assert own.read_text() == "name: mine\n"
    assert not (empty_folder / "hardware_configs" / "cells").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["My Table"], "name is 'My Table', must be a-z, 0-9 and _"),
        (["../up"], "name is '../up', must be a-z"),
        (["mine", "--like", "peg_two_sockets"], "--like is 'peg_two_sockets', must be one of cable_plug, drawer"),
        (["fr3_table"], "is taken by"),
        (
            ["mine", "--like", "ur5"],
            "--like is 'ur5', must be one of cable_plug, drawer, fr3_table, mountain_car, peg_in_and_out",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    words: list[str], said: str, empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words]) == 1
    assert said in capsys.readouterr().err
    assert not (empty_folder / "hardware_configs").exists()


def test_in_a_checkout_the_schemas_are_where_they_are(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = empty_folder / "hardware_configs"
    shutil.copytree(config_root(), checkout)
    for module in ("robot_stack.cli.init", "robot_stack.config.files.library"):
        monkeypatch.setattr(f"{module}.config_root", lambda: checkout)
    assert main(["init", "mine"]) == 0
    assert (checkout / "runs" / "mine.yaml").is_file()


SEEN = {"two": ["77665544", "AB"], "one": ["AB"], "three": ["A", "B", "C"], "one without": ["AB", None], "none": []}


@pytest.mark.parametrize("here", SEEN)
def test_the_serial_numbers_of_the_cameras_here_are_written(here: str, empty_folder: Path, monkeypatch, capsys) -> None:
    """Where there are as many as the example has: else it is not known which of them are meant."""
    cameras = [ConnectedCamera(name=f"Maker_{each}", path="", serial=each, device=None) for each in SEEN[here]]
    monkeypatch.setattr(connected, "connected_cameras", lambda: cameras)
    assert main(["init", "mine", "--like", "so101_table"]) == 0
    said = capsys.readouterr().out
    written = {name: camera.serial for name, camera in load_run("mine").cameras.items()}
    example = {name: camera.serial for name, camera in load_run("so101_table").cameras.items()}
    assert written == (dict(zip(("wrist", "front"), SEEN["two"])) if here == "two" else example)
    assert ("Cameras here: Maker_77665544 as wrist and Maker_AB as front; robot-stack camera mine wrist" in said) == (
        here == "two"
    )
    text = (empty_folder / "hardware_configs/cells/mine.yaml").read_text()
    assert "# from the names in /dev/v4l/by-id" in text


def test_an_example_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--like", "fr3_table"]) == 1
    assert "--like is 'fr3_table' without a NAME, must have one" in capsys.readouterr().err


@pytest.mark.long
def test_without_a_name_a_page_tells_what_is_connected_until_it_is_ended(empty_folder: Path) -> None:
    pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
    words = [sys.executable, "-m", "robot_stack.cli.main", "init"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0]
            code, found = fetch(url, "api/found")
            assert (code, {"arms", "cameras", "devices", "ports"} <= set(json.loads(found))) == (200, True)
            code, page = fetch(url, "")
            assert (code, b"A new cell" in page) == (200, True)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=240) == 0
        finally:
            process.kill()
    assert not list(empty_folder.iterdir())
