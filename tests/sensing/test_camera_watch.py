"""What is refused, what is said about it, and when the policy is blind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.sensing.camera_watch import RECENT_NS, CameraWatch, Cause, WatchLimits
from robot_stack.sensing.still_images import LEAST_IDENTICAL

MS = 1_000_000
T0 = 1_000_000 * MS
PERIOD_NS = 33 * MS
LIMITS = WatchLimits(least_gap_s=0.02, max_age_s=0.15, frozen_after_s=0.5)
PICTURE = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)


def watch(limits: WatchLimits = LIMITS) -> CameraWatch:
    return CameraWatch("wrist", "topic /wrist/image_raw", limits, T0)


def shown(camera: CameraWatch, k: int, *, image: np.ndarray = PICTURE, digest: int | None = None) -> bool:
    """Frame k of a camera whose images take 5 ms."""
    stamp_ns = T0 + k * PERIOD_NS
    now_ns = stamp_ns + 5 * MS
    return camera.take_stamp(stamp_ns, now_ns) and camera.take_image(
        image, k if digest is None else digest, stamp_ns, now_ns
    )


def at(k: int) -> int:
    return T0 + k * PERIOD_NS + 5 * MS


def test_a_steady_camera_is_shown_and_nothing_is_said() -> None:
    camera = watch()
    assert all(shown(camera, k) for k in range(1, 100))
    assert camera.problem(at(99)) is None
    assert not camera.counters


def test_of_a_source_that_is_too_fast_every_second_frame_is_surplus_and_counted() -> None:
    camera = watch()
    stamps = [T0 + k * 16 * MS for k in range(1, 101)]
    assert [camera.wanted(stamp, stamp, 77 + stamp) for stamp in stamps] == [True, False] * 50
    assert camera.counters == {"surplus": 50}


@pytest.mark.parametrize("sent", [0, 5, None])
def test_stamps_that_say_nothing_leave_the_pace_to_the_arrivals(sent: int | None) -> None:
    """Unset, always the same, or counted in frames: with `stamps: arrival` a driver may write anything."""
    camera = watch()
    stamps = [T0 + k * 16 * MS for k in range(1, 11)]
    taken = [camera.wanted(stamp, stamp, k if sent is None else sent) for k, stamp in enumerate(stamps)]
    assert taken == [True, False] * 5


def test_of_two_frames_that_queued_the_newer_one_is_shown_too() -> None:
    """They arrive 1 ms apart, and were captured a period apart: the second is what there is to see now."""
    camera = watch()
    assert camera.wanted(T0, T0, 5 * MS)
    assert camera.wanted(T0 + 1 * MS, T0 + 1 * MS, 5 * MS + PERIOD_NS)
    assert not camera.counters


def test_a_camera_that_was_never_seen_is_dead_after_its_age() -> None:
    camera = watch()
    assert camera.problem(T0 + 150 * MS) is None
    found = camera.problem(T0 + 151 * MS)
    assert found is not None
    assert (found.kind, found.blind) == (Cause.DEAD, True)
    assert found.text == (
        "camera wrist (topic /wrist/image_raw): no frame yet for 151 ms (limit 150): check its cable, power and driver"
    )


def test_silence_is_blind_at_the_exact_age_and_the_excuse_is_given() -> None:
    camera = watch()
    shown(camera, 1)
    camera.excuse = "device /dev/video0 does not exist"
    assert camera.problem(at(1) + 150 * MS) is None
    found = camera.problem(at(1) + 151 * MS)
    assert found is not None
    assert found.text.endswith("no frame for 151 ms (limit 150): device /dev/video0 does not exist")


@pytest.mark.parametrize(
    ("offset_ms", "cause", "words"),
    [
        (-151, Cause.LATE, "frames come 151 ms after capture (limit 150)"),
        (6, Cause.FUTURE, "stamps are 6 ms ahead of this host"),
        (-40, Cause.ORDER, "a frame is 7 ms behind the one before"),
        (None, Cause.UNSET, "stamp is 0, must be set at capture"),
    ],
)
def test_a_badly_stamped_frame_is_refused_counted_and_named(offset_ms: int | None, cause: Cause, words: str) -> None:
    camera = watch()
    shown(camera, 1)
    now_ns = T0 + 2 * PERIOD_NS
    stamp_ns = 0 if offset_ms is None else now_ns + offset_ms * MS
    assert not camera.take_stamp(stamp_ns, now_ns)
    assert camera.counters == {cause: 1}
    found = camera.problem(now_ns)
    assert found is not None
    assert (found.kind, found.blind) == (cause, False)
    assert found.text.startswith("camera wrist (topic /wrist/image_raw): ")
    assert words in found.text


@pytest.mark.parametrize("offset_ms", [5, 0, -150])
def test_stamps_at_the_bounds_are_taken(offset_ms: int) -> None:
    assert watch().take_stamp(T0 + offset_ms * MS, T0)


def test_a_repeated_stamp_is_out_of_order() -> None:
    camera = watch()
    assert shown(camera, 1)
    assert not shown(camera, 1)
    assert camera.counters == {Cause.ORDER: 1}


def test_one_refused_frame_is_a_warning_and_many_are_blindness() -> None:
    camera = watch()
    shown(camera, 1)
    blind = []
    for k in range(2, 12):
        camera.refuse(Cause.FORMAT, "encoding is 'mono16'", at(k))
        found = camera.problem(at(k))
        assert found is not None
        assert found.kind is Cause.FORMAT
        blind.append(found.blind)
    assert blind == [k * PERIOD_NS > PERIOD_NS + 150 * MS for k in range(2, 12)]


def test_a_warning_is_over_after_a_second_of_good_frames() -> None:
    camera = watch()
    camera.refuse(Cause.FORMAT, "x", T0)
    for k in range(1, 40):
        shown(camera, k)
        assert (camera.problem(at(k)) is None) is (at(k) - T0 >= RECENT_NS)


def test_content_that_does_not_change_is_frozen_though_its_stamps_are_fresh() -> None:
    camera = watch()
    taken = [shown(camera, k, digest=7) for k in range(1, 60)]
    still = [(k - 1) * PERIOD_NS / 1e9 >= 0.5 for k in range(1, 60)]
    assert taken == [not each for each in still]
    found = camera.problem(at(59))
    assert found is not None
    assert (found.kind, found.blind) == (Cause.FROZEN, True)
    assert "frozen: 59 identical images in 1.9 s" in found.text
    assert shown(camera, 60, digest=8)


@given(st.integers(1, 10), st.floats(0.1, 60))
def test_few_images_that_are_far_apart_prove_no_freeze(images: int, gap_s: float) -> None:
    camera = CameraWatch("wrist", "x", WatchLimits(least_gap_s=0.02, max_age_s=0.15, frozen_after_s=0.1), T0)
    taken = []
    for k in range(images):
        stamp_ns = T0 + round(k * gap_s * 1e9)
        taken.append(camera.take_image(PICTURE, 7, stamp_ns, stamp_ns))
    assert all(taken[: LEAST_IDENTICAL - 1])
    assert not any(taken[LEAST_IDENTICAL - 1 :])


def test_a_source_without_noise_may_show_one_picture_for_ever() -> None:
    camera = watch(WatchLimits(least_gap_s=0.02, max_age_s=0.15, frozen_after_s=None))
    assert all(shown(camera, k, digest=7) for k in range(1, 1000))


@pytest.mark.parametrize(
    ("value", "cause"), [(0, Cause.BLACK), (12, Cause.BLACK), (250, Cause.WHITE), (255, Cause.WHITE)]
)
def test_an_image_that_shows_nothing_is_refused(value: int, cause: Cause) -> None:
    camera = watch()
    assert not shown(camera, 1, image=np.full((8, 8, 3), value, np.uint8))
    assert camera.counters == {cause: 1}


@pytest.mark.parametrize("value", [13, 249])
def test_a_dark_or_bright_image_is_shown(value: int) -> None:
    assert shown(watch(), 1, image=np.full((8, 8, 3), value, np.uint8))


def test_a_small_thing_in_the_dark_is_something() -> None:
    night = np.zeros((10, 10, 3), np.uint8)
    night[0, :3] = 200
    assert shown(watch(), 1, image=night)


def test_blindness_ends_with_the_first_good_frame() -> None:
    camera = watch()
    shown(camera, 1)
    assert camera.problem(at(40)) is not None
    assert shown(camera, 40)
    assert camera.problem(at(40)) is None
