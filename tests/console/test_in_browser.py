"""The page in a real browser, in front of a real server and a synthetic cell.

Bounds are generous: a busy machine makes a page late, never wrong.
"""

from __future__ import annotations

import re
import time

import cv2
import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.disk.jsonl import mapping, read_jsonl
from robot_stack.teleop.page import PRESSED
from robot_stack.types.command import Mode
from robot_stack.types.event import Verdict
from tests.console.browser_rig import (
    PAD,
    PHONE,
    keep,
    lively,
    look,
    needs_chromium,
    picture,
    says,
    sync_api,
    until,
    word,
)
from tests.console.page_rig import FakeCell, served
from tests.console.test_rights import real_run
from tests.faults.tcp_proxy import SLOW, TcpProxy

pytestmark = needs_chromium

PIXEL = "document.querySelector('.camera canvas').getContext('2d').getImageData(60, 4, 1, 1).data[0]"


def test_a_person_spends_a_session_at_the_page(cell, url, tab, tmp_path):
    lively(cell)
    page = tab(url)
    word(page, "NO WORD FROM THE CELL")
    cell.mode(Mode.DISARMED)
    word(page, "DISARMED")
    says(page, "#do", "press 'arm / resume' (ENTER)")
    page.keyboard.press("Enter")
    until(lambda: cell.done.requested == ["arm"], "the arm key", page)

    cell.mode(Mode.READY)
    first = cell.episode(41)
    cell.mode(Mode.POLICY)
    word(page, "POLICY IN CONTROL")
    says(page, "#episode", "peg_insert · online training, episode 41")
    for index in range(12):
        cell.score(first, index, index / 12, index / 20)
        look(cell, 20 * index)
    says(page, "#phi", "0.92")
    until(lambda: page.evaluate(PIXEL) > 180, "the policy's image", page)
    says(page, ".camera >> nth=0", "policy sees 64×64: all of it of 192×192")

    page.keyboard.down(" ")
    until(lambda: cell.done.driving, "the hand", page)
    cell.mode(Mode.HUMAN)
    word(page, "HUMAN IN CONTROL")
    page.keyboard.down("i")
    until(lambda: cell.done.moves[-1].axes[0] == 1.0, "the steering", page)
    page.keyboard.down("Shift")
    until(lambda: cell.done.moves[-1].axes[0] == 0.25, "the fine speed", page)
    page.keyboard.up("Shift")
    until(lambda: cell.done.moves[-1].axes[0] == 1.0, "the full speed again", page)
    says(page, "#why", "You drive: a correction.")
    picture(page, "driving")
    page.keyboard.up("i")
    page.keyboard.up(" ")
    until(lambda: not cell.done.driving and not cell.done.gone, "letting go", page)
    cell.mode(Mode.POLICY)

    cell.ended()
    cell.claim()
    says(page, "#do", "The model says success")
    says(page, "[data-what=failure]", "REFUSE 41")
    page.keyboard.press("f")
    says(page, f"li[data-id='{first}'] .said", "failure")
    says(page, "#undo", "41: failure")
    assert cell.desk.heard.verdicts.counts(first).verdict is Verdict.FAILURE
    page.get_by_role("button", name=re.compile("^undo")).click()
    says(page, f"li[data-id='{first}'] .said", "success")

    cell.episode(42)
    cell.mode(Mode.POLICY)
    page.keyboard.press("Escape")
    until(lambda: cell.done.pressed[-1] == "hold", "the hold", page)
    cell.mode(Mode.HOLD, "hold pressed on browser (since 12:00:00)")
    word(page, "HOLD")
    picture(page, "hold")
    cell.mode(Mode.POLICY)
    page.keyboard.press("s")
    until(lambda: cell.done.pressed[-1] == "success", "the label", page)
    cell.events("success")
    cell.ended(resetting=True)
    with cell.desk.locked():
        cell.desk.heard.prompt = "place the peg"
    cell.mode(Mode.READY)
    says(page, "#do", "Place the peg. Then press 'reset done' (R).")
    page.keyboard.press("r")
    until(lambda: cell.done.pressed[-1] == "reset_done", "the reset", page)

    note = page.get_by_label("note on episode 41")
    note.fill("s f d r: only words here")
    note.press("Tab")
    until(lambda: cell.journal.notes().get(first) == "s f d r: only words here", "the note", page)
    page.get_by_label("episode 41 was: discard").click()
    says(page, f"li[data-id='{first}'] .said", "discard")
    says(page, f"li[data-id='{first}']", "on its way to the store")
    said = read_jsonl(tmp_path / "console" / "labels.jsonl", mapping).rows
    assert [row["verdict"] for row in said if "verdict" in row][-1] == "discard"
    cell.mode(Mode.STOP, "stop pressed (gamepad)")
    word(page, "STOP")
    keep(page, "clear_stop", 1300)
    until(lambda: cell.done.requested == ["arm", "clear_stop"], "the request", page)
    assert cell.done.pressed == ["failure", "hold", "success", "reset_done"]
    picture(page, "stop")


