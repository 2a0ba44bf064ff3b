"""A recording of a foreign device is told from the device by its stamps."""

from __future__ import annotations

import pytest

from robot_stack.teleop.sender_stamps import LARGEST_AGE_NS, SenderStamps
from robot_stack.types.reason import RefusalKind

S = 1_000_000_000
NOW = 1_795_888_000 * S


@pytest.mark.parametrize(
    ("late_s", "kind"),
    [(86_400, RefusalKind.STALE), (1.1, RefusalKind.STALE), (-1.1, RefusalKind.FUTURE), (0.9, None), (-0.9, None)],
)
def test_a_stamp_of_the_wall_clock_must_be_of_now(late_s: float, kind: RefusalKind | None):
    refusal = SenderStamps().refusal(NOW - round(late_s * S), 5 * S, NOW)
    assert (None if refusal is None else refusal.kind) is kind


def test_a_sender_without_stamps_is_believed():
    stamps = SenderStamps()
    assert [stamps.refusal(0, n * S, NOW + n * S) for n in range(3)] == [None] * 3


def test_a_sender_with_a_clock_of_its_own_is_believed_as_long_as_it_goes_on_whatever_is_done_to_ours():
    stamps = SenderStamps()
    assert [stamps.refusal((5 + n) * S, n * S, NOW - 3600 * S * (n > 50)) for n in range(100)] == [None] * 100
    assert "moved by -95.0 s" in str(stamps.refusal(10 * S, 100 * S, NOW))  # it has started again
    assert stamps.refusal(11 * S, 101 * S, NOW) is None


def test_a_device_and_its_recording_that_speak_in_turn_are_both_refused():
    stamps = SenderStamps()
    stamps.refusal(5000 * S, 0, NOW)
    for n in range(1, 5):
        assert stamps.refusal(7 * S, n, NOW)
        assert stamps.refusal(5000 * S + n, n, NOW)


def test_a_clock_that_drifts_is_one_clock():
    stamps, drift_ns = SenderStamps(), LARGEST_AGE_NS // 2
    assert [stamps.refusal((5 + n) * S + n * drift_ns, n * S, NOW) for n in range(50)] == [None] * 50


def test_a_host_whose_clock_nobody_can_set_is_believed_where_its_file_says_so():
    ahead = NOW + 90 * S
    assert SenderStamps().refusal(ahead, 0, NOW) is not None
    stamps = SenderStamps(own=True)
    assert [stamps.refusal(ahead + n * S, n * S, NOW + n * S) for n in range(3)] == [None] * 3
    assert "moved by -90.0 s" in str(stamps.refusal(NOW + 3 * S, 3 * S, NOW + 3 * S))
