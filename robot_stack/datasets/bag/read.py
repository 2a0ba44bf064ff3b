"""Import of episodes from MCAP files into a folder of episodes, without ROS.

Nothing is unpacked before it is known how much it may be. The index of a file is not used: what it points at could be
anything. Its message definitions are not used either: a definition may ask for a billion empty parts in a message of
four bytes.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets import bounds
from robot_stack.datasets.bag import messages
from robot_stack.datasets.bag.write import SUFFIX
from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.extras import need
from robot_stack.datasets.inside import inside
from robot_stack.datasets.new_store import NewStore, Progress
from robot_stack.datasets.told import Said, header_of, said_of, text_of
from robot_stack.replay.columns import IMAGE_PREFIX, columns
from robot_stack.replay.identity import check_spec
from robot_stack.replay.layout import StorePaths
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason

Decoder = Callable[[bytes], Any]
HEADER_BYTES = 1024
"""Of a message beside its numbers: stamp, frame, encoding, names of a few."""


def raw_messages(file: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield topic, type and CDR bytes of every message, in the order of the file; checksums are compared.

    Raises:
        StoreError: If a chunk unpacks to more than it may, or is packed in another way.
        Exception: Of the readers, if the file is damaged.
    """
    records = need("mcap.records", "mcap")
    size = file.stat().st_size
    left = bounds.unpacked_limit(size)
    schemas: dict[int, str] = {}
    channels: dict[int, tuple[str, str]] = {}
    with file.open("rb") as stream:
        reader = need("mcap.stream_reader", "mcap").StreamReader(
            _NoFurther(stream, size), emit_chunks=True, validate_crcs=True, record_size_limit=size
        )
        for record in reader.records:
            if isinstance(record, records.Chunk):
                left -= record.uncompressed_size
                if record.uncompressed_size > bounds.MAX_CHUNK_BYTES or left < 0:
                    raise StoreError(
                        f"unpacked size of {file} is {bounds.unpacked_limit(size) - left} bytes or more, of one chunk "
                        f"{record.uncompressed_size}, must be at most {bounds.unpacked_limit(size)} for a file of "
                        f"{size}, of one chunk {bounds.MAX_CHUNK_BYTES}; take it from somebody you trust"
                    )
                parts = _records(_unpacked(record, file))
            else:
                parts = iter((record,))
            for part in parts:
                if isinstance(part, records.Schema):
                    schemas[part.id] = part.name
                elif isinstance(part, records.Channel) and part.message_encoding == "cdr":
                    channels[part.id] = (part.topic, schemas.get(part.schema_id, ""))
                elif isinstance(part, records.Message) and part.channel_id in channels:
                    yield (*channels[part.channel_id], part.data)


def decoders() -> Mapping[str, Decoder]:
    """Return, for each message type, a decoder of its CDR bytes, made from our own definitions."""
    generate = need("mcap_ros2._dynamic", "mcap-ros2-support").generate_dynamic
    return {name: generate(name, text)[name] for name, text in messages.DEFINITIONS.items()}


class _NoFurther:
    """A file that is never asked for more than is left of it: a length in it may say anything."""

    def __init__(self, stream: io.BufferedReader, size: int) -> None:
        self._stream = stream
        self._size = size

    def read(self, length: int) -> bytes:
        """Read at most `length` bytes, and no more than are left in the file."""
        return self._stream.read(min(length, self._size - self._stream.tell()))


def _unpacked(chunk: Any, file: Path) -> bytes:
    """Unpack a chunk, and refuse one that is not as large as it says."""
    most = chunk.uncompressed_size
    if chunk.compression == "zstd":
        zstandard = need("zstandard", "zstandard")
        raw = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(chunk.data)).read(most + 1)
    elif chunk.compression == "lz4":
        raw = need("lz4.frame", "lz4").LZ4FrameDecompressor().decompress(chunk.data, max_length=most + 1)
    elif chunk.compression == "":
        raw = chunk.data
    else:
        raise StoreError(
            f"compression of {file} is {chunk.compression[:40]!r}, must be zstd, lz4 or none; export it again"
        )
    if len(raw) != most:
        raise StoreError(
            f"unpacked size of a chunk of {file} is {len(raw)} bytes or more, must be {most} as it says; copy it again"
        )
    if chunk.uncompressed_crc and zlib.crc32(raw) != chunk.uncompressed_crc:
        raise ValueError("checksum of a chunk")
    return bytes(raw)


