"""`robot-stack camera`: a picture to choose the crop by, taken by the process that serves the camera."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from robot_stack.cli import main as command
from robot_stack.config.files.library import config_root
from robot_stack.sensing.likeness import read_reference
from robot_stack.sensing.sheet import sheet

WAIT_S = 60.0
SIZES = "cameras.wrist.width_px=160", "cameras.wrist.height_px=120"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cell whose wrist camera is a folder of images."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(config_root(), tmp_path / "mine")
    cell = tmp_path / "mine/cells/sim.yaml"
    cell.write_text(cell.read_text().replace("{model: sim_wrist}", "{model: video_file}"))
    (tmp_path / "shots").mkdir()
    for k in range(3):
        image = np.full((120, 160, 3), 60 + k, np.uint8)
        image[40:80, 60:100] = (0, 0, 200)
        cv2.imwrite(str(tmp_path / f"shots/{k}.png"), image)
    return tmp_path / "mine"


def words(root: Path, path: str, *more: str) -> list[str]:
    settings = [*SIZES, f"cameras.wrist.path={path}", "cell.dds_domain=70", *more]
    return ["camera", "peg_insert", "wrist", "--root", str(root), *(w for s in settings for w in ("--set", s))]


def test_it_writes_a_sheet_with_the_crop_and_a_view_to_refer_to(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    roi = "cameras.wrist.roi_px={top: 40, left: 60, height: 40, width: 40}"
    assert command.main(words(root, "shots", roi)) == 0
    said = capsys.readouterr().out
    assert "camera wrist: captured 160x120, kept {top: 40, left: 60, height: 40, width: 40}, policy 128x128" in said
    drawn = cv2.imread("views/wrist.png")
    assert drawn.shape == (120, 160 + 120, 3)
    assert (drawn[:, 170:] == (0, 0, 200)).all()  # all that is kept is red
    assert read_reference("wrist", "views/wrist_view.png")[0, 0, 0] in (60, 61, 62)


def test_a_camera_that_shows_nothing_says_why(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    from robot_stack.cli.cell import camera

    monkeypatch.setattr(camera, "PATIENCE_S", 15.0)  # from its first word on, which may be that it is being opened
    assert command.main(words(root, "nowhere")) == 1
    assert "nowhere does not exist, must be a video or a folder of images" in capsys.readouterr().err


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_camera_process_stays_behind_one_that_is_killed(root: Path, how: signal.Signals) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    verb = subprocess.Popen([sys.executable, "-m", "robot_stack.cli.main", *words(root, "nowhere")], cwd=root.parent)
    try:
        _until(lambda: _camera_processes(verb.pid), "a camera process")
        served = _camera_processes(verb.pid)
        verb.send_signal(how)
        verb.wait(WAIT_S)
        _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in served), "its end")
    finally:
        verb.kill()
        verb.wait()


def _camera_processes(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [
        int(pid) for pid in children if b"robot_stack.nodes.camera.node" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def _until(fits: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not fits():
        assert time.monotonic() < deadline_s, f"{what} not within {WAIT_S:g} s"
        time.sleep(0.02)


def test_a_simulated_camera_or_an_unknown_one_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (("front", "camera front is simulated"), ("side", "must be one of wrist, front")):
        assert command.main(["camera", "peg_insert", name, "--root", str(root)]) == 1
        assert said in capsys.readouterr().err


def test_the_sheet_leaves_the_capture_as_it_was() -> None:
    captured = np.zeros((40, 60, 3), np.uint8)
    drawn = sheet(captured, None, np.full((8, 16, 3), 9, np.uint8))
    assert drawn.shape == (40, 60 + 80, 3)
    assert not captured.any()
