"""Annotations of episodes after the fact: labels, stage marks and preferences in a log each, scores in files.

The process that writes the store writes labels and stage marks. Preferences have a lock of their own, since the learner
only reads them, when it fits a reward model.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from robot_stack.disk.durable import disk_errors, sync_directory, write_durable
from robot_stack.disk.jsonl import JsonLines, append_row, read_jsonl
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.names import check_name
from robot_stack.types.preferences import Further, Moment, Preference, check_preference
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.stages import MOST_STAGES, StageMark

Annotation = TypeVar("Annotation", Label, StageMark, Preference)


class AnnotationLog(Generic[Annotation]):
    """A log of annotations of episodes: one a line, only ever appended to.

    Args:
        path: Of the file.
        parse: Makes an annotation of the JSON of a line.

    Attributes:
        damaged: Line name -> why it could not be read; such lines stay in the file and are skipped.
    """

    def __init__(self, path: Path, parse: Callable[[Mapping[str, Any]], Annotation]) -> None:
        self._path = path
        self._parse: Callable[[Mapping[str, Any]], Annotation] = parse
        self._rows: list[Annotation] = []
        self._known: set[Annotation] = set()
        self.damaged: dict[str, str] = {}

    @property
    def rows(self) -> tuple[Annotation, ...]:
        """Return all annotations in the order of their arrival."""
        return tuple(self._rows)

    def open(self) -> None:
        """Read the log, and cut off a last line that a crash has torn."""
        if not self._path.exists():
            self._path.touch()
            sync_directory(self._path.parent)
        raw = self._path.read_bytes()
        whole = raw.rfind(b"\n") + 1
        if whole != len(raw):
            write_durable(self._path, raw[:whole])
        found = read_jsonl(self._path, self._parse)
        self._rows, self._known, self.damaged = found.rows, set(found.rows), found.damaged

    def append(self, annotation: Annotation) -> bool:
        """Append an annotation to the log; False if this very one is there already.

        Raises:
            SpecError: If its episode is no legal name.
            StoreError: If it cannot be written.
        """
        episodes = annotation.episodes if isinstance(annotation, Preference) else (annotation.episode_id,)
        for episode_id in episodes:
            check_name(episode_id, "episode id")
        if annotation in self._known:
            return False
        with disk_errors(f"writing an annotation of {' and '.join(episodes)}"):
            append_row(self._path, asdict(annotation))
        self._rows.append(annotation)
        self._known.add(annotation)
        return True


class LabelLog(AnnotationLog[Label]):
    """The log of labels, `labels.jsonl`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, kept_label)


class MarkLog(AnnotationLog[StageMark]):
    """The log of stage marks, `stages.jsonl`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _kept_mark)


def read_marks(path: Path) -> JsonLines[StageMark]:
    """Read the stage marks of a log in the order of their arrival; changes nothing."""
    return read_jsonl(path, _kept_mark)


def mark_from(raw: Mapping[str, Any]) -> StageMark:
    """Build a stage mark from its JSON form.

    Raises:
        ValueError, KeyError, TypeError: If it is none.
    """
    mark = StageMark(**{**raw, "source": LabelSource(raw["source"])})
    if type(mark.stage) is not int or type(mark.frame) is not int or type(mark.removed) is not bool:
        raise ValueError(f"stage mark is {dict(raw)}, must have whole numbers for stage and frame, and removed or not")
    return mark


def _kept_mark(raw: Mapping[str, Any]) -> StageMark:
    """Build a stage mark from a line of the log, whose episode must be a name and whose time finite, as `mark_from`."""
    mark = mark_from(raw)
    if not math.isfinite(mark.stamp_unix_s) or type(mark.name) is not str:
        raise ValueError(f"stage mark is {dict(raw)}, must have a text for its name, and a finite time")
    _check_episode(mark.episode_id)
    if not (1 <= mark.stage <= MOST_STAGES and mark.frame >= 1):
        raise ValueError(f"stage mark is {dict(raw)}, must be of stage 1 to {MOST_STAGES} and at frame 1 or later")
    return mark


class PreferenceLog(AnnotationLog[Preference]):
    """The log of preferences, `preferences.jsonl`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, preference_from)


def read_preferences(path: Path) -> JsonLines[Preference]:
    """Read the preferences of a log in the order of their arrival; changes nothing."""
    return read_jsonl(path, preference_from)