def _records(raw: bytes) -> Iterator[Any]:
    """Yield the schemas, channels and messages of a chunk."""
    opcode = need("mcap.opcode", "mcap").Opcode
    records = need("mcap.records", "mcap")
    stream = need("mcap.data_stream", "mcap").ReadDataStream(io.BytesIO(raw))
    while stream.count < len(raw):
        kind, length = stream.read1(), stream.read8()
        end = stream.count + length
        if end > len(raw):
            raise ValueError(f"record of {length} bytes in a chunk of {len(raw)}")
        if kind == opcode.MESSAGE:
            yield records.Message.read(stream, length)
        elif kind == opcode.CHANNEL:
            yield records.Channel.read(stream)
        elif kind == opcode.SCHEMA:
            yield records.Schema.read(stream)
        else:
            stream.read(length)


def import_mcap(folder: Path, out: Path, *, on_episode: Progress) -> NewStore:
    """Write a folder of episodes from all MCAP files in `folder`.

    Raises:
        StoreError: If there are none, one is damaged or holds no episode, they are of different cells, a package is
            missing, or the disk refuses.
    """
    files = sorted(folder.glob("*" + SUFFIX))
    if not files:
        raise StoreError(f"number of {SUFFIX} files in {folder} is 0, must be at least 1; name a folder that has some")
    with new_folder(out) as draft:
        StorePaths(draft).episodes.mkdir()
        store: NewStore | None = None
        for number, file in enumerate(files):
            on_episode("imported", number + 1, len(files))
            episode, (labels, marks, preferences), task, text = read_mcap(inside(folder, file.name))
            if store is None:
                store = NewStore(root=draft, spec=episode.spec, task=task, text=text)
            if episode.header.first_task:
                store.text = text
            else:
                store.others[episode.header.task_id] = text
            check_spec(episode.spec, store.spec, f"file {file.name}")
            if task != store.task:
                raise StoreError(f"task of {file} is {task!r}, must be {store.task!r}; import it by itself")
            store.write(episode)
            store.labels += labels
            store.marks += marks
            store.preferences += preferences
        assert store is not None
        store.finish("import mcap", [folder], {})
    return store


def read_mcap(file: Path) -> tuple[StoredEpisode, Said, str, str]:
    """Read one episode, its labels, stage marks and preferences, the name of its task and the task in words.

    Raises:
        StoreError: If the file is damaged, unpacks to more than it may, or holds no episode.
    """
    try:
        about = _about(file)
        spec = Spec.from_json(json.dumps(about["spec"]))
        return _episode(file, about, spec)
    except _damages() as error:
        raise StoreError(
            f"file {file} is unreadable ({error!r}), must be an episode as data export wrote it; copy it again"
        ) from error


def _damages() -> tuple[type[Exception], ...]:
    """Return the errors that a damaged or foreign file makes its readers raise."""
    ours = (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, struct.error, SpecError)
    sizes = (MemoryError, OverflowError, RecursionError)
    return (*ours, *sizes, need("mcap.exceptions", "mcap").McapError, need("zstandard", "zstandard").ZstdError)


def _about(file: Path) -> dict[str, Any]:
    """Read the file's account of itself, its first message as data export writes it."""
    found = set()
    for topic, kind, raw in raw_messages(file):
        if topic != messages.ABOUT:
            found.add(topic[: bounds.MAX_NAME_CHARS])
            continue
        if kind != messages.STRING or len(raw) > bounds.MAX_ABOUT_BYTES:
            raise StoreError(
                f"topic {messages.ABOUT} of {file} is {kind[:40]} of {len(raw)} bytes, must be {messages.STRING} of at "
                f"most {bounds.MAX_ABOUT_BYTES}; export it again"
            )
        about = json.loads(decoders()[messages.STRING](raw).data)
        return dict(about)
    raise StoreError(
        f"topic {messages.ABOUT} of {file} is missing (there are {', '.join(sorted(found)[:20]) or 'none'}), must "
        "be there; only files that data export wrote hold an episode"
    )


