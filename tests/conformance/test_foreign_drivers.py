"""Who a camera process can hear and who can hear it, over DDS; and whose view it shows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

from robot_stack.nodes import topics
from robot_stack.sensing.likeness import thumbnail
from tests.conformance.camera_rig import ERROR, OK, RATE_HZ, WARN, Bench, camera, configured, domain, pictures, wait_for
from tests.conformance.camera_sources import TOPIC, Driver

SECOND_NS = 10**9
WHO = f"camera wrist (topic {TOPIC}): "
BEST_EFFORT, RELIABLE = ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with domain(tmp_path_factory.mktemp("drivers")) as listening:
        yield listening


@pytest.mark.parametrize("reliability", [BEST_EFFORT, RELIABLE])
def test_a_driver_of_either_reliability_is_heard(reliability: ReliabilityPolicy, bench: Bench) -> None:
    bench.forget()
    playing = Driver(bench, reliability=reliability)
    try:
        with camera(playing.config):
            wait_for(lambda: bench.seen, 10, "an image")
    finally:
        playing.close()


def test_a_driver_that_is_too_fast_is_thinned_out(bench: Bench) -> None:
    bench.forget()
    playing = Driver(bench, rate_hz=2 * RATE_HZ)
    try:
        with camera(playing.config):
            wait_for(lambda: len(bench.seen) > 20, 10, "images")
    finally:
        playing.close()
    stamps = [stamp_ns for stamp_ns, _, _ in bench.seen]
    assert min(later - earlier for earlier, later in pairwise(stamps)) >= 0.6 / RATE_HZ * SECOND_NS - 1


def test_a_driver_that_is_too_slow_is_warned_of_and_shown(bench: Bench) -> None:
    bench.forget()
    playing = Driver(bench, rate_hz=RATE_HZ / 3)
    try:
        with camera(playing.config):
            wait_for(
                lambda: bench.says(WARN, WHO, "frames a second, must be 30; start its driver with"), 6, "a warning"
            )
            shown = len(bench.seen)
            wait_for(lambda: len(bench.seen) > shown, 2, "images all the same")
    finally:
        playing.close()


def test_a_driver_that_offers_less_than_asked_for_is_named_with_topic_and_both_qualities(bench: Bench) -> None:
    bench.forget()
    playing = Driver(bench, reliability=BEST_EFFORT)
    try:
        with camera(configured("topic", source_topic=TOPIC, reliable=True)):
            wait_for(
                lambda: bench.says(
                    ERROR, WHO, f"QoS of {TOPIC} does not match: /sim/bench offers BEST_EFFORT VOLATILE, "
                    "asked for is RELIABLE VOLATILE; set `reliable: false`, or the driver's QoS"
                ),
                6, "a sentence about QoS",
            )  # fmt: skip
    finally:
        playing.close()
    assert not bench.seen


def test_a_topic_of_another_type_is_named_with_both_types(bench: Bench) -> None:
    bench.forget()
    playing = Driver(bench, "/mixed_up", compressed=True)
    try:
        with camera(configured("topic", source_topic="/mixed_up")):
            words = (
                "/mixed_up carries sensor_msgs/msg/CompressedImage, must carry sensor_msgs/msg/Image; see `compressed`"
            )
            wait_for(lambda: bench.says(ERROR, "camera wrist (topic /mixed_up): ", words), 6, "a sentence about types")
    finally:
        playing.close()


def test_a_topic_that_nobody_publishes_is_said_to_be_one(bench: Bench) -> None:
    bench.forget()
    with camera(configured("topic", source_topic="/nobody/image_raw")):
        words = "nobody publishes /nobody/image_raw; start its driver on this DDS domain"
        wait_for(lambda: bench.says(ERROR, "no frame yet", words), 6, "a sentence about the missing driver")


def test_a_subscriber_that_asks_for_more_than_is_offered_is_named(bench: Bench) -> None:
    bench.forget()
    asks = QoSProfile(depth=1, reliability=RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    deaf = bench.node.create_subscription(Image, topics.observation("wrist"), lambda _: None, asks)
    try:
        with camera(configured("topic", source_topic=TOPIC)):
            words = "/sim/bench asks for RELIABLE TRANSIENT_LOCAL, offered is RELIABLE VOLATILE"
            wait_for(lambda: bench.says(ERROR, words, task="subscribers"), 6, "a sentence about the subscriber")
    finally:
        bench.node.destroy_subscription(deaf)


def test_a_camera_that_comes_back_with_its_neighbours_view_is_warned_of_with_scores(
    bench: Bench, tmp_path: Path
) -> None:
    bench.forget()
    views = {"wrist": pictures()[0], "front": pictures()[1]}
    cameras = {}
    for name, view in views.items():
        kept = tmp_path / f"{name}_view.png"
        cv2.imwrite(str(kept), thumbnail(view)[..., ::-1])
        cameras[name] = configured("topic", source_topic=TOPIC, reference=str(kept))
    rng = np.random.default_rng(0)
    noisy = {
        name: [(view + rng.integers(0, 9, view.shape)).astype(np.uint8) for _ in range(4)]
        for name, view in views.items()
    }
    playing = Driver(bench)
    playing.pictures = noisy["wrist"]
    try:
        with camera(cameras["wrist"], front=cameras["front"]):
            wait_for(lambda: bench.says(OK, task="view"), 6, "its own view")
            playing.lost = True
            wait_for(lambda: bench.says(ERROR, "no frame"), 4, "the loss")
            playing.pictures, playing.lost = noisy["front"], False
            words = "looks like camera front (score "
            wait_for(lambda: bench.says(WARN, words, "swapped?", task="view"), 6, "a warning about the view")
    finally:
        playing.close()
    status = bench.status("view")
    assert status is not None
    scores = {value.key: float(value.value) for value in status.values}
    assert scores["like_front"] > 0.9 > 0.7 > scores["like_wrist"]
    assert bench.seen
