"""Hasty fingers: a double click on any button of the operator's page does what the button says, and nothing else.

A hundred of them on each button, spread over what a hand may do: most in one go, the others one by one, at once or as
soon as the first click has changed the page, and on a phone's screen, where more moves. Of those that are made one by
one `make thorough` makes as many as a hundred need, and `make test` two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.console.messages import Say, Sit
from robot_stack.console.web import BROWSER, STATIC
from robot_stack.types.command import Mode
from robot_stack.types.event import Verdict
from tests.console.browser_rig import PHONE, WIDE, lively, look, needs_chromium, says, until, word
from tests.console.browser_store import ALONE, DEMO, HELPED, write_recorded
from tests.console.double_clicks import (
    BOTH,
    BUTTONS,
    EITHER,
    HIDDEN,
    NEVER,
    ONCE,
    PLACE,
    RECORD,
    RULES,
    Rule,
)
from tests.console.page_rig import FakeCell, Obedient, served
from tests.console.test_help_in_browser import STUCK
from tests.console.test_playback_page import TO, tell_of

pytestmark = [needs_chromium, pytest.mark.long]

TOKEN = "a-token-of-enough-characters"
GATE = "enter"
BUTTONS_INSIDE = [name for name in RULES if name != GATE]
MODES = {Mode.POLICY: "asks", Mode.HOLD: "hold", Mode.STOP: "stop", Mode.DISARMED: "disarmed"}
"""That keys are pressed in, and what the page calls them: the policy of this cell asks for help all the time."""
ONLY_IN = {"dismiss": Mode.POLICY, "clear_stop": Mode.STOP}
IN_ONE_GO, AT_ONCE, AT_LEISURE, ON_A_PHONE = 90, 4, 3, 3
"""Double clicks on each button, a hundred together."""
AT_ONCE_MS, LEISURE_MS = 10, 120
AGAIN_S = 0.6
"""As in buttons.js: until then a click belongs to the one before."""
PATIENCE_S = 0.3
"""For which a hand at leisure waits for what its first click does, which may take longer than a pair may."""
REST_S = 0.7
PLAYER = ("first", "back", "play", "on", "last", "slower", "faster", "close it")
PACE = """(faster) => {
    for (const [id, times] of [["slower", 6], ["faster", faster]]) {
        for (let time = 0; time < times; time += 1) document.getElementById(id).click();
    }
}"""
"""Three faster than the slowest is as it was recorded, with room to both sides."""
HIT = "(find) => Boolean(window.under.at(-2)?.closest(find))"
"""Whether the first of the newest two presses was on a button."""
ELSEWHERE = (3, 3)
EFFECT_S = 5.0
"""That an effect may take on a busy machine; most are there at once."""
TRIES = 20
SETTLED_MS = 60


class Hasty:
    """A hand at a page of a cell that has everything: stages, a policy that asks, a gripper, two arms, recordings."""

    def __init__(self, cell: FakeCell, page) -> None:
        self.cell = cell
        self.page = page
        self._rested_s: dict[str, float] = {}
        self._turn = 0

    @property
    def did(self) -> list[str]:
        """What the page has said and shown."""
        return self.page.evaluate("window.did")

    def ready(self, name: str, mode: Mode) -> None:
        """Bring the page to where a press of the button has a meaning."""
        cell, page, desk, now_ns = self.cell, self.page, self.cell.desk, time.monotonic_ns()
        if name in ("hold", "stop") or RULES[name].find.startswith("#keys"):
            mode = ONLY_IN.get(name, mode)
            cell.mode(mode, f"turn {self._turn}")
            until(lambda: page.evaluate("document.body.dataset.mode") == MODES[mode], str(mode), page)
        if name == "undo":
            said = Say(episode=DEMO, verdict=(Verdict.SUCCESS, Verdict.FAILURE)[self._turn % 2])
            with desk.locked():
                keep = desk.obey(desk.operator_lock.writer, said, now_ns, time.time())
            assert keep is not None
            keep()
        elif name == "sit":
            with desk.locked():
                desk.join("another page", now_ns)
                desk.obey("another page", Sit(), now_ns, time.time())
        elif name in PLAYER:
            if page.locator("#playback").is_hidden():  # closed by a pair that is done again
                page.locator("#list .picture:enabled").first.click()
            until(lambda: page.locator("#moment").is_visible(), "the recording", page)
            page.evaluate(TO, 0.5)
            page.evaluate(PACE, 0 if name == "play" else 3)  # it does not come to its end meanwhile
        cell.tell()
        self._turn += 1

    def place(self, name: str) -> tuple[float, float]:
        """Where the button is, once it can be pressed; the hand has been elsewhere before."""
        self.page.mouse.click(*ELSEWHERE)
        until(lambda: self.page.evaluate(PLACE, RULES[name].find), name, self.page)
        x, y = self.page.evaluate(PLACE, RULES[name].find)
        return x, y

    def double_click(self, name: str, mode: Mode, gap_ms: int) -> list[str]:
        """Press twice at the button's place; what was done.

        A pair that a busy machine drew apart is done again, and one before which it has moved the button away.
        """
        rule, page = RULES[name], self.page
        for _ in range(TRIES):
            page.wait_for_timeout(1e3 * max(0.0, self._rested_s.get(name, 0.0) + REST_S - time.monotonic()))
            self.ready(name, mode)
            x, y = self.place(name)
            first, begun = len(self.did), page.evaluate("window.clicks.length")
            page.mouse.click(x, y)
            page.wait_for_timeout(gap_ms)
            if gap_ms == LEISURE_MS:
                self._effect(rule, first, PATIENCE_S)
            page.mouse.click(x, y)
            self._rested_s[name] = time.monotonic()
            one, other = page.evaluate("window.downs.slice(-2)")
            clicks = page.evaluate("window.clicks")[begun:] or [0.0]  # none, where the button was gone before the hand
            hit = page.evaluate(HIT, rule.find)
            if hit and max(other - one, clicks[-1] - clicks[0]) < 1e3 * AGAIN_S:
                self._effect(rule, first)
                page.wait_for_timeout(SETTLED_MS)
                return self.did[first:]
        raise AssertionError(f"two clicks never hit {name} within {AGAIN_S:g} s of each other")

    def in_one_go(self, name: str, mode: Mode, count: int) -> tuple[list[str], float]:
        """So many double clicks at one place; what was done, and for how long, in seconds, by the page's clock."""
        self.ready(name, mode)
        x, y = self.place(name)
        first, begun = (len(self.page.evaluate(f"window.{each}")) for each in ("did", "downs"))
        for _ in range(count):
            self.page.mouse.dblclick(x, y)
        self._effect(RULES[name], first)
        self.page.wait_for_timeout(SETTLED_MS)
        downs = self.page.evaluate("window.downs")[begun:]
        return self.did[first:], (downs[-1] - downs[0]) / 1e3

    def _effect(self, rule: Rule, first: int, at_most_s: float = EFFECT_S) -> None:
        """Wait for what the rule says; if it does not come, the rule will say so."""
        deadline_s = time.monotonic() + at_most_s
        while not rule.finished(self.did[first:]) and time.monotonic() < deadline_s:
            self.page.wait_for_timeout(5)


