"""Our camera files against what the makers' drivers publish, as read in their sources (`cameras/*.yaml` here)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.config.camera import TopicCameraConfig
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import CAMERAS
from robot_stack.sensing.pixels import layout_of, view_of
from robot_stack.types.errors import SpecError
from tests.makers.robot_facts import read

DRIVERS = sorted((Path(__file__).parent / "cameras").glob("*.yaml"), key=lambda path: path.stem)


def facts(path: Path) -> dict[str, Any]:
    return read(path)


def ours(path: Path) -> TopicCameraConfig:
    config = load(config_root() / "cameras" / path.name, CAMERAS)
    assert isinstance(config, TopicCameraConfig)
    return config


every = pytest.mark.parametrize("path", DRIVERS, ids=lambda path: path.stem)


def test_there_is_a_fixture_for_each_driver_that_people_ask_for():
    assert [path.stem for path in DRIVERS] == ["orbbec", "realsense2_camera", "usb_cam", "zed"]


@every
def test_the_fixture_says_where_it_is_from(path: Path):
    fact = facts(path)
    assert fact["repository"].startswith("https://github.com/")
    assert re.fullmatch(r"[0-9a-f]{40}", fact["commit"])
    assert "jazzy" in fact["distro"]
    assert {"topic", "encoding", "qos", "frame_id"} <= set(fact["paths"])


@every
def test_topic_type_and_frame_are_the_drivers(path: Path):
    fact, config = facts(path), ours(path)
    assert config.source_topic == fact["topic"]
    assert config.frame_id == fact["frame_id"]
    assert config.compressed == (fact["type"] == "sensor_msgs/msg/CompressedImage")
    assert (config.width_px, config.height_px, config.rate_hz) == (
        fact["width_px"], fact["height_px"], fact["rate_hz"],
    )  # fmt: skip


@every
def test_the_file_says_what_to_ask_of_the_driver_where_its_own_defaults_are_others(path: Path):
    assert facts(path)["asked_for"].split()[0] in (config_root() / "cameras" / path.name).read_text()


@every
def test_an_image_as_the_driver_sends_it_is_taken(path: Path):
    fact = facts(path)
    height, width = fact["height_px"], fact["width_px"]
    for encoding in fact["encodings"]:
        step = width * layout_of(encoding).channels
        sent = np.zeros(height * step, dtype=np.uint8)
        assert view_of(sent, encoding=encoding, height=height, width=width, step=step).shape[:2] == (height, width)
    for encoding in fact.get("refused_encodings", ()):
        with pytest.raises(SpecError, match=encoding):
            layout_of(encoding)


@every
def test_what_we_ask_for_fits_the_qos_that_the_driver_offers(path: Path):
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    from rclpy.qos import DurabilityPolicy, QoSCompatibility, QoSProfile, ReliabilityPolicy, qos_check_compatible

    from robot_stack.nodes.qos import NEWEST, SAMPLED

    qos = facts(path)["qos"]
    offered = QoSProfile(
        depth=qos["depth"],
        reliability=ReliabilityPolicy[qos["reliability"].upper()],
        durability=DurabilityPolicy[qos["durability"].upper()],
    )
    asked = NEWEST if ours(path).reliable else SAMPLED
    assert qos_check_compatible(offered, asked)[0] != QoSCompatibility.ERROR
    best_effort = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    assert qos_check_compatible(best_effort, NEWEST)[0] == QoSCompatibility.ERROR


@every
def test_the_crop_is_a_square_inside_the_image(path: Path):
    roi = ours(path).roi_px
    assert roi is not None
    assert roi.height == roi.width