def test_an_episode_is_shown_with_its_pictures(run, tmp_path, tab):
    cell = FakeCell(run, tmp_path, {"000007-online-actor"})
    jpeg = cv2.imencode(".jpg", np.full((96, 196, 3), 90, np.uint8))[1].tobytes()
    asked: list[str] = []

    def get(episode_id: str) -> bytes:
        asked.append(episode_id)
        return jpeg

    for token in ("", "a-token-of-enough-characters"):
        with served(cell, token=token, picture=get) as url:
            name = cell.episode(7)
            cell.ended()
            page = tab(url)
            image = page.get_by_alt_text("first and last look at episode 7")
            until(lambda image=image: image.count() and image.evaluate("each => each.naturalWidth") == 196, "it", page)
    assert asked == [name, name]


def test_two_tabs_one_writes_and_one_watches(cell, url, tab):
    cell.mode(Mode.POLICY)
    first, second = tab(url), tab(url)
    says(first, "#seat", "you are the operator, 2 pages open")
    says(second, "#seat", "you watch")
    sync_api.expect(second.locator("[data-what=arm]")).to_be_disabled()
    sync_api.expect(second.locator("[data-what=hold]")).to_be_enabled()
    second.keyboard.press("s")
    says(second, "#notice", "this page watches, must be the operator's")
    second.keyboard.press("Escape")
    until(lambda: cell.done.pressed == ["hold"], "anybody's hold", first)
    second.keyboard.down(" ")
    second.wait_for_timeout(200)
    assert not cell.done.driving
    second.keyboard.up(" ")
    picture(second, "watcher")
    second.get_by_role("button", name="become the operator").click()
    says(second, "#seat", "you are the operator")
    says(first, "#seat", "you watch")


def test_what_is_tapped_while_nobody_takes_it_is_forgotten(cell, url, tab):
    cell.mode(Mode.POLICY)
    first, second = tab(url), tab(url)
    says(first, "#seat", "you are the operator, 2 pages open")
    says(second, "#seat", "you watch")
    for key in ("c", " "):
        second.keyboard.press(key)
    second.get_by_role("button", name="become the operator").click()
    says(second, "#seat", "you are the operator")
    begun = len(cell.done.moves)
    until(lambda: len(cell.done.moves) > begun + 5, "what the second page says", second)
    assert not any(packet.buttons[PRESSED.index("gripper_close")] for packet in cell.done.moves)
    first.get_by_role("button", name="become the operator").click()
    says(first, "#seat", "you are the operator")
    first.keyboard.press("c")
    closing = PRESSED.index("gripper_close")
    until(lambda: any(packet.buttons[closing] for packet in cell.done.moves), "a tap that is taken", first)


def test_a_key_that_shift_renames_is_let_go_of_all_the_same(cell, run, tab, monkeypatch):
    """A driving key that is no letter: Shift comes while it is down, and its name is another when it goes up."""
    monkeypatch.setattr(type(cell.desk), "welcome", with_key(type(cell.desk).welcome, "x+", ","))
    cell.mode(Mode.POLICY)
    with served(cell) as url:
        page = tab(url)
        word(page, "POLICY IN CONTROL")
        page.keyboard.down(" ")
        page.keyboard.down(",")
        until(lambda: cell.done.driving and cell.done.moves[-1].axes[0] == 1.0, "the steering", page)
        page.keyboard.down("Shift")
        until(lambda: cell.done.moves[-1].axes[0] == 0.25, "the fine speed", page)
        page.evaluate("""() => dispatchEvent(
            new KeyboardEvent("keyup", { key: "<", code: "Comma", shiftKey: true, bubbles: true }))""")
        until(lambda: cell.done.moves[-1].axes[0] == 0.0, "the rest", page)


