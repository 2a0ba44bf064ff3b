"""Milliseconds to write an episode of the store, beside those that zarr takes to write the same arrays by itself.

Run: python -m benchmarks.episode_writing [--quick]

72 steps at 20 Hz, two cameras of 64x64; a chunk of each array goes to disk every second. Without fsync, of which both
need as many: what is left takes the cores from the cell beside it. Median of some episodes, in turn.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.sync import sync
from zarr.storage import LocalStore

from benchmarks.tiny_run import header_of, steps_of, write_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.columns import Column, action_row, columns, frame_row
from robot_stack.replay.durable import at_once
from robot_stack.replay.episode_writer import EpisodeWriter, chunk_rows
from robot_stack.replay.manifest import Manifest
from robot_stack.types.transition import EndReason, Step

STEPS = 72
THREADS = 6
EPISODES, QUICK_EPISODES = 20, 5


def ours(path: Path, resolved: ResolvedRun, steps: list[Step]) -> None:
    """Write it as a learner does."""
    spec = resolved.spec()
    writer = EpisodeWriter.create(path, header_of(resolved, path.name), spec)
    for step in steps:
        writer.append(step)
        if (step.index + 1) % chunk_rows(spec) == 0:
            writer.flush()
    writer.seal()


def by_zarr(path: Path, resolved: ResolvedRun, steps: list[Step]) -> None:
    """Write the same chunks with zarr: whole ones, of several arrays at a time, none asked for in vain."""
    spec = resolved.spec()
    rows, laid_out = chunk_rows(spec), columns(spec)
    group = zarr.create_group(LocalStore(path), zarr_format=3)
    arrays = {
        column.name: group.create_array(
            column.name,
            shape=(60 * rows, *column.shape),
            chunks=(rows, *column.shape),
            dtype=column.dtype,
            fill_value=column.fill,
            compressors=(ZstdCodec(level=1), Crc32cCodec()),
            chunk_key_encoding={"name": "default", "separator": "."},
            config={"write_empty_chunks": True},
        )
        for column in laid_out
    }
    for start in range(0, len(steps), rows):
        part = [frame_row(s.observation) | (action_row(s.action) if s.action else {}) for s in steps[start:][:rows]]

        def write(column: Column, start: int = start, part: list[dict[str, object]] = part) -> None:
            chunk = np.full((rows, *column.shape), column.fill, column.dtype)
            for slot, row in enumerate(part):
                if column.name in row:
                    chunk[slot] = row[column.name]
            arrays[column.name][start : start + rows] = chunk

        at_once(write, laid_out, THREADS)

    def trim(column: Column) -> None:
        shape = (len(steps) - (not column.per_frame), *column.shape)
        sync(arrays[column.name].async_array.resize(shape, delete_outside_chunks=False))

    at_once(trim, laid_out, THREADS)
    Manifest.seal(path, end=EndReason.TIMEOUT, length=len(steps) - 1)


def measure(quick: bool) -> dict[str, float]:
    """episode_write_ms: of an episode; episode_write_by_zarr: how many times as long zarr takes."""
    with tempfile.TemporaryDirectory() as place, patch("os.fsync", lambda fd: None):
        folder = Path(place)
        resolved = write_run(folder / "run", side_px=64)
        taken: dict[Callable[..., None], list[float]] = {ours: [], by_zarr: []}
        for number in range(1 + (QUICK_EPISODES if quick else EPISODES)):
            for write, seconds in taken.items():
                name = f"{number:06d}-online-{write.__name__}"
                steps = list(steps_of(resolved.spec(), name, STEPS, EndReason.TIMEOUT))
                begun_s = time.perf_counter()
                write(folder / name, resolved, steps)
                seconds.append(time.perf_counter() - begun_s)
        own, other = (statistics.median(seconds[1:]) for seconds in taken.values())
        return {"episode_write_ms": 1e3 * own, "episode_write_by_zarr": other / own}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for name, value in measure(parser.parse_args().quick).items():
        print(f"{name} {value:.2f}")


if __name__ == "__main__":
    main()
