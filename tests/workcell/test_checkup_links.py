"""Doctor says whose links nobody watches."""

from __future__ import annotations

from pathlib import Path

from robot_stack.config.files.library import config_root
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


def test_a_floor_below_what_the_watch_lets_a_tool_come_to_is_said(tmp_path: Path) -> None:
    assert links.judge(load_run("so101_table")).level is Level.OK
    (tmp_path / "cells").mkdir()
    text = (config_root() / "cells" / "so101_table.yaml").read_text()
    (tmp_path / "cells" / "so101_table.yaml").write_text(text.replace("{table_z_m: 0.0}", "{table_z_m: 0.03}"))
    found = links.judge(load_run("so101_table", root=tmp_path))
    assert found.level is Level.WARN
    assert "workspace of so101 begins at 0.020 m, must be 0.055 m or more" in found.text


def test_a_cell_without_surroundings_is_said(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    text = (config_root() / "cells" / "sim.yaml").read_text()
    (tmp_path / "cells" / "sim.yaml").write_text(text.replace("{table_z_m: 0.0}", "{}"))
    found = links.judge(load_run("peg_insert", root=tmp_path))
    assert found.level is Level.WARN
    assert "surroundings" in found.text