def with_key(welcome, action, key):
    """Let the key table of a page have another key."""
    return lambda self: {**(said := welcome(self)), "keys": {**said["keys"], action: key}}


def test_a_tab_that_is_copied_takes_its_place_and_the_old_one_says_so(url, tab):
    old = tab(url)
    says(old, "#seat", "you are the operator")
    name = old.evaluate("sessionStorage.getItem('page')")
    copy = tab(url, context=old.context)
    copy.evaluate(f"sessionStorage.setItem('page', {name!r})")
    copy.reload()
    says(copy, "#seat", "you are the operator")
    word(old, "THIS PAGE IS CLOSED")
    says(old, "#why", "has been opened again")


def test_a_lost_server_is_seen_and_found_again(cell, tab):
    cell.mode(Mode.POLICY)
    with served(cell) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        page = tab(url)
        word(page, "POLICY IN CONTROL")
        page.keyboard.down(" ")
        until(lambda: cell.done.driving, "the hand", page)
    assert cell.done.gone, "the arm holds"
    word(page, "CONNECTION LOST")
    says(page, "#why", "What is shown below is old")
    picture(page, "lost")
    page.keyboard.up(" ")
    cell.mode(Mode.HOLD, "teleop device is lost while in control")
    with served(cell, port=port):
        word(page, "HOLD")
        says(page, "#seat", "you are the operator")


def test_a_note_that_is_refused_keeps_its_words_in_the_field(cell, url, tab):
    name = cell.episode(7)
    cell.ended()
    page = tab(url)
    note = page.get_by_label("note on episode 7")
    note.fill("stuck \x1b left")
    note.press("Tab")
    says(page, "#notice", "without '\\x1b'; leave that out")
    page.locator(f"li[data-id='{name}'] .say button").first.click()
    says(page, f"li[data-id='{name}']", "by an operator")
    sync_api.expect(note).to_have_value("stuck \x1b left")
    note.fill("stuck\u3000left")
    note.press("Tab")
    until(lambda: cell.journal.notes() == {name: "stuck\u3000left"}, "the note", page)


def test_a_note_that_is_written_while_the_server_is_away_is_kept_once_it_is_back(cell, tab):
    name = cell.episode(7)
    cell.ended()
    with served(cell) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        page = tab(url)
        note = page.get_by_label("note on episode 7")
        note.fill("before")
        note.press("Tab")
        until(lambda: cell.journal.notes() == {name: "before"}, "the first note", page)
    word(page, "CONNECTION LOST")
    note.fill("slipped")
    note.press("Tab")
    says(page, "#notice", "The note is not sent yet")
    assert cell.journal.notes() == {name: "before"}
    with served(cell, port=port):
        until(lambda: cell.journal.notes() == {name: "slipped"}, "the note", page)
        sync_api.expect(note).to_have_value("slipped")
        page.get_by_role("button", name="episode 7 was: success").click()
        says(page, f"li[data-id='{name}'] .said", "success")
    word(page, "CONNECTION LOST")
    with cell.desk.locked():
        cell.desk.heard.episodes.note(name, "by another page")
    with served(cell, port=port):
        sync_api.expect(note).to_have_value("by another page")  # what was kept is not sent again
        page.wait_for_timeout(300)
        assert cell.journal.notes() == {name: "slipped"}


def test_a_verdict_of_the_list_that_cannot_be_sent_is_told(cell, tab):
    cell.episode(7)
    cell.ended()
    with served(cell) as url:
        page = tab(url)
        says(page, "#seat", "you are the operator")
    word(page, "CONNECTION LOST")
    page.get_by_label("episode 7 was: success").press("Enter")
    says(page, "#notice", "Not sent: the server does not answer.")


