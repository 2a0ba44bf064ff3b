"""The real OpenCV on a Video4Linux device that is not there: `v4l2_device.c` in front of the C library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

HERE = Path(__file__).parent
READ = """
import json, sys
from robot_stack.config.camera import V4l2CameraConfig
from robot_stack.sensing.capture import BadFrameError
from robot_stack.sensing.v4l2_source import V4l2Source
from robot_stack.types.errors import RobotError

asked = json.loads(sys.argv[1])
source = V4l2Source(V4l2CameraConfig(**asked), find=lambda path, serial: path)
seen = []
try:
    source.open()
    while True:
        try:
            image = source.read().image
            seen.append([*image.shape, *image[[10, 240, 470]].mean((1, 2)).round().tolist()])
        except BadFrameError as error:
            seen.append(f"bad: {error}")
except RobotError as error:
    seen.append(str(error))
print(json.dumps(seen))
"""
Reads = Callable[..., list[list[int] | str]]


@pytest.fixture
def reads(tmp_path: Path) -> Reads:
    """What a source of its own process reads of a device with these frames, opened as the fields say, and its end."""
    if shutil.which("cc") is None or not Path("/usr/include/linux/videodev2.h").exists():
        pytest.skip("no C compiler with the kernel's headers: the device cannot be built")
    library, frames = tmp_path / "device.so", tmp_path / "frames"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "v4l2_device.c", "-ldl"], check=True, timeout=60)
    frames.mkdir()

    def read(*delivered: bytes, has: str = "MJPG", **fields: object) -> list[list[int] | str]:
        for k, frame in enumerate((delivered[0], *delivered)):  # OpenCV passes over the first
            (frames / f"{k:03d}").write_bytes(frame)
        asked = dict(
            backend="v4l2", device="/dev/camera", fourcc="MJPG", width_px=640, height_px=480, policy_width_px=64,
            policy_height_px=64, rate_hz=30, max_age_s=0.2, freeze_s=1.0,
        ) | fields  # fmt: skip
        fake = {"LD_PRELOAD": str(library), "V4L2_PATH": "/dev/camera", "V4L2_FRAMES": str(frames), "V4L2_FOURCC": has}
        words = [sys.executable, "-c", READ, json.dumps(asked)]
        ended = subprocess.run(words, env=os.environ | fake, capture_output=True, text=True, timeout=120, check=False)
        assert ended.returncode == 0, ended.stderr
        return list(json.loads(ended.stdout))

    return read


def jpeg(level: int) -> bytes:
    image = np.full((480, 640, 3), level, np.uint8)
    image[::7, ::5] = 255 - level
    return cv2.imencode(".jpg", image)[1].tobytes()


def test_a_jpeg_that_is_not_whole_is_refused_and_not_shown_with_the_one_before(reads: Reads) -> None:
    good, other = jpeg(200), jpeg(120)
    whole = [480, 640, 3, 200, 200, 200]
    cut, headless = other[: len(other) // 2], other[400:]
    *seen, end = reads(good, cut, good, headless, good)
    assert "delivers no frame" in end
    assert seen[::2] == [whole] * 3
    for bad, size in ((seen[1], len(cut)), (seen[3], len(headless))):
        assert bad == (
            f"bad: device /dev/camera: jpeg of {size} bytes cannot be decoded, must be a whole image; check "
            "the link to it"
        )


def test_a_buffer_without_bytes_is_one_bad_frame(reads: Reads) -> None:
    good = [480, 640, 3, 200, 200, 200]
    *seen, end = reads(jpeg(200), b"", jpeg(200))
    assert "delivers no frame" in end
    assert (seen[0], seen[2]) == (good, good)
    assert seen[1] == "bad: device /dev/camera delivers a frame without bytes; try another port, cable or hub"


def test_a_pixel_format_that_the_device_does_not_have_is_refused(reads: Reads) -> None:
    assert reads(jpeg(200), has="YUYV") == [
        "device /dev/camera delivers 640x480 YUYV, must be 640x480 MJPG as in the camera's file; ask it for what it "
        "can do with `v4l2-ctl --list-formats-ext`"
    ]


@pytest.mark.long
def test_a_control_out_of_the_devices_range_is_refused(reads: Reads) -> None:
    assert reads(jpeg(200), gain=9000) == [
        "device /dev/camera has gain 255, must be 9000 as in the camera's file; give it there a value that the "
        "device has, see `v4l2-ctl --list-ctrls`"
    ]
