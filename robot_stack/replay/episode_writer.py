"""The writer of one episode: rows are buffered, chunks go to disk on flush, the manifest seals it.

Appending touches memory only. A flush writes the chunks that changed, whole and padded, and `source` after the
others: a step is complete on disk exactly when its source is.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.array_spec import ArrayConfigParams
from zarr.core.sync import sync
from zarr.storage import LocalStore

from robot_stack.disk.durable import sync_directory
from robot_stack.replay.columns import Column, action_row, columns, frame_row
from robot_stack.replay.durable import DurableLocalStore, at_once
from robot_stack.replay.manifest import Manifest
from robot_stack.replay.stored_episode import StoredEpisode, complete_steps, episode_attributes
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeHeader, Step

NEW_PREFIX = ".new-"
THREADS = 6
_CONFIG: ArrayConfigParams = {"write_empty_chunks": True}


class EpisodeWriter:
    """The writer of one episode that has not ended, with the steps that are not on disk yet."""

    def __init__(self, path: Path, header: EpisodeHeader, spec: Spec) -> None:
        self.header = header
        self.next_index = 0
        self.durable = -1
        self.end: EndReason | None = None
        self._path = path
        self._columns = columns(spec)
        self._chunk_rows = chunk_rows(spec)
        self._arrays: dict[str, zarr.Array[Any]] = {}
        self._rows = self._empty_rows()
        self._full: list[tuple[int, dict[str, np.ndarray]]] = []

    @classmethod
    def create(cls, path: Path, header: EpisodeHeader, spec: Spec) -> EpisodeWriter:
        """Make an empty episode on disk; it appears under its name whole or not at all."""
        fresh = path.with_name(NEW_PREFIX + path.name)
        shutil.rmtree(fresh, ignore_errors=True)
        rows = chunk_rows(spec)
        capacity = rows * math.ceil(60.0 * spec.rate_hz / rows)
        _create_arrays(DurableLocalStore(fresh), header, spec, capacity, capacity)
        fresh.rename(path)
        sync_directory(path.parent)
        writer = cls(path, header, spec)
        writer._connect()
        return writer

    @classmethod
    def resume(cls, path: Path, header: EpisodeHeader, spec: Spec) -> EpisodeWriter:
        """Continue an episode after a crash, behind its last complete step.

        Raises:
            StoreError: If a chunk before that is missing or damaged.
        """
        writer = cls(path, header, spec)
        try:
            writer._recover(writer._connect())
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
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
        self._resize(frames, frames - 1)
        Manifest.seal(self._path, end=self.end, length=frames - 1)
        self.durable = frames - 1

    def cut(self, end: EndReason) -> None:
        """End the episode at its newest frame; the action after it led to a frame nobody saw, and is dropped."""
        if self.next_index == 0:
            raise StoreError(f"length of {self._path.name} is 0 frames, must be 1 or more to be closed")
        self.flush()
        self.end = end
        self.seal()

    def _connect(self) -> zarr.Group:
        group = zarr.open_group(DurableLocalStore(self._path), mode="r+", zarr_format=3)
        for column in self._columns:
            array = group[column.name]
            if not isinstance(array, zarr.Array):
                raise TypeError(f"{column.name} is a group, must be an array")
            self._arrays[column.name] = array.with_config(_CONFIG)
        return group

    def _recover(self, group: zarr.Group) -> None:
        steps = complete_steps(group)
        chunks = math.ceil(steps / self._chunk_rows)
        first = steps // self._chunk_rows * self._chunk_rows
        for column in self._columns:
            for chunk in range(chunks):
                key = ".".join(["c", str(chunk), *("0" for _ in column.shape)])
                if not (self._path / column.name / key).exists():
                    raise StoreError(f"chunk {column.name}/{key} of {self._path.name} is missing, must be there")
            rows = np.asarray(self._arrays[column.name][:steps])
            self._rows[column.name][: steps - first] = rows[first:]
        self.next_index = steps
        self.durable = steps - 1

    def _reserve(self, frames: int) -> None:
        held = {a.shape[0] for a in self._arrays.values()}
        if len(held) > 1 or min(held) < frames or min(held) % self._chunk_rows:
            rows = self._chunk_rows * math.ceil(2 * frames / self._chunk_rows)
            self._resize(rows, rows)

    def _resize(self, frames: int, actions: int) -> None:
        """Give the arrays another length, and delete the chunks beyond it.

        Few are there. Array.resize of zarr would ask the disk for each of the hundreds that were never written.
        """

        def resize(column: Column) -> None:
            rows, array = frames if column.per_frame else actions, self._arrays[column.name]
            if array.shape[0] != rows:
                for chunk in (self._path / column.name).glob("c.*"):
                    if int(chunk.name.split(".")[1]) * self._chunk_rows >= rows:
                        chunk.unlink()
                sync(array.async_array.resize((rows, *column.shape), delete_outside_chunks=False))

        at_once(resize, self._columns, THREADS)

    def _write_chunk(self, chunk: int, rows: dict[str, np.ndarray]) -> None:
        start = chunk * self._chunk_rows

        def write(name: str) -> None:
            self._arrays[name][start : start + self._chunk_rows] = rows[name]

        *first, last = [column.name for column in self._columns]
        at_once(write, first, THREADS)
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
    arrays = _create_arrays(LocalStore(path), episode.header, episode.spec, frames, episode.length, whole=True)

    def write(name: str) -> None:
        arrays[name].with_config(_CONFIG)[:] = episode.arrays[name]

    at_once(write, arrays, THREADS)
    Manifest.seal(path, end=episode.end, length=episode.length)


def _create_arrays(
    store: LocalStore, header: EpisodeHeader, spec: Spec, frames: int, actions: int, *, whole: bool = False
) -> dict[str, zarr.Array[Any]]:
    """Create the arrays of an episode.

    With `whole`, the numbers of all rows share a chunk: few files are quick to copy, verify and read.
    """
    short = chunk_rows(spec)
    group = zarr.create_group(store, zarr_format=3, attributes=episode_attributes(header, spec))
    return {
        column.name: group.create_array(
            column.name,
            shape=(frames if column.per_frame else actions, *column.shape),
            chunks=(short if len(column.shape) == 3 or not whole else max(short, frames), *column.shape),
            dtype=column.dtype,
            fill_value=column.fill,
            compressors=(ZstdCodec(level=1), Crc32cCodec()),
            chunk_key_encoding={"name": "default", "separator": "."},
        )
        for column in columns(spec)
    }
