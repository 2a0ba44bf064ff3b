"""Checks of the sizes that an episode from elsewhere declares, against its spec, before anything is unpacked.

An array of a terabyte is a line of text in a folder, and a chunk of a kilobyte may say that it unpacks to as much.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets import bounds
from robot_stack.datasets.inside import inside, inside_folder, short_text
from robot_stack.datasets.told import check_header
from robot_stack.replay.columns import IMAGE_PREFIX, Column, columns
from robot_stack.replay.episode_writer import chunk_rows
from robot_stack.replay.layout import SUFFIX
from robot_stack.replay.manifest import FILE_NAME, Manifest
from robot_stack.replay.stored_episode import read_header
from robot_stack.types.errors import DAMAGES, StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeHeader

_CODECS = ["bytes", "zstd", "crc32c"]
_KEYS = {"name": "default", "configuration": {"separator": "."}}
"""Of the chunks, which are looked at by these names."""
_ZSTD_MAGIC = 0xFD2FB528
_ADVICE = "leave the episode out, or take it from somebody you trust"


def check_declared(path: Path) -> None:
    """Check that the closed episode in `path` is laid out as this program writes it, no larger, and of that name.

    Raises:
        StoreError: Naming the file and the first thing that is wrong.
    """
    check_names(path)
    check_sizes(path)
    check_own(path, read_header(path)[0])


def check_names(path: Path) -> None:
    """Raise StoreError unless every file that the episode in `path` holds or lists lies in it."""
    with _in_words(path):
        inside_folder(path, path)
        for name in (FILE_NAME, "zarr.json"):
            short_text(path, name)
        manifest = Manifest.load(path)
        if manifest is None:
            return
        if len(manifest.sha256) > bounds.MAX_FILES or not 0 <= manifest.length <= bounds.MAX_FRAMES:
            raise StoreError(
                f"length of {path.name} is {manifest.length} in {len(manifest.sha256)} files, must be at most "
                f"{bounds.MAX_FRAMES} in {bounds.MAX_FILES}; {_ADVICE}"
            )
        for name in manifest.sha256:
            inside(path, name)


def check_sizes(path: Path) -> None:
    """Raise StoreError unless the header in `path` is one, and arrays and chunks unpack to what its spec says."""
    with _in_words(path):
        manifest = Manifest.load(path)
        if manifest is None:
            return
        if json.loads(short_text(path, "zarr.json")).get("consolidated_metadata") is not None:
            raise StoreError(
                f"consolidated_metadata of {path.name} is there, must not be: it says of arrays what their own files "
                f"may not; {_ADVICE}"
            )
        header, spec = read_header(path)
        check_header(header)
        for column in columns(spec):
            _check_array(path, column, spec, manifest.length + column.per_frame)
        check_held(path.name, manifest.length, spec)


def check_own(path: Path, header: EpisodeHeader) -> None:
    """Raise StoreError unless a header is one, and that of the episode in `path`."""
    with _in_words(path):
        check_header(header)
    if header.episode_id + SUFFIX != path.name:
        raise StoreError(f"header of {path.name} is of {header.episode_id}, must be of its own; restore it")


def check_held(name: str, length: int, spec: Spec) -> None:
    """Raise StoreError unless an episode of this many actions may be held in memory."""
    total = sum((length + column.per_frame) * _row_bytes(column) for column in columns(spec))
    if total > bounds.MAX_EPISODE_BYTES:
        raise StoreError(f"size of {name} is {total} bytes, must be at most {bounds.MAX_EPISODE_BYTES}; {_ADVICE}")


def _row_bytes(column: Column) -> int:
    return math.prod(column.shape) * np.dtype(column.dtype).itemsize


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGES as error:
        raise StoreError(
            f"episode {path.name} is unreadable ({error!r}), must be laid out as this program writes it; {_ADVICE}"
        ) from error


def check_scores(root: Path, episode_id: str = "*") -> None:
    """Raise StoreError if a file of scores below `root` says that it unpacks to more than it holds.

    One that cannot be read at all is left to whoever reads it, who passes over it.

    Args:
        root: Folder of the scores.
        episode_id: Only those of this episode; "*" for all.
    """
    for path in sorted(root.glob(f"*/{episode_id}.npz")):
        inside(root, path.relative_to(root))
        try:
            said = [(member, *_array_header(path, member)) for member in zipfile.ZipFile(path).infolist()]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError):
            continue
        for member, shape, size in said:
            if len(shape) != 1 or size > min(member.file_size, bounds.FREE_BYTES):
                raise StoreError(
                    f"shape of {member.filename[:80]} in {path} is {str(shape)[:80]}, must be one row of at most "
                    f"{member.file_size} bytes; remove the file"
                )


def _array_header(path: Path, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], int]:
    """Read the shape and the size in bytes that an array in an archive says it has."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
        shape, _, dtype = readers[np.lib.format.read_magic(file)](file)
    return shape, math.prod(shape) * dtype.itemsize


