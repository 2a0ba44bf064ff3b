"""A gripper that was sent somewhere and is halted: before it moves, on its way, and long after."""

from __future__ import annotations

from robot_stack.control.drivers.gripper_way import STANDS_S, STARTS_S, GripperWay

MS = 1_000_000
SENT_NS = 1_000 * MS


def sent() -> GripperWay:
    way = GripperWay()
    way.begin(SENT_NS)
    return way


def test_a_gripper_on_its_way_is_stopped_once_where_it_is() -> None:
    way = sent()
    assert way.stop_at(0.6, SENT_NS + 900 * MS) == 0.6
    assert way.stop_at(0.6, SENT_NS + 910 * MS) is None


def test_one_that_begins_to_move_only_after_the_halt_is_stopped_then() -> None:
    way = sent()
    assert way.stop_at(None, SENT_NS + 30 * MS) is None
    assert way.stop_at(None, SENT_NS + 60 * MS) is None
    assert way.stop_at(0.9, SENT_NS + 90 * MS) == 0.9


def test_one_that_stands_goes_on_holding_and_may_be_moved_by_others_later() -> None:
    way = sent()
    late_ns = SENT_NS + round(STARTS_S * 1e9) + MS
    stood_ns = late_ns + round(STANDS_S * 1e9) + MS
    assert way.stop_at(None, late_ns) is None
    assert way.stop_at(None, stood_ns) is None
    assert way.stop_at(0.4, stood_ns + MS) is None


def test_one_that_seems_to_stand_for_a_moment_is_still_on_its_way() -> None:
    """A position that is read less often than its joint states come seems to stand in between."""
    way = sent()
    late_ns = SENT_NS + round(STARTS_S * 1e9) + MS
    assert way.stop_at(None, late_ns) is None
    assert way.stop_at(None, late_ns + 40 * MS) is None
    assert way.stop_at(0.4, late_ns + 50 * MS) == 0.4


def test_one_that_nobody_sent_anywhere_is_not_stopped() -> None:
    assert GripperWay().stop_at(0.4, SENT_NS) is None
