"""The page in a real browser where it matters: a server that stands still, HOLD and STOP, refusals, the layout.

The bound of 1.5 s is a promise; all other waits are generous.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_stack.console.banner import farewell
from robot_stack.runs.stage import Stage, StageName
from robot_stack.types.command import Mode
from tests.console.browser_rig import (
    BEHIND,
    PAD,
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
    word,
)
from tests.console.page_rig import STUCK, FakeCell, Obedient, served, sim_run, trained
from tests.faults.tcp_proxy import LATE, PASS, TcpProxy

pytestmark = needs_chromium

TOKEN = "a-token-of-enough-characters"
SAID_WITHIN_S = 1.5
WATCH_MODE = """() => new MutationObserver(() => { window.changed = [document.body.dataset.mode, Date.now() / 1000]; })
    .observe(document.body, { attributeFilter: ["data-mode"] })"""
BOXES = """() => Object.fromEntries([...document.querySelectorAll("#halt button, #keys button, .pad, #grips button")]
    .map((each, index) => [each.dataset.what || each.id || index, each.getBoundingClientRect()])
    .map(([name, box]) => [name, [box.x, box.y, box.width, box.height].map(Math.round)]))"""


KEEP = """(kept_ms) => new Promise((done) => {
    const say = (kind) => document.querySelector("[data-what=clear_stop]").dispatchEvent(new PointerEvent(kind));
    say("pointerdown");
    setTimeout(() => { say("pointerup"); done(); }, kept_ms);
})"""
"""Keeps the button pressed by the page's own clock, however late the test is."""


class FrozenServer:
    """A page's server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told = folder / "told.txt"
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = ("-m", "tests.console.page_process", str(self._folder), str(self.port))
        with self._told.open("w") as told:
            self.process = subprocess.Popen([sys.executable, *words], stdout=told)
        until(self._told.read_text, "the address", wait_ms=60_000)
        self.url = self._told.read_text().split()[0]
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def asked(self) -> list[str]:
        """What it was asked for since its start."""
        return self._told.read_text().split()[1:]

    def freeze(self) -> None:
        """Stop it; returns when all its threads stand, which on a busy machine takes a while."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def server(tmp_path) -> Iterator[FrozenServer]:
    frozen = FrozenServer(tmp_path)
    try:
        frozen.start()
        yield frozen
    finally:
        frozen.kill()


@pytest.fixture
def obedient(run, tmp_path) -> FakeCell:
    """A cell whose safety filter does at once what the page asks for."""
    return FakeCell(run, tmp_path, done=Obedient())


def test_a_server_that_stands_still_is_told_within_a_second_and_a_half(server, tab):
    page = tab(server.url)
    word(page, "POLICY IN CONTROL")
    page.evaluate(WATCH_MODE)
    page.wait_for_timeout(500)
    frozen_s = time.time()
    server.freeze()
    sync_api.expect(page.locator("body")).to_have_attribute("data-mode", "lost", timeout=10_000)
    mode, told_s = page.evaluate("window.changed")
    assert mode == "lost"
    assert told_s - frozen_s <= SAID_WITHIN_S
    word(page, "SERVER SILENT")
    says(page, "#do", "HOLD and STOP may not arrive")
    picture(page, "frozen")
    server.thaw()
    word(page, "POLICY IN CONTROL")


def test_a_server_that_stands_still_is_told_by_a_page_behind_another_tab_too(server, tab, browser):
    context = browser.new_context(viewport=WIDE)
    context.add_init_script(BEHIND)
    page = tab(server.url, context=context)
    word(page, "POLICY IN CONTROL")
    page.evaluate("window.turn(true)")
    page.wait_for_timeout(1500)
    word(page, "POLICY IN CONTROL")
    server.freeze()
    word(page, "SERVER SILENT")
    assert page.title().startswith("SERVER SILENT")
    server.thaw()
    word(page, "POLICY IN CONTROL")
    context.close()


def test_hold_and_stop_are_confirmed_or_said_not_to_be(server, tab):
    page = tab(server.url)
    word(page, "POLICY IN CONTROL")
    page.locator("[data-what=hold]").click()
    says(page, "[data-what=hold]", "confirmed")
    word(page, "HOLD")
    server.freeze()
    for what in ("hold", "stop"):
        page.locator(f"[data-what={what}]").click()
        says(page, f"[data-what={what}]", "NOT CONFIRMED")
    says(page, "#notice", "nobody knows whether it arrived")
    word(page, "SERVER SILENT")
    picture(page, "not_confirmed")
    page.keyboard.press("s")
    says(page, "#notice", "Not sent: the server does not answer.")
    server.thaw()
    word(page, "STOP")
    says(page, "[data-what=stop]", "confirmed")
    until(lambda: "stop" in server.asked(), "the stop", page)


