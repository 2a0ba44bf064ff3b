"""`robot-stack bag`: the topics of a running cell, read back by a reader that knows no ROS."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("mcap_ros2", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'")

from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader, SeekingReader
from mcap_ros2.decoder import DecoderFactory

from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import mode_from_text
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes
from robot_stack.types.command import Mode

BAG = [sys.executable, "-m", "robot_stack.cli.main", "bag"]
RUN = load_run("peg_insert", ["cell.dds_domain=68"])
START_S = 60.0


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run whose cell is going on."""
    folder = tmp_path_factory.mktemp("bag") / "monday"
    with prepared(RUN, folder) as ready:
        table = cell_processes(RUN, folder)
        with Supervisor(table, environment=ready.environment, log_folder=ready.log_folder):
            yield folder


def messages(path: Path, topic: str, *, whole: bool = True) -> list[object]:
    found: list[object] = []
    with path.open("rb") as stream:
        kind = SeekingReader if whole else NonSeekingReader
        try:
            for _, channel, _, decoded in kind(stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages(
                log_time_order=False
            ):
                if channel.topic == topic:
                    found.append(decoded)
        except EndOfFile:
            assert not whole
    return found


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.mcap"))


def test_every_topic_of_the_cell_is_in_the_bag(cell: Path, tmp_path: Path) -> None:
    out = tmp_path / "bag"
    process = subprocess.Popen(
        [*BAG, str(cell), "--out", str(out), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline_s = time.monotonic() + START_S
    while sizes(out) < 1_000_000:  # images of both cameras for seconds
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s, sizes(out)
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, words = process.communicate(timeout=240)
    assert process.returncode == 0, words
    said = json.loads(printed)
    assert said["left_out"] == {}
    assert said["bytes"] == sizes(out)
    arm = next(iter(RUN.robots))
    wanted = [topics.state(arm), topics.command(arm), topics.label(arm), topics.MODE, topics.LIMITS, topics.fault(arm)]
    wanted += [topics.observation(camera) for camera in RUN.cameras]
    counts = said["messages"]
    assert [topic for topic in wanted if not counts.get(f"/sim/{topic}")] == []
    assert counts["/diagnostics"] >= 1
    images = messages(out / "000.mcap", f"/sim/{topics.observation('wrist')}")
    assert len(images) == counts[f"/sim/{topics.observation('wrist')}"]
    image = images[-1]
    assert (image.encoding, (image.height, image.width, 3)) == ("rgb8", RUN.spec().cameras[0].shape)
    assert np.frombuffer(image.data, np.uint8).std() > 1
    states = messages(out / "000.mcap", f"/sim/{topics.state(arm)}")
    stamps = [state.header.stamp.sec * 10**9 + state.header.stamp.nanosec for state in states]
    assert stamps == sorted(stamps)
    assert len(states[0].position) == len(states[-1].position) > 7
    assert mode_from_text(messages(out / "000.mcap", f"/sim/{topics.MODE}")[0].data)[0] in (
        Mode.DISARMED, Mode.READY, Mode.HOLD,
    )  # fmt: skip


def test_a_killed_recorder_leaves_what_it_had(cell: Path, tmp_path: Path) -> None:
    out = tmp_path / "bag"
    process = subprocess.Popen([*BAG, str(cell), "--out", str(out)], stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + START_S
        while sizes(out) < 300_000:
            assert process.poll() is None
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait(timeout=240)
    assert messages(out / "000.mcap", f"/sim/{topics.observation('front')}", whole=False)


def test_a_run_that_was_never_started_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bag", "tuesday"]) == 1
    assert "run is 'tuesday', must be a run that has been started" in capsys.readouterr().err
