"""Starts a run from an earlier one, or from a dataset: its episodes, encoder, reward model, policy and critics.

Everything is copied into the run's folder before its store is opened, so that the run stands by itself from then on. A
kill on the way leaves what is repeated at the next start.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from policies.encoders.embedded import REFIT
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.run import StartFrom
from robot_stack.datasets.new_store import start_store
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.disk.durable import disk_errors, make_durable, sync_directory, write_durable
from robot_stack.learner.checkpoint import CheckpointFolder, first_line, live_version, load_whole
from robot_stack.learner.fitting import saved_identity
from robot_stack.replay.annotations import LabelLog, MarkLog, PreferenceLog, ScoreFiles
from robot_stack.replay.durable import writing
from robot_stack.replay.identity import differences
from robot_stack.replay.layout import StorePaths
from robot_stack.replay.stored_episode import read_header
from robot_stack.runs.metrics import plain_row
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import rows_about
from robot_stack.runs.rows import AlarmRow, of_kind
from robot_stack.runs.statistics import EARLIER_RUN
from robot_stack.types.errors import ConfigError, ResumeError, StoreError
from robot_stack.types.preferences import Kept
from robot_stack.types.spec import TASK, Spec
from robot_stack.types.transition import EpisodeKind

log = logging.getLogger(__name__)

KINDS = {
    EpisodeKind.DEMO: EpisodeKind.DEMO,
    EpisodeKind.ONLINE: EpisodeKind.EARLIER,
    EpisodeKind.EARLIER: EpisodeKind.EARLIER,
}
"""What an episode of the earlier run is in this one; evaluations are not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmStart:
    """What a run that has made no update yet begins with, beside episodes and encoder in its folder.

    Attributes:
        learner: State of the earlier learner; None for a new one.
        reward: Version of the reward model that was in use; None to fit one.
        trusted: Whether that model was trusted at the end.
        told: What the earlier run has logged of that model, as `rows_about` has it, in JSON form.
    """

    learner: dict[str, Any] | None = None
    reward: str | None = None
    trusted: bool = True
    told: tuple[dict[str, Any], ...] = ()


def prepare_start(resolved: ResolvedRun, folder: Path) -> None:
    """Copy what a run starts from into its folder, once; nothing happens without `start_from`.

    Raises:
        ConfigError: If it is not there, lacks what is to be taken, or is of another spec, task or setting; each field
            that differs is named.
        StoreError: If the disk refuses, or another process writes to this run's store.
    """
    start, paths = resolved.run.start_from, RunPaths(folder)
    if start is None or paths.start.exists():
        return
    source = Path(start.run).expanduser()
    taken = _Source(start, source, resolved)
    with disk_errors(f"starting from {source}"):
        if "encoder" in start.take:
            for of, to in zip(taken.encoders, (paths.trunk, paths.reward_trunk), strict=True):
                if of.exists():
                    write_durable(to, of.read_bytes())
        if taken.warm.reward is not None:
            write_durable(paths.reward(taken.warm.reward), taken.paths.reward(taken.warm.reward).read_bytes())
        if taken.view is not None:
            _take_episodes(taken.view, resolved, paths)
        packed = io.BytesIO()
        warm = taken.warm
        torch.save({"learner": warm.learner, "reward": warm.reward, "trusted": warm.trusted, "told": warm.told}, packed)
        write_durable(paths.start, packed.getbuffer())  # last: from now on all of it is there
    log.info("starts from %s: %s", source, ", ".join(start.take))


def read_start(folder: Path) -> WarmStart:
    """Read what a run begins with; a cold start if it begins with nothing.

    Raises:
        ResumeError: If it cannot be read.
    """
    path = RunPaths(folder).start
    if not path.exists():
        return WarmStart()
    try:
        return WarmStart(**load_whole(path))
    except Exception as error:  # torch raises many kinds for a damaged file
        raise ResumeError(
            f"{path} is unreadable ({first_line(error)}), must be whole; to take it again from the run that "
            f"start_from names: rm '{path.absolute()}'"
        ) from error