def test_hold_on_a_gamepad_is_said_not_to_be_confirmed_by_a_silent_server(server, tab):
    page = tab(server.url)
    word(page, "POLICY IN CONTROL")
    page.evaluate(PAD)
    server.freeze()
    word(page, "SERVER SILENT")
    page.evaluate("window.hold([8])")
    says(page, "[data-what=hold]", "NOT CONFIRMED")
    page.evaluate("window.hold([])")
    server.thaw()
    says(page, "[data-what=hold]", "confirmed")
    until(lambda: "hold" in server.asked(), "the hold", page)


def test_a_stop_that_was_pressed_while_the_server_was_away_is_sent_to_the_next_one(server, tab):
    page = tab(server.url)
    word(page, "POLICY IN CONTROL")
    server.kill()
    word(page, "CONNECTION LOST")
    page.keyboard.press("Backspace")
    says(page, "[data-what=stop]", "NOT CONFIRMED")
    assert page.locator("#notice").is_visible()
    server.start()
    word(page, "STOP")
    says(page, "[data-what=stop]", "confirmed")
    notice = page.locator("#notice")
    assert not notice.is_visible() or "not confirmed" not in notice.text_content()  # which is no longer so


def test_a_press_is_not_confirmed_by_a_safety_process_that_does_not_obey(cell, url, tab):
    cell.mode(Mode.POLICY)
    page = tab(url)
    word(page, "POLICY IN CONTROL")
    page.locator("[data-what=stop]").click()
    until(lambda: cell.done.pressed == ["stop"], "the stop", page)
    says(page, "[data-what=stop]", "NOT CONFIRMED")
    cell.mode(Mode.STOP, "stop pressed (browser)")
    says(page, "[data-what=stop]", "confirmed")


def test_what_was_pressed_while_the_server_stood_still_counts_only_if_it_stops(server, tab):
    page = tab(server.url)
    word(page, "POLICY IN CONTROL")
    server.freeze()
    page.keyboard.press("r")  # before the page knows
    page.keyboard.press("Escape")
    page.wait_for_timeout(2000)
    server.thaw()
    says(page, "#notice", "server stood still for a moment")
    until(server.asked, "the hold, which came behind what was refused", page)
    assert server.asked() == ["hold"]


def test_what_waited_in_the_network_counts_only_if_it_stops(cell, tab):
    """Nothing tells the page in its first second that what it sends does not arrive."""
    with served(cell, token=TOKEN) as url:
        proxy = TcpProxy(url.removeprefix("http://").partition("/")[0])
        try:
            cell.mode(Mode.READY)
            page = tab(f"http://{proxy.address}/#{TOKEN}")
            word(page, "READY")
            says(page, "#seat", "you are the operator")
            proxy.mode = LATE
            page.keyboard.press("r")
            page.keyboard.press("Escape")
            page.wait_for_timeout(2500)
            assert cell.done.pressed == []
            proxy.mode = PASS
            until(lambda: cell.done.pressed, "the hold, which came behind what was refused", page)
            cell.mode(Mode.HOLD, "hold pressed on browser")
            says(page, "#notice", "what this page showed then is")
            assert cell.done.pressed == ["hold"]
        finally:
            proxy.close()


def test_stop_never_becomes_something_else_and_clearing_needs_a_second(obedient, tab):
    with served(obedient) as url:
        obedient.mode(Mode.POLICY)
        page = tab(url)
        stop = page.locator("[data-what=stop]")
        box = stop.bounding_box()
        at = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for _ in range(5):
            page.mouse.click(*at)
            page.wait_for_timeout(100)
        word(page, "STOP")
        assert stop.bounding_box() == box
        assert obedient.done.requested == []
        clear = page.locator("[data-what=clear_stop]")
        sync_api.expect(clear).to_be_enabled()
        for kept_ms in (0, 700):
            page.evaluate(KEEP, kept_ms)
        page.wait_for_timeout(800)
        assert obedient.done.requested == [], "too short"
        clear.focus()
        page.keyboard.down("Enter")
        page.wait_for_timeout(1300)
        page.keyboard.up("Enter")
        until(lambda: obedient.done.requested == ["clear_stop"], "the clearing", page)
        word(page, "DISARMED")
        page.wait_for_timeout(500)
        assert obedient.done.requested == ["clear_stop"], "nothing arms by itself"