@pytest.fixture
def cell(tmp_path) -> FakeCell:
    """A cell with everything that the page has a button for."""
    cell = FakeCell(load_run("drawer", ["run.asking={}"]), tmp_path, done=Obedient())
    cell.desk.rights = replace(cell.desk.rights, arms=("left", "right"))
    write_recorded(cell.store)
    lively(cell)
    cell.mode(Mode.POLICY)
    tell_of(cell, DEMO, HELPED, ALONE)
    cell.episode(41)
    cell.asks(STUCK)
    return cell


@pytest.fixture
def hasty(cell, browser, tab) -> Iterator:
    """hasty(size) -> a hand at a page of that size."""
    contexts = []

    def at(size) -> Hasty:
        contexts.append(browser.new_context(viewport=size, permissions=["clipboard-read", "clipboard-write"]))
        contexts[-1].add_init_script(RECORD)
        page = tab(url, context=contexts[-1])
        says(page, "#seat", "you are the operator")
        look(cell, 90)
        return Hasty(cell, page)

    with served(cell) as url:
        yield at
    for context in contexts:
        context.close()


def test_every_button_of_the_page_has_one_rule(hasty, cell, tab):
    """A button that is added fails this until double_clicks.py has a rule for it."""
    hand = hasty(WIDE)
    page = hand.page
    finds = [rule.find for rule in RULES.values()]
    page.mouse.click(*hand.place("play it"))
    says(page, "#recorded", "RECORDING")
    hand.ready("undo", Mode.POLICY)
    until(lambda: page.evaluate(PLACE, "#undo"), "the offer", page)
    seen = page.evaluate(BUTTONS, [*finds, HIDDEN])
    hand.ready("sit", Mode.POLICY)
    until(lambda: page.evaluate(PLACE, "#sit"), "the seat", page)
    seen += page.evaluate(BUTTONS, [*finds, HIDDEN])
    with served(cell, token=TOKEN) as url:
        gate = tab(f"{url.partition('#')[0]}#wrong")
        word(gate, "TOKEN NEEDED")
        seen += gate.evaluate(BUTTONS, [*finds, HIDDEN])
    for html, _, matches in seen:
        assert len(matches) == 1, f"{html} has {len(matches)} rules"
    assert {find for _, shown, (find,) in seen if shown} == set(finds), "each is seen, and nothing that is hidden"
    loaded = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name.split('/').at(-1))")
    made = set(page.evaluate("window.made"))
    assert made
    assert made == makers(set(loaded)), "each line of code that makes a button has made one of those"


