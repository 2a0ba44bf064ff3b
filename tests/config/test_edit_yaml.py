"""Values written back into an operator's file: everything else in it stays byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robot_stack.config.files.edit import edited, write_edited
from robot_stack.config.files.library import config_root
from robot_stack.config.files.located import Located, Mark
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


def located(text: str) -> Located:
    tree = parse(text, lambda mark: Mark(source="test", line=mark.line + 1, column=mark.column + 1), [])
    assert tree is not None
    return tree


def plain(text: str) -> Any:
    return located(text).plain()


def keys_of(tree: Located) -> Iterator[Located]:
    for value in tree.entries.values():
        yield value
        if isinstance(value.value, dict):
            yield from keys_of(value)


def ways_of_writing() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """One key of all in shipped files that are written alike, with the line behind, but for words and numbers."""
    known = set()
    for path in sorted(config_root().glob("*/*.yaml")):
        lines = path.read_text().splitlines()
        for value in keys_of(located(path.read_text())):
            assert value.mark.line is not None
            seen = re.sub(r" *#.*", "#", "\n".join(lines[value.mark.line - 1 : value.mark.line + 1]))
            way = re.sub(r"(w, )+", "w, ", re.sub(r"[-+/\w.]+", "w", seen)), type(value.value)
            if way not in known:
                known.add(way)
                yield path, value.path


@pytest.mark.long
def test_any_value_of_a_file_is_replaced_and_any_mapping_gets_an_entry_and_no_other_line_changes() -> None:
    for path, keys in ways_of_writing():
        text = path.read_text()
        wanted = plain(text)
        inner = wanted
        for key in keys[:-1]:
            inner = inner[key]
        old, inner[keys[-1]] = inner[keys[-1]], {"q": (1, 2.5)}
        assert plain(edited(text, {keys: {"q": [1, 2.5]}})) == wanted, (path, keys)
        if isinstance(old, dict):
            inner[keys[-1]] = {**old, "q": "a: b"}
            with_entry = edited(text, {(*keys, "q"): "a: b"})
            assert plain(with_entry) == wanted, (path, keys)
            assert sum(line not in with_entry.splitlines() for line in text.splitlines()) <= 1, (path, keys)


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
        "roi_px: {top: 1, left: 2, height: 30, width: 40}}   # on the hand",
        "workspace: {frame: base, min_m: [0.1, -0.2, 0.03], max_m: [0.65, 0.15, 0.30]}",
    ]
    assert len(new) == len(old)


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        ("w: {x: 1,  # first\n    y: 2}  # second\na: 1\n", ("a",), "w: {x: 1,  # first\n    y: 2}  # second\na: 3\n"),
        (
            "a:   # ours\n    b: 1   # one\n    c:\n        - 1\n\n# end\nd: 0\n",
            ("a",),
            "a: 3   # ours\n\n# end\nd: 0\n",
        ),
        ("a:\n    b: 1\n    c:\n        - 1\nd: 0\n", ("a", "b"), "a:\n    b: 3\n    c:\n        - 1\nd: 0\n"),
        ("a:\n    b: 1   # one\n\n# next\nd: 0\n", ("a", "e"), "a:\n    b: 1   # one\n    e: 3\n\n# next\nd: 0\n"),
        ("---\na: 1\n", ("a",), "---\na: 3\n"),
        ("a: 1\r\nb:\r\n  c: 2\r\n", ("b", "d"), "a: 1\r\nb:\r\n  c: 2\r\n  d: 3\r\n"),
        ("a:   # none yet\nb: 'x'", ("a",), "a: 3   # none yet\nb: 'x'"),
        ("a:\n  b:   # none yet\n# next\nd: 0\n", ("a", "e"), "a:\n  b:   # none yet\n  e: 3\n# next\nd: 0\n"),
        ("w: {x: 1,\n    y: 2}  # second\n", ("w", "x"), "w: {x: 3,\n    y: 2}  # second\n"),
        ("w: {x: 1,\n    y: 2}  # second\n", ("w",), "w: 3  # second\n"),
        ("a :\nb: 1\n", ("a",), "a : 3\nb: 1\n"),
        ("'a' :  # none\nb: 1\n", ("a",), "'a' : 3  # none\nb: 1\n"),
        ("w: {a, b: 1}\n", ("w", "a"), "w: {a: 3, b: 1}\n"),
        ("a: {}\nk: True   # note", ("a", "b"), "a: {b: 3}\nk: True   # note"),
        ("a: |\n  long\n  text\n# next\nb: 1", ("a",), "a: 3\n# next\nb: 1"),
        ("a: 1   # last", ("b",), "a: 1   # last\nb: 3"),
    ],
)
def test_every_other_character_stays(before: str, keys: tuple[str, ...], after: str) -> None:
    assert edited(before, {keys: 3}) == after


def test_a_linked_file_and_its_permissions_stay(tmp_path: Path) -> None:
    shared = tmp_path / "shared.yaml"
    shared.write_text(CELL)
    shared.chmod(0o664)
    link = tmp_path / "cell.yaml"
    link.symlink_to(shared)
    write_edited(link, link, {("robot",): "ur5"})
    assert link.is_symlink()
    assert plain(shared.read_text())["robot"] == "ur5"
    assert shared.stat().st_mode & 0o777 == 0o664


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


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_a_file_without_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="file is empty, must be a mapping to hold a"):
        edited(text, {("a",): 3})


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
