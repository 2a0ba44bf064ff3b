"""The whole pictures of the cameras on the operator's page: sent to who asks alone, with the crop drawn in."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from robot_stack.console.hub import WHOLE, Outbox
from robot_stack.console.messages import PageError, View, parse
from tests.console.browser_rig import needs_chromium, picture, says, until
from tests.console.page_rig import FakeCell, served

from tests.console.test_page_server import IMAGE_HEAD, tab as connected  # isort: skip

SIZE = """() => { const canvas = document.querySelector(".camera canvas"); return [canvas.width, canvas.height]; }"""
YELLOW = """() => {
    const canvas = document.querySelector(".camera canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) count += data[at] > 200 && data[at + 1] > 180 && data[at + 2] < 140;
    return count;
}"""


AGAIN_MS = 600
"""As in buttons.js: until then a click belongs to the one before."""


def jpeg(side_px: int, shade: int) -> bytes:
    return cv2.imencode(".jpg", np.full((side_px, side_px, 3), shade, np.uint8))[1].tobytes()


def cameras_of(images: list[bytes]) -> set[int]:
    return {IMAGE_HEAD.unpack(each[:8])[1] for each in images}


@pytest.mark.parametrize("said", ["[8]", "[-1]", "[0.5]", '["0"]', "0", "[0,1,2,3,4,5,6,7,0]", "[true]"])
def test_what_no_camera_can_be_is_refused(said: str) -> None:
    assert parse('{"k": "view", "cameras": [0, 7]}') == View(cameras=(0, 7))
    with pytest.raises(PageError, match=r"cameras\S* of view"):
        parse(f'{{"k": "view", "cameras": {said}}}')


def test_a_whole_picture_goes_to_the_pages_that_show_it_and_to_no_other(cell: FakeCell) -> None:
    with served(cell) as url, connected(url, page="a") as asking, connected(url, page="b") as other:
        for page in (asking, other):
            page.until(lambda message: message["k"] == "welcome", "the welcome")
        assert cell.server is not None
        assert cell.server.whole == frozenset()
        asking.say(k="view", cameras=[1])
        asking.until(lambda _: cell.server.whole == {1}, "the wish")
        cell.server.show_whole(1, jpeg(192, 90))
        cell.server.show_whole(0, jpeg(192, 90))
        for name in cell.run.cameras:
            cell.frame(name, np.zeros((64, 64, 3), np.uint8), jpeg(64, 9))
        for page, wanted in ((asking, {0, 1, WHOLE + 1}), (other, {0, 1})):
            page.until(lambda _, page=page, wanted=wanted: cameras_of(page.images) >= wanted, "the images")
            assert cameras_of(page.images) == wanted
        asking.say(k="view", cameras=[])
        asking.until(lambda _: cell.server.whole == frozenset(), "the end of the wish")


@needs_chromium
@pytest.mark.long
def test_a_press_shows_the_whole_picture_with_the_policys_part_drawn_in(cell: FakeCell, url: str, tab) -> None:
    page = tab(url)
    says(page, "#seat", "you are the operator")
    first = next(iter(cell.run.cameras))
    button = page.locator(".camera button >> nth=0")
    assert button.get_attribute("aria-pressed") == "false"

    def look() -> None:
        assert cell.server is not None
        cell.frame(first, np.zeros((64, 64, 3), np.uint8), jpeg(64, 9))
        cell.server.show_whole(0, jpeg(192, 90))

    def shows(side_px: int) -> bool:
        look()
        return page.evaluate(SIZE) == [side_px, side_px]

    until(lambda: shows(64), "the policy's picture", page)
    assert page.evaluate(YELLOW) == 0
    button.click()
    until(lambda: shows(192), "the whole picture", page)
    assert button.get_attribute("aria-pressed") == "true"
    assert page.evaluate(YELLOW) > 100, "the part that the policy gets"
    picture(page, "whole_picture")

    def stopped() -> bool:
        cell.frame(first, np.zeros((64, 64, 3), np.uint8), jpeg(64, 9))
        return page.evaluate(SIZE) == [64, 64]

    until(stopped, "the policy's picture, once no whole one comes", page)
    page.reload()
    says(page, "#seat", "you are the operator")
    assert cell.server is not None
    until(lambda: not cell.server.whole, "a page that shows the policy's pictures again", page)
    page.locator(".camera button >> nth=0").click()
    until(lambda: shows(192), "the whole picture again", page)
    page.wait_for_timeout(AGAIN_MS)
    page.locator(".camera button >> nth=0").click()
    until(lambda: shows(64), "the policy's picture again", page)
    until(lambda: not cell.server.whole, "nobody who looks", page)


def test_a_large_picture_waits_until_the_page_shows_what_it_was_sent() -> None:
    outbox = Outbox()
    outbox.put_image(WHOLE, b"large")
    outbox.put_image(0, b"small")
    first, second = outbox.take(), outbox.take()
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert (first[8:], second[8:]) == (b"large", b"small")
    outbox.put_image(WHOLE, b"larger")
    outbox.put_image(1, b"other")
    third = outbox.take()
    assert isinstance(third, bytes)
    assert third[8:] == b"other"
    assert outbox.take() is None
    outbox.seen(0, 3)
    last = outbox.take()
    assert isinstance(last, bytes)
    assert last[8:] == b"larger"
