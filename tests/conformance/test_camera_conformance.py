"""Every backend of a camera keeps the same promises, over DDS: rate, size, stamps, pixels, loss, return."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from tests.conformance.camera_rig import ERROR, MAX_AGE_S, OK, RATE_HZ, Bench, camera, domain, wait_for
from tests.conformance.camera_sources import SOURCES, make

SAMPLE = 20


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with domain(tmp_path_factory.mktemp("cameras")) as listening:
        yield listening


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A camera that runs and has been seen for a while."""
    bench.forget()
    with pytest.MonkeyPatch.context() as patch:
        made = make(request.param, bench, tmp_path_factory.mktemp("source"), patch)
        try:
            with camera(made.config):
                wait_for(lambda: len(bench.seen) >= SAMPLE + 5, 15, "images")
                yield made
        finally:
            made.close()


def sample(bench: Bench) -> list[tuple[int, int, np.ndarray]]:
    return bench.seen[5 : 5 + SAMPLE]


def test_images_come_at_the_rate_in_the_policys_size(source: Any, bench: Bench) -> None:
    stamps = [stamp_ns for stamp_ns, _, _ in sample(bench)]
    assert float(np.median(np.diff(stamps))) / 1e9 == pytest.approx(1 / RATE_HZ, rel=0.25)
    assert {image.shape for _, _, image in sample(bench)} == {(32, 32, 3)}


def test_stamps_rise_and_are_fresh_on_the_monotonic_clock(source: Any, bench: Bench) -> None:
    assert all(earlier[0] < later[0] for earlier, later in pairwise(bench.seen))
    ages_s = [(arrival_ns - stamp_ns) / 1e9 for stamp_ns, arrival_ns, _ in sample(bench)]
    assert min(ages_s) >= 0.0
    assert float(np.median(ages_s)) < 0.1


def test_every_image_is_the_reference_crop_of_a_captured_one(source: Any, bench: Bench) -> None:
    matched = set()
    for _, _, image in sample(bench):
        apart = [int(np.abs(image.astype(int) - wanted.astype(int)).max()) for wanted in source.expected]
        assert min(apart) <= source.tolerance
        matched.add(int(np.argmin(apart)))
    assert len(matched) >= min(len(source.expected), 3)


def test_a_lost_source_is_silence_and_an_error_within_its_age_and_comes_back_by_itself(
    source: Any, bench: Bench
) -> None:
    said = len(bench.said)
    source.lost = True
    wait_for(lambda: silence(bench, said), 10, "an error")
    shown, beats = len(bench.seen), bench.beats
    spoken = silence(bench, said)
    assert f"camera wrist ({source.named}): no frame for " in spoken
    for_ms = float(re.findall(r"no frame for (\d+) ms", spoken)[0])
    assert MAX_AGE_S * 1e3 <= for_ms < MAX_AGE_S * 1e3 + 400
    wait_for(lambda: bench.beats > beats + 8, 10, "a process that lives and shows nothing")
    assert len(bench.seen) == shown
    source.lost = False
    wait_for(lambda: len(bench.seen) > shown + 3 and bench.says(OK), 15, "images again")
    assert bench.seen[shown][0] > bench.seen[shown - 1][0]


def silence(bench: Bench, begin: int) -> str:
    """The first error about it since, or ""."""
    errors = (status.message for _, status in bench.said[begin:] if status.level == ERROR)
    return next((message for message in errors if "no frame for" in message), "")
