"""Bags from elsewhere: how much they may unpack to, and where their names and links may lead."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcap_ros2.writer", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'")

import zstandard

from robot_stack.datasets import bounds
from robot_stack.datasets.bag import messages
from robot_stack.datasets.bag.read import import_mcap, raw_messages
from robot_stack.types.errors import StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Further, Moment, Preference
from tests.datasets.bombs import about, bag, image, zeros_bag
from tests.datasets.data_rig import contents, label, made_spec, mark

MAGIC = b"\x89MCAP0\r\n"
SMALL = made_spec(cameras=("front",))
ANSWER = {
    "second": Moment(episode_id="000000-demo-a", frame=2), "further": Further.SECOND, "source": LabelSource.OPERATOR,
    "by": "a", "stamp_unix_s": 1.0,
}  # fmt: skip


def refused(folder: Path, tmp_path: Path, words: str) -> None:
    """It is refused in words, leaves nothing, and takes little memory on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=words):
            import_mcap(folder, tmp_path / "out", on_episode=lambda *_: None)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()
    assert not (tmp_path / "out").exists()


def test_small_file_that_unpacks_to_much_takes_little_memory(tmp_path: Path) -> None:
    zeros_bag(tmp_path / "in" / "a.mcap")
    assert (tmp_path / "in" / "a.mcap").stat().st_size < 100_000
    command = [sys.executable, "-m", "tests.datasets.bombs", str(tmp_path / "in"), str(tmp_path / "out")]
    said = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=True
    )
    found = json.loads(said.stdout)
    assert "unpacked size of" in found["said"]
    assert found["mb"] < 300


def test_black_images_within_the_bound_are_taken_as_far_as_they_go(tmp_path: Path) -> None:
    """The bound is on what is unpacked, not on how well it packs."""
    spec = made_spec(side_px=64, cameras=("front",))
    bag(tmp_path / "in" / "a.mcap", about(spec), [("/front/obs", messages.IMAGE, image(64, 64), 1000)])
    assert sum(topic == "/front/obs" for topic, _, _ in raw_messages(tmp_path / "in" / "a.mcap")) == 1000


def record(opcode: int, body: bytes, length: int | None = None) -> bytes:
    return struct.pack("<BQ", opcode, len(body) if length is None else length) + body


def chunk(data: bytes, declared: int, compression: bytes = b"zstd", length: int | None = None) -> bytes:
    size = len(data) if length is None else length
    head = struct.pack("<QQQII", 0, 0, declared, 0, len(compression)) + compression
    return record(6, head + struct.pack("<Q", size) + data)


def write(path: Path, *records: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = record(1, struct.pack("<I", 0) + struct.pack("<I", 0))
    end = record(15, struct.pack("<I", 0)) + record(2, struct.pack("<QQI", 0, 0, 0))
    path.write_bytes(MAGIC + header + b"".join(records) + end + MAGIC)
    return path.parent


LONG = record(0x80, bytes(1 << 20))
ZEROS = zstandard.ZstdCompressor().compress(bytes(400 << 20))


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([chunk(ZEROS, 100)], "unpacked size of a chunk of .* is 101 bytes or more, must be 100 as it says"),
        ([chunk(ZEROS, 400 << 20)], "of one chunk 419430400, must be at most"),
        ([chunk(ZEROS, 2**63)], "of one chunk 9223372036854775808, must be at most"),
        ([chunk(zstandard.ZstdCompressor().compress(LONG), len(LONG))] * 70, "unpacked size of .* or more"),
        ([chunk(b"x", 1, b"brotli")], "compression of .* is 'brotli', must be zstd, lz4 or none"),
        ([chunk(b"x", 1, length=2**60)], "is unreadable"),
        ([record(6, b"", length=2**60)], "is unreadable"),
        ([record(3, struct.pack("<HI", 1, 2**32 - 1))], "is unreadable"),
        ([chunk(record(5, bytes(22), length=2**60), 31, b"")], "is unreadable"),
        ([record(5, bytes(22))] * 1000, "topic /episode/about of .* is missing"),
    ],
)
def test_file_that_lies_about_its_lengths_is_refused(tmp_path: Path, records: list[bytes], words: str) -> None:
    refused(write(tmp_path / "in" / "a.mcap", *records), tmp_path, words)


