"""A policy that asks for help is seen and heard on the page, called out again, and let go on with a key."""

from __future__ import annotations

import time

import pytest

from robot_stack.types.command import Mode
from tests.console.browser_rig import BEHIND, WIDE, lively, look, needs_chromium, picture, says, sync_api, until, word
from tests.console.page_rig import STUCK, FakeCell, served, sim_run

pytestmark = needs_chromium

CALL_AGAIN_MS = 4000
"""As banner.js has it."""
LISTEN = """
window.contexts = 0; window.tones = []; window.granted = "running";
window.AudioContext = class {
  constructor() {
    window.contexts += 1; window.context = this;
    this.currentTime = 0; this.destination = null; this.state = "suspended";
  }
  async resume() { this.turn(window.granted); }
  turn(state) { this.state = state; if (this.onstatechange) this.onstatechange(); }
  createOscillator() {
    const voice = { frequency: {}, connect: (next) => next, stop() {},
                    start() { window.tones.push(voice.frequency.value); } };
    return voice;
  }
  createGain() {
    return { gain: { setValueAtTime() {}, exponentialRampToValueAtTime() {} }, connect: (next) => next };
  }
};
"""
CALL = "window.tones.filter((hertz) => hertz === 880).length"
"""How often the page has called; no other tone has this pitch."""


@pytest.fixture
def asking(tmp_path):
    """A desk of a run whose policy asks for help, and the address of its page."""
    cell = FakeCell(sim_run("run.asking={}"), tmp_path)
    with served(cell) as url:
        yield cell, url


def test_a_run_whose_policy_never_asks_has_no_button_for_it(cell, url, tab):
    page = tab(url)
    cell.mode(Mode.READY)
    sync_api.expect(page.locator("#keys [data-what=reset_done]")).to_be_visible()
    assert page.locator("#keys [data-what=dismiss]").count() == 0


@pytest.mark.long
def test_a_request_is_seen_heard_and_dismissed(asking, tab, browser):
    cell, url = asking
    lively(cell)
    context = browser.new_context(viewport=WIDE)
    context.add_init_script(LISTEN)
    page = tab(url, context=context)
    cell.mode(Mode.READY)
    episode = cell.episode(12)
    cell.mode(Mode.POLICY)
    word(page, "POLICY IN CONTROL")
    button = page.locator("#keys [data-what=dismiss]")
    sync_api.expect(button).to_be_disabled()
    for index in range(12):
        cell.score(episode, index, min(index, 6) / 12, 0.1)
        look(cell, 20 * index)

    cell.asks(STUCK)
    word(page, "HELP WANTED")
    says(page, "#why", "The policy is stuck: No progress for 2.1 s")
    says(page, "#do", "let it go on: 'dismiss' (X)")
    says(page, "#log", "help wanted (stall): no progress for 2.1 s")
    assert page.evaluate("window.contexts") == 0, "silent until somebody has clicked"
    picture(page, "help")

    page.locator("#facts").click()
    until(lambda: page.evaluate(CALL) > 1, "two calls, as the request is still open", page)
    page.get_by_role("button", name="tones").click()
    called = page.evaluate(CALL)
    page.wait_for_timeout(1.2 * CALL_AGAIN_MS)
    assert page.evaluate(CALL) == called, "muted"

    sync_api.expect(button).to_be_enabled()
    page.keyboard.press("x")
    until(lambda: cell.done.pressed == ["dismiss"], "the key", page)
    cell.asks(None)
    word(page, "POLICY IN CONTROL")
    sync_api.expect(button).to_be_disabled()
    context.close()


def test_a_hand_on_the_arm_ends_the_call_on_the_page(asking, tab):
    cell, url = asking
    page = tab(url)
    cell.mode(Mode.READY)
    cell.episode(12)
    cell.mode(Mode.POLICY)
    cell.asks(STUCK)
    word(page, "HELP WANTED")
    cell.mode(Mode.HUMAN)
    word(page, "HUMAN IN CONTROL")


def test_a_page_behind_another_tab_calls_for_help_and_counts_as_nobody(asking, tab, browser):
    cell, url = asking
    context = browser.new_context(viewport=WIDE)
    context.add_init_script(LISTEN + BEHIND)
    page = tab(url, context=context)
    cell.mode(Mode.READY)
    cell.episode(12)
    cell.mode(Mode.POLICY)
    word(page, "POLICY IN CONTROL")
    page.locator("#facts").click()
    page.evaluate("window.turn(true)")
    lock = cell.desk.operator_lock
    until(lambda: not lock.attended(time.monotonic_ns()), "nobody looks", page)

    cell.asks(STUCK)
    until(lambda: page.evaluate(CALL) > 1, "the call, and once more", page)
    assert page.title().startswith("HELP WANTED · peg_insert")
    assert not lock.attended(time.monotonic_ns())
    page.evaluate("window.turn(false)")
    until(lambda: lock.attended(time.monotonic_ns()), "somebody looks again", page)
    context.close()


def test_a_page_sounds_from_the_press_on_that_the_browser_accepts_and_says_until_then_that_it_does_not(
    asking, tab, browser
):
    """A browser may accept no Escape and no finger that goes down, and takes the sound away on a locked phone."""
    cell, url = asking
    context = browser.new_context(viewport=WIDE)
    context.add_init_script(LISTEN)
    page = tab(url, context=context)
    cell.mode(Mode.READY)
    cell.episode(12)
    cell.mode(Mode.POLICY)
    word(page, "POLICY IN CONTROL")
    button = page.locator("#sound")
    says(page, "#sound", "none yet: press here")
    page.evaluate("window.granted = 'suspended'")
    page.locator("#facts").click()
    cell.mode(Mode.HOLD)
    word(page, "HOLD")
    says(page, "#sound", "none yet: press here")
    assert page.evaluate("window.tones") == [], "nothing that would sound all at once later"
    page.evaluate("window.granted = 'running'")
    button.click()
    sync_api.expect(button).to_have_text("tones")
    sync_api.expect(button).to_have_attribute("aria-pressed", "true")
    cell.mode(Mode.POLICY)
    until(lambda: page.evaluate("window.tones.length") == 1, "the tone of the policy", page)

    page.evaluate("window.context.turn('interrupted')")
    says(page, "#sound", "none yet: press here")
    page.keyboard.press("Shift")
    sync_api.expect(button).to_have_text("tones")
    assert page.evaluate("window.contexts") == 1
    page.wait_for_timeout(700)
    button.click()
    sync_api.expect(button).to_have_attribute("aria-pressed", "false")
    context.close()
