"""The curves of learning in a real browser: drawn, seldom enough, and moving nothing that a hand is at."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.console.browser_rig import every_look, needs_chromium, says
from tests.console.page_rig import trained

pytestmark = [needs_chromium, pytest.mark.long]

BOXES = """() => [...document.querySelectorAll("button, section, .pad")]
    .filter((each) => !each.closest("#episodes")).map((each) => each.getBoundingClientRect())
    .map((box) => [box.x, box.y + scrollY, box.width, box.height].map(Math.round))"""
UNCOVERED = """() => {
    const { top } = document.getElementById("shares").getBoundingClientRect();
    return [...document.querySelectorAll("#learning .key")].every((key) => key.getBoundingClientRect().bottom <= top);
}"""
DRAWN = """() => {
    window.drawn = [];
    new MutationObserver(() => window.drawn.push(performance.now()))
        .observe(document.getElementById("learned"), { childList: true });
}"""
PAINTED = """() => [...document.querySelectorAll("#learning canvas")].map((canvas) => canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0))"""


@every_look
def test_curves_are_drawn_and_nothing_on_the_page_moves(cell, url, tab, size, scheme):
    page = tab(url, viewport=size, color_scheme=scheme)
    says(page, "#seat", "you are the operator")
    says(page, "#learned", "no episode of online training has ended yet")
    page.evaluate("document.getElementById('episodes').hidden = true")  # a list grows with every episode
    before = page.evaluate(BOXES)
    with cell.desk.locked():
        cell.desk.heard.rows(trained(40))
    cell.tell()
    says(page, "#learned", "last 20 of 40, 40.0 min of robot time")
    for name, text in (("success", "50 %"), ("alone", "25 %"), ("human", "13 %"), ("q", "25 %")):
        says(page, f"#{name}-share", text)
    says(page, "#q", "0.390")
    assert page.evaluate(PAINTED) == [True, True]
    page.wait_for_timeout(200)
    assert page.evaluate(BOXES) == before
    assert page.evaluate(UNCOVERED)


def test_curves_are_drawn_at_most_twice_a_second(cell, url, tab):
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.evaluate(DRAWN)
    for number in range(40):
        with cell.desk.locked():
            cell.desk.heard.rows(trained(1, first=number))
        cell.tell()
        page.wait_for_timeout(50)
    says(page, "#learned", "of 40")
    drawn = page.evaluate("window.drawn")
    assert len(drawn) >= 2
    gaps = [later - earlier for earlier, later in pairwise(drawn)]
    assert sum(gaps) / len(gaps) >= 480, gaps
    assert min(gaps) >= 250, gaps  # no burst either; a busy machine may look at one late
