"""Only the newest waits for a slow page."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.console.hub import IMAGE_HEAD, IMAGES_UNDER_WAY, OLDEST_S, REMEMBERED, STATES_UNDER_WAY, Outbox
from robot_stack.console.messages import PageError


def test_parts_that_wait_are_replaced_and_go_out_together():
    outbox = Outbox()
    outbox.put_part("now", "1")
    outbox.put_part("curve", "[]")
    outbox.put_part("now", "2")
    assert json.loads(outbox.take()) == {"k": "state", "n": 1, "parts": {"now": 2, "curve": []}}
    assert outbox.take() is None


def test_no_more_is_under_way_than_the_page_has_seen():
    outbox = Outbox()
    for number in range(10):
        outbox.put_part("now", str(number))
        if number < STATES_UNDER_WAY:
            assert outbox.take() is not None
    assert outbox.take() is None
    outbox.seen(1, 0)
    assert json.loads(outbox.take())["parts"] == {"now": 9}


def test_images_wait_one_a_camera_and_take_turns():
    outbox = Outbox()
    outbox.put_image(0, b"old")
    outbox.put_image(1, b"front")
    outbox.put_image(0, b"new")
    taken = [outbox.take(), outbox.take()]
    assert [IMAGE_HEAD.unpack(each[:8])[1] for each in taken] == [0, 1]
    assert [each[8:] for each in taken] == [b"new", b"front"]
    outbox.put_image(0, b"third")
    assert outbox.take() is not None
    outbox.put_image(0, b"fourth")
    assert outbox.take() is None
    outbox.seen(0, IMAGES_UNDER_WAY)
    assert outbox.take()[8:] == b"fourth"


def test_a_page_that_claims_to_have_seen_the_future_gains_nothing():
    outbox = Outbox()
    outbox.seen(10**9, 10**9)
    for number in range(STATES_UNDER_WAY + 2):
        outbox.put_part("now", str(number))
        taken = outbox.take()
    assert taken is None


def test_sentences_go_first_and_none_is_lost():
    outbox = Outbox()
    outbox.put_part("now", "1")
    outbox.put_notice("refused", "one")
    outbox.put_notice("refused", "two")
    assert [json.loads(outbox.take()).get("text") for _ in range(3)] == ["one", "two", None]


def test_a_page_wishes_for_something_by_a_state_that_was_sent_just_before():
    now_s = [100.0]
    outbox = Outbox(lambda: now_s[0])

    def send() -> int:
        outbox.put_part("now", "1")
        number = json.loads(outbox.take())["n"]
        outbox.seen(number, 0)
        return number

    first = send()
    outbox.check_timely(first)
    now_s[0] += OLDEST_S
    outbox.check_timely(first)
    now_s[0] += 0.5
    second = send()
    with pytest.raises(PageError, match=r"is 2\.0 s old, must be at most 1\.5 s"):
        outbox.check_timely(first)
    outbox.check_timely(second)
    for unknown in (0, second + 1):
        with pytest.raises(PageError, match="is not known, must be of the last moment"):
            outbox.check_timely(unknown)
    newest = [send() for _ in range(REMEMBERED)][-1]
    with pytest.raises(PageError, match="is not known"):
        outbox.check_timely(second)
    outbox.check_timely(newest)


@given(st.lists(st.sampled_from(["put", "take", "see"]), max_size=80))
def test_what_is_under_way_stays_bounded(actions):
    outbox, sent, seen = Outbox(), 0, 0
    for number, action in enumerate(actions):
        if action == "put":
            outbox.put_part("now", str(number))
        elif action == "see":
            seen = sent
            outbox.seen(seen, 0)
        elif outbox.take() is not None:
            sent += 1
        assert sent - seen <= STATES_UNDER_WAY


def test_what_a_page_sends_is_doubted_until_it_shows_a_state_that_is_sent_from_then_on() -> None:
    outbox = Outbox()
    assert not outbox.doubted
    outbox.put_part("now", "1")
    outbox.take()
    outbox.doubt()
    outbox.seen(1, 0)
    assert outbox.doubted, "that one was on its way before"
    outbox.seen(2, 0)
    assert outbox.doubted, "a number that was never sent"
    outbox.put_part("now", "2")
    outbox.take()
    outbox.seen(2, 0)
    assert not outbox.doubted
