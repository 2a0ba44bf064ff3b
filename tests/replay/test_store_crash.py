"""Fault 15: every step is on disk within a second, whatever kills the process."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zarr

from robot_stack.replay import episode_writer, manifest, stored_episode
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.episode_writer import EpisodeWriter
from robot_stack.replay.stored_episode import read_episode
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EndReason, Step
from tests.replay.recorded import TASK, assert_same_step, header_of, small_spec, steps_of

pytestmark = pytest.mark.long

WRITER = """
import sys
from pathlib import Path
from tests.replay.recorded import TASK, header_of, small_spec, steps_of
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Source
store = EpisodeStore(Path(sys.argv[1]), small_spec(), TASK)
store.open()
for number in range(int(sys.argv[2]), 10_000):
    name = f"{number:06d}"
    store.begin(header_of(name))
    for step in steps_of(small_spec(), name, [Source.POLICY] * 31):
        store.append(step)
        if step.index % 4 == 3 or step.end is not None:
            store.flush()
            print(name, store.durable(name), flush=True)
"""


def _run_and_kill(root: Path, first: int, alive_s: float) -> dict[str, int]:
    """Let a writer run, kill -9 it, and return what it had called durable."""
    command = [sys.executable, "-c", WRITER, str(root), str(first)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    writer = subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert writer.stdout is not None
    lines = [writer.stdout.readline()]
    time.sleep(alive_s)
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate(timeout=240)
    lines += [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    said = [line.split() for line in lines]
    return {name: int(index) for name, index in said}


def test_kill_minus_nine_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    rng = random.Random(3)
    spec, first = small_spec(), 0
    for _ in range(5):
        promised = _run_and_kill(tmp_path, first, rng.uniform(0.0, 0.4))
        assert promised
        with EpisodeStore(tmp_path, spec, TASK) as store:
            assert store.quarantined == {}
            for name, index in promised.items():
                assert store.durable(name) >= index
                wanted = list(steps_of(spec, name, [Source.POLICY] * 31))
                for found, step in zip(store.read(name).steps(), wanted):
                    assert_same_step(found, step)
            for name in store.unfinished:
                store.begin(header_of(name))
                for step in steps_of(spec, name, [Source.POLICY] * 31):
                    store.append(step)
                assert store.read(name).length == 31
            assert store.unfinished == ()
            first = int(store.episodes[-1]) + 1


class Disk:
    """A disk that ends after so many writes and removals, as a process does that is killed there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lasts: int) -> None:
        self._left, self._lock, self.died = lasts, threading.Lock(), False
        for where, name in ((episode_writer, "write_durable"), (manifest, "write_json"), (Path, "unlink")):
            monkeypatch.setattr(where, name, self._while_it_lasts(getattr(where, name)))

    def _while_it_lasts(self, call: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any, **more: Any) -> None:
            with self._lock:
                self.died |= self._left == 0
                if self.died:
                    raise OSError("killed")
                self._left -= 1
            call(*arguments, **more)

        return called


def _killed(root: Path, lasts: int, act: Callable[[EpisodeStore], None]) -> tuple[Path, bool]:
    """What is on disk after a process that was killed behind so many writes; and whether it was.

    What a process has written outlives it without fsync, which is for a power cut.
    """
    store = EpisodeStore(root, small_spec(), TASK)
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(monkeypatch, lasts)
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        with suppress(StoreError):
            store.open()
            act(store)
        left = Path(shutil.copytree(root, f"{root}-{lasts}"))
    store.close()
    return left, disk.died


def _recorded(root: Path, count: int, end: EndReason | None = None) -> list[Step]:
    """Flush so many actions of episode `a`, of which none is the last; returns all steps up to the end."""
    steps = list(steps_of(small_spec(), "a", [Source.POLICY] * count, end))
    with EpisodeStore(root, small_spec(), TASK) as store:
        store.begin(header_of("a"))
        for step in steps[:count]:
            store.append(step)
        store.flush()
    return steps


@pytest.mark.parametrize("column", ["source", "proprio"])
def test_unfinished_episode_whose_metadata_has_a_flipped_bit_is_set_aside_or_as_it_was(
    tmp_path: Path, column: str
) -> None:
    """What zarr reads by it would be other numbers, or fewer of them."""
    steps = _recorded(tmp_path, 25)[:25]
    path = tmp_path / "episodes" / "a.zarr"
    file = path / column / "zarr.json"
    written = file.read_bytes()
    refused = 0
    for at in range(0, len(written), 2):
        file.write_bytes(written[:at] + bytes([written[at] ^ 4]) + written[at + 1 :])
        try:
            writer = EpisodeWriter.resume(path, header_of("a"), small_spec())
        except StoreError:
            refused += 1
            continue
        assert writer.next_index == 25
        for found, step in zip(read_episode(path).steps(), steps, strict=False):
            assert_same_step(found, step)
    assert refused > len(written) / 4