def test_over_a_slow_network_the_page_shows_less_and_never_old(cell, tab, monkeypatch):
    """600 kB a second are seen, 40 kB pass: sent as they come they would be 45 s behind after these three."""
    monkeypatch.setattr("tests.faults.tcp_proxy.SLOW_BYTES_S", 40_000)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    jpeg = cv2.imencode(".jpg", noise)[1].tobytes()
    assert len(jpeg) > 5000
    with served(cell, token="a-token-of-enough-characters") as url:
        proxy = TcpProxy(url.removeprefix("http://").partition("/")[0])
        try:
            page = tab(f"http://{proxy.address}/#a-token-of-enough-characters")
            says(page, "#seat", "you are the operator")
            proxy.mode = SLOW
            begun_s = time.monotonic()
            while time.monotonic() - begun_s < 3.0:
                for camera in cell.run.cameras:
                    cell.frame(camera, noise, jpeg)
                cell.mode(Mode.HOLD, f"reason {time.monotonic()}")
                page.wait_for_timeout(20)
            cell.mode(Mode.HOLD, "the newest reason")
            begun_s = time.monotonic()
            says(page, "#why", "The newest reason.")
            assert time.monotonic() - begun_s < 12.0
        finally:
            proxy.close()


def test_keyboard_only(cell, url, tab):
    cell.mode(Mode.POLICY)
    cell.episode(7)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.what") == "discard":
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(outline.removesuffix("px")) >= 3, "the focus is seen"
    page.keyboard.press("Enter")
    until(lambda: cell.done.pressed == ["discard"], "Enter on a button", page)
    page.keyboard.down(" ")
    until(lambda: cell.done.driving, "space drives, also with a button in focus", page)
    page.keyboard.up(" ")
    until(lambda: not cell.done.driving, "letting go", page)
    page.wait_for_timeout(150)
    assert cell.done.pressed == ["discard"], "and clicks nothing"
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim() + document.activeElement.tagName"))
    assert any("copy all" in text for text in reached), "the last button is reached"


def test_space_presses_no_button_whatever_the_page_may_drive(tmp_path, tab):
    cell = FakeCell(real_run(), tmp_path)
    with served(cell) as url:
        cell.mode(Mode.POLICY)
        cell.episode(1)
        page = tab(url)
        says(page, "#seat", "you are the operator")
        page.locator("#keys [data-what=discard]").focus()
        page.keyboard.press(" ")
        page.keyboard.press("Control+ ")
        for _ in range(3):  # kept down, it repeats
            page.keyboard.down(" ")
        page.keyboard.up(" ")
        page.keyboard.press("Escape")
        until(lambda: "hold" in cell.done.pressed, "the hold, which comes last", page)
        assert cell.done.pressed == ["hold"]


def test_esc_holds_also_in_the_middle_of_a_word(cell, url, tab):
    cell.mode(Mode.POLICY)
    cell.episode(7)
    cell.ended()
    page = tab(url)
    note = page.get_by_label("note on episode 7")
    note.type("sfdr ")
    note.press("Escape")
    until(lambda: cell.done.pressed == ["hold"], "the hold and nothing else", page)


def test_esc_while_driving_holds_and_lets_go(cell, url, tab):
    cell.mode(Mode.HUMAN)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.keyboard.down(" ")
    until(lambda: cell.done.driving, "the hand", page)
    page.keyboard.press("Escape")
    until(lambda: cell.done.pressed == ["hold"] and not cell.done.driving, "the hold", page)
    page.wait_for_timeout(200)
    assert not any(packet.buttons[-1] for packet in cell.done.moves), "a hold, not a loss"
    assert not cell.done.driving, "space is still down, and must be pressed anew"


def test_a_window_that_loses_the_keys_while_it_drives_is_a_lost_hand(cell, url, tab):
    cell.mode(Mode.HUMAN)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.keyboard.down(" ")
    until(lambda: cell.done.driving, "the hand", page)
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    until(lambda: any(packet.buttons[-1] for packet in cell.done.moves), "the loss", page)
    page.wait_for_timeout(150)
    assert not cell.done.driving, "until it is pressed anew"
    page.keyboard.up(" ")
    page.keyboard.down(" ")
    until(lambda: cell.done.driving, "a new press", page)
    page.keyboard.up(" ")


