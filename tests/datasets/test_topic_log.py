"""Messages off the wire in MCAP files: unchanged, each file by itself, nothing lost that was flushed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from robot_stack.datasets.bag.messages import DEFINITIONS, STRING
from robot_stack.types.errors import StoreError
from tests.datasets.data_rig import full_disk

pytest.importorskip("mcap_ros2", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'")

from mcap.exceptions import EndOfFile
from mcap.reader import NonSeekingReader, SeekingReader
from mcap_ros2.decoder import DecoderFactory
from mcap_ros2.writer import Writer

from robot_stack.datasets.bag.topic_log import Channel, TopicLog

MODE = Channel(topic="/sim/safety/mode", kind=STRING, definition=DEFINITIONS[STRING], latched=True)
STATIC = Channel(
    topic="/tf_static",
    kind="tf2_msgs/msg/TFMessage",
    definition=(
        f"geometry_msgs/TransformStamped[] transforms\n{'=' * 80}\nMSG: geometry_msgs/TransformStamped\n"
        "string child_frame_id\nfloat64 x\n"
    ),
    latched=True,
)
"""With fewer fields than the real one."""
NEWS = Channel(topic="/sim/news", kind=STRING, definition=DEFINITIONS[STRING])


def cdr(text: str) -> bytes:
    """A std_msgs/String as it is on the wire."""
    raw = text.encode() + b"\0"
    return b"\x00\x01\x00\x00" + len(raw).to_bytes(4, "little") + raw


def transforms(**x: float) -> bytes:
    """A message of transforms: child frame -> its place."""
    stream = BytesIO()
    writer = Writer(stream)
    schema = writer.register_msgdef(STATIC.kind, STATIC.definition)
    placed = [{"child_frame_id": name, "x": at} for name, at in x.items()]
    writer.write_message(STATIC.topic, schema, {"transforms": placed})
    writer.finish()
    return next(message.data for _, _, message in SeekingReader(BytesIO(stream.getvalue())).iter_messages())


def texts(path: Path, *, whole: bool = True) -> list[tuple[str, str, int]]:
    """Topic, text and time of each message; of a file without an index those before its torn end."""
    found = []
    with path.open("rb") as stream:
        kind = SeekingReader if whole else NonSeekingReader
        messages = kind(stream, decoder_factories=[DecoderFactory()]).iter_decoded_messages(log_time_order=False)
        try:
            for _, channel, message, decoded in messages:
                found.append((channel.topic, decoded.data, message.log_time))
        except EndOfFile:
            assert not whole
    return found


def test_messages_come_back_in_an_independent_reader(tmp_path: Path) -> None:
    log = TopicLog(tmp_path / "bag")
    for index in range(50):
        log.add(NEWS if index % 2 else MODE, cdr(f"text {index}"), 1_000 + index)
    log.close()
    assert texts(tmp_path / "bag" / "000.mcap") == [
        ((NEWS if index % 2 else MODE).topic, f"text {index}", 1_000 + index) for index in range(50)
    ]
    assert log.counts == {NEWS.topic: 25, MODE.topic: 25}
    assert log.bytes_written == (tmp_path / "bag" / "000.mcap").stat().st_size


def test_each_further_file_begins_with_what_is_latched(tmp_path: Path) -> None:
    log = TopicLog(tmp_path / "bag", largest_bytes=1)
    log.add(MODE, cdr("READY"), 1)
    log.add(MODE, cdr("POLICY"), 2)
    log.add(NEWS, cdr("a"), 3)
    log.flush()
    log.add(NEWS, cdr("b"), 4)
    log.close()
    assert texts(tmp_path / "bag" / "001.mcap") == [(MODE.topic, "POLICY", 2), (NEWS.topic, "b", 4)]
    assert log.counts == {MODE.topic: 2, NEWS.topic: 2}


def test_each_further_file_begins_with_the_newest_place_of_every_frame(tmp_path: Path) -> None:
    """As for who subscribes late, of each publisher of transforms; one may send all of its own with each new one."""
    log = TopicLog(tmp_path / "bag", largest_bytes=1)
    sent = [
        transforms(flange=1.0, tcp=1.0), transforms(wrist_camera=2.0), transforms(wrist_camera=2.5, front_camera=3.0),
        transforms(tcp=4.0), transforms(), transforms(flange=9.0)[:-4],
    ]  # fmt: skip
    for number, data in enumerate(sent):
        log.add(STATIC, data, number)
    log.flush()
    log.close()
    with (tmp_path / "bag" / "001.mcap").open("rb") as stream:
        opening = [message.log_time for _, _, message in SeekingReader(stream).iter_messages()]
    assert opening == [0, 2, 3, 5]


def test_the_qos_that_was_offered_is_in_each_file(tmp_path: Path) -> None:
    offered = "- history: 3\n  depth: 0"
    log = TopicLog(tmp_path / "bag", largest_bytes=1)
    log.add(replace(MODE, offered=offered), cdr("READY"), 1)
    log.add(NEWS, cdr("a"), 2)
    log.flush()
    log.close()
    found = []
    for name in ("000.mcap", "001.mcap"):
        with (tmp_path / "bag" / name).open("rb") as stream:
            summary = SeekingReader(stream).get_summary()
        assert summary is not None
        found.append({each.topic: each.metadata for each in summary.channels.values()})
    said = {"offered_qos_profiles": offered}
    assert found == [{MODE.topic: said, NEWS.topic: {}}, {MODE.topic: said}]


def test_what_was_flushed_survives_a_kill(tmp_path: Path) -> None:
    program = (
        "import os, signal; from pathlib import Path; from tests.datasets.test_topic_log import *\n"
        f"log = TopicLog(Path({str(tmp_path / 'bag')!r}))\n"
        "log.add(NEWS, cdr('a'), 1); log.flush(); log.add(NEWS, cdr('b'), 2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], timeout=240)
    assert done.returncode == -signal.SIGKILL
    assert texts(tmp_path / "bag" / "000.mcap", whole=False) == [(NEWS.topic, "a", 1)]


def test_a_full_disk_is_said_and_what_was_flushed_stays(tmp_path: Path) -> None:
    log = TopicLog(tmp_path / "bag")
    log.add(NEWS, cdr("a"), 1)
    log.flush()
    log.add(NEWS, os.urandom(5000), 2)
    with full_disk(), pytest.raises(StoreError, match="free space or fix permissions, what was flushed before is safe"):
        log.flush()
    assert texts(tmp_path / "bag" / "000.mcap", whole=False)[0] == (NEWS.topic, "a", 1)


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="must not exist yet"):
        TopicLog(tmp_path)
    assert not list(tmp_path.iterdir())
