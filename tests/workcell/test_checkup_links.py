"""Doctor says whose links nobody watches."""

from __future__ import annotations

from robot_stack.config.resolve import load_run
from robot_stack.types.finding import Level
from robot_stack.workcell.checkup import links


def test_the_dry_run_is_watched_against_its_table() -> None:
    found = links.judge(load_run("peg_insert"))
    assert (found.level, found.text) == (Level.OK, "watched against themselves, table")


def test_an_arm_without_capsules_is_named_with_what_to_do() -> None:
    found = links.judge(load_run("ur5e_twin"))
    assert found.level is Level.WARN
    assert "'collision'" in found.text
    assert "robot_stack.workcell.capsules" in found.text


def test_a_cell_without_surroundings_is_said() -> None:
    found = links.judge(load_run("peg_insert", ["cell.surroundings.table_z_m=null"]))
    assert found.level is Level.WARN
    assert "surroundings" in found.text
