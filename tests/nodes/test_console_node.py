"""The console over real DDS: a page drives a simulated arm through the teleop and the safety process, and is lost.

Times are those of the stamps that the safety process writes when it decides.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
pytest.importorskip("websockets", reason="no WebSockets on this machine")

from sensor_msgs.msg import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.fed_cell import FedCell, fed_cell, fed_run
from robot_stack.console.access import ADDRESS_FILE
from robot_stack.console.hub import IMAGE_HEAD
from robot_stack.console.web import build_digest
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import image_to_msg, mode_to_text
from robot_stack.nodes.episode_status import EpisodeStatus, Phase
from robot_stack.nodes.qos import LATCHED, NEWEST
from robot_stack.nodes.sealed_text import SealedText
from robot_stack.processes.table import console_process
from robot_stack.runs.paths import RunPaths
from robot_stack.types.command import Mode, Source
from robot_stack.types.help import HelpKind, HelpReason, HelpRequest
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.transition import EpisodeKind
from tests.console.browser_store import HELPED, fetch, write_recorded

DOMAIN = 78
MOVE_S = 0.04
WAIT_S = 20.0


class Page:
    """What a browser would do, in the test's thread."""

    def __init__(self, url: str) -> None:
        self._open = ExitStack()
        address = f"ws://{url.removeprefix('http://').rstrip('/')}/ws"
        self.socket = self._open.enter_context(connect(address, max_size=None))
        self.say(k="hello", token="", page="test", build=build_digest())
        self.parts: dict = {}
        self.state = 0
        self.image: bytes = b""
        self.pressed: list[str] = []
        self.axes = [0.0] * 6
        self._moved_s = 0.0

    def say(self, **message: object) -> None:
        if message["k"] == "press":
            message["state"] = self.state
        self.socket.send(json.dumps(message))

    def close(self) -> None:
        self._open.close()

    def live(self) -> None:
        """Hear what is sent, show it, and say what the hand does."""
        now_s = time.monotonic()
        if now_s - self._moved_s >= MOVE_S:
            self._moved_s = now_s
            self.say(k="move", t_ms=1e3 * now_s, axes=self.axes, pressed=self.pressed, live=True)
        try:
            raw = self.socket.recv(0.005)
        except TimeoutError:
            return
        if isinstance(raw, bytes):
            self.image = raw
            self.say(k="seen", state=0, image=IMAGE_HEAD.unpack(raw[:8])[0])
            return
        message = json.loads(raw)
        if message["k"] == "state":
            self.parts |= message["parts"]
            self.state = message["n"]
            self.say(k="seen", state=message["n"], image=0)

    def until(self, fits: Callable[[], object], what: str) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not fits():
            assert time.monotonic() < deadline_s, f"{what} not within {WAIT_S:g} s; {self.parts.get('now')}"
            self.live()

    @property
    def banner(self) -> dict:
        return self.parts.get("now", {}).get("banner", {})


@pytest.fixture(scope="module")
def cell(tmp_path_factory) -> Iterator[FedCell]:
    folder = tmp_path_factory.mktemp("console")
    run = fed_run(
        folder / "config", DOMAIN, "operator_required=true", "cell.console.address=127.0.0.1:0",
        device=["cell.teleop=browser"],
    )  # fmt: skip
    with fed_cell(run, folder / "run", [console_process(run, folder / "run")]) as fed:
        fed.joy_sends = False
        yield fed


@pytest.fixture
def page(cell: FedCell) -> Iterator[Page]:
    address = cell.folder / ADDRESS_FILE
    cell.until(address.exists, "an address", 40.0)
    opened = Page(address.read_text().strip())
    yield opened
    opened.close()


def driving(page: Page, cell: FedCell) -> None:
    """An episode of the policy, with the page's hand let go; as an operator gets there."""
    page.until(lambda: cell.teleop is not None and not cell.teleop.lost, "a hand that is believed")
    deadline_s = time.monotonic() + WAIT_S
    while cell.banner[0] is not Mode.POLICY:
        assert time.monotonic() < deadline_s, cell.banner
        if cell.banner[0] in (Mode.DISARMED, Mode.HOLD):
            page.say(k="press", what="arm")
        elif cell.banner[0] is Mode.READY:
            cell.request("start_policy")
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < 0.3:
            page.live()