def preference_from(raw: Mapping[str, Any]) -> Preference:
    """Build a preference from its JSON form.

    Raises:
        ValueError, KeyError, TypeError: If it is none.
    """
    moments = {side: Moment(**raw[side]) for side in ("first", "second")}
    if any(type(moment.frame) is not int for moment in moments.values()) or type(raw["by"]) is not str:
        raise ValueError(f"preference is {dict(raw)}, must have whole numbers for frames and a text for who said it")
    told = {"further": Further(raw["further"]), "source": LabelSource(raw["source"])}
    preference = Preference(**{**raw, **moments, **told, "stamp_unix_s": float(raw["stamp_unix_s"])})
    try:
        check_preference(preference)
    except SpecError as error:
        raise ValueError(str(error)) from error
    return preference


def read_labels(path: Path) -> JsonLines[Label]:
    """Read the labels of a log in the order of their arrival, and why lines of it are unreadable; changes nothing."""
    return read_jsonl(path, kept_label)


def label_from(raw: Mapping[str, Any]) -> Label:
    """Build a label from its JSON form.

    Raises:
        ValueError, KeyError, TypeError: If it is none.
    """
    return Label(**{**raw, "verdict": Verdict(raw["verdict"]), "source": LabelSource(raw["source"])})


def kept_label(raw: Mapping[str, Any]) -> Label:
    """Build a label from a line of a log, as `label_from`; its episode must be a name, and its time finite."""
    label = label_from(raw)
    if not math.isfinite(label.stamp_unix_s) or type(label.note) is not str:
        raise ValueError(f"label is {dict(raw)}, must have a text for its note, and a finite time")
    _check_episode(label.episode_id)
    return label


def _check_episode(episode_id: str) -> None:
    try:
        check_name(episode_id, "episode id")
    except SpecError as error:
        raise ValueError(str(error)) from error


class ScoreFiles:
    """The files of scores, `scores/<version>/<episode>.npz`.

    The first scores of a version and episode stay; repeats change nothing.

    Attributes:
        damaged: File -> why it could not be read.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.damaged: dict[str, str] = {}

    @property
    def versions(self) -> tuple[str, ...]:
        """Return all model versions that scored something, sorted."""
        return tuple(sorted(p.name for p in self._root.iterdir() if p.is_dir())) if self._root.is_dir() else ()

    def append(self, scores: EpisodeScores) -> bool:
        """Write scores durably; False if this version has scored this episode already.

        Raises:
            StoreError: If they are malformed or cannot be written.
        """
        check_scores(scores)
        path = self._path(scores.version, scores.episode_id)
        if path.exists() and str(path) not in self.damaged:
            return False
        content = io.BytesIO()
        np.savez(content, progress=scores.progress, success=scores.success)
        with disk_errors(f"writing scores of {scores.episode_id}"):
            write_durable(path, content.getbuffer())
        self.damaged.pop(str(path), None)
        return True

    def read(self, version: str) -> tuple[EpisodeScores, ...]:
        """Read all scores of a version, sorted by episode; an unreadable file is reported in `damaged` and left out."""
        folder = self._root / check_name(version, "score version")
        return tuple(scores for path in sorted(folder.glob("*.npz")) if (scores := self._load(path)) is not None)

    def of(self, episode_id: str) -> tuple[EpisodeScores, ...]:
        """Read the scores of one episode, those that were written last at the end; unreadable ones as in `read`."""
        paths = [self._path(version, episode_id) for version in self.versions]
        there = sorted((path for path in paths if path.exists()), key=lambda path: path.stat().st_mtime_ns)
        return tuple(scores for path in there if (scores := self._load(path)) is not None)

    def _load(self, path: Path) -> EpisodeScores | None:
        try:
            with np.load(path, allow_pickle=False) as raw:
                scores = EpisodeScores(
                    episode_id=path.stem, version=path.parent.name, progress=raw["progress"], success=raw["success"]
                )
            check_scores(scores)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, StoreError) as error:
            self.damaged[str(path)] = f"unreadable scores: {error!r}"
            return None
        return scores

    def _path(self, version: str, episode_id: str) -> Path:
        return self._root / check_name(version, "score version") / f"{check_name(episode_id, 'episode id')}.npz"


def check_scores(scores: EpisodeScores) -> None:
    """Raise StoreError unless both arrays are float32, of one length, and in [0, 1] where they are not NaN."""
    for name in ("progress", "success"):
        values = getattr(scores, name)
        if values.dtype != np.float32 or values.shape != scores.progress.shape or values.ndim != 1:
            raise StoreError(
                f"{name} of {scores.episode_id} is {values.dtype} {values.shape}, must be float32 (T+1,) like progress"
            )
        known = values[~np.isnan(values)]
        if ((known < 0) | (known > 1)).any():
            raise StoreError(
                f"{name} of {scores.episode_id} spans {known.min()} to {known.max()}, must be in [0, 1] or NaN"
            )
