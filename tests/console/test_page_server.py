"""The page's server over real sockets: who comes in, what is said to whom, and what bad input gets."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
pytest.importorskip("websockets", reason="no WebSockets on this machine: pip install 'robot-stack[console]'")

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from robot_stack.console import hub, web
from robot_stack.console.access import read_port, write_address
from robot_stack.console.app import MAX_BAD
from robot_stack.console.hub import IMAGE_HEAD
from robot_stack.console.serving import MAX_MESSAGE_BYTES, listen
from robot_stack.console.web import HEADERS
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from tests.console.page_rig import TIMELY, hello, served

TOKEN = "a-token-of-enough-characters"
WAIT_S = 10.0


def port_of(url: str) -> int:
    return int(url.partition("#")[0].rstrip("/").rpartition(":")[2])


class Tab:
    """A page as the server sees it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.parts: dict = {}
        self.state = 0
        self.images: list[bytes] = []

    def say(self, **message: object) -> None:
        if message["k"] in TIMELY:
            message.setdefault("state", self.state)
        self.socket.send(json.dumps(message))

    def hear(self) -> dict | None:
        """The next message; of a state its parts are kept, an image is None."""
        raw = self.socket.recv(WAIT_S)
        if isinstance(raw, bytes):
            self.images.append(raw)
            self._seen(state=0, image=IMAGE_HEAD.unpack(raw[:8])[0])
            return None
        message = json.loads(raw)
        if message["k"] == "state":
            self.parts |= message["parts"]
            self.state = message["n"]
            self._seen(state=message["n"], image=0)
        return message

    def _seen(self, **what: int) -> None:
        with suppress(ConnectionClosed):  # the server may have closed meanwhile; what it said before is still read
            self.say(k="seen", **what)

    def until(self, fits: Callable[[dict], object], what: str) -> dict:
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            message = self.hear()
            if message is not None and fits(message):
                return message
        raise AssertionError(f"{what} not within {WAIT_S:g} s")

    def shows(self, fits: Callable[[dict], object], what: str) -> None:
        self.until(lambda _: "now" in self.parts and fits(self.parts["now"]), what)

    def told(self, words: str) -> None:
        self.until(lambda message: message["k"] in ("refused", "bye") and words in message["text"], words)

    def closed(self) -> int:
        """The code with which the server closes."""
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            try:
                self.hear()
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd is not None else 1006
        raise AssertionError(f"the page is still open after {WAIT_S:g} s")


@contextmanager
def tab(url: str, *, page: str = "a", token: str = "", origin: str | None = None, greet: bool = True) -> Iterator[Tab]:
    """A connected page."""
    with connect(f"ws://127.0.0.1:{port_of(url)}/ws", origin=origin, max_size=None) as connection:  # type: ignore[arg-type]
        opened = Tab(connection)
        if greet:
            connection.send(hello(page, token))
        yield opened


