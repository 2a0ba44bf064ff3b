"""The writer of one episode: rows are buffered, chunks go to disk on flush, the manifest seals it.

An episode is a zarr group, which zarr reads. Its files are put together here: one of metadata per array, one per
chunk, compressed by zstd with a checksum behind it. zarr itself takes several times as long to write an episode of many
small chunks (benchmarks/episode_writing.py), and the cell beside it needs the cores.

Appending touches memory only. A flush writes the chunks that changed, whole and padded, and `source` after the
others: a step is complete on disk exactly when its source is.
"""

from __future__ import annotations

import json
import math
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numcodecs.zstd import Zstd
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore

from robot_stack.disk.durable import sync_directory, write_durable
from robot_stack.replay.columns import Column, action_row, columns, frame_row
from robot_stack.replay.durable import together
from robot_stack.replay.manifest import Ending, Manifest
from robot_stack.replay.stored_episode import StoredEpisode, complete_steps, episode_attributes
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeHeader, Step

NEW_PREFIX = ".new-"
METADATA = "zarr.json"
"""Name of the file by which zarr knows a group or an array."""
LEVEL = 1
"""Of zstd."""
_ZSTD = Zstd(level=LEVEL)


class EpisodeWriter:
    """The writer of one episode that has not ended, with the steps that are not on disk yet."""

    def __init__(self, path: Path, header: EpisodeHeader, spec: Spec) -> None:
        self.header = header
        self.next_index = 0
        self.durable = -1
        self.end: EndReason | None = None
        self.is_cut = False
        """Whether it ends before its actor ended it."""
        self._path = path
        self._columns = columns(spec)
        self._chunk_rows = chunk_rows(spec)
        self._reserved = 0
        self._rows = self._empty_rows()
        self._full: list[tuple[int, dict[str, np.ndarray]]] = []

    @classmethod
    def create(cls, path: Path, header: EpisodeHeader, spec: Spec) -> EpisodeWriter:
        """Make an empty episode on disk; it appears under its name whole or not at all."""
        fresh = path.with_name(NEW_PREFIX + path.name)
        shutil.rmtree(fresh, ignore_errors=True)
        rows = chunk_rows(spec)
        capacity = rows * math.ceil(60.0 * spec.rate_hz / rows)
        files = _metadata(header, spec, capacity, capacity)
        for name in files:
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        together(lambda name: write_durable(fresh / name, files[name]), files)
        sync_directory(fresh)
        fresh.rename(path)
        try:
            sync_directory(path.parent)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)  # it is begun anew
            raise
        writer = cls(path, header, spec)
        writer._reserved = capacity
        return writer

    @classmethod
    def resume(cls, path: Path, header: EpisodeHeader, spec: Spec) -> EpisodeWriter:
        """Continue an episode after a crash, behind its last complete step; one that was being cut has ended there.

        Raises:
            StoreError: If a chunk before that is missing or damaged.
        """
        writer = cls(path, header, spec)
        try:
            for column in writer._columns:  # before zarr reads it
                writer._check_metadata(column)
            writer._recover(zarr.open_group(LocalStore(path, read_only=True), mode="r", zarr_format=3))
        except (OSError, ValueError, LookupError, TypeError, RuntimeError) as error:
            raise StoreError(f"unfinished episode {path.name} is unreadable: {error!r}") from error
        return writer

    def append(self, step: Step) -> None:
        """Buffer one step, which must be the next one; memory only."""
        slot = step.index % self._chunk_rows
        row = frame_row(step.observation) | (action_row(step.action) if step.action else {})
        for name, value in row.items():
            self._rows[name][slot] = value
        self.next_index = step.index + 1
        self.end = step.end
        if slot == self._chunk_rows - 1:
            self._full.append((step.index // self._chunk_rows, self._rows))
            self._rows = self._empty_rows()

    def flush(self) -> None:
        """Bring every buffered step to disk. May be repeated after an error."""
        steps = self.next_index - (self.end is not None)
        if self.durable == self.next_index - 1 or self.next_index == 0:
            return
        self._reserve(self.next_index)
        while self._full:
            self._write_chunk(*self._full[0])
            self._full.pop(0)
        if self.next_index % self._chunk_rows:
            self._write_chunk(self.next_index // self._chunk_rows, self._rows)
        self.durable = steps - 1

    def seal(self) -> None:
        """Trim the ended episode to its length and write the manifest. May be repeated after an error."""
        if self.end is None:
            raise StoreError(f"end of {self._path.name} is None, must be set before it is sealed")
        self.flush()
        frames = self.next_index
        if self.is_cut:
            Ending(end=self.end, length=frames - 1).declare(self._path)
        self._shrink(frames)
        Manifest.seal(self._path, end=self.end, length=frames - 1)
        self.durable = frames - 1

    def cut(self, end: EndReason) -> None:
        """End the episode at its newest frame; the action after it led to a frame nobody saw, and is dropped."""
        if self.next_index == 0:
            raise StoreError(f"length of {self._path.name} is 0 frames, must be 1 or more to be closed")
        self.flush()
        self.end, self.is_cut = end, True
        self.seal()

    def _recover(self, group: zarr.Group) -> None:
        arrays = {column.name: _array(group, column.name) for column in self._columns}
        lengths = {array.shape[0] for array in arrays.values()}
        if len(lengths) == 1:  # else it was killed while it gave them another one
            self._reserved = min(lengths) // self._chunk_rows * self._chunk_rows
        if ending := Ending.load(self._path):
            self.end, self.is_cut, frames, actions = ending.end, True, ending.length + 1, ending.length
        else:
            frames = actions = complete_steps(group)
        first = frames // self._chunk_rows * self._chunk_rows
        for column in self._columns:
            for chunk in range(math.ceil((frames if column.per_frame else actions) / self._chunk_rows)):
                key = _chunk_name(column, chunk)
                if not (self._path / column.name / key).exists():
                    raise StoreError(f"chunk {column.name}/{key} of {self._path.name} is missing, must be there")
            rows = np.asarray(arrays[column.name][:frames])  # also for its checksums
            if self.end is None:  # else nothing is written behind it any more
                self._rows[column.name][: frames - first] = rows[first:]
        self.next_index = frames
        self.durable = frames - 1

    def _check_metadata(self, column: Column) -> None:
        """Refuse an array that zarr would read otherwise than it was written, or not to its end.

        An episode without a manifest has no checksums but those in its chunks.

        Raises:
            StoreError: If its metadata is not what was written.
        """
        folder = self._path / column.name
        told = json.loads((folder / METADATA).read_bytes())
        rows, short = told["shape"][0], told["chunk_grid"]["configuration"]["chunk_shape"][0]
        if short != self._chunk_rows:
            raise StoreError(
                f"chunks of {column.name} of {self._path.name} have {short} rows, must have {self._chunk_rows}"
            )
        last = max((int(chunk.name.split(".")[1]) for chunk in folder.glob("c.*")), default=0)
        beyond = last * self._chunk_rows > rows  # a kill in `_shrink` leaves one that begins where the rows end
        if beyond or told != json.loads(_array_metadata(column, rows, self._chunk_rows)):
            raise StoreError(
                f"{METADATA} of {column.name} of {self._path.name} is not what was written, must be; check the disk"
            )

    def _reserve(self, frames: int) -> None:
        """Give the arrays on disk room for so many frames, and as many again."""
        if self._reserved < frames:
            rows = self._chunk_rows * math.ceil(2 * frames / self._chunk_rows)
            *others, source = self._columns
            together(lambda column: self._resize(column, rows), others)
            self._resize(source, rows)
            self._reserved = rows

    def _shrink(self, frames: int) -> None:
        """Give the arrays on disk the length of an episode of so many frames, and delete the chunks beyond it.

        `source` comes first here, and last where they grow: whenever that is killed, no step counts of which the rest
        is not there. Few chunks are; Array.resize of zarr would ask the disk for each of the hundreds that were never
        written.
        """

        def shrink(column: Column) -> None:
            rows = frames if column.per_frame else frames - 1
            self._resize(column, rows)
            for chunk in (self._path / column.name).glob("c.*"):
                if int(chunk.name.split(".")[1]) * self._chunk_rows >= rows:
                    chunk.unlink()

        *others, source = self._columns
        shrink(source)
        together(shrink, others)

    def _resize(self, column: Column, rows: int) -> None:
        write_durable(self._path / column.name / METADATA, _array_metadata(column, rows, self._chunk_rows))

    def _write_chunk(self, chunk: int, rows: dict[str, np.ndarray]) -> None:
        def write(column: Column) -> None:
            write_durable(self._path / column.name / _chunk_name(column, chunk), _encoded(rows[column.name]))

        *first, last = self._columns
        together(write, first)
        write(last)

    def _empty_rows(self) -> dict[str, np.ndarray]:
        return {c.name: np.full((self._chunk_rows, *c.shape), c.fill, c.dtype) for c in self._columns}


def chunk_rows(spec: Spec) -> int:
    """Return the number of rows in a chunk: about one second of them."""
    return max(1, round(spec.rate_hz))


def write_whole(path: Path, episode: StoredEpisode) -> None:
    """Write a closed episode at once, array by array, with its manifest.

    For a directory that nobody reads yet: nothing is synced, the caller does that once for all episodes.

    Raises:
        StoreError: If the episode has not ended.
        OSError: If the disk refuses.
    """
    if episode.end is None:
        raise StoreError(f"end of {episode.header.episode_id} is None, must be set; leave the episode out")
    frames = len(episode.arrays["stamp_ns"])
    files = _metadata(episode.header, episode.spec, frames, episode.length, whole=True)
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)

    def write(column: Column) -> None:
        values, rows = episode.arrays[column.name], _rows_of(column, chunk_rows(episode.spec), frames)
        for chunk, start in enumerate(range(0, len(values), rows)):
            part = values[start : start + rows]
            padded = np.full((rows, *column.shape), column.fill, column.dtype)
            padded[: len(part)] = part
            (path / column.name / _chunk_name(column, chunk)).write_bytes(_encoded(padded))

    together(write, columns(episode.spec))
    Manifest.seal(path, end=episode.end, length=episode.length)


def _array(group: zarr.Group, name: str) -> zarr.Array[Any]:
    array = group[name]
    if not isinstance(array, zarr.Array):
        raise TypeError(f"{name} is a group, must be an array")
    return array


def _chunk_name(column: Column, chunk: int) -> str:
    """Return the name of the file of a chunk."""
    return ".".join(["c", str(chunk), *("0" for _ in column.shape)])


def _rows_of(column: Column, short: int, frames: int) -> int:
    """Return the rows of a chunk in an episode that is written at once: the numbers of all frames share one."""
    return short if len(column.shape) == 3 else max(short, frames)


def _encoded(rows: np.ndarray) -> bytes:
    """Return a chunk as the codecs of `_of_zarr` have it."""
    packed = bytes(_ZSTD.encode(np.ascontiguousarray(rows)))
    checksum: int = google_crc32c.value(packed)
    return packed + checksum.to_bytes(4, "little")


def _metadata(header: EpisodeHeader, spec: Spec, frames: int, actions: int, *, whole: bool = False) -> dict[str, bytes]:
    """Return the files by which zarr knows an episode and its arrays, by their path: nothing else makes it.

    With `whole`, the numbers of all rows share a chunk: few files are quick to copy, verify and read.
    """
    short = chunk_rows(spec)
    group = {"zarr_format": 3, "node_type": "group", "attributes": episode_attributes(header, spec)}
    files = {METADATA: json.dumps(group).encode()}
    for column in columns(spec):
        chunk = _rows_of(column, short, frames) if whole else short
        rows = frames if column.per_frame else actions
        files[f"{column.name}/{METADATA}"] = _array_metadata(column, rows, chunk)
    return files


def _array_metadata(column: Column, rows: int, chunk: int) -> bytes:
    """Return the metadata of an array of so many rows, of which so many are in a chunk."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [chunk, *column.shape]}}
    return json.dumps(_of_zarr(column) | {"shape": [rows, *column.shape], "chunk_grid": grid}).encode()


@cache
def _of_zarr(column: Column) -> dict[str, Any]:
    """Return what zarr itself writes of such an array."""
    array = zarr.create_array(
        MemoryStore(),
        shape=(1, *column.shape),
        chunks=(1, *column.shape),
        dtype=column.dtype,
        fill_value=column.fill,
        compressors=(ZstdCodec(level=LEVEL), Crc32cCodec()),
        chunk_key_encoding={"name": "default", "separator": "."},
    )
    written = array.metadata.to_buffer_dict(default_buffer_prototype())[METADATA]
    told: dict[str, Any] = json.loads(written.to_bytes())
    return told
