"""One small run to its end, and the same run killed on both sides, each told once for all tests."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.rollout.actor import Actor
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.client import LearnerClient
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell
from tests.flow.flow_rig import (
    EPISODES,
    ActorProcess,
    Finished,
    Killed,
    Learner,
    actions,
    newest,
    stored,
    wait_for,
    write_run,
)

START_S = 150.0
"""Two processes load torch and a whole run before the first step; beside other work that takes a minute."""


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("flow") / "finished"
    resolved = write_run(folder)
    learner = Learner(folder)
    stop, left, delivered = threading.Event(), [], []

    def act() -> None:
        cell = build_local_cell(resolved, seed=1)  # in here: a renderer belongs to the thread that made it
        client = LearnerClient(
            learner.address,
            resolved.spec(),
            resolved.task.name,
            "actor",
            folder / "actor" / "actor.spool",
            LinkToken.read(folder),
        )
        client.connect()
        try:
            left.append(Actor(resolved, folder / "actor", cell, cell, client, "actor").run(stop))
        finally:
            delivered.append(client.close(timeout_s=100.0))

    actor = threading.Thread(target=act, daemon=True)
    actor.start()
    try:
        status = learner.until("done")
        actor.join(130.0)
        exit_code = learner.terminate()
    finally:
        stop.set()
        learner.kill()
        actor.join(130.0)
    assert not actor.is_alive(), "the actor goes on"
    assert delivered == [True], "the copy that is killed would hold steps of this run"
    return Finished(folder=folder, resolved=resolved, status=status, actor_left=left, exit_code=exit_code)


@pytest.fixture(scope="session")
def killed(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = tmp_path_factory.mktemp("flow") / "killed"
    shutil.copytree(finished.folder, folder)
    (folder / "policy.safetensors").unlink()
    resolved = write_run(folder, "training.max_episodes=1000")
    learner = Learner(folder)
    actor = ActorProcess(folder, learner.address)
    try:
        cut_id, cut_at_kill, actor = _kill_in_an_episode(folder, actor, learner.address)
        status_at_kill = learner.until("training", episodes=EPISODES + 2, updates=200)
        learner.kill()
        checkpoint_at_kill = CheckpointFolder(folder / "checkpoints").steps()[-1]
        stored_at_kill = stored(folder)
        learner = Learner(folder, learner.address)
        behind = status_at_kill.counters
        learner.until("training", updates=behind["updates"] + 60, episodes=behind["episodes"] + 1)
        actor_exit = actor.terminate()
        on_disk = actions([e for name, e in stored(folder).items() if "online" in name])
        status = learner.until("training", env_steps=on_disk)
        with _no_scores(folder):
            _send_one_episode(learner.address, resolved, folder / "late.spool")
            refused = wait_for(lambda: _refusal(learner), "word of the scores that the disk refuses")
        wait_for(lambda: _refusal(learner) == "", "scores on the disk")
        learner_exit = learner.terminate()
    finally:
        actor.kill()
        learner.kill()
    return Killed(
        folder=folder, resolved=resolved, cut_id=cut_id, cut_at_kill=cut_at_kill,
        checkpoint_at_kill=checkpoint_at_kill, stored_at_kill=stored_at_kill, status_at_kill=status_at_kill,
        status=status, actor_exit=actor_exit, learner_exit=learner_exit, refused=refused,
    )  # fmt: skip


def _kill_in_an_episode(folder: Path, actor: ActorProcess, address: str) -> tuple[str, StoredEpisode, ActorProcess]:
    """Kill the actor while an episode of which some steps are on disk is running, and start the next one.

    An episode may end between the look and the kill; then the next one is tried.
    """
    for _ in range(6):
        name, episode = wait_for(lambda actor=actor: _running(folder, actor), "an episode running", START_S)
        actor.kill()
        actor = ActorProcess(folder, address)
        try:
            wait_for(lambda name=name: (newest(folder) or ("",))[0] > name, "an episode of the next actor", START_S)
        except BaseException:
            actor.kill()
            raise
        if stored(folder)[name].end is EndReason.FAULT:
            return name, episode, actor
    raise AssertionError("every episode had ended when its actor was killed")


def _running(folder: Path, actor: ActorProcess) -> tuple[str, StoredEpisode] | None:
    assert not actor.ended, actor.tail()
    last = newest(folder)
    return last if last is not None and last[1].end is None and last[1].length >= 3 else None


def _refusal(learner: Learner) -> str | None:
    """What a learner says of scores that the disk refuses, "" if nothing, None while it says nothing at all."""
    status = learner.status()
    if status is None:
        return None
    return status.message if "writing scores of" in status.message else ""


@contextmanager
def _no_scores(folder: Path) -> Iterator[None]:
    """No score can be written for as long as the block lasts."""
    scores = folder / "store" / "scores"
    shutil.move(scores, folder / "scores")
    scores.write_text("")
    yield
    scores.unlink()
    shutil.move(folder / "scores", scores)


def _send_one_episode(address: str, resolved: ResolvedRun, spool: Path) -> None:
    spec = resolved.spec()
    client = LearnerClient(address, spec, resolved.task.name, "late", spool, LinkToken.read(spool.parent))
    client.connect()
    name = "999999-online-late"
    client.begin(
        EpisodeHeader(
            episode_id=name, kind=EpisodeKind.ONLINE, task=resolved.task.name, actor="late", started_unix_s=1.0
        )
    )
    for index in range(3):
        client.push(_step(spec, name, index, last=index == 2))
    client.close(timeout_s=100.0)


def _step(spec: Spec, name: str, index: int, *, last: bool) -> Step:
    still = np.zeros(spec.action_size, np.float32)
    images = {camera.name: np.zeros(camera.shape, np.uint8) for camera in spec.cameras}
    return Step(
        episode_id=name,
        index=index,
        observation=Observation(images=images, proprio=np.zeros(spec.proprio_size, np.float32), stamp_ns=index),
        action=None
        if last
        else ActionRow(executed=still, proposed=still, human=still, source=Source.POLICY, params_version=1),
        end=EndReason.TIMEOUT if last else None,
    )