def get(url: str, path: str = "", **headers: str) -> tuple[int, str, dict]:
    request = urllib.request.Request(url.partition("#")[0].rstrip("/") + "/" + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, answer.read().decode(errors="replace"), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace"), dict(error.headers)


def lowered(headers: dict) -> set[tuple[str, str]]:
    return {(name.lower(), value) for name, value in headers.items()}


@pytest.fixture
def url(cell):
    with served(cell) as address:
        yield address


def test_a_page_is_welcomed_and_shown_everything(cell, url):
    cell.mode(Mode.POLICY)
    with tab(url) as page:
        welcome = page.until(lambda message: message["k"] == "welcome", "a welcome")
        assert welcome["rights"]["drive"] is True
        assert welcome["keys"]["hold"] == "esc"
        page.shows(lambda now: now["banner"]["mode"] == "policy" and now["writer"] == "you", "the banner")
        assert set(page.parts) == {"now", "episodes", "curve", "learning", "log"}


def test_a_change_reaches_every_page_at_once(cell, url):
    with tab(url) as first, tab(url, page="b") as second:
        for page in (first, second):
            page.shows(lambda now: now["pages"] == 2, "both pages")
        cell.mode(Mode.HOLD, "camera wrist silent")
        began_s = time.monotonic()
        for page in (first, second):
            page.shows(lambda now: now["banner"]["why"] == "Camera wrist silent.", "the reason")
        assert time.monotonic() - began_s < 8.0


def test_a_press_that_the_page_waits_for_is_answered_by_its_number(cell, url):
    with tab(url) as page:
        page.say(k="press", what="hold")
        page.say(k="press", what="stop", n=7)
        answers = []
        page.until(lambda message: message["k"] == "taken" and answers.append(message["n"]) is None, "the answer")
        assert (answers, cell.done.pressed) == ([7], ["hold", "stop"])


def test_a_note_is_answered_by_its_number_once_it_is_kept_or_refused(cell, url, monkeypatch):
    name = cell.episode(41)
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        page.say(k="write", episode=name, text="slipped", n=3)
        said = page.until(lambda message: message.get("n") == 3 and message["k"] != "state", "the answer")
        assert (said["k"], cell.journal.notes()) == ("taken", {name: "slipped"})
        for number in (4, 5):  # each is told, however alike they are
            page.say(k="write", episode="000007-online-x", text="slipped", n=number)
            said = page.until(lambda message, n=number: message.get("n") == n and message["k"] != "state", "it")
            assert said["k"] == "refused"
            assert "it is gone, or of another run" in said["text"]
        monkeypatch.setattr(hub, "STALL_S", -1.0)
        page.say(k="write", episode=name, text="late, and meant all the same", n=6)
        said = page.until(lambda message: message.get("n") == 6 and message["k"] != "state", "the answer")
        assert said["k"] == "taken"


@contextmanager
def standing_still(monkeypatch, page):
    """Let the server believe that it stands still, and the page be refused for it."""
    with monkeypatch.context() as stalling:
        stalling.setattr(hub, "STALL_S", -1.0)
        page.say(k="press", what="arm")
        page.told("server stood still for a moment")
        yield


def test_after_a_stall_only_hold_and_stop_are_obeyed(cell, url, monkeypatch):
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        with standing_still(monkeypatch, page):
            page.say(k="press", what="stop")
            page.shows(lambda _: cell.done.pressed == ["stop"], "the stop")
        assert cell.done.requested == []


def test_after_a_stall_a_page_is_obeyed_again_once_it_shows_the_present(cell, url, monkeypatch):
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        with standing_still(monkeypatch, page):
            pass
        shown = []
        page.until(lambda message: message["k"] == "state" and shown.append(message) is None and len(shown) > 3, "it")
        page.say(k="press", what="arm", n=1)
        page.until(lambda message: message["k"] == "taken", "the answer")
        assert cell.done.requested == ["arm"]


@pytest.mark.parametrize(
    "wish",
    [
        {"k": "press", "what": "reset_done"},
        {"k": "press", "what": "success"},
        {"k": "say", "verdict": "success"},
        {"k": "undo"},
        {"k": "sit"},
    ],
    ids=lambda wish: wish.get("what", wish["k"]),
)
def test_what_waited_in_the_network_is_refused_in_words_and_only_a_hold_counts(cell, url, wish):
    name = {"episode": cell.episode(41)} if wish.get("what") == "success" or "verdict" in wish else {}
    if wish["k"] == "say":
        cell.ended()
    with tab(url, page="b"), tab(url) as page:
        page.shows(lambda now: now["pages"] == 2, "the desk")
        if wish["k"] != "sit":
            page.say(k="sit")
            page.shows(lambda now: now["writer"] == "you", "the desk")
        old, begun_s = page.state, time.monotonic()
        page.shows(lambda _: time.monotonic() - begun_s > hub.OLDEST_S, "a present that is another")
        page.say(**wish, **name, state=old)
        page.told("s old, must be at most 1.5 s")
        page.say(k="press", what="hold", state=old)
        page.until(lambda _: cell.done.pressed == ["hold"], "the hold")
        assert cell.journal.waiting == []
        assert page.parts["now"]["writer"] == ("another" if wish["k"] == "sit" else "you")


@pytest.mark.parametrize("state", [0, 100_000])
def test_a_page_that_showed_nothing_of_this_server_wishes_for_nothing(cell, url, state):
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        page.say(k="press", what="arm", state=state)
        page.told("what this page showed then is not known")
        assert cell.done.requested == []


def test_commands_are_done_and_refusals_told(cell, url):
    with tab(url) as first, tab(url, page="b") as second:
        first.shows(lambda now: now["pages"] == 2, "both pages")
        first.say(k="press", what="hold")
        second.shows(lambda now: now["pages"] == 2, "both pages")
        second.say(k="press", what="arm")
        second.told("this page watches, must be the operator's")
        second.say(k="sit")
        second.shows(lambda now: now["writer"] == "you", "the desk")
        second.say(k="press", what="arm")
        first.say(k="press", what="reset_done")
        first.told("this page watches")
        assert cell.done.pressed == ["hold"]
        assert cell.done.requested == ["arm"]
        cell.server.notice("arm refused: the deadman is held")
        for page in (first, second):
            page.told("the deadman is held")


def test_a_hand_at_a_page_that_vanishes_is_gone(cell, url):
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        page.say(k="move", t_ms=1.0, axes=[0.0] * 6, pressed=["deadman"], live=True)
        page.shows(lambda _: cell.done.driving, "the hand")
        page.socket.socket.shutdown(socket.SHUT_RDWR)  # no goodbye
        deadline_s = time.monotonic() + WAIT_S
        while not cell.done.gone and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert cell.done.gone


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("not json", "is no JSON"),
        ('{"k": "shutdown"}', "is {'k': 'shutdown'}, must be an object with k out of"),
        (b"\x00\x01\x02", "must be text"),
        ("x" * 5000, "must have at most 4096"),
        (
            '{"k": "move", "t_ms": 1, "axes": [NaN, 0, 0, 0, 0, 0], "pressed": [], "live": true}',
            "must be a finite number",
        ),
        (
            '{"k": "move", "t_ms": 1, "axes": [2, 0, 0, 0, 0, 0], "pressed": [], "live": true}',
            "must be less than or equal to 1",
        ),
        (
            '{"k": "say", "state": 1, "episode": "000007-online-x", "verdict": "success"}',
            "it is gone, or of another run",
        ),
        ('{"k": "undo", "state": 1}', "nothing was said within 10 s"),
    ],
)
def test_bad_messages_get_a_sentence_and_the_page_goes_on(cell, url, raw, words):
    with tab(url) as page:
        page.until(lambda message: message["k"] == "state", "the first state")
        page.socket.send(raw)
        page.told(words)
        page.say(k="press", what="hold")
        page.shows(lambda _: cell.done.pressed == ["hold"], "the next message")
    assert cell.done.moves == []


