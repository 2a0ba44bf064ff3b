"""`robot-stack calibrate WHAT CELL`: measures a part of a cell and writes it into the cell's file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.cell.measuring import MEASURE, CalibrateOptions
from robot_stack.cli.cell.own_cell import Enter, say
from robot_stack.cli.run_folder import load_cell
from robot_stack.config.files.edit import edited, replace_content, write_edited
from robot_stack.config.files.library import FOLDER, find, is_shipped, roots_of
from robot_stack.config.resolved import ResolvedRun
from robot_stack.runs.beginning import command_line
from robot_stack.sensing.charuco import Board
from robot_stack.types.errors import ConfigError

LARGEST_PX = 1024
"""Of an image as the cell's processes may send it."""


def run(
    what: str,
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    arm: str = "",
    camera: str = "",
    roi: tuple[int, int, int, int] | None = None,
    seconds: float = 60.0,
    margin_m: float = 0.0,
    pose: str = "",
    mounted: str = "base",
    square_m: float = 0.030,
    marker_m: float = 0.022,
    file: Path | None = None,
    write: bool = False,
) -> int:
    """Measure a part of a cell, show what would be written, and write it if wanted; returns the exit code.

    Raises:
        StackError: If something is not found, or not moved enough; nothing has been written then.
    """
    if what == "board":
        return _board(Path(name), Board(square_m=square_m, marker_m=marker_m))
    resolved = load_cell(name, overrides, root)
    policys = resolved.cameras.get(camera)
    options = CalibrateOptions(
        aspect=1.0 if policys is None else policys.policy_width_px / policys.policy_height_px,
        name=name, arm=_arm(what, arm, resolved), camera=camera, roi=roi, seconds=seconds, margin_m=margin_m, pose=pose,
        mounted=mounted, square_m=square_m, marker_m=marker_m, file=file,
    )  # fmt: skip
    if what in ("crop", "extrinsics", "lens") and camera not in resolved.cameras:
        raise ConfigError(f"camera is {camera!r}, must be one of {sorted(resolved.cameras)}; name it with --camera")
    source = find("cells", resolved.run.cell, roots_of(name, root))
    assert source is not None  # the run was loaded from it
    target = _own_file(source)
    measured = MEASURE[what](options, _with_whole_images(resolved, name, overrides, root, camera))
    say(measured.text)
    for line in changed_lines(source.read_text(), edited(source.read_text(), measured.edits)):
        print(line)
    if not write and not _agreed(target):
        print(f"{target} is as it was. Next: the same with --write")
        return 0
    kept = target.read_bytes() if target.exists() else None
    write_edited(source, target, measured.edits)
    try:
        load_cell(name, overrides, root)
    except ConfigError as error:
        target.unlink() if kept is None else replace_content(target, kept)
        raise ConfigError(f"what was measured does not fit the cell, nothing is written: {error}") from error
    print(f"written to {target}. Next: {command_line('doctor', name, overrides=overrides, root=root)}")
    return 0


def _arm(what: str, name: str, resolved: ResolvedRun) -> str:
    there = list(resolved.robots)
    if name in there or (not name and (what in ("crop", "lens") or len(there) == 1)):
        return name or there[0]
    have = f"is {name!r}" if name else "is not given"
    raise ConfigError(f"arm {have}, must be one of {', '.join(there)}; name it with --arm")


def _board(path: Path, board: Board) -> int:
    board.write(path)
    print(f"{path}: print it flat, so that a square is {board.square_m * 1e3:g} mm, and measure one")
    print("Next: robot-stack calibrate extrinsics CELL --camera NAME")
    return 0


def changed_lines(before: str, after: str) -> list[str]:
    """Return the lines that differ, old ones with "- ", new ones with "+ "."""
    old, new = before.splitlines(), after.splitlines()
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]


def _own_file(source: Path) -> Path:
    """Return the file itself, or for one that came with the package the operator's own copy of it."""
    own = (Path.cwd() / FOLDER / "cells" / source.name).absolute()
    return own if is_shipped(source) and own != source.absolute() else source


def _agreed(target: Path) -> bool:
    enter = Enter.on_terminal()
    if enter is None:
        return False
    enter.ask(f"Enter writes it to {target}; Ctrl-C leaves the file as it is")
    while not enter.pressed():
        time.sleep(0.05)
    return True


def _with_whole_images(
    resolved: ResolvedRun, name: str, overrides: Sequence[str], root: Path | None, camera: str
) -> ResolvedRun:
    """Load the same cell with a camera that sends all that it captures instead of the policy's crop."""
    if not camera:
        return resolved
    config = resolved.cameras[camera]
    share = min(1.0, LARGEST_PX / max(config.height_px, config.width_px))
    shown = [f"policy_height_px={round(config.height_px * share)}", f"policy_width_px={round(config.width_px * share)}"]
    whole = [f"cameras.{camera}.{setting}" for setting in ("roi_px=null", *shown)]
    return load_cell(name, [*overrides, *whole], root)