def makers(names: set[str]) -> set[str]:
    """Lines of the page's code that make buttons, as `RECORD` names them."""
    return {
        f"{path.name}:{number}"
        for folder in (STATIC, BROWSER)
        for path in folder.glob("*.js")
        if path.name in names
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if 'createElement("button")' in line
    }


@pytest.mark.parametrize(
    ("size", "gap_ms", "count"),
    [
        pytest.param(WIDE, AT_ONCE_MS, 2, id="at_once"),
        pytest.param(PHONE, LEISURE_MS, 2, id="on_a_phone", marks=pytest.mark.slow),
        pytest.param(WIDE, AT_ONCE_MS, AT_ONCE, id="often_at_once", marks=pytest.mark.slow),
        pytest.param(WIDE, LEISURE_MS, AT_LEISURE, id="often_at_leisure", marks=pytest.mark.slow),
        pytest.param(PHONE, LEISURE_MS, ON_A_PHONE, id="often_on_a_phone", marks=pytest.mark.slow),
    ],
)
def test_a_double_click_does_what_the_button_says_and_nothing_else(hasty, size, gap_ms, count):
    hand = hasty(size)
    for number in range(count):
        for name in BUTTONS_INSIDE:
            RULES[name].check(hand.double_click(name, list(MODES)[number % len(MODES)], gap_ms))
    done = hand.cell.done
    until(lambda: done.pressed[-1:] == ["dismiss"], "the last key at the cell", hand.page)
    assert set(done.pressed) == {"hold", "stop", "success", "failure", "discard", "stage", "reset_done", "dismiss"}
    assert set(done.requested) == {"arm", "resume"}
    counts = hand.cell.desk.heard.verdicts.counts
    until(lambda: counts(ALONE).verdict is Verdict.DISCARD, "the last thing that was said of it", hand.page)


@pytest.mark.slow
def test_many_double_clicks_in_one_go_do_nothing_but_what_the_button_says(hasty):
    hand = hasty(WIDE)
    for number, name in enumerate(BUTTONS_INSIDE):
        rule = RULES[name]
        did, seconds = hand.in_one_go(name, list(MODES)[number % len(MODES)], IN_ONE_GO)
        again = math.floor(seconds / AGAIN_S)
        rule.check(
            did,
            {NEVER: NEVER, ONCE: (1, 1 + again), EITHER: (1, 2 * IN_ONE_GO), BOTH: (2 * IN_ONE_GO,) * 2}[rule.times],
        )
    assert set(hand.cell.done.requested) <= {"arm", "resume"}


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_double_click_on_the_token_opens_the_page_and_presses_nothing_of_it(cell, browser, tab, size):
    """Where the button was is the page's own button as soon as the server has let the page in."""
    with served(cell, token=TOKEN) as url:
        context = browser.new_context(viewport=size)
        context.add_init_script(RECORD)
        page = tab(f"{url.partition('#')[0]}#wrong", context=context)
        hand, pairs = Hasty(cell, page), 0
        for _ in range(TRIES):
            word(page, "TOKEN NEEDED")
            page.get_by_label("Token").fill(TOKEN)
            x, y = hand.place(GATE)
            first = len(hand.did)
            page.mouse.click(x, y)
            until(lambda: page.locator("#gate").is_hidden(), "the page", page)
            page.mouse.click(x, y)
            page.wait_for_timeout(SETTLED_MS)
            one, other = page.evaluate("window.downs.slice(-2)")
            if other - one < 1e3 * AGAIN_S:  # else a busy machine drew them apart
                RULES[GATE].check(hand.did[first:])
                pairs += 1
            if pairs == 2:
                break
            page.goto(f"{url.partition('#')[0]}#wrong")
        assert pairs == 2
        context.close()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_what_a_recording_brings_under_the_hand_is_not_pressed_by_the_second_click(hasty, size):
    """It opens and closes between the clicks: a pad, or a verdict on another episode, is where the button was."""
    hand = hasty(size)
    page = hand.page
    for episode in (DEMO, HELPED, ALONE):
        for find, shown in ((f"[data-play='{episode}']", True), ("#unplay", False)):
            page.wait_for_timeout(1e3 * REST_S)
            page.mouse.click(*ELSEWHERE)
            x, y = page.evaluate(PLACE, find)
            first = len(hand.did)
            page.mouse.click(x, y)
            until(lambda shown=shown: page.locator("#playback").is_visible() is shown, "the recording", page)
            page.wait_for_timeout(20)  # its scrolling, which begins with the next frame
            page.mouse.click(x, y)
            page.wait_for_timeout(SETTLED_MS)
            one, other = page.evaluate("window.downs.slice(-2)")
            if other - one < 1e3 * AGAIN_S:
                wanted = [f"get {episode}", "playback shown"] if shown else ["playback hidden"]
                assert [each for each in hand.did[first:] if each not in ("earlier", "later")] == wanted


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("play it", "#playback:focus"),
        ("close it", "#playback[hidden]"),
        ("undo", "#undo.away"),
        ("sit", "#sit.away"),
    ],
)
def test_a_second_enter_arms_nothing_where_the_first_has_taken_its_button_away(hasty, cell, name, after):
    hand = hasty(WIDE)
    page = hand.page

    def press() -> None:
        cell.mode(Mode.DISARMED)
        word(page, "DISARMED")
        if page.locator("#playback").is_visible() and name != "close it":
            page.locator("#unplay").click()
        if name != "play it":
            hand.ready(name, Mode.DISARMED)
        hand.place(name)
        page.wait_for_timeout(1e3 * REST_S)  # what was pressed to come here is long ago
        page.locator(RULES[name].find).and_(page.locator(":enabled")).first.focus()

    def gone() -> None:
        until(lambda: page.locator(after).count(), name, page)

    RULES[name].check(twice_entered(cell, page, press, gone))
    assert cell.done.requested == []


