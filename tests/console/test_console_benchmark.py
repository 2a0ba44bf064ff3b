"""What the benchmark of the operator's page measures is what was drawn, and is collected with the limits it states."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS 2 on this machine")

from benchmarks.collect import FIGURES
from benchmarks.console import BITS, BLOCK_PX, FRAMES, HEIGHT, LIMITS, WIDTH, frames_ms, write_number
from robot_stack.sensing.pixels import jpeg_of
from tests.console.browser_rig import needs_chromium, says, until


def test_every_limit_of_the_page_is_collected() -> None:
    collected = {
        each.flat: each.limit for each in FIGURES if each.flat.startswith("console_") and each.limit is not None
    }
    assert collected == LIMITS


@needs_chromium
@pytest.mark.long
def test_the_number_in_an_image_is_read_off_the_page_once_it_is_drawn(cell, url, tab) -> None:
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.evaluate(FRAMES, [BITS, BLOCK_PX])
    rng, camera, stamps = np.random.default_rng(0), next(iter(cell.run.cameras)), {}
    for number in (0, 1, 0x5555, 2**BITS - 1):
        picture = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
        write_number(picture, number)
        jpeg = jpeg_of(picture)
        stamps[number] = time.monotonic_ns()
        cell.frame(camera, picture, jpeg)
        until(lambda number=number: page.evaluate(f"{number} in window.images"), "the image", page)
    page.wait_for_timeout(200)
    delays_ms = frames_ms(page, stamps)
    assert len(delays_ms) == len(stamps), "no other number"
    assert all(-1.0 < each < 10_000 for each in delays_ms)
    assert frames_ms(page, stamps) == [], "each is told once"