def test_a_phone_shows_all_of_it_without_scrolling_sideways_and_its_pad_drives(cell, url, tab):
    lively(cell)
    cell.mode(Mode.POLICY)
    first = cell.episode(3)
    cell.ended()
    cell.episode(4)
    page = tab(url, has_touch=True, is_mobile=True)
    page.set_viewport_size(PHONE)
    says(page, f"li[data-id='{first}']", "online training")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for button in page.locator("#keys button:visible, #halt button").all():
        box = button.bounding_box()
        assert box["height"] >= 44
        assert box["width"] >= 44
    pad = page.locator(".pad").first
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    page.evaluate("""([x, y]) => {
        const pad = document.elementFromPoint(x, y).closest('.pad');
        pad.setPointerCapture = () => {};
        const send = (kind, dy) => pad.dispatchEvent(new PointerEvent(kind, {
            pointerId: 7, clientX: x, clientY: y + dy, bubbles: true }));
        send('pointerdown', 0); send('pointermove', -400);
        window.letGo = () => send('pointerup', -400);
    }""", [box["x"] + 40, box["y"] + 40])  # fmt: skip
    until(lambda: cell.done.driving and cell.done.moves[-1].axes[0] == 1.0, "away from the operator", page)
    picture(page, "phone")
    page.evaluate("window.letGo()")
    until(lambda: not cell.done.driving, "letting go", page)


def test_command_pressed_over_a_held_key_loses_the_hand(cell, url, tab):
    """No browser on a Mac tells that a key is let go of while Command is down."""
    cell.mode(Mode.HUMAN)
    cell.episode(4)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    for key in ("Space", "i"):
        page.keyboard.down(key)
    until(lambda: cell.done.driving and cell.done.moves[-1].axes[0] == 1.0, "the keys", page)
    page.keyboard.down("Meta")
    until(lambda: any(packet.buttons[-1] for packet in cell.done.moves), "the loss", page)
    page.keyboard.up("Meta")
    before = len(cell.done.moves)
    until(lambda: len(cell.done.moves) > before + 3, "more of the hand", page)
    assert not cell.done.driving
    assert cell.done.moves[-1].axes[0] == 0.0


def test_a_gamepad_drives_while_its_button_is_held(cell, url, tab):
    cell.mode(Mode.POLICY)
    cell.episode(4)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.evaluate("""() => {
        window.pad = { index: 0, connected: true, mapping: 'standard', axes: [0, -1, 0.5, 0],
            buttons: Array.from({ length: 17 }, () => ({ pressed: false })) };
        navigator.getGamepads = () => [window.pad];
    }""")
    page.evaluate("window.pad.buttons[2].pressed = true")
    until(lambda: cell.done.pressed == ["success"], "the left face button", page)
    assert not cell.done.driving
    for index, place, action in ((0, "lower", "reset_done"), (1, "right", "failure"), (3, "upper", "discard")):
        page.evaluate("(index) => { window.pad.buttons[index].pressed = true; }", index)
        until(lambda said=action: cell.done.pressed[-1] == said, f"the {place} face button", page)
    cell.done.pressed[1:] = []
    page.evaluate("window.pad.buttons[4].pressed = true")
    until(lambda: cell.done.driving and list(cell.done.moves[-1].axes) == [1, 0, 0, 0, 0, -0.5], "the sticks", page)
    page.evaluate("window.pad.buttons[4].pressed = false")
    until(lambda: not cell.done.driving, "letting go", page)
    assert cell.done.pressed == ["success"], "held down it is one press"


def test_hold_and_stop_of_a_gamepad_count_at_a_page_that_watches_and_nothing_else_does(cell, url, tab):
    cell.mode(Mode.POLICY)
    cell.episode(4)
    first, second = tab(url), tab(url)
    says(first, "#seat", "you are the operator")
    says(second, "#seat", "you watch")
    second.evaluate(PAD)
    for button, pressed in (("2", []), ("4", []), ("8", ["hold"]), ("16", ["hold", "stop"])):
        second.evaluate(f"window.hold([{button}])")
        second.wait_for_timeout(200)
        until(lambda said=pressed: cell.done.pressed == said, f"button {button}", second)
        says(second, "#hold small", "sent" if "hold" in pressed else "")
        second.evaluate("window.hold([])")
        second.wait_for_timeout(100)
    sync_api.expect(second.locator("#notice")).to_be_hidden()
    assert not cell.done.driving


