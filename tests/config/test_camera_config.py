"""Camera files: one kind for each backend, mistakes with their place, and what a cell says about its cameras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from robot_stack.config.camera import TopicCameraConfig, V4l2CameraConfig
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import CAMERAS
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.types.errors import ConfigError

Edit = Callable[[str, str, str], None]
V4L2 = """\
backend: v4l2
fourcc: MJPG
width_px: 640
height_px: 480
policy_width_px: 128
policy_height_px: 128
rate_hz: 30
max_age_s: 0.15
freeze_s: 0.5
"""


def refusal(text: str, folder: Path) -> list[str]:
    path = folder / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, CAMERAS)
    return [line.replace(f"{folder}/", "") for line in str(caught.value).splitlines()]


def run_refusal(root: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_run("peg_insert", overrides, root)
    return [line.replace(str(root.resolve()), "mine") for line in str(caught.value).splitlines()]


@pytest.fixture
def two_topics(root: Path, edit: Edit) -> Path:
    """The shipped run with a driver's topic for each camera."""
    edit("cells/sim.yaml", "{model: sim_wrist}", "{model: generic_topic, source_topic: /wrist/image_raw}")
    edit("cells/sim.yaml", "{model: sim_front}", "{model: generic_topic, source_topic: /front/image_raw}")
    return root


def test_there_is_a_kind_for_each_backend_and_the_file_chooses() -> None:
    assert set(CAMERAS.builtin) == {"sim", "gymnasium", "v4l2", "topic", "file"}


