"""When a run of identical images means that the camera is frozen."""

from __future__ import annotations

import pytest

from robot_stack.sensing.still_images import LEAST_IDENTICAL, StillImages

MS = 1_000_000


def taken(after_s: float | None, stamps_ms: list[int], changed_at: tuple[int, ...] = ()) -> StillImages:
    still = StillImages(after_s)
    for stamp_ms in stamps_ms:
        still.take(stamp_ms * MS, same=stamp_ms not in changed_at)
    return still


@pytest.mark.parametrize(
    ("after_s", "stamps_ms", "changed_at", "frozen"),
    [
        (0.1, [1000, 1050, 1100], (), True),
        (0.1, [1000, 1050, 1099], (), False),
        (0.1, [1000, 1500], (), False),
        (0.1, [1000, 1500, 1501], (), True),
        (0.1, [1000, 1050, 1100], (1050,), False),
        (0.1, [1000, 1050, 1100, 1150], (1050,), True),
        (None, [1000, 2000, 9000], (), False),
        (0.1, [], (), False),
    ],
)
def test_a_camera_is_frozen_after_enough_identical_images_over_enough_time(
    after_s: float | None, stamps_ms: list[int], changed_at: tuple[int, ...], frozen: bool
) -> None:
    assert taken(after_s, stamps_ms, changed_at).frozen is frozen


def test_a_run_is_told_by_number_and_time() -> None:
    assert str(taken(1.0, [0, 500, 1000])) == f"{LEAST_IDENTICAL} identical images in 1.0 s"
    assert taken(1.0, [0, 500, 1000], (1000,)).count == 1
