"""Which two ends of a topic hear each other."""

from __future__ import annotations

import pytest

from robot_stack.workcell.qos import Qos, fits

BEST_EFFORT = Qos(reliable=False, latched=False)
RELIABLE = Qos(reliable=True, latched=False)
LATCHED = Qos(reliable=True, latched=True)
UNKNOWN = Qos(reliable=None, latched=None)
FAST = Qos(reliable=True, latched=False, deadline_s=0.1)
SLOW = Qos(reliable=True, latched=False, deadline_s=0.3)
ALIVE = Qos(reliable=False, latched=False, lease_s=0.3)
ASSERTED = Qos(reliable=False, latched=False, asserted=True)
HEARTBEAT = Qos(reliable=True, latched=False, deadline_s=0.15, lease_s=0.3, asserted=True)


@pytest.mark.parametrize(
    ("offered", "asked", "heard"),
    [
        (BEST_EFFORT, BEST_EFFORT, True),
        (RELIABLE, BEST_EFFORT, True),
        (BEST_EFFORT, RELIABLE, False),
        (RELIABLE, LATCHED, False),
        (LATCHED, BEST_EFFORT, True),
        (UNKNOWN, LATCHED, True),
        (BEST_EFFORT, UNKNOWN, True),
        (RELIABLE, FAST, False),
        (SLOW, FAST, False),
        (FAST, SLOW, True),
        (FAST, RELIABLE, True),
        (BEST_EFFORT, ALIVE, False),
        (ALIVE, BEST_EFFORT, True),
        (BEST_EFFORT, ASSERTED, False),
        (ASSERTED, BEST_EFFORT, True),
        (HEARTBEAT, ALIVE, True),
        (HEARTBEAT, BEST_EFFORT, True),
    ],
)
def test_a_subscription_hears_who_offers_at_least_what_it_asks_for(offered: Qos, asked: Qos, heard: bool) -> None:
    assert fits(offered, asked) is heard


def test_qualities_are_said_in_the_words_of_ros() -> None:
    assert str(BEST_EFFORT) == "BEST_EFFORT VOLATILE"
    assert str(LATCHED) == "RELIABLE TRANSIENT_LOCAL"
    assert str(HEARTBEAT) == "RELIABLE VOLATILE, deadline 0.15 s, lease 0.3 s"