def test_a_file_becomes_the_kind_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(V4L2)
    camera = load(path, CAMERAS)
    assert isinstance(camera, V4l2CameraConfig)
    assert (camera.fourcc, camera.buffers, camera.exposure_s) == ("MJPG", 1, None)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("backend: v4l2", "backend: v4l",
         "c.yaml:1:10: backend: input should be 'sim', 'v4l2', 'topic' or 'file' (got 'v4l'); did you mean 'v4l2'?"),
        ("backend: v4l2", "backend: 3",
         "c.yaml:1:10: backend: input should be 'sim', 'v4l2', 'topic' or 'file' (got 3); write one of them"),
        ("backend: v4l2\n", "",
         "c.yaml:1:1: backend: field required; add 'backend': 'sim', 'v4l2', 'topic' or 'file'"),
        ("freeze_s: 0.5", "freze_s: 0.5",
         "c.yaml:9:10: freze_s: extra inputs are not permitted (got 0.5); did you mean 'freeze_s'?"),
        ("freeze_s: 0.5\n", "", "c.yaml:1:1: freeze_s: field required; add 'freeze_s'"),
        ("freeze_s: 0.5", "freeze_s: 0", "c.yaml:9:11: freeze_s: input should be greater than or equal to 0.1 (got 0)"),
        ("fourcc: MJPG", "fourcc: mjpeg",
         "c.yaml:2:9: fourcc: input should be a pixel format of four capitals, digits or spaces (got 'mjpeg')"),
        ("rate_hz: 30", "rate_hz: 30\nexposure_s: -1",
         "c.yaml:8:13: exposure_s: input should be greater than 0 (got -1); raise it"),
        ("rate_hz: 30", "rate_hz: 30\nflip: upside_down",
         "c.yaml:8:7: flip: input should be 'none', 'rotate_180', 'horizontal' or 'vertical' (got 'upside_down')"),
        ("rate_hz: 30", "rate_hz: 30\nserial: 12345",
         "c.yaml:8:9: serial: input should be a valid string (got 12345); put it in quotes"),
        ("rate_hz: 30", "rate_hz: 30\ndevice: video0",
         "c.yaml:8:9: device: input should be the path of a device (got 'video0'); write e.g. /dev/v4l/"),
        ("rate_hz: 30", "rate_hz: 5",
         "c.yaml:8:12: max_age_s: max_age_s is 0.15, must be longer than one frame at 5.0 Hz (0.200 s); raise it"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_place_and_a_way_out(old: str, new: str, line: str, tmp_path: Path) -> None:
    assert old in V4L2
    (said,) = refusal(V4L2.replace(old, new), tmp_path)
    assert said.startswith(line)
    assert "; " in said


def test_a_mistake_in_a_cells_camera_is_said_once(root: Path, edit: Edit) -> None:
    edit("cells/fr3_table.yaml", "roi_px: {top: 48", "roi_px: {topp: 48")
    with pytest.raises(ConfigError) as caught:
        load_run("fr3_table", root=root)
    (line,) = str(caught.value).splitlines()
    assert "fr3_table.yaml:13:20: cameras.front.roi_px.topp: extra inputs" in line


def test_a_key_of_another_backend_lists_those_of_this_one(tmp_path: Path) -> None:
    (line,) = refusal(V4L2 + "source_topic: /x\n", tmp_path)
    assert line.startswith(
        "c.yaml:10:15: source_topic: extra inputs are not permitted (got '/x'); choose from backend, "
    )
    assert "exposure_s" in line


@pytest.mark.parametrize("topic", ["/camera/color/image_raw", "front/image_raw", "image", "/a/_b/C3"])
def test_names_of_topics_are_taken(topic: str, two_topics: Path) -> None:
    camera = load_run("peg_insert", [f"cameras.wrist.source_topic={topic}"], two_topics).cameras["wrist"]
    assert isinstance(camera, TopicCameraConfig)
    assert camera.source_topic == topic


@pytest.mark.parametrize("topic", ["/camera//image", "camera/", "'/3d/image'", "'~/image'", "'/a b'"])
def test_what_ros_takes_for_no_topic_is_refused(topic: str, two_topics: Path) -> None:
    (line,) = run_refusal(two_topics, f"cameras.wrist.source_topic={topic}")
    assert "source_topic: input should be a ROS name of letters, digits" in line


def test_a_cell_says_which_camera_and_where_it_hangs(root: Path, edit: Edit) -> None:
    said = "{model: logitech_c920, serial: 'A1', device: /dev/v4l/by-path/x, reference: views/wrist_view.png}"
    edit("cells/sim.yaml", "{model: sim_wrist}", said)
    camera = load_run("peg_insert", root=root).cameras["wrist"]
    assert isinstance(camera, V4l2CameraConfig)
    assert (camera.serial, camera.device, camera.reference) == ("A1", "/dev/v4l/by-path/x", "views/wrist_view.png")


def test_a_saved_run_has_the_same_cameras(two_topics: Path, tmp_path: Path) -> None:
    resolved = load_run("peg_insert", ["cameras.front.frame_id=front_optical"], two_topics)
    path = tmp_path / "resolved.yaml"
    path.write_text(resolved.to_yaml())
    assert load_resolved(path).cameras == resolved.cameras


def test_what_the_cell_says_must_fit_the_cameras_backend(root: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "{model: sim_wrist}", "{model: sim_wrist, serial: 'A1'}")
    (line,) = run_refusal(root)
    assert line.startswith("mine/cells/sim.yaml:5:37: serial: extra inputs are not permitted (got 'A1')")


def test_a_usb_camera_needs_a_serial_number_or_a_path(root: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "{model: sim_wrist}", "{model: logitech_c920}")
    (line,) = run_refusal(root)
    assert "cameras.wrist.serial: field required with backend v4l2; give the cell's camera its 'serial'" in line


def test_two_cameras_cannot_have_one_source(two_topics: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "/front/image_raw", "/wrist/image_raw")
    (line,) = run_refusal(two_topics)
    assert line.startswith("mine/cells/sim.yaml:6:")
    assert "source_topic: input is '/wrist/image_raw', which is also that of wrist; give each camera its own" in line


def test_null_never_looks_for_a_frozen_camera_and_frames_count_as_seconds(two_topics: Path) -> None:
    cameras = load_run("peg_insert", ["cameras.front.freeze_s=null"], two_topics).cameras
    assert cameras["wrist"].frozen_after_s == 1.0
    assert cameras["front"].frozen_after_s is None
    assert load_run("peg_insert").cameras["wrist"].frozen_after_s == 3.0
