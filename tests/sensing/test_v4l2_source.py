"""A Video4Linux camera: found by its serial number, set up in order, read through OpenCV."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.config.camera import V4l2CameraConfig
from robot_stack.sensing.capture import BadFrameError
from robot_stack.sensing.v4l2_source import OLDEST_NS, V4l2Source, capture_stamp, find_device
from robot_stack.types.errors import RobotError


def config(**more: Any) -> V4l2CameraConfig:
    fields: dict[str, Any] = dict(
        backend="v4l2", serial="A1", fourcc="MJPG", width_px=64, height_px=48, policy_width_px=16, policy_height_px=16,
        rate_hz=30.0, max_age_s=0.2, freeze_s=None,
    )  # fmt: skip
    return V4l2CameraConfig(**{**fields, **more})


class FakeDevice:
    """A `cv2.VideoCapture` of its own; `refused` are the properties it does not take.

    Frames are images, or JPEG files that cannot be decoded, uint8, shape (N,), of which OpenCV converting says nothing.
    """

    def __init__(self, *, opened: bool = True, frames: list[np.ndarray] | None = None, refused: tuple[int, ...] = ()):
        self._opened, self._frames, self._refused = opened, list(frames or []), refused
        self.set_to: list[tuple[int, float]] = []
        self.values: dict[int, float] = {}
        self._shown = np.zeros((48, 64, 3), np.uint8)
        self.released = False

    def isOpened(self) -> bool:
        return self._opened

    def set(self, key: int, value: float) -> bool:
        self.set_to.append((key, value))
        if key in self._refused:
            return False
        self.values.setdefault(key, value)
        return True

    def get(self, key: int) -> float:
        return self.values.get(key, 0.0)

    def grab(self) -> bool:
        return bool(self._frames)

    def retrieve(self) -> tuple[bool, np.ndarray]:
        frame = self._frames.pop(0)
        if not self.values[cv2.CAP_PROP_CONVERT_RGB]:
            return True, (frame if frame.ndim == 1 else cv2.imencode(".jpg", frame)[1]).reshape(1, -1)
        self._shown = frame if frame.ndim > 1 else self._shown
        return True, self._shown

    def release(self) -> None:
        self.released = True


def source(device: FakeDevice, **more: Any) -> V4l2Source:
    return V4l2Source(config(**more), lambda path, serial: "/dev/video7", lambda path, backend: device)


def test_it_is_opened_through_video4linux_and_set_up_format_first() -> None:
    device, asked = FakeDevice(), []
    V4l2Source(config(), lambda *_: "/dev/video7", lambda *words: asked.append(words) or device).open()
    assert asked == [("/dev/video7", cv2.CAP_V4L2)]
    first = [key for key, _ in device.set_to][:5]
    assert first == [
        cv2.CAP_PROP_BUFFERSIZE, cv2.CAP_PROP_FOURCC, cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT,
        cv2.CAP_PROP_FPS,
    ]  # fmt: skip
    assert device.values[cv2.CAP_PROP_BUFFERSIZE] == 1
    assert device.values[cv2.CAP_PROP_FOURCC] == int.from_bytes(b"MJPG", "little")


def test_fixed_controls_switch_their_automatic_off_first() -> None:
    device = FakeDevice()
    source(device, exposure_s=0.01, gain=64, white_balance_k=4500, focus=0).open()
    order = {key: k for k, (key, _) in enumerate(device.set_to)}
    for automatic, off, fixed, value in (
        (cv2.CAP_PROP_AUTO_EXPOSURE, 1, cv2.CAP_PROP_EXPOSURE, 100),
        (cv2.CAP_PROP_AUTO_WB, 0, cv2.CAP_PROP_WB_TEMPERATURE, 4500),
        (cv2.CAP_PROP_AUTOFOCUS, 0, cv2.CAP_PROP_FOCUS, 0),
    ):
        assert (device.values[automatic], device.values[fixed]) == (off, value)
        assert order[automatic] < order[fixed]
    assert device.values[cv2.CAP_PROP_GAIN] == 64


def test_what_is_left_automatic_is_made_so_if_it_can_be() -> None:
    device = FakeDevice(refused=(cv2.CAP_PROP_AUTOFOCUS,))
    source(device).open()
    assert (cv2.CAP_PROP_AUTO_EXPOSURE, 3) in device.set_to
    assert (cv2.CAP_PROP_AUTOFOCUS, 1) in device.set_to


@pytest.mark.parametrize(
    ("key", "name"),
    [(cv2.CAP_PROP_FOURCC, "fourcc"), (cv2.CAP_PROP_GAIN, "gain"), (cv2.CAP_PROP_WB_TEMPERATURE, "white_balance_k")],
)
def test_a_setting_that_is_not_taken_is_named(key: int, name: str) -> None:
    with pytest.raises(RobotError, match=f"/dev/video7 does not take {name} "):
        source(FakeDevice(refused=(key,)), gain=3, white_balance_k=4500).open()


def test_another_size_than_asked_for_is_refused_in_words() -> None:
    device = FakeDevice()
    device.values[cv2.CAP_PROP_FRAME_HEIGHT] = 36
    with pytest.raises(RobotError, match="delivers 64x36 MJPG, must be 64x48 MJPG"):
        source(device).open()


def test_another_pixel_format_than_asked_for_is_refused_though_the_device_took_it() -> None:
    device = FakeDevice()
    device.values[cv2.CAP_PROP_FOURCC] = cv2.VideoWriter.fourcc(*"YUYV")
    with pytest.raises(RobotError, match="delivers 64x48 YUYV, must be 64x48 MJPG"):
        source(device).open()


@pytest.mark.parametrize(
    ("key", "has", "said"),
    [
        (cv2.CAP_PROP_GAIN, 255, "has gain 255, must be 300 as"),
        (cv2.CAP_PROP_EXPOSURE, 156, "has exposure_s 0.0156, must be 0.02 as"),
        (cv2.CAP_PROP_WB_TEMPERATURE, 4000, "has white_balance_k 4000, must be 4500 as"),
        (cv2.CAP_PROP_FOCUS, 3, "has focus 3, must be 0 as"),
    ],
)
def test_a_control_that_the_device_clamps_is_refused_with_both_values(key: int, has: float, said: str) -> None:
    device = FakeDevice()
    device.values[key] = has
    with pytest.raises(RobotError, match=said):
        source(device, gain=300, exposure_s=0.02, white_balance_k=4500, focus=0).open()


def test_a_control_rounded_to_a_step_of_the_device_or_one_that_cannot_be_read_is_taken() -> None:
    device = FakeDevice()
    device.values |= {cv2.CAP_PROP_WB_TEMPERATURE: 4550, cv2.CAP_PROP_FOCUS: 10, cv2.CAP_PROP_GAIN: -1}
    source(device, gain=300, white_balance_k=4500, focus=12).open()


def test_a_device_in_use_is_said_to_be() -> None:
    with pytest.raises(RobotError, match="/dev/video7 cannot be opened, must be a free camera"):
        source(FakeDevice(opened=False)).open()


def test_an_unplugged_device_is_said_to_deliver_nothing() -> None:
    opened = source(FakeDevice())
    opened.open()
    with pytest.raises(RobotError, match="/dev/video7 delivers no frame; replug it"):
        opened.read()


@pytest.mark.parametrize("fourcc", ["MJPG", "JPEG"])
def test_a_jpeg_that_cannot_be_decoded_is_a_bad_frame_and_the_next_is_read(fourcc: str) -> None:
    image = np.full((48, 64, 3), 90, np.uint8)
    whole = cv2.imencode(".jpg", image)[1].ravel()
    opened = source(FakeDevice(frames=[image, whole[:200], whole]), fourcc=fourcc)
    opened.open()
    assert np.abs(opened.read().image.astype(int) - 90).max() < 3
    with pytest.raises(BadFrameError, match="/dev/video7: jpeg of 200 bytes cannot be decoded, must be a whole image"):
        opened.read()
    assert opened.read().image.shape == (48, 64, 3)


@pytest.mark.parametrize("fails", ["grab", "get", "retrieve"])
def test_an_error_of_opencv_is_of_that_frame_alone(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    device = FakeDevice(frames=[np.full((48, 64, 3), 90, np.uint8)])
    opened = source(device)
    opened.open()
    with monkeypatch.context() as patch:
        patch.setattr(device, fails, failing)
        with pytest.raises(BadFrameError, match="/dev/video7: OpenCV said of a frame: empty buffer in imdecode"):
            opened.read()
    assert opened.read().image.shape == (48, 64, 3)


@pytest.mark.parametrize("fails", ["isOpened", "set", "get"])
def test_an_error_of_opencv_at_the_opening_is_said(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    device = FakeDevice()
    monkeypatch.setattr(device, fails, failing)
    with pytest.raises(RobotError, match="video7 cannot be set up, OpenCV said: empty buffer in imdecode; replug it"):
        source(device).open()


def failing(*_: object) -> None:
    raise cv2.error("empty buffer\nin imdecode\n")


def test_an_image_of_16_bits_is_named_and_no_bad_frame() -> None:
    opened = source(FakeDevice(frames=[np.zeros((48, 64), np.uint16)]), fourcc="Y16 ")
    opened.open()
    with pytest.raises(RobotError, match="uint16") as caught:
        opened.read()
    assert not isinstance(caught.value, BadFrameError)


@pytest.mark.parametrize("fourcc", ["MJPG", "YUYV"])
def test_a_frame_is_bgr_and_stamped_at_the_grab(fourcc: str) -> None:
    image = np.full((48, 64, 3), 9, np.uint8)
    opened = source(FakeDevice(frames=[image]), fourcc=fourcc)
    opened.open()
    before_ns = time.monotonic_ns()
    frame = opened.read()
    assert before_ns <= frame.stamp_ns <= time.monotonic_ns()
    assert (frame.encoding, frame.image.shape) == ("bgr8", (48, 64, 3))


def test_it_lets_go_of_the_device_and_may_be_closed_twice() -> None:
    device = FakeDevice()
    opened = source(device)
    opened.open()
    opened.close()
    opened.close()
    assert device.released


@given(st.integers(0, 2 * OLDEST_NS))
def test_the_drivers_stamp_counts_while_it_can_be_of_our_clock(lag_ns: int) -> None:
    grabbed_ns = 10**15
    found = capture_stamp((grabbed_ns - lag_ns) / 1e6, grabbed_ns)
    if lag_ns < OLDEST_NS - 1000:
        assert abs(found - (grabbed_ns - lag_ns)) < 1000
    elif lag_ns > OLDEST_NS + 1000:
        assert found == grabbed_ns


@pytest.mark.parametrize("driver_ms", [0.0, -1.0, 1.8e12, 400.0])
def test_a_stamp_of_another_clock_gives_way_to_the_grab(driver_ms: float) -> None:
    assert capture_stamp(driver_ms, 10**15) == 10**15


def test_a_real_video_is_read_by_the_same_code(tmp_path: Path) -> None:
    path = str(tmp_path / "v.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter.fourcc(*"MJPG"), 30, (64, 48))
    for level in (40, 120, 200):
        writer.write(np.full((48, 64, 3), level, np.uint8))
    writer.release()

    class Video(FakeDevice):
        """Settings go nowhere, images come from the file."""

        def __init__(self) -> None:
            super().__init__()
            self._video = cv2.VideoCapture(path, cv2.CAP_FFMPEG)
            self.grab, self.retrieve, self.release = self._video.grab, self._video.retrieve, self._video.release

        def get(self, key: int) -> float:
            return super().get(key) if key == cv2.CAP_PROP_FOURCC else float(self._video.get(key))

    opened = source(Video(), fourcc="YUYV")
    opened.open()
    levels = [round(float(opened.read().image.mean())) for _ in range(3)]
    assert levels == pytest.approx([40, 120, 200], abs=3)
    with pytest.raises(RobotError, match="delivers no frame"):
        opened.read()


# Which device file it is


@pytest.fixture
def by_id(tmp_path: Path) -> Path:
    """Two cameras, one of them with a second stream, one without a serial number."""
    folder = tmp_path / "by-id"
    folder.mkdir()
    for number, name in enumerate(
        ("usb-046d_C920_A1-video-index0", "usb-046d_C920_A1-video-index1", "usb-046d_C920_BA1-video-index0",
         "usb-Generic_Cam-video-index0")
    ):  # fmt: skip
        (tmp_path / f"video{number}").touch()
        (folder / name).symlink_to(tmp_path / f"video{number}")
    return folder


def test_a_serial_number_leads_to_its_first_stream_and_no_other_camera(by_id: Path) -> None:
    assert find_device(None, "A1", by_id) == str(by_id.parent / "video0")
    assert find_device(None, "BA1", by_id) == str(by_id.parent / "video2")


def test_a_serial_number_that_is_not_there_lists_those_that_are(by_id: Path) -> None:
    with pytest.raises(
        RobotError, match=r"no device has serial 'C3', connected are: usb-046d_C920_A1, usb-046d_C920_BA1"
    ):
        find_device(None, "C3", by_id)
    for link in by_id.iterdir():
        link.unlink()
    with pytest.raises(RobotError, match="connected are: none"):
        find_device(None, "A1", by_id)


def test_where_udev_keeps_no_links_a_container_is_thought_of(by_id: Path) -> None:
    """udev makes the folder with the first camera, and a container has none of its own."""
    with pytest.raises(RobotError, match=r"nowhere does not exist.*its cable; in a container mount "):
        find_device(None, "A1", by_id / "nowhere")


def test_two_cameras_with_one_serial_number_need_a_path(by_id: Path) -> None:
    (by_id.parent / "video9").touch()
    (by_id / "usb-Other_Cam_A1-video-index0").symlink_to(by_id.parent / "video9")
    with pytest.raises(RobotError, match="is that of 2 devices, must be of one; give the cell `device`"):
        find_device(None, "A1", by_id)


def test_a_path_is_followed_to_the_device(by_id: Path) -> None:
    link = by_id / "usb-Generic_Cam-video-index0"
    assert find_device(str(link), None, by_id) == str(by_id.parent / "video3")
    with pytest.raises(RobotError, match="does not exist, must be connected"):
        find_device(str(by_id / "gone"), None, by_id)


def test_a_path_that_leads_to_another_serial_number_is_a_swap(by_id: Path) -> None:
    path = str(by_id.parent / "video2")
    assert find_device(path, "BA1", by_id) == path
    with pytest.raises(RobotError, match="usb-046d_C920_BA1, must have serial 'A1'; the cameras' ports were changed"):
        find_device(path, "A1", by_id)


@pytest.mark.skipif(not list(Path("/dev").glob("video*")), reason="no /dev/video*: no camera is connected here")
def test_a_connected_camera_delivers() -> None:
    device = str(sorted(Path("/dev").glob("video*"))[0])
    probe = cv2.VideoCapture(device, cv2.CAP_V4L2)
    size = {
        "width_px": round(probe.get(cv2.CAP_PROP_FRAME_WIDTH)),
        "height_px": round(probe.get(cv2.CAP_PROP_FRAME_HEIGHT)),
    }
    probe.release()
    opened = V4l2Source(config(device=device, serial=None, fourcc="YUYV", **size))
    opened.open()
    try:
        frames = [opened.read() for _ in range(10)]
    finally:
        opened.close()
    assert all(frame.image.shape[:2] == (size["height_px"], size["width_px"]) for frame in frames)
    assert all(later.stamp_ns > earlier.stamp_ns for earlier, later in pairwise(frames))
