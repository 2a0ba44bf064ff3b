"""Record of a run, read from its folder for a report. Read only; what is missing or torn is named, never a crash."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.annotations import ScoreFiles, read_labels
from robot_stack.replay.stored_episode import StoredEpisode, read_episode, read_frames
from robot_stack.runs.beginning import Beginning
from robot_stack.runs.evaluation import read_evaluation
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import ControlRow, CriticRow, EpisodeRow, MetricsRow, RewardFitRow, UpdateRow, of_kind
from robot_stack.runs.statistics import by_start
from robot_stack.types.errors import ConfigError, StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EpisodeKind

Figures = dict[str, Any]
"""Figures of an evaluation or of a run by name, as they are in a JSON file."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything of a run that a report is made from; labels and scores are those of when they were first asked for.

    Attributes:
        folder: Where it lies; its name is the run's.
        resolved: The run as configured, or None.
        rows: Of the learner, in the order of writing.
        actor_rows: Of all actors.
        policy: Evaluation of the policy, or None.
        bc: Evaluation of behaviour cloning on the same demonstrations, or None.
        deployed: What the last deployment of a policy came to, or None.
        memory: {"peak_mb": ...}, or None.
        phases: Phase -> seconds of wall time, or None.
        beginning: How the run was begun, or None.
        problems: What could not be read, in words.
    """

    folder: Path
    resolved: ResolvedRun | None
    rows: list[MetricsRow]
    actor_rows: list[MetricsRow]
    policy: Figures | None
    bc: Figures | None
    deployed: Figures | None
    memory: Figures | None
    phases: Figures | None
    beginning: Beginning | None
    problems: tuple[str, ...] = ()

    @property
    def quick(self) -> bool:
        """Return whether the run went through every phase in minutes, too short to learn."""
        return self.beginning is not None and self.beginning.quick

    @property
    def model_judges(self) -> bool:
        """Return whether the reward model may say that the task is done; an environment says so itself."""
        return self.resolved is None or not self.resolved.is_environment

    @property
    def paths(self) -> RunPaths:
        """Return the paths of the run's files."""
        return RunPaths(self.folder)

    def episodes(self, kind: EpisodeKind) -> list[EpisodeRow]:
        """Return one row per finished episode of a kind, in the order of their start.

        A resumed learner writes a row again; the last counts.

        Verdicts that arrived after the row was written are taken from the labels.
        """
        newest = {row.episode_id: row for row in of_kind(self.rows, EpisodeRow) if row.episode_kind is kind}
        return [self._with_labels(newest[name]) for name in self._by_start(newest)]

    def judged(self) -> tuple[list[EpisodeRow], np.ndarray]:
        """Return the training episodes that nobody discarded, and the minutes of robot time at the end of each."""
        online = self.episodes(EpisodeKind.ONLINE)
        kept = np.array([not row.discarded for row in online], dtype=bool)
        minutes = np.cumsum([row.duration_s for row in online]) / 60
        return [row for row in online if not row.discarded], minutes[kept]

    def controls(self, kind: EpisodeKind) -> list[ControlRow]:
        """Return the actors' rows about the ticks of episodes of a kind."""
        return [row for row in of_kind(self.actor_rows, ControlRow) if row.episode_kind is kind]

    def updates(self) -> list[UpdateRow]:
        """Return one row per logged update count, rising.

        What a killed learner did after its checkpoint is done again, and the last row counts.
        """
        newest = {row.updates: row for row in of_kind(self.rows, UpdateRow)}
        return [newest[count] for count in sorted(newest)]

    def critic(self) -> list[CriticRow]:
        """Return what the critic said of each episode before it was trained on it, in the order of their start.

        The newest row of each counts.
        """
        newest = {row.episode_id: row for row in of_kind(self.rows, CriticRow)}
        return [newest[name] for name in self._by_start(newest)]

    def stored(
        self, episode_id: str, *, images: bool = True, only: Collection[str] | None = None
    ) -> StoredEpisode | None:
        """Return frames and motions of an episode, or None if it is not in the store.

        Without `images` no pixel is decoded; with `only` nothing but these columns and `source`.
        """
        try:
            return read_episode(self.paths.store.episode(episode_id), images=images, only=only)
        except StoreError:
            return None

    def first_and_last(self, episode_id: str) -> tuple[Sequence[np.ndarray], Sequence[np.ndarray]] | None:
        """Return the first and the last image of each camera of an episode, or None if the store has none of it."""
        stored = self.stored(episode_id, only=())
        last = -1 if stored is None else stored.length - (stored.end is None)  # unfinished: its last frame may lack
        if last < 0:
            return None
        try:
            ends = read_frames(self.paths.store.episode(episode_id), [0, last])
        except StoreError:
            return None
        return [images[0] for images in ends.values()], [images[1] for images in ends.values()]

    @cached_property
    def scores(self) -> dict[str, EpisodeScores]:
        """For each episode its scores by the newest reward model that scored it."""
        files = ScoreFiles(self.paths.store.scores)
        fitted = [row.version for row in of_kind(self.rows, RewardFitRow)]
        found: dict[str, EpisodeScores] = {}
        for version in sorted(files.versions, key=lambda name: fitted.index(name) if name in fitted else -1):
            found |= {scores.episode_id: scores for scores in files.read(version)}
        return found

    def _by_start(self, names: Iterable[str]) -> list[str]:
        """Return episodes in the order of their start, see `by_start`; one without a row follows its actor's last."""
        return by_start({name: self._started.get(name, -np.inf) for name in names})

    @cached_property
    def _started(self) -> dict[str, float]:
        """Return the time of the start of each episode that has a row, 0 in rows of an old version."""
        return {row.episode_id: row.started_unix_s for row in of_kind(self.rows, EpisodeRow)}

    def _with_labels(self, row: EpisodeRow) -> EpisodeRow:
        said = self._verdicts.get(row.episode_id, {})
        truth, model, operator = (
            said.get(source) for source in (LabelSource.TRUTH, LabelSource.MODEL, LabelSource.OPERATOR)
        )
        counts, declared = operator or model, row.declared if model is None else model is Verdict.SUCCESS
        return replace(
            row,
            truth=row.truth if truth is None else truth is Verdict.SUCCESS,
            declared=declared,
            success=row.success if counts is None else counts is Verdict.SUCCESS,
            refused=row.refused if operator is None else declared and operator is Verdict.FAILURE,
            discarded=row.discarded if operator is None else operator is Verdict.DISCARD,
        )

    @cached_property
    def _verdicts(self) -> dict[str, dict[LabelSource, Verdict]]:
        """Of each episode the newest verdict of each source, by the labels."""
        said: dict[str, dict[LabelSource, Verdict]] = {}
        labels = read_labels(self.paths.store.labels).rows
        for label in sorted(labels, key=lambda label: (label.stamp_unix_s, label.verdict)):
            said.setdefault(label.episode_id, {})[label.source] = label.verdict
        return said


