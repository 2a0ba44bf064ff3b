"""The tutorials of docs/, each typed from top to bottom in an empty folder: files are written, commands are run.

A block of shell that has words above it needs what a test has not: its commands are only parsed. Those that take
minutes are run by `make tutorials`, a quarter of an hour.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from robot_stack.cli.main import parser

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
MINUTES = "takes minutes"
NOT_HERE = ("at the robot", MINUTES)
LONG_PAGES = ("first-run", "own-task", "own-algorithm")
"""In the order in which they are read: the last one compares its run with that of the first."""
SLOW = {"own-reward-model": pytest.mark.slow}
"""Its model is fitted, which takes a minute and more."""
LONGEST_S = 1200.0
ARMS = ("ur5e", "franka", "so101")
COMMANDS, YAML_LINES = 8, 40
SHIMS = {
    "robot-stack": 'exec {python} -m robot_stack.cli.main "$@"',
    "python": 'exec {python} "$@"',
    # what is installed goes beside the page's files, so that this Python stays as it is
    "pip": 'exec {python} -m pip "$1" --quiet --no-deps --no-build-isolation --no-index --target "$SITE" "$2"',
}


class Block(NamedTuple):
    """A fenced block of a page: its language, the words above it, and its text."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found]


def commands(page: Path) -> list[list[str]]:
    """Return the words of each command of robot-stack on a page."""
    shell = "".join(block.text for block in blocks(page) if block.language == "sh").replace("\\\n", " ")
    return [shlex.split(line) for line in shell.splitlines() if line.startswith("robot-stack ")]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the page's commands are those of this checkout."""
    tools, site = tmp_path / "bin", tmp_path / "site"
    tools.mkdir()
    for name, line in SHIMS.items():
        (tools / name).write_text(f"#!/bin/sh\n{line.format(python=shlex.quote(sys.executable))}\n")
        (tools / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{site}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "SITE": str(site),
    }


def typed(text: str, folder: Path, environment: dict[str, str], timeout_s: float) -> None:
    """Type shell commands in a folder, and fail with what they said if one does."""
    script = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


def type_page(page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Write the files of a page and type its short commands, from top to bottom."""
    for block in blocks(page):
        if block.language == "sh" and not block.title:
            typed(block.text, folder, environment, 240)
        elif block.language != "sh":
            assert block.title, f"{page.name}: a block of {block.language} has no name of a file above it"
            path = folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)


@pytest.mark.long
@pytest.mark.parametrize("page", [pytest.param(page, marks=SLOW.get(page.stem, ()), id=page.stem) for page in PAGES])
def test_a_page_can_be_typed_from_top_to_bottom(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    type_page(page, folder, environment)


@pytest.mark.skipif("TUTORIALS" not in os.environ, reason="a quarter of an hour: make tutorials")
@pytest.mark.timeout(3600)
def test_what_takes_minutes_does_what_the_page_says(tmp_path: Path, environment: dict[str, str]) -> None:
    """Every command as it stands there, but for `--quick`; a page that is served is opened once and ended."""
    assert {page.stem for page in PAGES for block in blocks(page) if block.title == MINUTES} == set(LONG_PAGES)
    folder = tmp_path / "empty"
    folder.mkdir()
    for name in LONG_PAGES:
        page = next(each for each in PAGES if each.stem == name)
        type_page(page, folder, environment)
        for block in blocks(page):
            for line in block.text.splitlines() if block.title == MINUTES else ():
                if line.startswith("robot-stack data view"):
                    serve(line, folder, environment)
                    continue
                quick = " --quick" if line.startswith("robot-stack sim ") and "--quick" not in line else ""
                typed(line + quick, folder, environment, LONGEST_S)
    for run in ("first", "tight", "noisy"):
        assert (folder / "runs" / run / "report.html").is_file(), run


def serve(line: str, folder: Path, environment: dict[str, str]) -> None:
    """Start what serves a page until its address answers, and end it as Ctrl-C does."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {line}"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[0]
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_commands_exist_with_all_their_options(page: Path) -> None:
    for block in blocks(page):
        assert block.language != "sh" or block.title in ("", *NOT_HERE)
    for _, *words in commands(page):
        parser().parse_args(words)


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_takes_eight_commands_and_one_short_file(arm: str) -> None:
    """What the first of them makes is compared with this file in tests/console/test_setup_page.py."""
    page = ROOT / "docs" / "tutorials" / f"{arm}.md"
    (file,) = (block for block in blocks(page) if block.language != "sh")
    lines = len(file.text.splitlines())
    assert file.title.startswith("hardware_configs/cells/")
    assert lines <= YAML_LINES
    assert len(commands(page)) == COMMANDS
    typed = [line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()]
    assert len(typed) == COMMANDS, "nothing but these commands is typed"
    said = " ".join(page.read_text().split())
    assert f"{COMMANDS} commands, of which the first makes the cell's file, {lines} lines." in said
    first, *others = commands(page)
    assert first == ["robot-stack", "init"]
    name = Path(file.title).stem
    assert {(each[2], *each[3:]) for each in others} == {(name,), (name, "--move"), ("workspace", name)}, "no number"


def test_there_is_a_page_for_each_that_is_promised() -> None:
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    assert {page.name for page in PAGES} == {"index.md", *re.findall(r"\]\(([\w-]+\.md)\)", index)}
    assert len(PAGES) == 9
