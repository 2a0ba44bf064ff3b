"""The hand at a page: late, gone and live."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.console.messages import Move, PageError
from robot_stack.console.session import LATEST_MS, Hand, PageClock

MS = 1_000_000


def move(t_ms: float, *pressed: str, live: bool = True, x: float = 0.0) -> Move:
    return Move(t_ms=t_ms, axes=(x, 0.0, 0.0, 0.0, 0.0, 0.0), pressed=frozenset(pressed), live=live)


def test_a_hand_is_passed_on_as_it_is():
    packet = Hand().take(move(5.0, "deadman", "gripper_open", x=0.5), 1000 * MS)
    assert list(packet.axes) == [0.5, 0, 0, 0, 0, 0]
    assert list(packet.buttons) == [1, 0, 1, 0, 0]


def test_a_late_hand_that_drove_is_gone_and_one_that_did_not_is_refused():
    hand = Hand()
    hand.take(move(0.0, "deadman"), 1000 * MS)
    hand.take(move(40.0, "deadman"), 1040 * MS)
    late = hand.take(move(80.0, "deadman"), round((1080 + LATEST_MS + 5) * MS))
    assert late.buttons[-1] == 1
    assert late.buttons[0] == 0
    with pytest.raises(PageError, match="ms late"):
        hand.take(move(120.0, "deadman"), round((1120 + LATEST_MS + 5) * MS))


def test_a_page_out_of_view_that_drove_is_gone_and_then_just_quiet():
    hand = Hand()
    hand.take(move(0.0, "deadman"), 1000 * MS)
    assert hand.holds
    assert hand.take(move(40.0, "deadman", live=False), 1040 * MS).buttons[-1] == 1
    assert not hand.holds
    assert list(hand.take(move(80.0, "deadman", live=False), 1080 * MS).buttons) == [0, 0, 0, 0, 0]


def test_a_page_that_closes_is_gone_only_if_it_drove():
    hand = Hand()
    hand.take(move(0.0), 1000 * MS)
    assert hand.close() is None
    hand.take(move(40.0, "deadman"), 1040 * MS)
    packet = hand.close()
    assert packet is not None
    assert packet.buttons[-1] == 1
    assert hand.close() is None


def test_lateness_is_counted_from_the_fastest_packet_and_learnt_anew_after_a_silence_or_a_reload():
    clock = PageClock()
    assert clock.late_ms(0.0, 500.0) == 0.0
    assert clock.late_ms(40.0, 640.0) == pytest.approx(100.0, abs=0.1)
    assert clock.late_ms(80.0, 560.0) == 0.0, "20 ms faster than the first"
    assert clock.late_ms(120.0, 620.0) == pytest.approx(20.0, abs=0.1)
    assert clock.late_ms(10.0, 5000.0) == 0.0, "its clock went back: another page life"
    assert clock.late_ms(60.0, 9000.0) == 0.0, "after a silence"


@given(st.lists(st.floats(0.0, 200.0), min_size=1, max_size=60))
def test_lateness_is_never_negative_nor_more_than_the_real_one(delays_ms):
    clock, arrived = PageClock(), 0.0
    for index, delay_ms in enumerate(delays_ms):
        sent = 40.0 * index
        arrived = max(arrived, sent + delay_ms)
        late = clock.late_ms(sent, arrived)
        assert -1e-6 <= late <= arrived - sent + 1e-6


def test_a_packet_that_waited_in_the_network_does_not_take_the_arm():
    hand = Hand()
    for n in range(30):
        hand.take(move(1000.0 + 40 * n), (1000 + 40 * n) * MS)
    late = hand.take(move(2240.0, "deadman", x=1.0), (2240 + 5000) * MS)
    assert list(late.buttons) == [0] * len(late.buttons)
    assert not hand.holds
    hand.take(move(7300.0, "deadman", x=1.0), 7300 * MS)
    assert not hand.holds
    hand.take(move(7340.0), 7340 * MS)
    hand.take(move(7380.0, "deadman"), 7380 * MS)
    assert hand.holds
