"""Stages that a run's encoder proposes for its successes that nobody has marked; an operator accepts them or not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from policies.encoders.thumbnails import thumbnails_of
from policies.encoders.trunk import Trunk
from reward_models.progress.model import plain_columns
from reward_models.progress.subgoals import sub_goals
from robot_stack.config.resolve import load_resolved
from robot_stack.learner import fitting
from robot_stack.learner.reward.labelled import labels_of
from robot_stack.replay.annotations import MarkLog
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.durable import writing
from robot_stack.replay.layout import SUFFIX
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.stages import MOST_STAGES, StageMark, counting


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """What was proposed.

    Attributes:
        starts: Episode -> first frame of each stage, the first of them 0; () where its features show no stages.
        marked: Episodes that an operator has marked, of which nothing is proposed.
    """

    starts: dict[str, tuple[int, ...]]
    marked: tuple[str, ...]


def propose_stages(folder: Path) -> Proposed:
    """Propose the stages of a run's successes on the features of its frozen encoder, and log them as the model's marks.

    Args:
        folder: Of the run, which must not be going on.

    Raises:
        StoreError: If the run is going on, has no encoder yet, or the disk refuses.
        ConfigError: If its encoder sees no images.
    """
    paths = RunPaths(folder)
    resolved = load_resolved(paths.resolved)
    if not paths.trunk.exists():
        raise StoreError(f"encoder of run {folder.name} is missing, must be there; finish its demonstrations first")
    names = resolved.task.stages
    with writing(paths.store.lock):
        log = MarkLog(paths.store.stages)
        log.open()
        trunk = fitting.load_trunk(paths.trunk, resolved.spec(), "cpu")
        if not trunk.shapes:
            raise ConfigError(f"encoder of run {folder.name} looks at nothing, must see images to propose stages")
        verdicts = labels_of(folder)
        starts: dict[str, tuple[int, ...]] = {}
        marked = []
        for path in sorted(paths.store.episodes.glob("*" + SUFFIX)):
            said = [mark for mark in log.rows if mark.episode_id == path.stem]
            if verdicts.get(path.stem) is not Verdict.SUCCESS:
                continue
            if counting(said):
                marked.append(path.stem)
                continue
            starts[path.stem] = found = _starts(read_episode(path), trunk, len(names) or None)
            for mark in _marks(path.stem, found, names, said):
                log.append(mark)
    return Proposed(starts=starts, marked=tuple(marked))


def _starts(episode: StoredEpisode, trunk: Trunk, stages: int | None) -> tuple[int, ...]:
    features = trunk.encode({view: episode.arrays[IMAGE_PREFIX + view] for view in trunk.shapes}).astype(np.float64)
    plain = features[:, plain_columns(features.shape[1], thumbnails_of(trunk))]
    found = sub_goals(plain / np.maximum(plain.std(axis=0), 1e-6), stages)
    return found if len(found) <= MOST_STAGES else ()


def _marks(
    episode_id: str, starts: Sequence[int], names: Sequence[str], said: Iterable[StageMark]
) -> Iterable[StageMark]:
    """Yield the model's marks of what is proposed now, and those that take back what it proposed before."""
    for mark in counting(said, LabelSource.MODEL):
        if mark.stage >= len(starts):
            yield _mark(episode_id, mark.stage, mark.frame, mark.name, removed=True)
    for stage, frame in enumerate(starts[1:], start=1):
        yield _mark(episode_id, stage, frame, names[stage] if names else "")


def _mark(episode_id: str, stage: int, frame: int, name: str, *, removed: bool = False) -> StageMark:
    return StageMark(
        episode_id=episode_id,
        stage=stage,
        frame=frame,
        source=LabelSource.MODEL,
        stamp_unix_s=time.time(),
        name=name,
        removed=removed,
    )
