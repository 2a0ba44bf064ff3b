"""`robot-stack calibrate lens` and what `extrinsics` brings: a camera's lens in the cell's file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.cli import main
from robot_stack.cli.cell import measuring
from robot_stack.config.files.edit import edited
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.sensing.charuco import find_corners
from robot_stack.sensing.lens import Lens
from robot_stack.types.pose import Pose
from tests.sensing.test_camera_pose import BOARD, LENS, PLACES, SIZE, draw

MAKERS = Path(__file__).parents[1] / "makers/cameras/calibrations/usb_cam.yaml"


@pytest.fixture
def own_files(monkeypatch, tmp_path) -> Path:
    """An operator's own configuration folder, in the working directory."""
    shutil.copytree(config_root(), tmp_path / "hardware_configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hardware_configs"


@pytest.fixture
def hanging(own_files) -> Path:
    """The FR3's table, its camera at the front hanging upside down."""
    path = own_files / "cells/fr3_table.yaml"
    model = (own_files / "cameras/realsense_d435_wrist.yaml").read_text()
    (own_files / "cameras/realsense_d435_wrist.yaml").write_text(model + "flip: rotate_180\n")
    return path


def test_a_calibration_that_ros_wrote_goes_into_the_cells_file(hanging, capsys) -> None:
    words = ["calibrate", "lens", "fr3_table", "--camera", "front", "--file", str(MAKERS), "--write"]
    assert main.main(words) == 0
    assert "front: plumb_bob, focal lengths 438.8 and 437.3 px of 640x480" in capsys.readouterr().err
    lens = load_run("fr3_table").cell.cameras["front"].lens
    assert lens is not None
    assert lens.centre_px == pytest.approx((639 - 305.593, 479 - 243.738), abs=1e-3), "of the image as it is seen"
    assert lens.distortion == pytest.approx((-0.361976, 0.110510, -0.001014, -0.000505, 0.0))


@pytest.mark.parametrize(
    ("file", "said"),
    [("absent.yaml", "cannot be read"), ("cells/fr3_table.yaml", "image_width is None"), (".", "cannot be read")],
)
def test_what_is_no_calibration_is_a_sentence_and_leaves_the_file(file, said, own_files, capsys) -> None:
    before = (own_files / "cells/fr3_table.yaml").read_text()
    words = ["calibrate", "lens", "fr3_table", "--camera", "front", "--file", str(own_files / file), "--write"]
    assert main.main(words) == 1
    assert said in capsys.readouterr().err
    assert (own_files / "cells/fr3_table.yaml").read_text() == before


def measured_with(cell: Path, lens: Lens | None) -> dict[str, Any]:
    """What twelve views of a board bring, that a camera beside the arm with `test_camera_pose.LENS` has of it."""
    options = measuring.CalibrateOptions(
        name="fr3_table", arm="fr3", camera="front", aspect=1.0, roi=None, seconds=1.0, margin_m=0.0, pose="",
        mounted="base", square_m=0.03, marker_m=0.022, file=None,
    )  # fmt: skip
    if lens is not None:
        edits = {("cameras", "front", "lens"): lens.section()}
        cell.write_text(edited(cell.read_text(), edits))
    camera = Pose.from_rotation(np.array([0.5, 0.1, 0.6]), Rotation.from_euler("x", 3.0))
    views = [(find_corners(draw(place), BOARD), SIZE) for place in PLACES]
    arm = [camera @ place for place in PLACES]  # the board is held where the tool is
    return dict(measuring.place_and_lens(options, load_run("fr3_table"), arm, views).edits)


def test_views_of_a_board_tell_where_a_camera_is_and_its_lens(own_files) -> None:
    found = measured_with(own_files / "cells/fr3_table.yaml", None)
    np.testing.assert_allclose(found["cameras", "front", "mount"]["position_m"], [0.5, 0.1, 0.6], atol=0.01)
    np.testing.assert_allclose(found["cameras", "front", "lens"]["focal_px"], LENS.focal_px, rtol=0.03)
    assert found["cameras", "front", "lens"]["error_px"] < 0.5


def test_a_lens_that_the_cells_file_has_counts_and_stays(own_files) -> None:
    half = LENS.resized(320, 240)
    found = measured_with(own_files / "cells/fr3_table.yaml", half)
    assert list(found) == [("cameras", "front", "mount")]
    np.testing.assert_allclose(found["cameras", "front", "mount"]["position_m"], [0.5, 0.1, 0.6], atol=0.003)
