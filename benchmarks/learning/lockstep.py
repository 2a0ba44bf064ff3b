"""Whole runs in one process, for comparisons: the real actor and learner over gRPC, the cell beside them.

Time stands still while the learner makes the updates that it owes, so that a run takes as long as its updates and not
as long as its robot, and comes out the same on a busy machine.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.settings import learning_settings
from robot_stack.learner.training import Training
from robot_stack.rollout.actor import Actor
from robot_stack.rollout.base.cell import with_base
from robot_stack.rollout.lockstep import CountingClient, Lockstep
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EpisodeRow, of_kind
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.backend import LearnerStatus
from robot_stack.types.params import Params
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell

LAST = 20


class KeepingClient(CountingClient):
    """Remembers the newest parameters that it handed to the actor."""

    newest_params: Params | None = None

    def latest(self) -> Params | None:
        """See the base."""
        params = super().latest()
        if params is not None:
            self.newest_params = params
        return params


def kept_file(folder: Path, episodes: int) -> Path:
    """Of the parameters after so many episodes of online training."""
    return folder / f"kept_{episodes:04d}.safetensors"


def train_online(resolved: ResolvedRun, folder: Path, *, keep_every: int = 0) -> None:
    """One whole run in `folder`, up to its final parameters; those after each `keep_every` episodes are kept too."""
    RunPaths(folder).actor.mkdir(parents=True, exist_ok=True)
    RunPaths(folder).resolved.write_text(resolved.to_yaml())
    stop, training = threading.Event(), Training(resolved, folder)
    failures: list[BaseException] = []

    def learn() -> None:
        try:
            training.run(stop)
        except BaseException as error:  # the top of this thread: raised below, where the benchmark can end
            failures.append(error)
            stop.set()

    address = training.serve("127.0.0.1:0")
    learner = threading.Thread(target=learn, name="learner")
    learner.start()
    spec, cell = resolved.spec(), build_local_cell(resolved, seed=resolved.run.seed)
    client = KeepingClient(
        address, spec, resolved.task.name, "bench", RunPaths(folder).actor / "bench.spool", LinkToken.read(folder)
    )
    client.connect()
    config = learning_settings(resolved).config

    kept = 0

    def keep(status: LearnerStatus) -> None:
        nonlocal kept
        episodes, params = int(status.counters["episodes"]), client.newest_params
        if episodes > kept and keep_every and episodes % keep_every == 0 and params is not None:
            fitting.write_params(kept_file(folder, episodes), params)
        kept = max(kept, episodes)

    clock = Lockstep(
        cell,
        training.backend.status,
        lambda: client.online_steps,
        utd=config.utd,
        pretrain=config.pretrain_updates,
        arrived=client.arrived,
        stopping=stop.is_set,
        told=keep,
    )
    try:
        with with_base(resolved, cell, waits=True) as based:
            why = Actor(resolved, RunPaths(folder).actor, based, clock, client, "bench").run(stop)
    finally:
        stop.set()
        learner.join()
        client.close()
        training.close()
    if failures:
        raise failures[0]
    if why:
        raise SystemExit(f"run {folder.name} ended with {why!r}, must come to its end")


def train_from_shared(resolved: ResolvedRun, folder: Path, shared: Path, *, keep_every: int = 0) -> list[EpisodeRow]:
    """Train online in `folder`, from the demonstrations and the trunk in `shared`; the first to come leaves them there.

    Returns:
        The metrics row of each online episode.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if shared.exists():
        shutil.copytree(shared, folder)
    train_online(resolved, folder, keep_every=keep_every)
    if not shared.exists():
        keep_demonstrations(folder, shared)
    rows = of_kind(read_rows(RunPaths(folder).metrics).rows, EpisodeRow)
    return [row for row in rows if row.episode_kind is EpisodeKind.ONLINE]


def keep_demonstrations(folder: Path, shared: Path) -> None:
    """What other algorithms start from: recorded demonstrations, their labels, and the trunk."""
    draft = shared.with_suffix(".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    recorded, kept = RunPaths(folder).store, RunPaths(draft).store
    shutil.copytree(recorded.root, kept.root, ignore=lambda _, names: [n for n in names if "online" in n])
    first = RunPaths(folder).first_trunk  # a later one has seen online training
    shutil.copy(first if first.exists() else RunPaths(folder).trunk, RunPaths(draft).trunk)
    RunPaths(draft).actor.mkdir()
    demos = len(list(kept.episodes.iterdir()))
    (RunPaths(draft).actor / "bench.next").write_text(str(demos))
    draft.rename(shared)


def human_share(rows: Sequence[EpisodeRow]) -> float:
    """Share of steps that an operator executed."""
    return sum(row.human_steps for row in rows) / max(1, sum(row.steps for row in rows))


def smoothed(result: dict[str, Any], grid_min: np.ndarray) -> np.ndarray:
    """Mean over the last 20 episodes at each instant of the grid."""
    alone = np.array(result["alone"], np.float64)
    done_min = np.cumsum(result["steps"]) / 600
    counts = np.searchsorted(done_min, grid_min, side="right")
    return np.array([alone[max(0, c - LAST) : max(1, c)].mean() for c in counts])
