"""The cameras that are connected, by the names that a cell's file can keep, and a picture of one."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from robot_stack.sensing.capture import MOST_BAD
from robot_stack.sensing.connected import SETTLE_FRAMES, connected_cameras, picture_of
from robot_stack.sensing.v4l2_source import find_device
from robot_stack.types.errors import RobotError
from tests.sensing.test_v4l2_source import FakeDevice, config


def plug(dev: Path, number: int, name: str, plug_name: str) -> Path:
    """Link a camera as udev does: its image, and its metadata at the next number."""
    for folder, link in (("by-id", name), ("by-path", plug_name)):
        (dev / "v4l" / folder).mkdir(parents=True, exist_ok=True)
        for index in (0, 1):
            node = dev / f"video{number + index}"
            node.touch()
            (dev / "v4l" / folder / f"{link}-video-index{index}").symlink_to(node)
    return dev / f"video{number}"


def test_each_camera_is_listed_once_with_the_serial_that_finds_it(tmp_path: Path) -> None:
    first = plug(tmp_path, 0, "usb-046d_HD_Pro_Webcam_C920_5D3C1B6F", "pci-0000:00:14.0-usb-0:1:1.0")
    second = plug(tmp_path, 2, "usb-Sonix_Technology_Co.__Ltd._USB_Camera_SN0001", "pci-0000:00:14.0-usb-0:2:1.0")
    by_id, by_path = tmp_path / "v4l" / "by-id", tmp_path / "v4l" / "by-path"
    found = connected_cameras(by_id, by_path)
    assert [(each.name, each.path, each.serial, each.device) for each in found] == [
        ("046d_HD_Pro_Webcam_C920_5D3C1B6F", str(first), "5D3C1B6F", None),
        ("Sonix_Technology_Co.__Ltd._USB_Camera_SN0001", str(second), "SN0001", None),
    ]
    assert [find_device(None, each.serial, by_id) for each in found] == [str(first), str(second)]


def test_two_cameras_with_one_serial_are_told_apart_by_their_plugs(tmp_path: Path) -> None:
    plugs = ("pci-0000:00:14.0-usb-0:1:1.0", "pci-0000:00:14.0-usb-0:2:1.0")
    paths = [plug(tmp_path, 2 * number, f"usb-Maker_{number}_SN0001", each) for number, each in enumerate(plugs)]
    by_id, by_path = tmp_path / "v4l" / "by-id", tmp_path / "v4l" / "by-path"
    found = connected_cameras(by_id, by_path)
    assert [each.serial for each in found] == [None, None]
    assert [find_device(each.device, None, by_id) for each in found] == list(map(str, paths))
    assert all(str(each.device).startswith(str(by_path)) for each in found)
    bare = connected_cameras(by_id, tmp_path / "nothing")
    assert [find_device(each.device, None, by_id) for each in bare] == list(map(str, paths))


def test_a_machine_without_cameras_has_none(tmp_path: Path) -> None:
    assert connected_cameras(tmp_path / "by-id", tmp_path / "by-path") == []


def test_a_picture_is_the_first_frame_after_exposure_has_settled() -> None:
    dark = [np.full((48, 64, 3), 10, np.uint8)] * SETTLE_FRAMES
    blue = np.zeros((48, 64, 3), np.uint8)
    blue[..., 0] = 200
    device = FakeDevice(frames=[*dark, blue])
    jpeg = picture_of(config(device="/dev/null", serial=None), lambda path, backend: device)
    seen = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert seen.shape == (48, 64, 3)
    assert np.abs(seen.astype(int).mean((0, 1)) - [200, 0, 0]).max() < 12
    assert device.released


def test_a_picture_is_taken_though_some_frames_are_bad() -> None:
    image = np.full((48, 64, 3), 90, np.uint8)
    cut = np.frombuffer(b"\xff\xd8 cut", np.uint8)
    device = FakeDevice(frames=[cut] * MOST_BAD + [image] * SETTLE_FRAMES + [cut, image])
    assert picture_of(config(device="/dev/null", serial=None), lambda path, backend: device)
    with pytest.raises(RobotError, match="cannot be decoded"):
        picture_of(config(device="/dev/null", serial=None), lambda *_: FakeDevice(frames=[cut] * (MOST_BAD + 1)))


@pytest.mark.parametrize(
    ("device", "said"),
    [(FakeDevice(opened=False), "close other programs"), (FakeDevice(frames=[]), "delivers no frame")],
)
def test_a_camera_that_gives_no_picture_is_said_and_let_go(device: FakeDevice, said: str) -> None:
    with pytest.raises(RobotError, match=said):
        picture_of(config(device="/dev/null", serial=None), lambda path, backend: device)
    assert device.released


def test_of_two_cameras_with_one_name_each_is_found_by_its_plug(tmp_path: Path) -> None:
    """udev keeps one link by id where maker, model and serial number are the same."""
    first = plug(tmp_path, 0, "usb-Maker_Camera_SN0001", "pci-0000:00:14.0-usb-0:1:1.0")
    second = plug(tmp_path, 2, "usb-Maker_Camera_SN0002", "pci-0000:00:14.0-usb-0:2:1.0")
    by_id, by_path = tmp_path / "v4l" / "by-id", tmp_path / "v4l" / "by-path"
    for link in by_id.glob("*SN0002*"):
        link.unlink()
    found = connected_cameras(by_id, by_path)
    assert {each.path for each in found} == {str(first), str(second)}
    assert all(each.serial is None and find_device(each.device, None, by_id) == each.path for each in found)
