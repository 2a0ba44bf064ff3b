"""What anybody may send on the topics of a cell ends no operator's page, and is not believed by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.serialization import serialize_message

from robot_stack.console.banner import SILENT
from robot_stack.console.shown import part
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import events_to_msg, header_of, image_to_msg, mode_to_text
from robot_stack.nodes.tools.console import ConsoleNode
from robot_stack.teleop.bindings import Device
from robot_stack.types.command import Mode
from robot_stack.types.event import Verdict
from robot_stack.types.reason import Refusal, RefusalKind
from tests.nodes.lone_console import lone_console

DOMAIN = 65
EPISODE = "000041-online-actor"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleNode]:
    """A console that is not yet configured, whose messages the test hands to it."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    with lone_console(tmp_path) as node:
        yield node


def image(width: int = 64, ahead_s: float = 0.0) -> bytes:
    stamp_ns = time.monotonic_ns() + round(1e9 * ahead_s)
    return serialize_message(image_to_msg(np.zeros((48, width, 3), np.uint8), stamp_ns, "wrist"))


class Watched:
    """A server with an open page."""

    watched = True

    def show(self, index: int, jpeg: bytes) -> None:
        assert jpeg.startswith(b"\xff\xd8")


@pytest.mark.parametrize(
    "stray",
    [b"", image()[:8], image()[:40], image()[:-1], b"\xff" * 64, image(width=70_000)],
    ids=["nothing", "half a header", "a header", "all but a byte", "noise", "wider than any JPEG"],
)
def test_bytes_that_are_no_image_are_refused_and_the_next_image_is_taken(console: ConsoleNode, stray: bytes) -> None:
    console._server = Watched()
    console._on_image(0, "wrist")(stray)
    (told,) = console.diagnose()
    assert told.values["wrist"]
    console._on_image(0, "wrist")(image())
    assert not console._heard.cameras["wrist"].to_json(time.monotonic_ns())["old"]


def diagnosed(console: ConsoleNode, name: str, **values: str) -> None:
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    status = DiagnosticStatus(name=name, hardware_id=console.get_namespace(), message="ok", values=pairs)
    console._on_diagnostics(DiagnosticArray(status=[status]))


@pytest.mark.parametrize("value", ["x", "", "nan", "inf", "9" * 400, "9" * 5000])
def test_a_strangers_count_that_is_no_number_leaves_the_page_as_it_is(console: ConsoleNode, value: str) -> None:
    def safety() -> str:
        figures = console._session.now(time.monotonic_ns())["figures"]
        return next(each["text"] for each in figures if each["name"] == "safety")

    diagnosed(console, "safety: filter", clamped_x=value, clamped_speed="300")
    assert "speed 3.00 s" in safety()
    console._heard.episode(EPISODE, "online", time.monotonic_ns(), time.time())
    diagnosed(console, "safety: filter", clamped_x=value, clamped_speed="500")
    assert "speed 2.00 s" in safety()


def test_only_the_safety_process_itself_is_its_sign_of_life(
    console: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, passed_s = time.monotonic_ns, [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: real() + passed_s[0] * 1_000_000_000)

    def shown() -> tuple[str, str | None]:
        now = console._session.now(time.monotonic_ns())
        return now["banner"]["word"], now["safety"]

    says_mode(console)
    assert shown() == ("HOLD", "hold")
    passed_s[0] = 4
    diagnosed(console, "safety: filter")
    assert shown() == (SILENT, None), "a diagnosis may be anybody's"
    says_mode(console)
    assert shown() == ("HOLD", "hold"), "the same text, repeated"
    assert len(console._heard.log) == 1


def says_mode(console: ConsoleNode) -> None:
    """What the safety process publishes each second."""
    topic = topics.sealed(topics.MODE)
    text = mode_to_text(Mode.HOLD, Refusal(kind=RefusalKind.KEY, text="hold pressed"))
    status = DiagnosticStatus(name="1", message=text)
    msg = DiagnosticArray(header=header_of(time.monotonic_ns()), status=[status])
    heard = [each for each in console.subscriptions if each.topic_name.endswith(topic)]
    assert len(heard) == 1
    heard[0].callback(console.sealer.seal(topic, msg))


def test_an_image_stamped_ahead_does_not_hide_that_no_more_come(console: ConsoleNode) -> None:
    receive, wrist = console._on_image(0, "wrist"), console._heard.cameras["wrist"]
    receive(image(ahead_s=3600.0))
    assert wrist.to_json(time.monotonic_ns())["old"]
    receive(image())
    assert not wrist.to_json(time.monotonic_ns())["old"]
    receive(image(ahead_s=0.5))
    assert wrist.to_json(time.monotonic_ns() + 500_000_000)["old"]


def test_a_verdict_that_a_full_disk_does_not_take_is_told_and_the_page_goes_on(
    console: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("robot_stack.console.journal.append_row", full)
    heard, now_ns = console._heard, time.monotonic_ns()
    heard.banner(Mode.POLICY, "", now_ns, time.time())
    heard.episode(EPISODE, "online", now_ns, time.time())
    heard.no_episode(resetting=True, now_ns=now_ns)
    heard.claimed(Verdict.SUCCESS, now_ns, time.time())
    msg = events_to_msg(("failure",), time.monotonic_ns(), Device.GAMEPAD)
    console._on_events(console.sealer.seal(topics.EVENTS, msg))
    log = part(heard, "log", lambda _: "", lambda _: False)
    assert "No space left on device" in log[-1]["text"]