def test_a_button_that_was_held_as_the_page_became_the_operators_is_no_press(cell, url, tab):
    cell.mode(Mode.POLICY)
    cell.episode(4)
    first, second = tab(url), tab(url)
    says(first, "#seat", "you are the operator")
    says(second, "#seat", "you watch")
    second.evaluate(PAD)
    second.evaluate("window.hold([2])")
    second.wait_for_timeout(200)
    second.locator("#sit").click()
    says(second, "#seat", "you are the operator")
    second.wait_for_timeout(200)
    assert cell.done.pressed == []
    second.evaluate("window.hold([])")
    second.wait_for_timeout(200)
    second.evaluate("window.hold([2])")
    until(lambda: cell.done.pressed == ["success"], "a new press", second)


def test_a_gamepad_that_the_browser_does_not_know_is_told_of(cell, url, tab):
    cell.mode(Mode.POLICY)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.evaluate(PAD)
    page.evaluate("window.hold([8], '')")
    says(page, "#notice", "none of its buttons counts here")
    assert cell.done.pressed == []


def test_a_gamepad_that_is_unplugged_while_it_drives_is_a_lost_hand(cell, url, tab):
    cell.mode(Mode.HUMAN)
    cell.episode(4)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.evaluate("""() => {
        const button = (index) => ({ pressed: index === 4 });
        window.pad = { index: 0, connected: true, mapping: 'standard', axes: [0, -1, 0, 0],
            buttons: Array.from({ length: 17 }, (_, index) => button(index)) };
        navigator.getGamepads = () => [window.pad];
    }""")
    until(lambda: cell.done.driving, "the hand", page)
    page.evaluate("window.pad = null")
    until(lambda: not cell.done.driving, "nothing is held any more", page)
    until(lambda: any(packet.buttons[-1] for packet in cell.done.moves), "the loss", page)


def test_of_two_gamepads_the_one_that_drives_is_missed_when_it_is_unplugged(cell, url, tab):
    """The other one is connected and let go: that is no word of whoever drove with the first."""
    cell.mode(Mode.HUMAN)
    cell.episode(4)
    page = tab(url)
    says(page, "#seat", "you are the operator")
    page.evaluate("""() => {
        const pad = (index, held) => ({ index, connected: true, mapping: 'standard', axes: [0, -1, 0, 0],
            buttons: Array.from({ length: 17 }, (_, button) => ({ pressed: held && button === 4 })) });
        window.pads = [pad(0, true), pad(1, false)];
        navigator.getGamepads = () => window.pads;
    }""")
    until(lambda: cell.done.driving, "the hand", page)
    page.evaluate("window.pads[0] = null")
    until(lambda: not cell.done.driving, "nothing is held any more", page)
    page.wait_for_timeout(150)
    assert any(packet.buttons[-1] for packet in cell.done.moves), "the loss"
    page.evaluate("window.pads[1].buttons[4].pressed = true")
    until(lambda: cell.done.driving, "the other one drives once it is held", page)


def test_on_a_real_cell_the_page_has_nothing_that_moves(tmp_path, tab):
    cell = FakeCell(real_run(), tmp_path)
    with served(cell) as url:
        cell.mode(Mode.POLICY)
        cell.episode(1)
        page = tab(url)
        says(page, "#do", "take the device")
        sync_api.expect(page.locator("#hand")).to_be_hidden()
        assert page.locator("[data-what=arm], [data-what=clear_stop]").count() == 0
        for key in (" ", "i", "Enter", "Tab"):
            page.keyboard.press(key)
        page.evaluate("""() => {
            const socket = new WebSocket(`ws://${location.host}/ws`);
            socket.onopen = () => {
                socket.send(JSON.stringify({ k: 'hello', token: '', page: 'rogue',
                    build: document.querySelector('meta[name=build]').content }));
                for (const what of ['arm', 'clear_stop']) socket.send(JSON.stringify({ k: 'press', what }));
                const hand = { t_ms: 1, axes: [1, 0, 0, 0, 0, 0], pressed: ['deadman'], live: true };
                socket.send(JSON.stringify({ k: 'move', ...hand }));
                socket.send(JSON.stringify({ k: 'press', what: 'hold' }));
            };
        }""")
        until(lambda: cell.done.pressed == ["hold"], "the hold, which comes last", page)
        assert cell.done.moves == []
        assert cell.done.requested == []
        picture(page, "real")


