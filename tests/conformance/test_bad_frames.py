"""Drivers that do it wrong, over DDS: the policy sees nothing of it, and one sentence names camera and topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from tests.conformance.camera_rig import ERROR, Bench, camera, configured, domain, pictures, wait_for
from tests.conformance.camera_sources import TOPIC, Driver

SECOND_NS = 10**9
WHO = f"camera wrist (topic {TOPIC}): "


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with domain(tmp_path_factory.mktemp("frames")) as listening:
        yield listening


@pytest.fixture(scope="module")
def driver(bench: Bench) -> Iterator[Driver]:
    """A good driver whose images are passed through."""
    bench.forget()
    playing = Driver(bench)
    try:
        with camera(configured("topic", source_topic=TOPIC, frame_id="wrist_optical")):
            yield playing
    finally:
        playing.close()


def wrong_encoding(driver: Driver) -> None:
    driver.encoding, driver.step_padding = "mono16", 0


def wrong_size(driver: Driver) -> None:
    driver.pictures = [np.ascontiguousarray(picture[:100]) for picture in pictures()]


def unset_stamps(driver: Driver) -> None:
    driver.stamped = False


def future_stamps(driver: Driver) -> None:
    driver.stamp_shift_ns = SECOND_NS


def late_stamps(driver: Driver) -> None:
    driver.stamp_shift_ns = -SECOND_NS


def black(driver: Driver) -> None:
    driver.pictures = [np.full((120, 160, 3), k, np.uint8) for k in range(8)]


def saturated(driver: Driver) -> None:
    driver.pictures = [np.full((120, 160, 3), 255 - k % 5, np.uint8) for k in range(8)]


def frozen(driver: Driver) -> None:
    driver.pictures = pictures(1)


def swapped(driver: Driver) -> None:
    driver.frame_id = "front_optical"


def mend(driver: Driver) -> None:
    driver.encoding, driver.step_padding, driver.pictures = "bgra8", 24, pictures()
    driver.stamped, driver.stamp_shift_ns, driver.frame_id = True, 0, "wrist_optical"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (wrong_encoding, "encoding is 'mono16', must have 8 bits per channel"),
        (wrong_size, "image is 160x100, must be 160x120 as in the camera's file"),
        (unset_stamps, "stamp is 0, must be set at capture"),
        (future_stamps, "ahead of this host, must not be; align the clocks"),
        (late_stamps, "ms after capture (limit 200)"),
        (black, "the image is black"),
        (saturated, "the image is saturated"),
        (frozen, "identical images in"),
        (swapped, "frame_id is 'front_optical', must be 'wrist_optical'; are the topics of two cameras swapped?"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_is_wrong_is_not_shown_and_named_and_over_when_it_is_mended(
    spoil: Callable[[Driver], None], words: str, driver: Driver, bench: Bench
) -> None:
    wait_for(lambda: bench.seen, 15, "a good driver")
    spoil(driver)
    wait_for(lambda: bench.says(ERROR, WHO, words), 4, words)
    shown, played = len(bench.seen), driver.played
    wait_for(lambda: driver.played > played + 10, 4, "more of it")
    assert len(bench.seen) == shown
    mend(driver)
    wait_for(lambda: len(bench.seen) > shown, 4, "images again")
