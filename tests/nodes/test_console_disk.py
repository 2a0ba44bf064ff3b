"""The console's node keeps no page waiting while it writes or reads a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.nodes import topics
from robot_stack.nodes.conversion import events_to_msg
from robot_stack.nodes.episode_status import EpisodeStatus, Phase
from robot_stack.nodes.tools.console import ConsoleNode
from robot_stack.teleop.bindings import Device
from robot_stack.types.transition import EpisodeKind
from tests.console.slow_disk import WAIT_S, StuckDisk, unlocked
from tests.nodes.lone_console import lone_console

DOMAIN = 97
EPISODE = "000007-online-actor"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleNode]:
    """The console's node, which serves no page; its callbacks are called by the test."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    with lone_console(tmp_path) as made:
        monkeypatch.setattr(made, "_serve", lambda: None)
        made.configure()
        yield made


def status(node: ConsoleNode, phase: Phase) -> None:
    kind = EpisodeKind.ONLINE if phase is Phase.RUNNING else None
    node._on_status(EpisodeStatus(phase=phase, kind=kind, episode_id=EPISODE).to_text())


def refuse_claim(node: ConsoleNode) -> None:
    """A key of the gamepad, as its process seals it."""
    node._on_claim("success")
    msg = events_to_msg(("failure",), time.monotonic_ns(), Device.GAMEPAD)
    node._on_events(node.sealer.seal(topics.EVENTS, msg))


@pytest.mark.parametrize(
    ("slow", "job"),
    [
        ("nodes.tools.episode_pictures.write_durable", lambda node: status(node, Phase.FINISHED)),
        ("console.journal.append_row", refuse_claim),
        ("console.record_of.Stage.read", lambda node: node._read_record()),
    ],
    ids=["picture", "verdict", "record"],
)
def test_pages_do_not_wait_for_a_file_of_the_node(node, monkeypatch, slow, job):
    status(node, Phase.RUNNING)
    node._pictures.look("wrist", np.zeros((48, 64, 3), np.uint8))
    if job is refuse_claim:
        status(node, Phase.FINISHED)
    disk = StuckDisk()
    with monkeypatch.context() as slowly:
        slowly.setattr(f"robot_stack.{slow}", disk.wait)
        worker = threading.Thread(target=job, args=(node,), daemon=True)
        worker.start()
        try:
            assert disk.begun.wait(WAIT_S), "nothing was written or read"
            assert unlocked(node._session)
        finally:
            disk.free.set()
            worker.join(WAIT_S)


def test_the_list_is_sent_anew_once_there_is_a_picture(node):
    status(node, Phase.RUNNING)
    node._pictures.look("wrist", np.zeros((48, 64, 3), np.uint8))
    versions = []
    keep = node._pictures.end

    def end() -> bool:
        versions.append(node._heard.version)
        return keep()

    node._pictures.end = end
    status(node, Phase.FINISHED)
    assert node._pictures.has(EPISODE)
    assert node._heard.version > versions[0]