def read_run(folder: Path) -> RunRecord:
    """Read what there is in the folder of a run.

    Raises:
        StoreError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise StoreError(f"run folder is {folder}, must be an existing folder; see `robot-stack report --help`")
    paths = RunPaths(folder)
    problems: list[str] = []
    return RunRecord(
        folder=folder,
        resolved=_resolved(paths.resolved, problems),
        rows=_rows(paths.metrics, problems),
        actor_rows=_actor_rows(paths, problems),
        policy=_evaluation(paths.evaluation("policy"), problems),
        bc=_evaluation(paths.evaluation("bc"), problems),
        deployed=_evaluation(RunPaths(paths.deployed).summary, problems, "deploy"),
        memory=_json(paths.memory, problems),
        phases=_json(paths.phases, problems),
        beginning=Beginning.read(folder),
        problems=tuple(problems),
    )


def episode_numbers(episode_ids: Sequence[str]) -> np.ndarray:
    """Return where episodes stand on the axis of a plot, int, shape (n,).

    That is at the numbers in their names, demonstrations included; at 1, 2, ... where actors count for themselves.
    """
    heads = [episode_id.partition("-")[0] for episode_id in episode_ids]
    found = np.array([int(head) if head.isdecimal() else 0 for head in heads], dtype=np.int64)
    return found if (np.diff(found) > 0).all() else np.arange(1, len(found) + 1)


def episode_names(episode_ids: Sequence[str]) -> list[str]:
    """Return what episodes are called: the number that the operator's page and the episode browser tell.

    Where several actors count for themselves, with the actor: "4 (left)".
    """
    parts = [episode_id.split("-", 2) for episode_id in episode_ids]
    actors = {each[-1] for each in parts}
    numbers = [str(int(head)) if head.isdecimal() else head for head, *_ in parts]
    return [f"{number} ({each[-1]})" if len(actors) > 1 else number for number, each in zip(numbers, parts)]


def numbers(values: Iterable[float | Sequence[float | None] | None]) -> np.ndarray:
    """Return all finite numbers among values, each a number, a list of them or None, float64, shape (n,)."""
    known = [np.asarray(value, dtype=np.float64).ravel() for value in values if value is not None]
    joined = np.concatenate(known) if known else np.zeros(0)
    return joined[np.isfinite(joined)]


def _resolved(path: Path, problems: list[str]) -> ResolvedRun | None:
    try:
        return load_resolved(path)
    except (ConfigError, OSError) as error:
        problems.append(f"run.yaml: {str(error).splitlines()[0]}")
        return None


def _evaluation(path: Path, problems: list[str], command: str = "eval") -> Figures | None:
    try:
        return read_evaluation(path, command)
    except StoreError as error:
        problems.append(str(error))
        return None


def _json(path: Path, problems: list[str]) -> Figures | None:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} is unreadable: {error}")
        return None
    return content if isinstance(content, dict) else None


def _rows(path: Path, problems: list[str]) -> list[MetricsRow]:
    found = read_rows(path)
    problems.extend(f"{where} is unreadable: {why}" for where, why in found.damaged.items())
    return found.rows


def _actor_rows(paths: RunPaths, problems: list[str]) -> list[MetricsRow]:
    beside = [path for path in paths.folder.glob("*.jsonl") if path != paths.metrics]
    files = sorted([*beside, *paths.folder.glob("actor*/*.jsonl")])
    return sorted((row for path in files for row in _rows(path, problems)), key=lambda row: row.t)