def test_a_message_that_would_fill_the_memory_closes_the_page(cell, url):
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        page.socket.send("x" * (MAX_MESSAGE_BYTES + 1))
        assert page.closed() == 1009
    assert cell.done.pressed == []


def test_a_page_that_only_sends_noise_is_closed(url):
    with tab(url) as page:
        for _ in range(MAX_BAD):
            page.socket.send("noise")
        page.told(f"{MAX_BAD} messages that are none")
        assert page.closed() == 4400


def test_a_flood_is_dropped_and_the_others_are_served(cell, url):
    with tab(url) as page, tab(url, page="b") as other:
        for _ in range(3000):
            page.say(k="seen", state=0, image=0)
        cell.mode(Mode.HUMAN)
        other.shows(lambda now: now["banner"]["mode"] == "human", "the banner")


def test_a_page_that_says_too_much_is_shown_the_present_and_may_hold_all_the_same(cell, url):
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        for _ in range(3):
            for number in range(300):
                page.say(k="move", t_ms=number, axes=[0] * 6, pressed=[], live=True)
            page.say(k="press", what="hold")
            cell.mode(Mode.HUMAN)
            page.shows(lambda now: now["banner"]["mode"] == "human", "the banner")
            cell.mode(Mode.READY)
            page.shows(lambda now: now["banner"]["mode"] == "ready", "the banner")
        page.shows(lambda _: cell.done.pressed == ["hold"] * 3, "each hold")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ('{"k": "press", "what": "hold"}', "first message is not a hello"),
        ("nonsense", "is no JSON"),
        (hello(build="0" * 16), "of another version than the server, must be the same; reload it"),
        (hello(token="anything"), "token is wrong"),
    ],
)
def test_a_page_that_does_not_greet_properly_is_told_and_closed(cell, url, first, words):
    with tab(url, greet=False) as page:
        page.socket.send(first)
        page.told(words)
        assert page.closed() == 4400
    assert cell.done.pressed == []