def test_message_definition_of_the_file_is_not_obeyed(tmp_path: Path) -> None:
    """One that asks for a billion empty parts in a message of eight bytes."""
    evil = "Empty[] parts\n" + "=" * 80 + "\nMSG: std_msgs/Empty\n"
    schema = record(3, struct.pack("<HI", 1, 19) + b"std_msgs/msg/String" + struct.pack("<I", 7) + b"ros2msg"
                    + struct.pack("<I", len(evil)) + evil.encode())  # fmt: skip
    topic = messages.ABOUT.encode()
    channel = record(4, struct.pack("<HHI", 1, 1, len(topic)) + topic + struct.pack("<I", 3) + b"cdr" + bytes(4))
    data = b"\x00\x01\x00\x00" + struct.pack("<I", 2**31)
    message = record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + data)
    refused(write(tmp_path / "in" / "a.mcap", schema, channel, message), tmp_path, "is unreadable")


def spec_with(**changes: object) -> dict[str, Any]:
    raw = json.loads(SMALL.to_json())
    raw["cameras"][0] |= changes
    return raw


def header_with(**changes: object) -> dict[str, Any]:
    return {**about(SMALL)["header"], **changes}


LABEL = {"episode_id": "000000-demo-a", "verdict": "success", "source": "operator", "stamp_unix_s": 1.0, "note": ""}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"spec": spec_with(name="../../escaped")}, "name in cameras is '../../escaped', must be 1 to 128"),
        ({"spec": spec_with(name="/tmp/escaped")}, "name in cameras is '/tmp/escaped'"),
        ({"spec": spec_with(height_px=2**40)}, "height_px of front is 1099511627776, must be a whole number"),
        ({"spec": spec_with(height_px=8.5)}, "height_px of front is 8.5, must be a whole number"),
        ({"spec": {**spec_with(), "proprio": [{"name": "p", "size": 2**40}]}}, "size of p is 1099511627776"),
        ({"spec": {**spec_with(), "cameras": [spec_with()["cameras"][0]] * 99}}, "number of cameras is 99"),
        ({"header": header_with(episode_id="../../escaped")}, "episode id is '../../escaped', must be 1 to 128"),
        ({"header": header_with(actor="x" * 5000)}, "length of actor is 5000 characters, must be at most 128"),
        ({"header": header_with(started_unix_s=1e300)}, r"started_unix_s is 1e\+300, must be a number from 0"),
        ({"header": header_with(started_unix_s="soon")}, "started_unix_s is soon, must be a number"),
        ({"header": header_with(seed=2**70)}, "seed of 000000-demo-a is .* must be a whole number of 64 bits"),
        ({"labels": [{**LABEL, "note": "x" * 3000}]}, "length of note on 000000-demo-a is 3000"),
        ({"labels": [{**LABEL, "note": 7}]}, "note on 000000-demo-a is '7', must be a text"),
        ({"labels": [{**LABEL, "episode_id": "../x"}]}, "episode id of a label is '../x'"),
        ({"labels": [LABEL] * 10_001}, "number of labels is 10001, must be at most 10000"),
        ({"text": "x" * 5000}, "length of text is 5000"),
        ({"task": ["peg"]}, "task is \"\\['peg'\\]\", must be a text"),
    ],
)
def test_what_a_file_says_of_itself_is_bounded(tmp_path: Path, said: dict[str, Any], words: str) -> None:
    frames = {
        "/front/obs": (messages.IMAGE, image(16, 16)), messages.STATE: (messages.JOINT_STATE, {"position": [0.0] * 7}),
        messages.TIMING: (messages.JOINT_STATE, {"position": [0.0, 0.0]}),
    }  # fmt: skip
    rows = [(topic, kind, message, 2) for topic, (kind, message) in frames.items()]
    rows += [
        (topic, messages.JOY, {"axes": [0.0] * 7, "buttons": []}, 1) for topic in (messages.PROPOSED, messages.HUMAN)
    ]
    rows += [(messages.EXECUTED, messages.JOY, {"axes": [0.0] * 7, "buttons": [1, 0, 0]}, 1)]
    rows += [(messages.PARAMS, messages.JOINT_STATE, {"position": [0.0, 0.0]}, 1)]
    bag(tmp_path / "good" / "a.mcap", about(SMALL), rows)
    import_mcap(tmp_path / "good", tmp_path / "taken", on_episode=lambda *_: None)
    before = contents(tmp_path)
    bag(tmp_path / "in" / "a.mcap", {**about(SMALL), **said}, rows)
    refused(tmp_path / "in", tmp_path, words)
    assert {name for name in contents(tmp_path) if not name.startswith("in/")} == set(before)


