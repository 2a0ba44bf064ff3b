"""Fault 15: every step is on disk within a second, whatever kills the process."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Source
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