def test_a_double_click_on_a_refusal_does_not_fail_the_episode_that_runs(obedient, tab):
    with served(obedient) as url:
        obedient.mode(Mode.POLICY)
        first = obedient.episode(41)
        obedient.ended()
        page = tab(url)
        obedient.claim()
        obedient.episode(42)
        says(page, "[data-what=failure]", "REFUSE 41")
        page.locator("[data-what=failure]").dblclick()
        says(page, f"li[data-id='{first}'] .said", "failure")
        page.wait_for_timeout(300)
        assert obedient.done.pressed == []


def test_a_verdict_is_on_the_episode_that_the_button_named(obedient, tab):
    """The claim is over, or the episode is, between the look and the click."""
    with served(obedient) as url:
        obedient.mode(Mode.POLICY)
        first = obedient.episode(41)
        page = tab(url)
        says(page, "[data-what=success]", "of episode 41")
        page.evaluate("""() => {
            window.send = WebSocket.prototype.send;
            WebSocket.prototype.send = function (text) {
                if (text.includes('"success"')) setTimeout(() => window.send.call(this, text), 700);
                else window.send.call(this, text);
            };
        }""")
        page.keyboard.press("s")
        obedient.ended()
        obedient.episode(42)
        says(page, f"li[data-id='{first}'] .said", "success")
        assert obedient.done.pressed == []


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_nothing_under_a_hand_moves_whatever_happens(obedient, tab, size):
    with served(obedient) as url:
        page = tab(url, viewport=size)
        lively(obedient)
        look(obedient, 90)
        obedient.mode(Mode.POLICY)
        says(page, "#seat", "you are the operator")
        page.wait_for_timeout(300)
        before = page.evaluate(BOXES)
        assert {"hold", "stop", "undo", "sit", "arm", "clear_stop", "failure"} <= set(before)

        def same(after_what: str) -> None:
            page.wait_for_timeout(250)
            assert page.evaluate(BOXES) == before, after_what

        for mode in Mode:
            obedient.mode(mode, "fr3/state is 412 ms old (limit 100); check the robot process, then resume " * 2)
            same(mode)
        obedient.episode(41)
        same("an episode")
        obedient.ended()
        obedient.claim()
        same("a claim")
        obedient.events("failure")
        says(page, "#undo", "failure")
        same("an offer to undo")
        with obedient.desk.locked():
            obedient.desk.heard.prompt = "pull the plug out, put the hand above the socket and wait " * 3
        obedient.mode(Mode.READY)
        same("a prompt")
        obedient.server.notice("arm refused: the deadman is held, must be released; let go first " * 3)
        says(page, "#notice", "arm refused")
        same("a notice")
        other = tab(url)
        other.get_by_role("button", name="become the operator").click()
        says(page, "#seat", "you watch")
        same("a lost desk")
        with obedient.desk.locked():
            obedient.desk.heard.cameras["wrist"].frame(1, time.monotonic_ns())
        page.wait_for_timeout(600)
        same("a camera that is too old")
        with obedient.desk.locked():
            obedient.desk.heard.rows(trained(30))
        says(page, "#learned", "last 20 of 30")
        same("curves of learning")


def test_a_row_of_the_list_stays_under_the_hand_when_an_episode_begins(cell, url, tab):
    for number in range(1, 4):
        cell.episode(number)
        cell.ended()
    page = tab(url)
    button = page.get_by_label("episode 3 was: success")
    button.hover()
    box = button.bounding_box()
    cell.episode(4)
    says(page, "#episode", "episode 4")
    page.wait_for_timeout(500)
    assert button.bounding_box() == box
    page.mouse.move(5, 300)
    says(page, "#list", "running")


def test_a_wrong_token_asks_for_one_and_says_where_it_is(cell, tab):
    with served(cell, token=TOKEN) as url:
        cell.mode(Mode.POLICY)
        address = url.partition("#")[0]
        for given in (TOKEN, url):
            page = tab(f"{address}#wrong")
            word(page, "TOKEN NEEDED")
            says(page, "#why", "token is wrong")
            says(page, "#gate", "console.token")
            picture(page, "token")
            page.get_by_label("Token").fill("wrong again")
            page.keyboard.press("Enter")
            word(page, "TOKEN NEEDED")
            page.get_by_label("Token").fill(given)
            page.keyboard.press("Enter")
            word(page, "POLICY IN CONTROL")
            sync_api.expect(page.locator("#gate")).to_be_hidden()
            assert cell.done.pressed == []
        page = tab(f"{address}#wrong")
        word(page, "TOKEN NEEDED")
        page.goto(url)  # pasted into the same tab: the browser loads nothing anew
        word(page, "POLICY IN CONTROL")