def test_a_page_of_another_site_may_not_connect(cell, url):
    with tab(url, origin="http://evil.example", greet=False) as page:
        page.told("open the console's own page")
        assert page.closed() == 4400


def test_a_name_that_somebody_points_at_this_machine_is_not_answered(url):
    code, text, _ = get(url, Host="evil.example")
    assert code == 403
    assert "host is 'evil.example'" in text


def test_beyond_this_machine_nothing_is_told_without_the_token(cell, tmp_path):
    report = tmp_path / "report.html"
    with served(cell, token=TOKEN, picture=lambda _: b"jpeg", report=report) as url:
        assert url.endswith(f"#{TOKEN}")
        with tab(url, token="wrong") as page:
            said = page.until(lambda message: message["k"] == "bye", "a refusal")
            assert said["kind"] == "token"
            assert "token is wrong, must be the one printed with the page's address" in said["text"]
            assert page.closed() == 4400
        with tab(url) as page:
            page.told("token is missing")
        with tab(url, token=TOKEN) as page:
            page.shows(lambda now: now["writer"] == "you", "the desk")
        assert get(url, "picture/e")[0] == 401
        assert get(url, "picture/e", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert get(url, "report", Authorization=f"Bearer {TOKEN}")[0] == 404, "there is none yet"
        report.write_text("19 of 20")
        assert get(url, "report")[0] == 401
        assert get(url, "report", Authorization=f"Bearer {TOKEN}")[:2] == (200, "19 of 20")
        assert get(url)[0] == 200, "the page itself tells nothing"


def test_files_are_served_and_nothing_else_is(url):
    code, text, headers = get(url)
    assert code == 200
    assert "{{build}}" not in text
    assert "default-src 'self'" in headers["content-security-policy"]
    assert 'id="scrub"' in text, "the episode browser's player"
    script = "text/javascript"
    for path, kind in (("static/main.js", script), ("static/player.js", script), ("static/console.css", "text/css")):
        code, _, headers = get(url, path)
        assert (code, headers["content-type"].partition(";")[0]) == (200, kind)
    for path in (
        "static/../app.py",
        "static/%2e%2e%2fapp.py",
        "static/nothing.js",
        "static/player.html",
        "static/uPlot.LICENSE.txt",
        "etc",
    ):
        assert get(url, path)[0] == 404
    assert get(url, "picture/..%2f..%2fsecret")[0] == 404


@pytest.mark.parametrize(
    "path", ["", "static/main.js", "static/" + 300 * "a" + ".js", "nothing", "picture/" + 300 * "a"]
)
def test_every_answer_has_the_headers_that_keep_other_pages_out(url, path):
    status, _, headers = get(url, path)
    assert status in (200, 404)
    assert lowered(HEADERS) <= lowered(headers)


def test_answers_of_the_server_itself_have_them_too(cell, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(web.PageFiles, "index", fail)
    with served(cell) as url:
        for method, path, status in (
            ("GET", "", 500),
            ("DELETE", "static/main.js", 405),
            ("GET", "static/main.js/", 307),
        ):
            asked = http.client.HTTPConnection("127.0.0.1", port_of(url), timeout=WAIT_S)
            asked.request(method, f"/{path}")
            answer = asked.getresponse()
            assert answer.status == status
            assert lowered(HEADERS) <= lowered(dict(answer.getheaders()))
            asked.close()


def test_a_page_that_is_opened_again_replaces_its_old_self_and_keeps_the_desk(cell, url):
    with tab(url) as old:
        old.shows(lambda now: now["writer"] == "you", "the desk")
        with tab(url) as new:
            new.shows(lambda now: now["writer"] == "you" and now["pages"] == 1, "the desk")
            old.told("has been opened again")
            assert old.closed() == 4409
            new.say(k="press", what="hold")
            new.shows(lambda _: cell.done.pressed == ["hold"], "the key")


def test_a_page_that_watches_is_not_told_the_name_by_which_it_could_take_the_lock(url):
    with tab(url, page="the-operators-own") as first, tab(url, page="b") as second:
        first.shows(lambda now: now["writer"] == "you" and now["pages"] == 2, "the desk")
        second.shows(lambda now: now["writer"] == "another" and now["pages"] == 2, "both pages")
        assert "the-operators-own" not in json.dumps(second.parts)


def test_too_many_pages_are_refused(url, monkeypatch):
    monkeypatch.setattr("robot_stack.console.app.MAX_PAGES", 1)
    with tab(url) as page:
        page.shows(lambda now: now["pages"] == 1, "the page")
        with tab(url, page="b") as second:
            second.told("1 pages are open, must be fewer; close one")


def test_a_page_that_shows_nothing_is_sent_little_and_then_the_newest(cell, url):
    image = np.zeros((64, 64, 3), np.uint8)
    with tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        for number in range(60):
            cell.frame("wrist", image, bytes([number]) * 9)
            cell.mode(Mode.HOLD, f"reason {number}")
            time.sleep(0.005)
        raw = [page.socket.recv(WAIT_S) for _ in range(5)]
        assert sum(isinstance(each, bytes) for each in raw) <= 3
        page.say(k="seen", state=2**40, image=2**40)
        page.shows(lambda now: now["banner"]["why"] == "Reason 59.", "the newest")
        page.until(lambda _: page.images and page.images[-1].endswith(bytes([59])), "the newest image")


def test_the_port_moves_on_this_machine_and_is_found_again(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = taken.getsockname()[1]
        with listen(f"127.0.0.1:{wanted}") as other:
            got = other.getsockname()[1]
            assert got != wanted
            write_address(tmp_path / "console.url", f"http://127.0.0.1:{got}/")
        with listen(f"127.0.0.1:{wanted}", read_port(tmp_path / "console.url")) as again:
            assert again.getsockname()[1] == got


def test_an_address_of_another_machine_is_told():
    with pytest.raises(RobotError, match=r"must be free and this machine's .*; change console.address of the cell"):
        listen("192.0.2.1:8642")


def test_a_fault_in_what_is_sent_to_the_pages_ends_the_server_and_is_told(cell, monkeypatch):
    """A page that is sent nothing any more looks like a cell in which nothing moves."""

    def fail(now_ns: int) -> dict:
        raise ZeroDivisionError("a figure of a page")

    with served(cell) as url, tab(url) as page:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        server = cell.server
        assert server is not None
        server.check()
        monkeypatch.setattr(cell.desk, "now", fail)
        assert page.closed() != 1000
        server.stop()
        with pytest.raises(RobotError, match=r"ZeroDivisionError.*must run until it is stopped; start the run anew"):
            server.check()