def test_a_second_enter_opens_no_recording_again_that_was_open_for_a_moment(hasty):
    """Enter closes it and Enter follows: too late to be a second press of the opening, but one of the closing."""
    hand = hasty(WIDE)
    page = hand.page
    for _ in range(TRIES):
        page.wait_for_timeout(1e3 * REST_S)
        page.mouse.click(*hand.place("play it"))
        until(lambda: page.locator("#playback").is_visible(), "the recording", page)
        page.locator("#unplay").focus()
        page.keyboard.press("Enter")
        until(lambda: page.locator("#playback").is_hidden(), "the list", page)
        opened, first = page.evaluate("window.clicks.at(-1)"), len(hand.did)
        page.evaluate(
            "(ms) => new Promise((go) => setTimeout(go, ms - performance.now()))", opened + 1e3 * AGAIN_S + 20
        )
        page.keyboard.press("Enter")
        page.wait_for_timeout(SETTLED_MS)
        one, other = page.evaluate("window.enters.slice(-2)")
        if other - opened > 1e3 * AGAIN_S > max(one - opened, other - one):  # else a busy machine drew them apart
            assert not [each for each in hand.did[first:] if each.startswith("get")]
            return
    raise AssertionError("a recording was never open for so short a time")


def test_a_second_enter_arms_nothing_after_the_token(cell, browser, tab):
    context = browser.new_context(viewport=WIDE)
    context.add_init_script(RECORD)
    with served(cell, token=TOKEN) as url:
        page = tab(f"{url.partition('#')[0]}#wrong", context=context)

        def press() -> None:
            cell.mode(Mode.DISARMED)
            page.goto(f"{url.partition('#')[0]}#wrong")
            word(page, "TOKEN NEEDED")
            page.get_by_label("Token").fill(TOKEN)

        def gone() -> None:
            until(lambda: page.locator("#gate").is_hidden(), "the page", page)

        RULES[GATE].check(twice_entered(cell, page, press, gone))
    context.close()
    assert cell.done.requested == []


def twice_entered(cell: FakeCell, page, ready: Callable[[], None], gone: Callable[[], None]) -> list[str]:
    """Press Enter, and again once the button is gone; what was done. A pair that was drawn apart is done again."""
    for _ in range(TRIES):
        ready()
        first = len(page.evaluate("window.did"))
        page.keyboard.press("Enter")
        gone()
        page.wait_for_timeout(50)
        page.keyboard.press("Enter")
        page.wait_for_timeout(SETTLED_MS)
        one, other = page.evaluate("window.enters.slice(-2)")
        if other - one < 1e3 * AGAIN_S:
            return page.evaluate("window.did")[first:]
        cell.done.requested.clear()
    raise AssertionError(f"two presses of Enter were never within {AGAIN_S:g} s of each other")
