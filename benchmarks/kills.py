"""kill -9 of a learner at random instants: every step that it acknowledged is on disk and in the replay exactly once.

Run: python -m benchmarks.kills [--quick]

A real learner process, fed over the real link with synthetic episodes at five times real time. Half of the kills come
at any instant after it was started, so also while it reads the store, fits or resumes; the other half while it
trains. After each, the episodes on disk are compared with what was acknowledged, value by value. Whenever it trains
again, all that was ever sent must be in the replay, once.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.tiny_run import header_of, steps_of, write_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.annotations import LabelLog
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.calls import learner_status
from robot_stack.transport.client import LearnerClient
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError, TransportError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason, Step

ROOT = Path(__file__).parents[1]
KILLS, QUICK_KILLS = 100, 4
STEPS = 25
STEP_S = 0.02
PATIENCE_S = 600.0
T = TypeVar("T")
Record = tuple[str, int] | Label
"""A header (episode, -1), a step (episode, index), or a label."""


class LearnerProcess:
    """`python -m robot_stack.learner.process` on a run folder."""

    def __init__(self, folder: Path, address: str = "127.0.0.1:0") -> None:
        self.folder = folder
        self._bound = folder / "learner.address"
        self._bound.unlink(missing_ok=True)
        command = [sys.executable, "-m", "robot_stack.learner.process", "--run", str(folder / "run.yaml")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with (folder / "learner.log").open("ab") as log:
            self._child = subprocess.Popen(
                [*command, "--address", address, "--wandb", "disabled"],
                stdout=log, stderr=log, env=environment, cwd=ROOT,
            )  # fmt: skip

    def address(self) -> str:
        """Where it listens, once it does."""
        return self.wait(lambda: self._bound.read_text() if self._bound.exists() else "", "listening")

    def until(self, fits: Callable[[LearnerStatus], bool], what: str) -> LearnerStatus:
        """Its status once that fits."""
        address = self.address()

        def look() -> LearnerStatus | None:
            try:
                status = learner_status(address, security=LinkToken.read(self.folder))
            except TransportError:
                return None
            return status if fits(status) else None

        return self.wait(look, what)

    def wait(self, look: Callable[[], T | None], what: str) -> T:
        """What `look` returns once it returns something true."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self._child.poll() is None and time.monotonic() < deadline_s:
            found = look()
            if found:
                return found
            time.sleep(0.02)
        said = (self.folder / "learner.log").read_text()[-2000:]
        raise RuntimeError(f"learner is not {what} within {PATIENCE_S} s, exit code {self._child.poll()}: {said}")

    def kill(self) -> None:
        """SIGKILL."""
        self._child.kill()
        self._child.wait(30.0)


class Feeder:
    """An actor without a robot: episode after episode on a thread, whatever the learner does.

    Attributes:
        sent: Every record, in the order of the spool.
        frames: Steps among them.
    """

    def __init__(self, resolved: ResolvedRun, folder: Path, address: str) -> None:
        self.sent: list[Record] = []
        self.frames = 0
        self._resolved = resolved
        self._client = LearnerClient(
            address, resolved.spec(), resolved.task.name, "synthetic", folder / "spool", LinkToken.read(folder)
        )
        self._client.connect()
        self._go, self._idle, self._over = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    @property
    def acked(self) -> list[Record]:
        """Records that the learner has acknowledged."""
        return self.sent[: self._client.counters.acked]

    def resume(self) -> None:
        """Go on recording."""
        self._idle.clear()
        self._go.set()

    def settle(self) -> int:
        """End the running episode, wait until all is acknowledged; returns the frames recorded so far."""
        self._go.clear()
        if not self._idle.wait(PATIENCE_S) or not self._client.wait_acked(PATIENCE_S):
            why = f"{self._client.counters}, {self._client.refusal or self._client.last_error}"
            raise RuntimeError(f"records are not acknowledged within {PATIENCE_S} s: {why}")
        return self.frames

    def close(self) -> None:
        """Stop for good."""
        self._over.set()
        self._go.set()
        self._thread.join(10.0)
        self._client.close(timeout_s=0.0)

    def _feed(self) -> None:
        number = 0
        while not self._over.is_set():
            if not self._go.is_set():
                self._idle.set()
                self._go.wait(0.1)
                continue
            self._episode(f"{number:06d}-{'demo' if number < 2 else 'online'}-synthetic", demo=number < 2)
            number += 1

    def _episode(self, name: str, *, demo: bool) -> None:
        self._client.begin(header_of(self._resolved, name))
        self.sent.append((name, -1))
        end, sources = (EndReason.SUCCESS, (Source.HUMAN,) * STEPS) if demo else (EndReason.TIMEOUT, ())
        for step in steps_of(self._resolved.spec(), name, STEPS, end, sources=sources):
            self._client.push(step)
            self.sent.append((name, step.index))
            self.frames += 1
            time.sleep(STEP_S)
        if not demo:
            label = Label(episode_id=name, verdict=Verdict.FAILURE, source=LabelSource.OPERATOR, stamp_unix_s=1.0)
            self._client.label(label)
            self.sent.append(label)