def test_an_emergency_stop_that_is_not_wired_is_never_called_released(cell, url, tab):
    page = tab(url)
    for mode in (Mode.POLICY, Mode.STOP):
        with cell.desk.locked():
            cell.desk.heard.facts.estop = mode is Mode.STOP
        cell.mode(mode, "stop pressed (browser)")
        says(page, "#estop", "e-stop: none wired to this computer" + ("; STOP is latched" if mode is Mode.STOP else ""))


def test_a_run_that_ends_says_how_and_keeps_its_report(cell, tab, tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<h1>19 of 20</h1>")
    with served(cell, report=report) as url:
        cell.mode(Mode.READY)
        page = tab(url)
        word(page, "READY")
        steps = [
            (Stage(name=StageName.CLOSING, text="online training is over"), "THE CELL STOPS", "over"),
            (Stage(name=StageName.EVALUATING, text="20 held-out resets", share=0.4), "EVALUATION", "over"),
            (Stage(name=StageName.ENDED, text="the report is runs/sim/report.html", result=("policy: 19 of 20",),
                   next_step="robot-stack eval sim --episodes 20"), "RUN ENDED", "ended"),
        ]  # fmt: skip
        for stage, words, mode in steps:
            with cell.desk.locked():
                cell.desk.heard.stage = stage
            cell.tell()
            word(page, words)
            sync_api.expect(page.locator("body")).to_have_attribute("data-mode", mode)
            picture(page, f"stage_{stage.name}")
        sync_api.expect(page.locator("#report")).to_be_visible()
        cell.server.farewell(farewell(stage))
        page.wait_for_timeout(300)
    page.wait_for_timeout(2500)
    word(page, "RUN ENDED")
    says(page, "#why", "Policy: 19 of 20.")
    says(page, "#do", "robot-stack eval sim")
    with page.expect_download() as download:
        page.locator("#report").click()
    assert download.value.path().read_text() == report.read_text()
    picture(page, "ended")


@pytest.mark.parametrize("stage", [StageName.CLOSING, StageName.ENDED], ids=["of_a_dry_run", "of_a_real_cell"])
def test_while_the_cell_stops_a_stop_is_confirmed_or_in_doubt(cell, tab, stage):
    """The process that holds the arms ends last: until then a press may matter, whatever the run says of itself."""
    with served(cell) as url:
        cell.mode(Mode.READY)
        page = tab(url)
        word(page, "READY")
        with cell.desk.locked():
            cell.desk.heard.stage = Stage(name=stage, text="it is over")
        cell.tell()
        word(page, "THE CELL STOPS" if stage is StageName.CLOSING else "RUN ENDED")
        page.keyboard.press("Backspace")
        says(page, "[data-what=stop]", "NOT CONFIRMED")
        cell.mode(Mode.STOP, "stop pressed (browser)")
        says(page, "[data-what=stop]", "confirmed")
        cell.mode(Mode.READY)
        page.keyboard.press("Backspace")
        says(page, "[data-what=stop]", "NOT CONFIRMED")
        cell.safety_ends()
        sync_api.expect(page.locator("[data-what=stop]")).not_to_contain_text("CONFIRMED")
        assert cell.done.pressed == ["stop", "stop"]


def test_when_the_cell_has_stopped_a_hold_is_no_more_in_doubt(cell, tab):
    with served(cell) as url:
        cell.mode(Mode.READY)
        page = tab(url)
        word(page, "READY")
        page.keyboard.press("Escape")
        says(page, "#hold", "NOT CONFIRMED")
        says(page, "#notice", "HOLD is not confirmed")
        with cell.desk.locked():
            cell.desk.heard.stage = Stage(name=StageName.EVALUATING, text="20 held-out resets", share=0.4)
        cell.safety_ends()
        word(page, "EVALUATION")
        sync_api.expect(page.locator("#hold")).not_to_contain_text("CONFIRMED")
        sync_api.expect(page.locator("#notice")).to_be_hidden()
        page.keyboard.press("Escape")
        page.wait_for_timeout(2000)
        sync_api.expect(page.locator("#hold")).not_to_contain_text("CONFIRMED")
        assert cell.done.pressed.count("hold") == 2, "it is sent all the same"


CONTRAST = """() => {
    const parse = (text) => { const v = text.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const paper = (element) => {
        for (let each = element; each; each = each.parentElement) {
            const colour = parse(getComputedStyle(each).backgroundColor);
            if (colour[3] === 1) return colour;
        }
        return [255, 255, 255, 1];
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let count = 0;
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.textContent.trim() || element.closest(":disabled, .away, [hidden], script")) continue;
        if (!element.checkVisibility()) continue;
        count += 1;
        const [ink, ground] = [light(parse(getComputedStyle(element).color)), light(paper(element))];
        const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        if (ratio < 4.5) low.push([element.tagName, element.id, walker.currentNode.textContent.slice(0, 30), ratio]);
    }
    return [count, low];
}"""


@every_look
def test_all_text_has_contrast_by_day_and_by_night(obedient, tab, scheme, size):
    with served(obedient) as url:
        lively(obedient)
        page = tab(url, viewport=size, color_scheme=scheme)
        obedient.mode(Mode.POLICY)
        first = obedient.episode(41)
        for index in range(30):
            obedient.score(first, index, index / 30, index / 40)
        look(obedient, 90)
        obedient.ended()
        obedient.claim()
        obedient.episode(42)
        obedient.events("success")
        obedient.diagnosis("safety: inputs", "the desk button is silent", 2)
        says(page, "#undo", "success")
        obedient.server.notice("arm refused: the deadman is held")
        says(page, "#notice", "arm refused")
        for mode in Mode:
            obedient.mode(mode, "camera wrist silent for 412 ms (limit 200)")
            sync_api.expect(page.locator("body")).to_have_attribute("data-mode", mode.value.lower())
            count, low = page.evaluate(CONTRAST)
            assert count > 40
            assert not low, (mode, low)
            picture(page, f"{'phone' if size is PHONE else 'wide'}_{scheme}_{mode.value.lower()}")
        for stage in StageName:
            with obedient.desk.locked():
                obedient.desk.heard.stage = Stage(name=stage, text="online training is over")
            obedient.tell()
            word(page, {"closing": "THE CELL STOPS", "cloning": "TRAINING IS OVER", "evaluating": "EVALUATION",
                        "report": "REPORT", "ended": "RUN ENDED", "failed": "RUN FAILED"}[stage])  # fmt: skip
            count, low = page.evaluate(CONTRAST)
            assert not low, (stage, low)


@every_look
def test_the_rules_of_axe_find_nothing_at_the_gate_with_a_request_and_at_the_end(tmp_path, tab, scheme, size):
    asking = FakeCell(sim_run("run.asking={}"), tmp_path)
    with served(asking, token=TOKEN) as url:
        asking.mode(Mode.POLICY)
        page = tab(f"{url.partition('#')[0]}#wrong", viewport=size, color_scheme=scheme)
        word(page, "TOKEN NEEDED")
        axe_finds_nothing(page)
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        word(page, "POLICY IN CONTROL")
        asking.episode(12)
        asking.asks(STUCK)
        word(page, "HELP WANTED")
        axe_finds_nothing(page)
        with asking.desk.locked():
            asking.desk.heard.stage = Stage(
                name=StageName.ENDED, text="it is over", result=("all",), next_step="report"
            )
        asking.tell()
        word(page, "RUN ENDED")
        axe_finds_nothing(page)
        picture(page, f"{'phone' if size is PHONE else 'wide'}_{scheme}_ended")


@every_look
def test_the_rules_of_axe_find_nothing_once_the_page_has_lost_its_server(tmp_path, tab, scheme, size):
    alone = FakeCell(sim_run(), tmp_path)
    with served(alone) as url:
        lively(alone)
        page = tab(url, viewport=size, color_scheme=scheme)
        alone.mode(Mode.POLICY)
        word(page, "POLICY IN CONTROL")
    word(page, "CONNECTION LOST")
    axe_finds_nothing(page)


@every_look
def test_the_rules_of_axe_find_nothing(obedient, tab, scheme, size):
    with served(obedient) as url:
        lively(obedient)
        page = tab(url, viewport=size, color_scheme=scheme)
        obedient.mode(Mode.POLICY)
        obedient.episode(41)
        obedient.ended()
        obedient.claim()
        says(page, "[data-what=failure]", "REFUSE 41")
        obedient.mode(Mode.STOP, "stop pressed (browser)")
        word(page, "STOP")
        axe_finds_nothing(page)
