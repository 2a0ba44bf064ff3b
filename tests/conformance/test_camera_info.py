"""A camera whose lens is known tells with each image how it was projected; one whose lens is not says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from sensor_msgs.msg import CameraInfo

from robot_stack.config.camera import CameraConfig
from robot_stack.config.cell import CameraLens
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import stamp_ns_of
from robot_stack.nodes.qos import SAMPLED
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.lens import Lens
from tests.conformance.camera_rig import CELL, Bench, camera, configured, domain, pictures, wait_for

LENS = CameraLens(
    width_px=640, height_px=480, focal_px=(438.8, 437.3), centre_px=(305.6, 243.7),
    distortion=(-0.362, 0.1105, 0.001, 0.0005, 0.0), error_px=0.2,
)  # fmt: skip
"""Of the same camera at four times the size."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with domain(tmp_path_factory.mktemp("cameras")) as listening:
        yield listening


@pytest.fixture
def config(tmp_path: Path) -> CameraConfig:
    for number, picture in enumerate(pictures()):
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
    return configured("file", path=str(tmp_path))


@pytest.fixture
def infos(bench: Bench) -> Iterator[list[CameraInfo]]:
    heard: list[CameraInfo] = []
    bench.forget()
    subscription = bench.node.create_subscription(CameraInfo, topics.camera_info("wrist"), heard.append, SAMPLED)
    yield heard
    bench.node.destroy_subscription(subscription)


def test_each_image_has_the_info_of_its_stamp_and_size(
    bench: Bench, config: CameraConfig, infos: list[CameraInfo]
) -> None:
    with camera(config, lens=LENS):
        wait_for(lambda: len(infos) > 5, 15, "camera infos")
        wait_for(lambda: bench.seen[-1][0] >= stamp_ns_of(infos[5].header), 15, "images")
        stamps = {stamp_ns // 1_000_000 for stamp_ns, _, _ in list(bench.seen)}
    told = infos[5]
    assert {stamp_ns_of(info.header) // 1_000_000 for info in infos[:6]} <= stamps | {s + 1 for s in stamps}
    assert (told.width, told.height, told.header.frame_id) == (32, 32, "wrist_optical_frame")
    assert told.distortion_model == "plumb_bob"
    lens = Lens.of(LENS).framed(Framing.of(config))
    points: Any = np.array([[0.02, -0.03, 0.5], [-0.05, 0.04, 0.4]])
    k, d = np.array(told.k).reshape(3, 3), np.array(told.d)
    by_opencv, _ = cv2.projectPoints(points, np.zeros(3), np.zeros(3), k, d)
    np.testing.assert_allclose(np.asarray(by_opencv).reshape(-1, 2), lens.project(points), atol=1e-9)
    np.testing.assert_allclose(np.array(told.p).reshape(3, 4)[:, :3], k)


def test_a_camera_whose_lens_nobody_knows_has_no_such_topic(
    bench: Bench, config: CameraConfig, infos: list[CameraInfo]
) -> None:
    with camera(config):
        wait_for(lambda: len(bench.seen) > 20, 15, "images")
        assert bench.node.count_publishers(topics.camera_info("wrist")) == 0
    assert infos == []
    assert bench.node.resolve_topic_name(topics.camera_info("wrist")) == f"/{CELL.strip('/')}/wrist/camera_info"
