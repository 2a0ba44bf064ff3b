"""A log of ROS messages, as they were on the wire, in MCAP files that every reader of ROS 2 bags opens."""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from robot_stack.datasets.bag.write import SUFFIX
from robot_stack.datasets.extras import need
from robot_stack.disk.durable import disk_errors
from robot_stack.types.errors import StoreError

LARGEST_BYTES = 1 << 30
TRANSFORMS = "tf2_msgs/msg/TFMessage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A topic of a log, with the type of its messages.

    Attributes:
        topic: Absolute name.
        kind: e.g. "sensor_msgs/msg/Image".
        definition: Of the type and all it contains, as in .msg files.
        latched: Its newest message opens each further file, whose reader would not know it otherwise; of transforms
            the newest of each frame.
        offered: QoS of its publishers as rosbag2 writes it, and `ros2 bag play` offers it again; "" is its default.
    """

    topic: str
    kind: str
    definition: str
    latched: bool = False
    offered: str = ""


class TopicLog:
    """A log of messages in the files `000.mcap`, `001.mcap` and so on; for one thread.

    What was added before a `flush` survives the death of this process, but without an index: such a file is read from
    its beginning.

    Args:
        folder: A new one.
        largest_bytes: A larger file is ended, and the next one begins.

    Attributes:
        counts: Topic -> messages added.
        files: Begun so far.
        bytes_written: In files that were ended.

    Raises:
        StoreError: From every method, if the disk refuses or a package is missing.
    """

    def __init__(self, folder: Path, *, largest_bytes: int = LARGEST_BYTES) -> None:
        need("zstandard", "zstandard")
        self._decoders = need("mcap_ros2.decoder", "mcap-ros2-support").DecoderFactory()
        self._writer_of = need("mcap.writer", "mcap").Writer
        if folder.exists():
            raise StoreError(f"output folder is {folder}, must not exist yet; choose another, nothing is overwritten")
        self._folder = folder
        self._largest_bytes = largest_bytes
        self.counts: Counter[str] = Counter()
        self.files = 0
        self.bytes_written = 0
        self._newest: dict[Channel, list[tuple[frozenset[str], bytes, int]]] = {}
        with self._disk():
            folder.mkdir(parents=True)
            self._begin()

    def add(self, channel: Channel, data: bytes, received_ns: int) -> None:
        """Append a message: CDR with its four bytes of encapsulation, and its time of arrival on the wall clock."""
        with self._disk():
            self._write(channel, data, received_ns)
        self.counts[channel.topic] += 1
        if channel.latched:
            placed = self._placed(channel, data) if channel.kind == TRANSFORMS else frozenset()
            before = self._newest.get(channel, [])
            self._newest[channel] = [each for each in before if not each[0] <= placed] + [(placed, data, received_ns)]

    def _placed(self, channel: Channel, data: bytes) -> frozenset[str]:
        """Return the frames that a message of transforms places; it makes older ones of no others superfluous.

        Each publisher of latched transforms has its own frames, and a late subscriber hears the last message of each.
        """
        schema_of, definition = need("mcap.records", "mcap").Schema, channel.definition.encode()
        schema = schema_of(id=0, name=channel.kind, encoding="ros2msg", data=definition)
        try:
            message = self._decoders.decoder_for("cdr", schema)(data)
        except (ValueError, struct.error):  # damaged: it is recorded as it is
            return frozenset()
        return frozenset(each.child_frame_id for each in message.transforms)

    def flush(self) -> None:
        """Hand every message to the operating system; begin another file if this one is large."""
        with self._disk():
            self._writer.flush()
            if self._file.tell() > self._largest_bytes:
                self._end()
                self._begin()

    def close(self) -> None:
        """Write the index, and close the file."""
        with self._disk():
            self._end()

    def _begin(self) -> None:
        self._file = (self._folder / f"{self.files:03d}{SUFFIX}").open("xb")
        self.files += 1
        self._numbers: dict[Channel, int] = {}
        self._writer = self._writer_of(self._file)
        self._writer.start(profile="ros2", library="robot-stack")
        for channel, newest in self._newest.items():
            for _, data, received_ns in newest:
                self._write(channel, data, received_ns)

    def _write(self, channel: Channel, data: bytes, received_ns: int) -> None:
        if channel not in self._numbers:
            schema = self._writer.register_schema(channel.kind, "ros2msg", channel.definition.encode())
            metadata = {"offered_qos_profiles": channel.offered} if channel.offered else {}
            self._numbers[channel] = self._writer.register_channel(channel.topic, "cdr", schema, metadata)
        self._writer.add_message(self._numbers[channel], log_time=received_ns, data=data, publish_time=received_ns)

    def _end(self) -> None:
        with self._file:
            self._writer.finish()
            self.bytes_written += self._file.tell()

    def _disk(self) -> AbstractContextManager[None]:
        return disk_errors(f"writing {self._folder}")
