"""A bounded reader of MCAP files: nothing is unpacked before it is known how much it may be.

The index of the file is not used: what it points at could be anything. Its message definitions are not used either: a
definition may ask for a billion empty parts in a message of four bytes.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from robot_stack.datasets import bounds
from robot_stack.datasets.bag import messages
from robot_stack.datasets.extras import need
from robot_stack.types.errors import StoreError

Decoder = Callable[[bytes], Any]


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