def missing(resolved: ResolvedRun, store: Path, acked: list[Record], *, first: int) -> int:
    """How many of the acknowledged records, from number `first` on, are not on disk as they were recorded."""
    labels = LabelLog(store / "labels.jsonl")
    labels.open()
    said = set(labels.rows)
    lost = sum(record not in said for record in acked if isinstance(record, Label))
    last: dict[str, int] = {}
    for record in acked[first:]:
        if not isinstance(record, Label):
            last[record[0]] = max(record[1], last.get(record[0], -1))
    for name, index in last.items():
        wanted = list(steps_of(resolved.spec(), name, STEPS))[: index + 1]
        try:
            found = read_episode(store / "episodes" / f"{name}.zarr")
        except StoreError:
            lost += index + 2
            continue
        lost += sum(not _same(found, step) for step in wanted)
    return lost


def _same(found: StoredEpisode, step: Step) -> bool:
    arrays, t = found.arrays, step.index
    if t >= len(arrays["proprio"]) or (step.action is not None and t >= found.length):
        return False
    same = np.array_equal(arrays["proprio"][t], step.observation.proprio)
    same &= all(np.array_equal(arrays[f"image_{name}"][t], image) for name, image in step.observation.images.items())
    return same and (step.action is None or np.array_equal(arrays["executed"][t], step.action.executed))


def run(folder: Path, kills: int, seed: int, say: Callable[[str], None] = lambda line: None) -> dict[str, float]:
    """Kill a learner in `folder` so often; keys as of `measure`."""
    rng = random.Random(seed)
    resolved = write_run(folder, "algorithm.settings.utd=0.2")
    learner = LearnerProcess(folder)
    address = learner.address()
    feeder = Feeder(resolved, folder, address)
    lost = checked = 0
    try:
        feeder.resume()
        for kill in range(kills):
            if kill % 2 == 0:
                lost += _wrong_in_replay(learner, feeder)
                feeder.resume()
                time.sleep(rng.uniform(0.0, 2.0))
            else:
                time.sleep(rng.uniform(0.0, 6.0))
            learner.kill()
            acked = feeder.acked
            lost += missing(resolved, folder / "store", acked, first=checked)
            checked = max(0, len(acked) - 2 * STEPS)
            say(f"kill {kill + 1} of {kills}: {len(acked)} records acknowledged, {lost} lost")
            learner = LearnerProcess(folder, address)
        lost += _wrong_in_replay(learner, feeder)
        lost += missing(resolved, folder / "store", feeder.acked, first=0)
    finally:
        feeder.close()
        learner.kill()
    return {"kills": float(kills), "lost_acked_steps": float(lost)}


def _wrong_in_replay(learner: LearnerProcess, feeder: Feeder) -> int:
    """Frames that are too few or too many in the replay of a learner that trains, once all is acknowledged."""
    learner.until(lambda status: status.phase == "training", "training")
    frames = feeder.settle()
    deadline_s = time.monotonic() + 10.0
    while True:
        held = int(learner.until(lambda status: True, "answering").counters["frames"])
        if held == frames or time.monotonic() > deadline_s:
            return abs(held - frames)
        time.sleep(0.05)


def measure(quick: bool) -> dict[str, float]:
    """kills: how many; lost_acked_steps: steps or labels that were acknowledged and are not there exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder) / "run", QUICK_KILLS if quick else KILLS, 0, lambda line: print(line, flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for name, value in measure(parser.parse_args().quick).items():
        print(f"{name} {value:g}")


if __name__ == "__main__":
    main()
