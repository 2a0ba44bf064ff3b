"""Values written back into an operator's file: everything else in it stays byte for byte."""

from __future__ import annotations

import pytest

from robot_stack.config.files.edit import edited, write_edited
from robot_stack.config.files.library import config_root
from robot_stack.config.files.located import Mark
from robot_stack.config.files.yaml_text import parse
from robot_stack.types.errors import ConfigError

CELL = """\
# One table in one room.
robot: fr3          # on the left
cameras:
  wrist: {model: d405, serial: "127122270146"}   # on the hand
  front:
    model: d455
workspace: {frame: base, min_m: [0.40, -0.15, 0.02], max_m: [0.65, 0.15, 0.30]}

teleop: spacemouse  # in the right hand
"""


def plain(text: str) -> object:
    tree = parse(text, lambda mark: Mark(source="test"), [])
    assert tree is not None
    return tree.plain()


@pytest.mark.parametrize("path", sorted(config_root().glob("*/*.yaml")), ids=lambda path: path.stem)
def test_a_file_without_edits_stays_as_it_is(path) -> None:
    assert edited(path.read_text(), {}) == path.read_text()


@pytest.mark.parametrize("null", [" null", " ~", ""])
def test_a_null_stays_as_it_is_written(null: str) -> None:
    text = f"robot: fr3\nserial:{null}   # none yet\nlast: [1,{null}]\n".replace("[1,]", "[1]")
    assert edited(text, {("robot",): "fr3"}) == text


def test_only_the_lines_with_new_values_change() -> None:
    edits = {
        ("cameras", "wrist", "roi_px"): {"top": 1, "left": 2, "height": 30, "width": 40},
        ("workspace", "min_m"): [0.1, -0.2, 0.03],
    }
    old, new = CELL.splitlines(), edited(CELL, edits).splitlines()
    assert [line for line in new if line not in old] == [
        '  wrist: {model: d405, serial: "127122270146", '
        "roi_px: {top: 1, left: 2, height: 30, width: 40}} # on the hand",
        "workspace: {frame: base, min_m: [0.1, -0.2, 0.03], max_m: [0.65, 0.15, 0.30]}",
    ]
    assert len(new) == len(old)


def test_a_missing_key_is_added_where_it_belongs() -> None:
    text = edited(
        CELL, {("cameras", "front", "mount"): {"parent": "base"}, ("poses", "start"): {"joints_rad": [0.0, 1.5]}}
    )
    values = plain(text)
    assert values["cameras"]["front"] == {"model": "d455", "mount": {"parent": "base"}}
    assert values["poses"] == {"start": {"joints_rad": (0.0, 1.5)}}
    assert "teleop: spacemouse  # in the right hand" in text


def test_a_value_can_be_replaced_again() -> None:
    once = edited(CELL, {("workspace", "max_m"): [1.0, 1.0, 1.0]})
    again = edited(once, {("workspace", "max_m"): [2.0, 1.0, 1.0]})
    assert plain(again)["workspace"]["max_m"] == (2.0, 1.0, 1.0)


def test_a_key_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"robot is 'fr3', must be a mapping to hold robot\.name"):
        edited(CELL, {("robot", "name"): "x"})


def test_the_file_is_replaced_whole_and_its_folder_made(tmp_path) -> None:
    source = tmp_path / "cell.yaml"
    source.write_text(CELL)
    target = tmp_path / "own" / "cells" / "cell.yaml"
    write_edited(source, target, {("robot",): "ur5"})
    assert plain(target.read_text())["robot"] == "ur5"
    assert source.read_text() == CELL
    assert [path.name for path in target.parent.iterdir()] == ["cell.yaml"]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path) -> None:
    source = tmp_path / "cell.yaml"
    source.write_text(CELL)
    with pytest.raises(ConfigError, match="is not writable"):
        write_edited(source, source / "cells" / "cell.yaml", {("robot",): "ur5"})
