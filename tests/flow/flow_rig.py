"""The real learner process and an actor beside it, small enough for a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.calls import learner_status
from robot_stack.types.errors import StoreError, TransportError

ROOT = Path(__file__).parents[2]
DEMOS = 2
EPISODES = 3
PRETRAIN = 20
SMALL = (
    f"training.demos={DEMOS}",
    f"training.max_episodes={EPISODES}",
    "encoder.settings.steps=10",
    "encoder.settings.batch=16",
    "reward.settings.steps=30",
    "reward.settings.batch=16",
    f"algorithm.settings.pretrain_updates={PRETRAIN}",
    "algorithm.settings.batch_size=16",
    "algorithm.settings.utd=4.0",
    "algorithm.settings.critics=2",
    "algorithm.settings.hidden=[32, 32]",
    "algorithm.settings.head=8",
    "task.episode_steps=40",
    "task.sim.clearance_m=0.008",
    "task.sim.start_height_m=0.02",
    "task.sim.socket_range_m=[0.02, 0.02]",
    "task.sim.start_range_m=[0.02, 0.02, 0.0]",
)
T = TypeVar("T")


def write_run(folder: Path, *more: str) -> ResolvedRun:
    """A run folder with nothing in it but its configuration."""
    folder.mkdir(exist_ok=True)
    resolved = load_run("peg_insert", (*SMALL, *more))
    (folder / "run.yaml").write_text(resolved.to_yaml())
    return resolved


def wait_for(look: Callable[[], T | None], what: str, timeout_s: float = 150.0) -> T:
    """What `look` returns once it returns something true."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true within {timeout_s} s")


class Process:
    """A child whose output goes to a log file."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        with log.open("ab") as file:
            self._child = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=ROOT,
            )  # fmt: skip

    @property
    def ended(self) -> bool:
        return self._child.poll() is not None

    def kill(self) -> None:
        """kill -9."""
        self._child.kill()
        self._child.wait(10.0)

    def terminate(self, timeout_s: float = 40.0) -> int:
        """Ask to stop; returns the exit code."""
        self._child.send_signal(signal.SIGTERM)
        return self._child.wait(timeout_s)

    def wait(self, timeout_s: float) -> int:
        return self._child.wait(timeout_s)

    def tail(self) -> str:
        return self.log.read_text()[-3000:]


class Learner(Process):
    """`python -m robot_stack.learner.process` on a run folder, or what a launcher makes of it."""

    def __init__(self, folder: Path, address: str = "127.0.0.1:0", launcher: Sequence[str] = ("-m",)) -> None:
        self._folder = folder
        bound = folder / "learner.address"
        bound.unlink(missing_ok=True)
        super().__init__(
            folder / "learner.log", *launcher, "robot_stack.learner.process",
            "--run", str(folder / "run.yaml"), "--address", address, "--wandb", "disabled",
        )  # fmt: skip
        try:
            wait_for(lambda: self.ended or (bound.exists() and bound.read_text()), "learner listening")
            assert not self.ended, self.tail()
        except BaseException:
            self.kill()
            raise
        self.address = bound.read_text()

    def status(self) -> LearnerStatus | None:
        try:
            return learner_status(self.address, security=LinkToken.read(self._folder), timeout_s=2.0)
        except TransportError:
            return None

    def until(self, phase: str, timeout_s: float = 240.0, **at_least: float) -> LearnerStatus:
        """Its status once it is in `phase` and every counter has got so far."""

        def look() -> LearnerStatus | None:
            assert not self.ended, self.tail()
            status = self.status()
            if status is None or status.phase != phase:
                return None
            return status if all(status.counters[name] >= value for name, value in at_least.items()) else None

        return wait_for(look, f"phase {phase} with {at_least}", timeout_s)


class ActorProcess(Process):
    """The actor of `actor_process.py` on a run folder."""

    def __init__(self, folder: Path, address: str) -> None:
        script = Path(__file__).with_name("actor_process.py")
        super().__init__(folder / "actor.log", str(script), str(folder / "run.yaml"), address)


def stored(folder: Path) -> dict[str, StoredEpisode]:
    """Every episode on disk, closed or not; one without a frame is left out, and one that is being made just now."""
    found = {}
    for path in sorted((folder / "store" / "episodes").glob("[0-9]*.zarr")):
        try:
            episode = read_episode(path)
        except StoreError:
            continue
        if len(episode.arrays["stamp_ns"]):  # an actor may be stopped between the header and the second frame
            found[path.stem] = episode
    return found


def newest(folder: Path) -> tuple[str, StoredEpisode] | None:
    """The last episode on disk, without its images: quick enough to be looked at while it runs."""
    path = max((folder / "store" / "episodes").glob("[0-9]*.zarr"), default=None)
    try:
        return None if path is None else (path.stem, read_episode(path, images=False))
    except StoreError:
        return None


def actions(episodes: Sequence[StoredEpisode]) -> int:
    return sum(episode.length for episode in episodes)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that went through all phases."""

    folder: Path
    resolved: ResolvedRun
    status: LearnerStatus
    actor_left: list[str]
    exit_code: int


@dataclass(frozen=True, kw_only=True)
class Killed:
    """A run whose actor and then whose learner was killed, and what there was at those moments."""

    folder: Path
    resolved: ResolvedRun
    cut_id: str
    cut_at_kill: StoredEpisode
    checkpoint_at_kill: int
    stored_at_kill: dict[str, StoredEpisode]
    status_at_kill: LearnerStatus
    status: LearnerStatus
    actor_exit: int
    learner_exit: int
    refused: str
