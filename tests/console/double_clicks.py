"""What a double click on each button of the operator's page may do, and a page that writes down what was done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.console.browser_store import ALONE

RECORD = """
window.did = [];
window.downs = [];
window.under = [];
window.clicks = [];
window.enters = [];
window.made = [];
(() => {
    const did = (...words) => window.did.push(words.join(" "));
    const send = WebSocket.prototype.send;
    let held = [];
    WebSocket.prototype.send = function (text) {
        const said = JSON.parse(text);
        if (said.k === "move") {
            for (const what of said.pressed) if (!held.includes(what)) did("move", what);
            held = said.pressed;
        } else if (!["hello", "seen"].includes(said.k)) {
            const words = [said.k, said.what, said.verdict, said.episode, ...(said.cameras || [])];
            did(...words.filter((each) => each !== undefined));
        }
        return send.call(this, text);
    };
    const get = window.fetch;
    window.fetch = (address, ...rest) => {
        if (/^.api.episodes.[^/]*$/.test(address)) did("get", decodeURIComponent(address.split("/").at(-1)));
        return get(address, ...rest);
    };
    const make = document.createElement.bind(document);
    document.createElement = (tag, ...rest) => {
        if (tag === "button") window.made.push(new Error().stack.split("\\n")[2].match(/([^/]*\\.js:\\d+):\\d+/)[1]);
        return make(tag, ...rest);
    };
    addEventListener("pointerdown", (event) => {
        window.downs.push(performance.now());
        window.under.push(event.target);
    }, true);
    addEventListener("click", (event) => { if (event.detail) window.clicks.push(performance.now()); }, true);
    addEventListener("keydown", (event) => {
        if (event.key === "Enter") window.enters.push(performance.now());
    }, true);
    addEventListener("DOMContentLoaded", () => {
        const at = (id) => document.getElementById(id);
        const watch = (id, what, say) => {
            let before = what(at(id));
            new MutationObserver(() => {
                const now = what(at(id));
                if (now !== before) say(before, now);
                before = now;
            }).observe(at(id), { attributes: true, childList: true, characterData: true, subtree: true });
        };
        for (const id of ["playback", "gate"]) {
            watch(id, (each) => each.hidden, (_, now) => did(id, now ? "hidden" : "shown"));
        }
        watch("sound", (each) => each.getAttribute("aria-pressed"), (_, now) => did("sound", now));
        watch("play", (each) => each.getAttribute("aria-label"), (_, now) => did(now === "pause" ? "plays" : "stops"));
        watch("moment", (each) => Number((each.textContent.match(/frame (\\d+)/) || [0, 0])[1]), (before, now) => {
            if (at("play").getAttribute("aria-label") === "play") did(now < before ? "earlier" : "later");
        });
        const speeds = ["0.1×", "¼×", "½×", "1×", "2×", "4×", "8×"];
        const pace = (each) => speeds.indexOf(each.textContent);
        watch("speed", pace, (before, now) => did(now < before ? "slower" : "faster"));
        const write = navigator.clipboard.writeText.bind(navigator.clipboard);
        navigator.clipboard.writeText = (text) => { did("copy"); return write(text); };
    });
})();
"""
"""What a page says and shows goes to `did`, presses to `downs` and `clicks`, what was pressed to `under`, Enter keys to
`enters`, and the lines of code that make buttons to `made`."""
PLACE = """(find) => {
    const button = [...document.querySelectorAll(find)].find((each) => !each.disabled);
    if (!button || !button.checkVisibility({ visibilityProperty: true })) return null;
    button.scrollIntoView({ block: "center" });
    const { x, y, width, height } = button.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
}"""
BUTTONS = """(finds) => [...document.querySelectorAll(
    "button, [role=button], input:is([type=submit], [type=button], [type=reset], [type=image]), summary")]
    .map((each) => [each.outerHTML.slice(0, 120), each.checkVisibility({ visibilityProperty: true }),
                    finds.filter((find) => each.matches(find))])"""

NEVER, ONCE, EITHER, BOTH = (0, 0), (1, 1), (1, 2), (2, 2)
"""How often a double click does something: `EITHER` where twice is no more than once, or is wished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a double click on a button does.

    Attributes:
        find: Selector of the button.
        does: Pattern of what it does, as `RECORD` writes it.
        times: How often a double click may do it, least and most.
        also: Pattern of what may come with it.
        last: Pattern of the last of what it does, where that is another.
    """

    find: str
    does: str
    times: tuple[int, int] = ONCE
    also: str = "nothing else"
    last: str = ""

    def check(self, did: Sequence[str], times: tuple[int, float] | None = None) -> None:
        """Fail if something else was done, or the right thing too seldom or too often."""
        other = [each for each in did if not re.fullmatch(f"{self.does}|{self.also}", each)]
        assert not other, (self.find, did)
        least, most = self.times if times is None else times
        assert least <= self.count(did) <= most, (self.find, did)

    def count(self, did: Sequence[str]) -> int:
        """How often it was done."""
        return _count(self.does, did)

    def finished(self, did: Sequence[str]) -> bool:
        """Whether a first click has had its effect."""
        return self.times == NEVER or _count(self.last or self.does, did) > 0


def _count(pattern: str, did: Sequence[str]) -> int:
    return sum(re.fullmatch(pattern, each) is not None for each in did)


def key(what: str, does: str | None = None) -> Rule:
    """Of a button that has a key."""
    return Rule(find=f"#keys [data-what={what}]", does=f"press {what}" if does is None else does)


RUNNING = "000041-online-actor"
RULES = {
    "hold": Rule(find="#hold", does="press hold", times=BOTH),
    "stop": Rule(find="#stop", does="press stop", times=BOTH),
    "success": key("success", f"press success {RUNNING}"),
    "failure": key("failure", f"press failure {RUNNING}"),
    "discard": key("discard", f"press discard {RUNNING}"),
    "stage": key("stage"),
    "reset_done": key("reset_done"),
    "arm": key("arm"),
    "dismiss": key("dismiss"),
    "clear_stop": replace(key("clear_stop"), times=NEVER),
    "undo": Rule(find="#undo", does="undo"),
    "sit": Rule(find="#sit", does="sit"),
    "whole": Rule(find=".camera button", does="view 0|view"),
    "close": Rule(find="#grips button:nth-child(1)", does="move gripper_close", times=EITHER),
    "open": Rule(find="#grips button:nth-child(2)", does="move gripper_open", times=EITHER),
    "next arm": Rule(find="#grips button:nth-child(3)", does="move next_arm"),
    "S": Rule(find="#list .say button:nth-child(1)", does=f"say success {ALONE}"),
    "F": Rule(find="#list .say button:nth-child(2)", does=f"say failure {ALONE}"),
    "D": Rule(find="#list .say button:nth-child(3)", does=f"say discard {ALONE}"),
    "play it": Rule(find="#list .picture", does=f"get {ALONE}", also="playback shown|earlier|later",
                    last="playback shown"),
    "first": Rule(find="#first", does="earlier", also="stops"),
    "back": Rule(find="#back", does="earlier", times=EITHER, also="stops"),
    "play": Rule(find="#play", does="plays|stops"),
    "on": Rule(find="#on", does="later", times=EITHER, also="stops"),
    "last": Rule(find="#last", does="later", also="stops"),
    "slower": Rule(find="#slower", does="slower", times=EITHER),
    "faster": Rule(find="#faster", does="faster", times=EITHER),
    "close it": Rule(find="#unplay", does="playback hidden"),
    "copy": Rule(find="#copy", does="copy", times=EITHER),
    "tones": Rule(find="#sound", does="sound (true|false)"),
    "enter": Rule(find="#gate button", does="gate hidden", also="view"),
}  # fmt: skip
HIDDEN = "#single, #more summary"
"""Parts of the player for comparisons and more signals, which the operator's page has none of: they are never shown."""
