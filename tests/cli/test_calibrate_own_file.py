"""`robot-stack calibrate` writes into the file that a cell is loaded from, or into one's own that then comes first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from robot_stack.cli import main
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run

CROP = ("--camera", "front", "--roi", "0,0,400,400", "--write")


def rows_kept(run: str | Path) -> int | None:
    roi = load_run(run).cell.cameras["front"].roi_px
    return None if roi is None else roi.height


def test_a_shipped_cell_is_copied_into_an_empty_folder_and_what_was_measured_is_in_force(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["calibrate", "crop", "so101_table", *CROP]) == 0
    assert rows_kept("so101_table") == 400
    assert not (config_root() / "cells/so101_table.yaml").read_text().count("height: 400")


@pytest.mark.parametrize("cell", ["so101_table", "my_arm"])
def test_a_run_by_path_has_its_own_cell_written(cell: str, monkeypatch, tmp_path) -> None:
    lab, here = tmp_path / "lab", tmp_path / "here"
    shutil.copytree(config_root(), lab)
    here.mkdir()
    monkeypatch.chdir(here)
    if cell == "my_arm":
        (lab / "cells/so101_table.yaml").rename(lab / "cells/my_arm.yaml")
        run = lab / "runs/so101_table.yaml"
        run.write_text(run.read_text().replace("cell: so101_table", "cell: my_arm"))
    assert main.main(["calibrate", "crop", str(lab / "runs/so101_table.yaml"), *CROP]) == 0
    assert rows_kept(lab / "runs/so101_table.yaml") == 400
    assert list(here.iterdir()) == []