def _cut(store: EpisodeStore) -> None:
    if "a" in store.unfinished:
        store.close_unfinished("a")


def _holds_all(root: Path, steps: list[Step]) -> None:
    """Whatever happened, the cut episode has every frame that was acknowledged, and nothing is set aside."""
    with EpisodeStore(root, small_spec(), TASK) as store:
        assert store.quarantined == {}
        _cut(store)
        found = list(store.read("a").steps())
        assert len(found) == len(steps)
        assert found[-1].end is EndReason.FAULT
        for one, other in zip(found[:-1], steps):
            assert_same_step(one, other)


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 11, 20])
def test_a_kill_between_any_two_writes_of_an_episode_that_is_cut_loses_nothing(tmp_path: Path, count: int) -> None:
    steps = _recorded(tmp_path / "begun", count)
    for lasts in range(200):
        left, died = _killed(tmp_path / "begun", lasts, _cut)
        _holds_all(left, steps)
        if not died:
            break
        shutil.rmtree(left)
        shutil.rmtree(tmp_path / "begun")
        _recorded(tmp_path / "begun", count)
    assert lasts > 14, "there was nothing to be killed in"
    assert not died


@pytest.mark.parametrize("lasts", [1, 2, 8, 14])
def test_a_cut_that_is_killed_again_and_again_costs_no_frame(tmp_path: Path, lasts: int) -> None:
    root = tmp_path / "begun"
    steps = _recorded(root, 12)
    for _ in range(4):
        root, died = _killed(root, lasts, _cut)
        assert died
    _holds_all(root, steps)


@pytest.mark.parametrize("first", [1, 4, 8])
def test_a_kill_at_the_end_and_another_when_its_last_step_comes_again_lose_nothing(tmp_path: Path, first: int) -> None:
    steps = _recorded(tmp_path / "begun", 13, EndReason.SUCCESS)

    def send(store: EpisodeStore) -> None:
        for step in steps:
            store.append(step)

    ended, _ = _killed(tmp_path / "begun", first, send)
    for then in range(0, 90, 3):
        left, died = _killed(Path(shutil.copytree(ended, tmp_path / f"{then}")), then, send)
        with EpisodeStore(left, small_spec(), TASK) as store:
            assert store.quarantined == {}
            assert store.durable("a") >= 12
            send(store)
            assert [step.index for step in store.read("a").steps()] == [step.index for step in steps]
            assert store.read("a").end is EndReason.SUCCESS
        if not died:
            return
    raise AssertionError("it was never written in peace")


def test_an_episode_that_is_cut_while_another_process_reads_it_is_read_whole(tmp_path: Path, monkeypatch) -> None:
    steps = _recorded(tmp_path, 11)
    with EpisodeStore(tmp_path, small_spec(), TASK) as store:
        complete_steps = stored_episode.complete_steps

        def first_the_other(group: zarr.Group) -> int:
            count = complete_steps(group)
            _cut(store)
            return count

        monkeypatch.setattr(stored_episode, "complete_steps", first_the_other)
        found = list(store.read("a").steps())
    assert [step.index for step in found] == [step.index for step in steps]
    assert found[-1].end is EndReason.FAULT


def test_what_is_cut_halfway_is_read_to_its_end_and_is_ended_when_the_store_is_opened(tmp_path: Path) -> None:
    steps = _recorded(tmp_path / "begun", 20)
    left, died = _killed(tmp_path / "begun", 12, _cut)
    assert died
    half = read_episode(left / "episodes/a.zarr")
    assert (half.end, len(list(half.steps()))) == (EndReason.FAULT, len(steps))
    with EpisodeStore(left, small_spec(), TASK) as store:
        assert (store.unfinished, store.episodes) == ((), ("a",))


def test_a_damaged_chunk_of_what_was_being_cut_is_not_sealed_as_good(tmp_path: Path) -> None:
    _recorded(tmp_path / "begun", 20)
    left, _ = _killed(tmp_path / "begun", 3, _cut)
    chunk = left / "episodes/a.zarr/proprio/c.0.0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    with EpisodeStore(left, small_spec(), TASK) as store:
        assert store.episodes == ()
        assert "unreadable" in store.quarantined["a"]
