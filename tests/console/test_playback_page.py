"""Playback of finished episodes on the operator's page, in a real browser: beside the live view, never in its way."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Mode
from robot_stack.types.transition import EndReason
from tests.console.browser_rig import (
    PHONE,
    WIDE,
    axe_finds_nothing,
    every_look,
    lively,
    look,
    needs_chromium,
    picture,
    says,
    sync_api,
    until,
)
from tests.console.browser_store import ALONE, DEMO, HELPED, LONG_STEPS, recorded, write_recorded
from tests.console.page_rig import FakeCell, served
from tests.console.test_page_trust import BOXES, CONTRAST
from tests.console.test_playback import TOKEN, damage, give_up
from tests.datasets.data_rig import TASK

pytestmark = [needs_chromium, pytest.mark.long]

RUNNING = "000004-online-a"
PAINTED = """() => [...document.querySelectorAll("#playback canvas")].slice(0, 2)
    .map((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)
    .every((pixels) => pixels.some((value, index) => index % 4 < 3 && value > 0))"""
LIVE = "document.querySelector('.camera canvas').getContext('2d').getImageData(60, 4, 1, 1).data[0]"
OVERLAPS = """() => {
    const box = (each) => each.getBoundingClientRect();
    const panel = box(document.getElementById("playback"));
    return [...document.querySelectorAll("#cameras, #hand, #keys, #progress")].filter((each) => {
        const { left, right, top, bottom } = box(each);
        return left < panel.right && right > panel.left && top < panel.bottom && bottom > panel.top;
    }).map((each) => each.id);
}"""
UNCOVERED = """() => ["hold", "stop", "word"].every((id) => {
    const each = document.getElementById(id), { x, y, width, height } = each.getBoundingClientRect();
    const found = document.elementFromPoint(x + width / 2, y + height / 2);
    return each.contains(found);
})"""
IN_VIEW = """() => {
    const { top } = document.getElementById("playback").getBoundingClientRect();
    return top >= document.getElementById("banner").getBoundingClientRect().bottom - 1 && top < innerHeight / 2;
}"""
TO = """(share) => {
    const scrub = document.getElementById("scrub");
    scrub.value = 1000 * share;
    scrub.dispatchEvent(new Event("input"));
}"""


def tell_of(cell: FakeCell, *names: str) -> None:
    """These episodes have run, the last one still does."""
    for name in names:
        with cell.desk.locked():
            cell.desk.heard.episode(name, name.split("-")[1], time.monotonic_ns(), time.time())
    cell.tell()


@pytest.fixture
def running(cell: FakeCell) -> FakeCell:
    """A cell that has recorded three episodes and runs a fourth."""
    write_recorded(cell.store)
    lively(cell)
    cell.mode(Mode.POLICY)
    tell_of(cell, DEMO, HELPED, ALONE, RUNNING)
    look(cell, 90)
    return cell


@pytest.fixture
def address(running: FakeCell) -> Iterator[str]:
    with served(running) as url:
        yield url


def play(page, episode_id: str, number: int) -> None:
    page.locator(f"[data-play='{episode_id}']").click()
    says(page, "#recorded", f"RECORDING of episode {number}")
    until(lambda: page.evaluate(PAINTED), "the images", page)


def shown(page, text: str) -> None:
    sync_api.expect(page.locator("#moment")).to_contain_text(text)


def test_an_episode_is_scrubbed_and_played_while_the_live_view_goes_on(running, address, tab):
    page = tab(address)
    play(page, HELPED, 2)
    shown(page, "0.00 s, frame 0 of 20, policy in control")
    assert page.locator("#playback .strip i").all_text_contents() == ["policy", "human", "", "hold"], "no word is cut"
    told = page.locator("#playback .strip i").evaluate_all("all => all.map((each) => each.title)")
    assert told[1:3] == ["human, frames 8 to 16", "human, still, frames 16 to 18"]
    says(page, "#playback .plot figcaption", "Φ 0.00")
    says(page, "#playback .plot figcaption", "by bb-new")
    page.evaluate(TO, 0.5)
    shown(page, "1.00 s, frame 10 of 20, human in control")
    says(page, "#playback .plot figcaption", "Φ 0.45")
    before = page.locator("#playback canvas").first.evaluate("each => each.toDataURL()")
    page.click("#first")
    until(lambda: page.locator("#playback canvas").first.evaluate("each => each.toDataURL()") != before, "it", page)
    page.click("#play")
    for shade in (150, 250):
        look(running, shade)
        until(lambda shade=shade: page.evaluate(LIVE) >= shade - 15, "the live image", page)
    shown(page, "frame 20 of 20, hold")
    play(page, ALONE, 3)
    shown(page, f"frame 0 of {LONG_STEPS}")
    sync_api.expect(page.locator("#playback .film")).to_have_count(1)


def test_what_is_said_of_the_open_episode_is_kept_up(running, address, tab):
    page = tab(address)
    play(page, ALONE, 3)
    sync_api.expect(page.locator("#playback .marks")).to_have_text(f"⚑ {EndReason.TIMEOUT}")
    page.get_by_label("episode 3 was: failure").click()
    says(page, "#playback .marks", "✖ operator")
    says(page, "#about", "failure")
    note = page.get_by_label("note on episode 3")
    note.fill("the peg stuck")
    note.press("Tab")
    says(page, "#about", "the peg stuck")


def test_an_episode_whose_row_has_left_the_list_goes_on_playing(running, address, tab):
    page = tab(address)
    play(page, HELPED, 2)
    tell_of(running, *(f"{number:06d}-online-a" for number in range(5, 60)))
    page.mouse.move(5, 300)
    sync_api.expect(page.locator(f"[data-play='{HELPED}']")).to_have_count(0)
    says(page, "#recorded", "RECORDING of episode 2")
    page.evaluate(TO, 0.5)
    shown(page, "frame 10 of 20")
    page.click("#unplay")
    sync_api.expect(page.locator("#playback")).to_be_hidden()


def test_an_episode_that_ends_while_the_page_is_open_is_played(cell, url, tab):
    episode, name = recorded()[0], DEMO
    *steps, last = episode.steps()
    page = tab(url)
    tell_of(cell, name)
    with EpisodeStore(cell.store, episode.spec, TASK) as store:
        store.begin(episode.header)
        for step in steps:
            store.append(step)
        store.flush()
        sync_api.expect(page.locator(f"[data-play='{name}']")).to_be_disabled()
        cell.ended()
        page.locator(f"[data-play='{name}']").click()
        says(page, "#notice", "it is unfinished, let the run close it first")
        sync_api.expect(page.locator("#playback")).to_be_hidden()
        store.append(last)
        store.flush()
        play(page, name, 1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (damage, "is broken, must be whole"),
        (give_up, "it was set aside: the disk was full"),
        (lambda root: shutil.rmtree(root / "episodes" / f"{DEMO}.zarr"), "must be one of the 2"),
        (shutil.rmtree, "play them with robot-stack data view where the learner runs"),
    ],
)
def test_a_refusal_is_a_sentence_and_leaves_the_page_as_it_was(
    running, address, tab, spoil: Callable[[Path], None], words: str
):
    spoil(running.store)
    page = tab(address)
    page.locator(f"[data-play='{DEMO}']").click()
    says(page, "#notice", words)
    sync_api.expect(page.locator("#playback")).to_be_hidden()


def test_a_refusal_leaves_the_episode_that_is_open(running, address, tab):
    page = tab(address)
    play(page, HELPED, 2)
    damage(running.store)
    page.locator(f"[data-play='{DEMO}']").click()
    says(page, "#notice", "is broken, must be whole")
    says(page, "#recorded", "RECORDING of episode 2")
    page.evaluate(TO, 0.5)
    shown(page, "frame 10 of 20")


def test_a_refusal_takes_no_place_of_a_stop_that_is_not_confirmed(running, address, tab):
    damage(running.store)
    page = tab(address)
    says(page, "#seat", "you are the operator")
    page.keyboard.press("Backspace")
    says(page, "#stop", "NOT CONFIRMED")
    says(page, "#notice", "STOP is not confirmed")
    with page.expect_response(f"**/api/episodes/{DEMO}"):
        page.locator(f"[data-play='{DEMO}']").click()
    page.wait_for_timeout(300)
    says(page, "#notice", "STOP is not confirmed")
    page.locator("#copy").click()
    says(page, "#notice", "copied")
    says(page, "#notice", "STOP is not confirmed")
    running.server.notice("the first refusal")
    running.server.notice("the second refusal")
    for _ in range(9):
        running.server.notice("the second refusal")  # one that is said again and again leaves the others their place
    page.keyboard.press("Escape")
    says(page, "#hold", "NOT CONFIRMED")
    says(page, "#notice", "HOLD is not confirmed")
    page.keyboard.press("Backspace")
    page.wait_for_timeout(300)
    says(page, "#notice", "STOP is not confirmed")
    assert "refusal" not in page.locator("#notice").text_content()
    running.mode(Mode.HOLD, "hold pressed (browser)")
    says(page, "#hold", "confirmed")
    says(page, "#notice", "STOP is not confirmed")
    running.mode(Mode.STOP, "stop pressed (browser)")
    says(page, "#stop", "confirmed")
    says(page, "#notice", "the first refusal the second refusal")
    says(page, "#notice", "is broken, must be whole")


def test_every_key_means_for_the_robot_what_it_always_does(running, address, tab):
    page = tab(address)
    says(page, "#seat", "you are the operator")
    play(page, HELPED, 2)
    done = running.done
    page.focus("#scrub")
    page.keyboard.press("s")
    until(lambda: done.pressed == ["success"], "the verdict on the episode that runs", page)
    for focused in ("#scrub", "#play", "#unplay"):
        page.focus(focused)
        page.keyboard.down(" ")
        until(lambda: done.driving, "the hand", page)
        page.keyboard.down("ArrowLeft")
        until(lambda: done.moves[-1].axes[3] == 1.0, "the turning", page)
        page.keyboard.up("ArrowLeft")
        page.keyboard.up(" ")
        until(lambda: not done.driving, "letting go", page)
    page.focus("#scrub")
    page.keyboard.press("Escape")
    until(lambda: done.pressed == ["success", "hold"], "the hold", page)
    page.keyboard.press("Backspace")
    until(lambda: done.pressed == ["success", "hold", "stop"], "the stop", page)
    shown(page, "frame 0 of 20")
    sync_api.expect(page.locator("#play")).to_have_attribute("aria-label", "play")
    assert page.locator("#playback select").count() == 0, "its list would keep Esc to itself"
    page.click("#unplay")
    sync_api.expect(page.locator("#playback")).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.play") == HELPED
    assert done.pressed == ["success", "hold", "stop"]


def test_it_is_opened_used_and_closed_with_the_keyboard_alone(running, address, tab):
    page = tab(address)
    page.focus(f"[data-play='{HELPED}']")
    page.keyboard.press("Enter")
    says(page, "#recorded", "RECORDING of episode 2")
    for wanted in ("unplay", "first", "back", "play", "on"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == wanted
    page.keyboard.press("Enter")
    shown(page, "frame 1 of 20")
    assert running.done.requested == [], "Enter on a button presses that and arms nothing"
    page.focus("#unplay")
    page.keyboard.press("Enter")
    sync_api.expect(page.locator("#playback")).to_be_hidden()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_it_lies_over_nothing_and_moves_nothing_under_a_hand(running, address, tab, size):
    page = tab(address, viewport=size)
    says(page, "#seat", "you are the operator")
    before = page.evaluate(BOXES)
    play(page, HELPED, 2)
    until(lambda: page.evaluate(IN_VIEW), "the panel", page)
    assert page.evaluate(UNCOVERED)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(100)
    assert page.evaluate(BOXES) == before
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(UNCOVERED)
    cameras, panel = (page.locator(each).bounding_box() for each in ("#cameras", "#playback"))
    beside = panel["x"] >= cameras["x"] + cameras["width"] and panel["y"] == cameras["y"]
    assert beside if size is WIDE else panel["y"] >= cameras["y"] + cameras["height"]
    height = panel["height"]
    for share in (0.1, 0.45, 0.85, 1.0):
        page.evaluate(TO, share)
    assert page.locator("#playback").bounding_box()["height"] == height
    page.click("#unplay")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(100)
    assert page.evaluate(BOXES) == before


def test_it_needs_the_token_of_the_page(running, tab):
    with served(running, token=TOKEN) as url:
        page = tab(f"{url.partition('#')[0]}#wrong")
        says(page, "#why", "token is wrong")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        play(page, HELPED, 2)
        assert TOKEN not in page.url


@every_look
def test_the_rules_of_axe_find_nothing_while_it_is_open(running, address, tab, scheme, size):
    page = tab(address, viewport=size, color_scheme=scheme)
    play(page, HELPED, 2)
    page.evaluate(TO, 0.5)
    axe_finds_nothing(page)
    count, low = page.evaluate(CONTRAST)
    assert count > 60
    assert not low, low
    page.wait_for_timeout(100)
    picture(page, f"{'phone' if size is PHONE else 'wide'}_{scheme}_playback")