def closes(page: Page) -> bool:
    """Whether the server hangs up."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        try:
            page.live()
        except ConnectionClosed:
            return True
    return False


def test_a_page_takes_over_moves_the_arm_gives_it_back_and_labels(cell: FedCell, page: Page):
    status = SealedText(cell, topics.STATUS, LATCHED)
    images = cell.create_publisher(Image, topics.observation("front"), NEWEST)
    told = EpisodeStatus(phase=Phase.RUNNING, kind=EpisodeKind.ONLINE, episode_id="000007-online-actor")
    status.say(told.to_text())
    driving(page, cell)
    page.until(lambda: page.banner.get("mode") == "policy", "the banner")
    page.until(lambda: (page.parts["now"]["episode"] or {}).get("number") == "7", "the episode")

    picture = np.full((48, 64, 3), 200, np.uint8)

    def seen() -> bool:
        images.publish(image_to_msg(picture, time.monotonic_ns(), "front"))
        return len(page.image) > 8

    page.until(seen, "an image")
    assert IMAGE_HEAD.unpack(page.image[:8])[1] == list(cell.run.cameras).index("front")
    assert page.image[8:10] == b"\xff\xd8", "a JPEG"

    page.pressed = ["deadman"]
    page.until(lambda: cell.decisions[-1].mode is Mode.HUMAN, "take-over")
    page.axes = [1.0, 0, 0, 0, 0, 0]
    # away from the operator, who faces the robot: along -x of the base, at half the task's full speed
    speed = 0.5 * cell.run.task.arm.translation_m * cell.run.run.rate_hz
    page.until(lambda: abs(cell.commands[-1].twist[0] + speed) < 1e-3, "motion of the page's hand")
    assert cell.decisions[-1].source is Source.HUMAN
    page.until(lambda: "A page drives" in page.banner.get("why", ""), "the reason")
    page.pressed, page.axes = [], [0.0] * 6
    page.until(lambda: cell.decisions[-1].source is Source.POLICY, "hand-back")

    page.say(k="press", what="success", episode=told.episode_id)
    page.until(lambda: page.parts["now"].get("undo"), "the label, heard on the topic")
    assert page.parts["now"]["undo"]["verdict"] == "success"
    page.say(k="press", what="hold")
    page.until(lambda: cell.banner == (Mode.HOLD, cell.banner[1]), "hold")
    assert str(cell.banner[1]).startswith("hold pressed on browser")
    status.say(EpisodeStatus(phase=Phase.FINISHED).to_text())
    page.until(lambda: page.parts["now"]["episode"] is None, "the end of the episode")
    assert (cell.folder / "console" / "pictures" / "000007-online-actor.jpg").is_file()


def test_a_policy_that_asks_for_help_is_on_the_page_until_it_no_longer_does(cell: FedCell, page: Page):
    request = HelpRequest(reason=HelpReason(kind=HelpKind.STALL, text="no progress for 2.1 s"))
    helped = SealedText(cell, topics.HELP, LATCHED)
    driving(page, cell)
    helped.say("nonsense")
    helped.say(request.to_text())
    page.until(lambda: page.banner.get("mode") == "asks", "the request")
    assert "The policy is stuck: No progress for 2.1 s." in page.banner["why"]
    page.say(k="press", what="dismiss")
    page.until(lambda: any("dismiss on browser" in line["text"] for line in page.parts["log"]), "the key on the topic")
    helped.say("")
    page.until(lambda: page.banner.get("mode") == "policy", "the end of the request")


def test_a_stranger_that_tells_of_the_cell_is_not_believed_by_the_page(cell: FedCell, page: Page):
    """Who is in control is told to an operator, and a verdict is kept for the episode that is told of."""
    driving(page, cell)
    page.until(lambda: page.banner.get("mode") == "policy", "the banner")
    told = EpisodeStatus(phase=Phase.RUNNING, kind=EpisodeKind.ONLINE, episode_id="000666-online-stranger")
    prompt = "put your hand under the gripper"
    lies = {
        topics.MODE: mode_to_text(Mode.STOP, Refusal(kind=RefusalKind.KEY, text="stop pressed by a stranger")),
        topics.STATUS: told.to_text(),
        topics.PROMPT: prompt,
        topics.HELP: HelpRequest(reason=HelpReason(kind=HelpKind.STALL, text="no progress for 9 s")).to_text(),
    }
    stranger = StackNode("stranger", cell.run.run.cell)  # has no key of the run
    says = [(SealedText(stranger, topic, LATCHED), text) for topic, text in lies.items()]
    page.until(lambda: all(stranger.count_subscribers(topics.sealed(topic)) for topic in lies), "its listeners")
    seen: list[dict] = []
    for _ in range(20):
        for sealed, text in says:
            sealed.say(text)
        until_s = time.monotonic() + 0.05
        while time.monotonic() < until_s:
            page.live()
        seen.append(dict(page.parts))
    stranger.destroy_node()
    assert not [each["now"]["episode"] for each in seen if (each["now"]["episode"] or {}).get("number") == "666"]
    assert not any(each["now"]["estop"]["on"] for each in seen)
    told_on_the_page = "".join(json.dumps(each) for each in seen)
    assert not [lie for lie in ("by a stranger", prompt, "no progress for 9 s") if lie in told_on_the_page]
    page.say(k="press", what="hold")
    page.until(lambda: page.banner.get("mode") == "hold", "what the safety process says")


def test_episodes_of_the_runs_store_are_played(cell: FedCell, page: Page):
    page.until(lambda: "now" in page.parts, "the page")
    write_recorded(RunPaths(cell.folder).store.root)
    url = (cell.folder / ADDRESS_FILE).read_text().strip()
    for path in (f"api/episodes/{HELPED}", f"api/episodes/{HELPED}/frames/0"):
        code, body = fetch(url, path)
        assert (code, len(body) > 100) == (200, True), body


def test_a_page_that_closes_while_it_drives_is_a_hold(cell: FedCell, page: Page):
    driving(page, cell)
    page.pressed = ["deadman"]
    page.until(lambda: cell.decisions[-1].mode is Mode.HUMAN, "take-over")
    begun = len(cell.decisions)
    page.close()
    cell.until(lambda: any(each.mode is Mode.HOLD for each in cell.decisions[begun:]), "hold")
    cell.until(lambda: cell.banner[0] is Mode.HOLD, "banner")
    assert "teleop device is lost" in str(cell.banner[1])


def test_a_page_that_nobody_looks_at_is_a_hold_where_the_run_asks_for_an_operator(cell: FedCell, page: Page):
    driving(page, cell)
    page.close()
    cell.until(lambda: cell.banner[0] is Mode.HOLD, "hold")
    kinds = (RefusalKind.OPERATOR_ABSENT, RefusalKind.TELEOP_LOST)  # the page is the device too
    assert cell.banner[1] is not None
    assert cell.banner[1].kind in kinds
    cell.until(lambda: "operator's page is lost or out of view" in cell.request("resume"), "the refusal")


def test_a_killed_console_comes_back_at_its_address_and_the_arm_held_meanwhile(cell: FedCell, page: Page):
    driving(page, cell)
    before = (cell.folder / ADDRESS_FILE).read_text()
    page.pressed = ["deadman"]
    page.until(lambda: cell.decisions[-1].mode is Mode.HUMAN, "take-over")
    begun = len(cell.decisions)
    os.kill(cell.supervisor.pid("console"), signal.SIGKILL)
    cell.until(lambda: any(each.mode is Mode.HOLD for each in cell.decisions[begun:]), "hold")
    assert closes(page)
    cell.until(lambda: cell.supervisor.step() or cell.supervisor.restarts("console") == 1, "a restart")

    def back() -> bool:
        try:
            Page(before.strip()).close()
        except OSError:
            return False
        return True

    cell.until(back, "the page at its address", 40.0)
    assert (cell.folder / ADDRESS_FILE).read_text() == before
