"""The container file of the robot's side: it is not built here, but what it names is there."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path

from robot_stack.cli.main import parser
from robot_stack.config.resolve import load_run
from robot_stack.processes.table import process_table
from robot_stack.sensing.v4l2_source import BY_ID
from robot_stack.teleop.evdev_port import INPUT_DEVICES
from robot_stack.workcell.setup.ports import SERIAL

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "ros" / "Containerfile").read_text().replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ARGUMENTS = dict(re.findall(r'^ARG (\w+)="(.*)"$', TEXT, flags=re.MULTILINE))


def test_each_copied_path_is_there_and_so_is_all_that_an_install_needs() -> None:
    copied = [word for line in re.findall(r"^COPY (.*)$", TEXT, flags=re.MULTILINE) for word in line.split()[:-1]]
    assert all((ROOT / path).exists() for path in copied), copied
    packages = {pattern.rstrip("*") for pattern in _packages()}
    read_by_setup = {"pyproject.toml", "setup.py", PROJECT["readme"], "LICENSE"}
    placed = {match for match in re.findall(r'"(\w+)/', (ROOT / "setup.py").read_text()) if (ROOT / match).is_dir()}
    assert packages | read_by_setup | placed | {"package.xml", "constraints.txt"} <= set(copied)


def _packages() -> list[str]:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert isinstance(found, list)
    return found


def test_its_extras_exist_and_torch_has_a_version_of_its_own() -> None:
    assert set(ARGUMENTS["EXTRAS"].split(",")) <= set(PROJECT["optional-dependencies"])
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert ARGUMENTS["TORCH_INDEX"] == ""  # as in the Makefile, pip decides unless somebody names an index


def test_it_begins_from_the_ros_that_the_package_is_made_for_and_starts_the_command() -> None:
    assert re.search(r"^FROM ros:jazzy-ros-base$", TEXT, flags=re.MULTILINE)
    assert all(name.startswith("ros-jazzy-") for name in ARGUMENTS["MESSAGES"].split())
    (entry,) = re.findall(r'^ENTRYPOINT \["/ros_entrypoint.sh", "/venv/bin/([\w-]+)"\]$', TEXT, flags=re.MULTILINE)
    assert entry in PROJECT["scripts"]


def test_a_latched_stop_outlives_the_container_and_so_does_the_home_folder(monkeypatch) -> None:
    """`--rm` deletes all that lies outside of the mounts."""
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    for name, value in re.findall(r"^ENV (\w+)=(.*)$", TEXT, flags=re.MULTILINE):
        monkeypatch.setenv(name, value)
    options, _ = _documented_run()
    assert "--rm" in options
    mounts = [option.split(":") for flag, option in pairwise(options) if flag == "-v"]
    kept = [Path(mount[1]) for mount in mounts if mount[2:] != ["ro"]]
    table = process_table(load_run("ur5e_table", []), Path("runs/ur5e_table"))
    (safety,) = [row for row in table if row.name == "safety"]
    state = Path(safety.argv[safety.argv.index("--state") + 1])
    (runs,) = re.findall(r"^WORKDIR (.*)$", TEXT, flags=re.MULTILINE)[-1:]
    for folder in (state, Path(runs), Path.home()):
        assert any(folder.is_relative_to(mount) for mount in kept), folder


def _documented_run() -> tuple[list[str], list[str]]:
    """Return the options of podman on the page, and the words of the command in the container."""
    page = (ROOT / "docs" / "launch.md").read_text().replace("\\\n", " ")
    ((options, words),) = re.findall(r"^podman run (.*) robot-stack (.*)$", page, flags=re.MULTILINE)
    return shlex.split(options), shlex.split(words)


def test_the_folders_in_which_devices_are_looked_for_are_passed_in() -> None:
    """A device file alone brings none of the links that udev has made for it outside."""
    page = (ROOT / "docs" / "launch.md").read_text()
    section = page[page.index("## In a container") :].partition("\n## ")[0]
    for links in (BY_ID.parent, SERIAL.parent):
        assert f"-v {links}:{links}:ro" in section
    assert f"--device {INPUT_DEVICES}" in section
    assert ("-v", f"{BY_ID.parent}:{BY_ID.parent}:ro") in pairwise(_documented_run()[0]), "the example has a camera"


def test_the_page_builds_this_file_and_runs_a_verb_that_exists() -> None:
    page = (ROOT / "docs" / "launch.md").read_text().replace("\\\n", " ")
    (build,) = re.findall(r"^podman build .*$", page, flags=re.MULTILINE)
    assert (ROOT / shlex.split(build)[3]).is_file()
    parser().parse_args(_documented_run()[1])
    for name, value in re.findall(r'--build-arg (\w+)="?([\w,]+)', page):
        assert name in ARGUMENTS
        assert name != "EXTRAS" or set(value.split(",")) <= set(PROJECT["optional-dependencies"])