def test_json_that_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    from mcap_ros2.writer import Writer

    (tmp_path / "in").mkdir()
    with (tmp_path / "in" / "a.mcap").open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef(messages.STRING, messages.DEFINITIONS[messages.STRING])
        writer.write_message(messages.ABOUT, schema, {"data": "[" * 100_000}, log_time=0)
        writer.finish()
    refused(tmp_path / "in", tmp_path, "is unreadable")


def test_message_that_is_longer_than_the_spec_makes_it_is_refused(tmp_path: Path) -> None:
    bag(tmp_path / "in" / "a.mcap", about(SMALL), [("/front/obs", messages.IMAGE, image(512, 512), 1)])
    refused(tmp_path / "in", tmp_path, "message 0 of topic /front/obs in .* bytes, must be sensor_msgs/msg/Image of at")


def test_message_of_another_type_is_refused(tmp_path: Path) -> None:
    bag(tmp_path / "in" / "a.mcap", about(SMALL), [("/front/obs", messages.STRING, {"data": "x"}, 1)])
    refused(tmp_path / "in", tmp_path, "message 0 of topic /front/obs in .* is std_msgs/msg/String of")


def test_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    bag(tmp_path / "secret" / "a.mcap", about(SMALL), [])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.mcap").symlink_to(tmp_path / "secret" / "a.mcap")
    refused(tmp_path / "in", tmp_path, r"path .*in/a\.mcap leads to .*secret/a\.mcap, must be inside")


def test_pipe_in_the_folder_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in" / "a.mcap")
    refused(tmp_path / "in", tmp_path, r"file .*a\.mcap is no plain file, must be one")


def test_an_episode_of_an_hour_fits_the_bound() -> None:
    """Two cameras of 128x128 at 10 Hz; and it packs well enough to be written at all."""
    hour = 3600 * 10 * 2 * 128 * 128 * 3
    assert hour < bounds.MAX_EPISODE_BYTES
    assert bounds.unpacked_limit(hour // 30) > hour


@pytest.mark.parametrize(
    "said",
    [
        {"labels": [asdict(label("000000-demo-b", Verdict.SUCCESS, at=9.0))]},
        {"stages": [asdict(mark("000000-demo-b", 1, 3))]},
        {"preferences": [asdict(Preference(first=Moment(episode_id="000000-demo-b", frame=1), **ANSWER))]},
    ],
)
def test_a_file_says_nothing_of_the_episodes_of_other_files(said: dict[str, Any], tmp_path: Path) -> None:
    bag(tmp_path / "in" / "a.mcap", about(SMALL, **said), [])
    refused(tmp_path / "in", tmp_path, "is 000000-demo-b, must be 000000-demo-a")