def _topics(file: Path, spec: Spec) -> dict[str, list[Any]]:
    """Read the messages of an episode's topics, each of its type and no longer than the spec makes it."""
    arms = len(spec.arms)
    names = sum(len(field.name) + 16 for field in spec.proprio for _ in range(field.size))
    joy, joints = (messages.JOY, 4 * (spec.action_size + 3 + arms)), messages.JOINT_STATE
    expected = {
        messages.STATE: (joints, 8 * spec.proprio_size + names),
        messages.TIMING: (joints, 64),
        messages.PARAMS: (joints, 64),
        messages.EXECUTED: joy,
        messages.PROPOSED: joy,
        messages.HUMAN: joy,
        **{messages.camera_topic(c.name): (messages.IMAGE, math.prod(c.shape)) for c in spec.cameras},
    }
    found: dict[str, list[Any]] = defaultdict(list)
    decode = decoders()
    for topic, kind, raw in raw_messages(file):
        if topic not in expected:
            continue
        wanted, size = expected[topic]
        if kind != wanted or len(raw) > size + HEADER_BYTES or len(found[topic]) >= bounds.MAX_FRAMES:
            raise StoreError(
                f"message {len(found[topic])} of topic {topic} in {file} is {kind[:40]} of {len(raw)} bytes, must be "
                f"{wanted} of at most {size + HEADER_BYTES}, and one of {bounds.MAX_FRAMES}; export it again"
            )
        found[topic].append(decode[kind](raw))
    return found


def _episode(file: Path, about: dict[str, Any], spec: Spec) -> tuple[StoredEpisode, Said, str, str]:
    header = header_of(about["header"])
    said = said_of(about, header.episode_id)
    topics = _topics(file, spec)
    states, executed = topics[messages.STATE], topics[messages.EXECUTED]
    timing, params = _positions(topics[messages.TIMING], 2), _positions(topics[messages.PARAMS], 2)
    several = len(spec.arms) if len(spec.arms) > 1 else 0
    buttons = np.array([message.buttons for message in executed], np.int64).reshape(len(executed), 3 + several)
    arrays = {
        "proprio": _positions(states, spec.proprio_size),
        "stamp_ns": np.array([m.header.stamp.sec * 1_000_000_000 + m.header.stamp.nanosec for m in states]),
        "age_s": timing[:, 0],
        "skew_s": timing[:, 1],
        "executed": _axes(executed, spec.action_size),
        "proposed": _axes(topics[messages.PROPOSED], spec.action_size),
        "human": _axes(topics[messages.HUMAN], spec.action_size),
        "source": buttons[:, 0],
        "gripper_pressed": buttons[:, 1],
        "clipped": buttons[:, 2],
        "sources": buttons[:, 3:],
        "params_version": params[:, 0],
        "params_age_s": params[:, 1],
    }
    for camera in spec.cameras:
        images = [np.frombuffer(m.data, np.uint8) for m in topics[messages.camera_topic(camera.name)]]
        arrays[IMAGE_PREFIX + camera.name] = np.stack(images).reshape(-1, *camera.shape)
    typed = {column.name: arrays[column.name].astype(column.dtype) for column in columns(spec)}
    episode = StoredEpisode(header=header, spec=spec, end=EndReason(about["end"]), arrays=typed)
    return episode, said, text_of(about["task"], "task", bounds.MAX_NAME_CHARS), text_of(about["text"], "text")


def _positions(found: list[Any], size: int) -> np.ndarray:
    return np.array([message.position for message in found], np.float64).reshape(len(found), size)


def _axes(found: list[Any], size: int) -> np.ndarray:
    return np.array([message.axes for message in found], np.float32).reshape(len(found), size)