def _check_array(path: Path, column: Column, spec: Spec, rows: int) -> None:
    """Raise StoreError unless one array is laid out as its column is, and its chunks unpack to what it says."""
    said: dict[str, Any] = json.loads(short_text(path, f"{column.name}/zarr.json", bounds.MAX_TEXT_CHARS * 4))
    chunk = list(said["chunk_grid"]["configuration"]["chunk_shape"])
    found = (said["shape"], said["data_type"], [codec["name"] for codec in said["codecs"]], chunk[1:])
    wanted = ([rows, *column.shape], np.dtype(column.dtype).name, _CODECS, list(column.shape))
    most_rows = chunk_rows(spec) if column.name.startswith(IMAGE_PREFIX) else max(chunk_rows(spec), rows)
    if found != wanted or not isinstance(chunk[0], int) or not 0 < chunk[0] <= most_rows + chunk_rows(spec):
        raise StoreError(
            f"array {column.name} of {path.name} is {found[0]} {found[1]} by {found[2]} in chunks of {chunk}, "
            f"must be {wanted[0]} {wanted[1]} by {_CODECS} in chunks of at most {most_rows} rows; {_ADVICE}"
        )
    if said["fill_value"] != column.fill:
        raise StoreError(
            f"fill value of array {column.name} of {path.name} is {str(said['fill_value'])[:40]}, "
            f"must be {column.fill}; {_ADVICE}"
        )
    if said["chunk_key_encoding"] != _KEYS:
        raise StoreError(
            f"chunk keys of array {column.name} of {path.name} are {str(said['chunk_key_encoding'])[:200]}, must be "
            f"{_KEYS}; {_ADVICE}"
        )
    for file in (path / column.name).glob("c.*"):
        unpacked = _unpacked_bytes(file)
        if unpacked != chunk[0] * _row_bytes(column):
            raise StoreError(
                f"unpacked size of {path.name}/{column.name}/{file.name} is {unpacked} bytes, must be "
                f"{chunk[0] * _row_bytes(column)} as a chunk of its array; {_ADVICE}"
            )


def _unpacked_bytes(file: Path) -> int:
    """Read the number of bytes that a chunk says it unpacks to.

    Source: RFC 8878, section 3.1.1.1, frame header of Zstandard.

    Raises:
        ValueError: If it is no chunk of ours, or does not say.
    """
    with file.open("rb") as stream:
        head = stream.read(18)
    magic, flags = struct.unpack_from("<IB", head)
    single = bool(flags & 0x20)
    width = {0: 1 if single else 0, 1: 2, 2: 4, 3: 8}[flags >> 6]
    first = 5 + (0 if single else 1) + {0: 0, 1: 1, 2: 2, 3: 4}[flags & 3]
    if magic != _ZSTD_MAGIC or not width or len(head) < first + width:
        raise ValueError(f"chunk {file.name} does not say how large it is")
    return int.from_bytes(head[first : first + width], "little") + (256 if width == 2 else 0)