class _Source:
    """The earlier run, opened and held against this one.

    Attributes:
        view: Its episodes, if they are taken.
        warm: Its learner and reward model, if they are taken.
    """

    def __init__(self, start: StartFrom, source: Path, resolved: ResolvedRun) -> None:
        self._start, self._source, self._resolved = start, source, resolved
        self.paths = RunPaths(source)
        self.encoders = (self.paths.trunk, self.paths.reward_trunk)
        self.view: StoreView | None = None
        self.warm = WarmStart()
        is_run = self.paths.resolved.exists()
        if not is_run and start.take != ("episodes",):
            raise self._refused(f"is no run (it has no {self.paths.resolved.name})", "name a run, or take: [episodes]")
        if "episodes" in start.take:
            self._open_episodes(self.paths.store.root if is_run else source)
        if is_run:
            self._check_run(load_resolved(self.paths.resolved))
        if "encoder" in start.take and not self.paths.trunk.exists():
            raise self._refused("has no encoder", "let that run fit one first, or leave it out of take")
        if {"reward", "learner"} & set(start.take):
            self._read_checkpoint()

    def _refused(self, what: str, remedy: str) -> ConfigError:
        return ConfigError(f"start_from {self._source} {what}, must be one that this run can start from; {remedy}")

    def _open_episodes(self, root: Path) -> None:
        try:
            self.view = open_store(root)
        except StoreError as error:
            raise self._refused(f"has no episodes ({error})", "name the folder of a run or of a dataset") from error
        self._check_spec(self.view.spec)
        self._check_task(self.view.task)
        if self._resolved.task.others:
            self._check_told(self.view)

    def _check_run(self, earlier: ResolvedRun) -> None:
        self._check_spec(earlier.spec())
        if "reward" in self._start.take:
            self._check_task(earlier.task.name)
        were, wanted = earlier.task.equal_ids, self._resolved.task.equal_ids
        if len(wanted) > 1 and were != wanted and {"reward", "learner"} & set(self._start.take):
            raise self._refused(
                f"is of the tasks {', '.join(were)} instead of {', '.join(wanted)}",
                "it was told them by their place; list the same in the same order, or take: [encoder]",
            )
        sections = {"encoder": "encoder", "reward": "reward", "learner": "algorithm"}
        for part in self._start.take:
            if (section := sections.get(part)) is not None:
                was, now = (getattr(run, section).model_dump(mode="json") for run in (earlier.run, self._resolved.run))
                for settings in (was["settings"], now["settings"]) if part == "encoder" else ():
                    for key in REFIT:
                        settings.pop(key, None)
                self._check_same(was, now, section, f"leave {part} out of take")

    def _check_spec(self, spec: Spec) -> None:
        was, wanted = (json.loads(each.to_json()) for each in (spec, self._resolved.spec()))
        self._check_same(was, wanted, "spec", "start from a run of the same arms, cameras and proprio")

    def _check_task(self, task: str) -> None:
        if task != (wanted := self._resolved.task.name):
            raise self._refused(
                f"is of task {task!r} instead of {wanted!r}",
                "what was rewarded there is not here; take: [encoder, learner]",
            )

    def _check_told(self, view: StoreView) -> None:
        """Refuse episodes of another task than those of this run, or whose frames tell their task otherwise."""
        told, part = {turn.id: turn.told for turn in self._resolved.task.turns}, view.spec.part(TASK)
        for episode_id in view.episodes:
            try:
                episode = view.read(episode_id, images=False)
            except StoreError:
                continue  # it is left behind, with the reason, when it is copied
            task_id, have = episode.header.task_id, episode.arrays["proprio"][0, part].tolist()
            if have != list(told.get(task_id, ())):
                raise self._refused(
                    f"has episode {episode_id} of task {task_id}, told as {have}",
                    f"list the tasks as there, {', '.join(told)} are told by their place; or take: [encoder]",
                )

    def _check_same(self, was: object, wanted: object, what: str, remedy: str) -> None:
        if found := differences(was, wanted, what):
            raise ConfigError(f"start_from {self._source}: {'; '.join(found)}; make them the same, or {remedy}")

    def _read_checkpoint(self) -> None:
        state = CheckpointFolder(self.paths.checkpoints).load_latest()
        if state is None:
            raise self._refused("has no checkpoint", "let that run begin its online training first")
        identity = saved_identity(self.paths.trunk)
        if state["trunk"] != identity:
            raise self._refused(f"has a checkpoint of encoder {state['trunk']}", f"put that back, it has {identity}")
        learner = {**state["learner"]} if "learner" in self._start.take else None
        reward = live_version(state) if "reward" in self._start.take else None
        if reward is not None and not self.paths.reward(reward).exists():
            raise self._refused(f"has no {self.paths.reward(reward).name}", "restore it, or leave reward out of take")
        rows = () if reward is None else rows_about(self._source, reward, EARLIER_RUN)
        told = tuple(plain_row(row) for row in rows)
        trusted = state["reward_trusted"] and not of_kind(rows, AlarmRow)  # an alarm may have come after the checkpoint
        self.warm = WarmStart(learner=learner, reward=reward, trusted=trusted, told=told)


def _take_episodes(view: StoreView, resolved: ResolvedRun, paths: RunPaths) -> None:
    """Copy the episodes of a store into that of a run, under ids of their own, with labels and scores."""
    store, draft = paths.store, StorePaths(paths.folder / "start_from.partial")
    make_durable(store.episodes)
    with writing(store.lock):
        shutil.rmtree(draft.root, ignore_errors=True)
        copied = start_store(draft.root, view)
        for episode_id in view.episodes:
            name = EARLIER_RUN + episode_id
            try:
                kind = KINDS.get(read_header(view.path(episode_id))[0].kind)
            except StoreError as error:
                copied.left_out[episode_id] = str(error)
                continue
            if kind is not None and not store.episode(name).exists():
                copied.copy(view, episode_id, name=name, kind=kind)
        copied.carry(view, {name: Kept(name=EARLIER_RUN + name) for name in view.episodes})
        for name, why in copied.left_out.items():
            log.warning("episode %s is left behind: %s", name, why)
        labels, marks, scores = LabelLog(store.labels), MarkLog(store.stages), ScoreFiles(store.scores)
        labels.open()
        for label in copied.labels:
            labels.append(label)
        marks.open()
        for mark in copied.marks:
            marks.append(mark)
        with writing(store.preferences_lock):
            preferences = PreferenceLog(store.preferences)
            preferences.open()
            for preference in copied.preferences:
                preferences.append(preference)
        for version in ScoreFiles(draft.scores).versions:
            for each in ScoreFiles(draft.scores).read(version):
                scores.append(each)
        os.sync()  # of the disk at once: thousands of files synced one by one take minutes
        for name in copied.taken:  # last of an episode: from now on it is not copied again
            os.replace(draft.episode(name), store.episode(name))
        sync_directory(store.episodes)
        shutil.rmtree(draft.root)