LUMINANCE = """(selector) => {
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const style = getComputedStyle(document.querySelector(selector));
    return [light(style.color), light(style.backgroundColor)];
}"""


def test_every_state_has_a_word_a_shape_and_contrast_of_its_own(cell, url, tab):
    page = tab(url)
    seen = []
    for mode in Mode:
        cell.mode(mode, "why")
        sync_api.expect(page.locator("body")).to_have_attribute("data-mode", mode.value.lower())
        ink, paper = page.evaluate(LUMINANCE, "#banner")
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5, mode
        seen.append((page.inner_text("#word"), page.locator("#shape").inner_html()))
        picture(page, f"mode_{mode.value.lower()}")
    assert len({words for words, _ in seen}) == len({shape for _, shape in seen}) == len(Mode)


@pytest.mark.parametrize("vision", ["deuteranopia", "protanopia", "tritanopia", "achromatopsia"])
def test_no_two_states_of_control_look_alike_to_any_eye(cell, url, tab, vision):
    """Colours as that eye sees them; without any colour the shapes and words must do, and lightness helps."""
    page = tab(url)
    eye = page.context.new_cdp_session(page)
    eye.send("Emulation.setEmulatedVisionDeficiency", {"type": vision})
    seen = {}
    for mode in (Mode.POLICY, Mode.HUMAN, Mode.HOLD, Mode.STOP, Mode.READY):
        cell.mode(mode, "why")
        sync_api.expect(page.locator("body")).to_have_attribute("data-mode", mode.value.lower())
        raw = page.screenshot(clip={"x": 600, "y": 4, "width": 4, "height": 4})
        seen[mode] = cv2.imdecode(np.frombuffer(raw, np.uint8), cv2.IMREAD_COLOR)[0, 0].astype(float)
    apart = {
        (one, other): float(np.linalg.norm(seen[one] - seen[other])) for one in seen for other in seen if one < other
    }
    least = 10.0 if vision == "achromatopsia" else 40.0
    assert min(apart.values()) >= least, apart


def test_the_token_opens_the_page_once_and_leaves_the_address(cell, tab):
    with served(cell, token="a-token-of-enough-characters") as url:
        cell.mode(Mode.POLICY)
        page = tab(url)
        word(page, "POLICY IN CONTROL")
        assert "token" not in page.url
        page.reload()
        word(page, "POLICY IN CONTROL")
        stranger = tab(url.partition("#")[0])
        word(stranger, "TOKEN NEEDED")
        says(stranger, "#why", "token is missing, must be the one printed with the page's address")


def test_everything_can_be_copied_in_one_go(cell, url, tab):
    lively(cell)
    cell.mode(Mode.HOLD, "camera wrist silent for 412 ms (limit 200)")
    page = tab(url, permissions=["clipboard-read", "clipboard-write"])
    word(page, "HOLD")
    page.get_by_role("button", name="copy all").click()
    says(page, "#notice", "copied")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("HOLD. Camera wrist silent for 412 ms (limit 200). The arm holds its pose.")
    assert "loop: 10 Hz" in text
    assert "Traceback" not in text


def test_several_arms_are_driven_one_after_the_other(tmp_path, tab):
    cell = FakeCell(load_run("two_arm_insert"), tmp_path)
    with served(cell) as url:
        cell.mode(Mode.POLICY)
        page = tab(url)
        says(page, "#seat", "you are the operator")
        button = page.get_by_role("button", name="next arm")
        button.focus()
        page.keyboard.press("Enter")
        until(lambda: any(packet.buttons[3] for packet in cell.done.moves), "the next arm", page)
        until(lambda: not cell.done.moves[-1].buttons[3], "once", page)
