"""Our robot files against what the makers' drivers name, publish and load, as read in their sources (`robots/`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from robot_stack.config.files.library import config_root
from tests.makers.robot_facts import BEGIN, DOCS, END, FILES, Fact, facts_of, read, robot_on, table, value_of

CASES = [
    pytest.param(fact, distro, robot, changes.get(distro, {}), id=f"{robot}-{distro}-{fact.field}")
    for path in FILES
    for changes in [read(path).get("changes", {})]
    for fact in facts_of(read(path))
    for distro in fact.distros
    for robot in fact.robots
]
WITHOUT_ROS = ("sim", "so101")
every = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def agrees(fact: Fact, ours: Any) -> bool:
    if fact.among:
        return bool(ours) and set(ours) <= set(fact.among)
    if isinstance(fact.says, float | int) or (isinstance(fact.says, list) and not isinstance(fact.says[0], str)):
        return ours == pytest.approx(fact.says, abs=1e-4)
    return ours == fact.says


@pytest.mark.parametrize(("fact", "distro", "robot", "changes"), CASES)
def test_a_robot_file_says_what_the_makers_driver_says(fact: Fact, distro: str, robot: str, changes: dict[str, Any]):
    ours = value_of(robot_on(robot, changes), fact.field)
    assert agrees(fact, ours), f"{robot}.yaml: {fact.field} is {ours}, {fact.path} of {distro} says {fact.says}"


def test_the_franka_hand_is_opened_less_than_homing_finds_it_to_be_wide():
    """Of a data sheet's 0.08 m; its driver takes twice the goal."""
    assert 2.0 * value_of(robot_on("fr3_franka", {}), "gripper.open") <= 0.0786


def test_every_robot_file_behind_a_driver_has_its_facts():
    held = {robot for path in FILES for robot in read(path)["robots"]}
    shipped = {path.stem: read(path) for path in (config_root() / "robots").glob("*.yaml")}
    assert {name for name, said in shipped.items() if said["backend"] not in WITHOUT_ROS} == held


@every
def test_a_fixture_says_where_it_is_from(path: Path):
    fixture = read(path)
    for source in fixture["sources"].values():
        assert source["repository"].startswith("https://github.com/")
        assert all(re.fullmatch(r"[0-9a-f]{40}", commit) for commit in source["commits"].values())
    assert "jazzy" in {distro for fact in facts_of(fixture) for distro in fact.distros}
    assert fixture["not_found"]


@pytest.mark.parametrize(
    ("robot", "distro", "field"),
    [
        ("ur5e", "main", "commands.trajectory"),
        ("ur5e", "humble", "gripper.command_type"),
        ("kinova_gen3", "humble", "gripper.command_type"),
    ],
)
def test_on_a_distribution_with_other_names_the_file_as_it_is_would_be_wrong(robot: str, distro: str, field: str):
    """So what the fixtures say to change there is needed."""
    about = [fact for path in FILES for fact in facts_of(read(path)) if robot in fact.robots and distro in fact.distros]
    facts = [fact for fact in about if fact.field == field]
    assert facts
    assert not any(agrees(fact, value_of(robot_on(robot, {}), field)) for fact in facts)


def test_the_table_in_the_docs_is_that_of_the_fixtures():
    text = DOCS.read_text(encoding="utf-8")
    assert f"{BEGIN}\n{table()}\n{END}" in text, "run python -m tests.makers.robot_facts"
