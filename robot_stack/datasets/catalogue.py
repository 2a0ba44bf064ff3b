"""A catalogue of the episodes of a folder that a run may be writing to, for whoever looks on.

What headers, manifests and labels say is read at once, 250 episodes in a fraction of a second. Who was in control, and
for how long, is in the arrays; those are read episode by episode, in a thread of the owner. A closed episode never
changes, so each is read once.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from robot_stack.datasets.declared import check_names, check_own
from robot_stack.datasets.store_view import StoreView, broken, open_store
from robot_stack.datasets.summary import said_by, truth_of
from robot_stack.replay.identity import check_spec
from robot_stack.replay.layout import StorePaths
from robot_stack.replay.manifest import FILE_NAME, Manifest
from robot_stack.replay.outcome import outcome
from robot_stack.replay.stored_episode import read_episode, read_header
from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource
from robot_stack.types.stages import StageMark, counting
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An episode as its header, its manifest and its labels describe it.

    Attributes:
        steps: T, the number of actions.
        end: Why it ended, as recorded.
        outcome: How it counts: "success", "failure", "open" or "discard".
        said_by: "operator", "model" or "recorded".
        truth: What the simulator says, or None.
        note: The newest note, or "".
        labels: All of it, in the order of their arrival.
        marks: Of where its stages begin, those of an operator that count.
        proposed: The same of a model, which count for nothing.
    """

    header: EpisodeHeader
    steps: int
    end: EndReason
    outcome: str
    said_by: str
    truth: str | None
    note: str
    labels: tuple[Label, ...]
    marks: tuple[StageMark, ...]
    proposed: tuple[StageMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The course of an episode: how long it took, and who was in control when.

    Attributes:
        seconds: From its first frame to its last.
        spans: Sources in their order, as (value of `Source`, number of steps).
        takeovers: How often an operator took over from somebody else, or from nobody; 0 in a demonstration.
    """

    seconds: float
    spans: tuple[tuple[int, int], ...]
    takeovers: int


class Catalogue:
    """A catalogue of a folder of episodes, which follows what is written there.

    Safe to use from several threads.

    Args:
        view: The folder as it was opened.
    """

    def __init__(self, view: StoreView) -> None:
        self._view = view
        self._lock = threading.RLock()
        self._state: object = None
        self._heads: dict[str, tuple[EpisodeHeader, Manifest]] = {}
        self._courses: dict[str, Course] = {}
        self._bad: dict[str, str] = {}
        self._whole: set[str] = set()
        self.version = 0
        """Counts up at each change that a list shows."""

    @property
    def view(self) -> StoreView:
        """Return the folder as it was at the last `refresh`."""
        return self._view

    @property
    def bad(self) -> dict[str, str]:
        """Return why each of the episodes that are set aside or unreadable is so."""
        with self._lock:
            return {**self._view.quarantined, **self._bad}

    def refresh(self) -> None:
        """Look at the folder again, if anything has been written there.

        Raises:
            StoreError: If it is no folder of episodes any more.
        """
        with self._lock:
            written = _written(self._view.paths)  # before it is read: what comes meanwhile is looked at next time
            state = written, _closed(self._view)
            if state == self._state:
                return
            self._view = open_store(self._view.root, self._view.text, self._view.others)
            self._state = written, (False,) * len(self._view.unfinished)
            for episode_id in self._view.episodes:
                if episode_id not in self._heads and episode_id not in self._bad:
                    self._read_head(episode_id)
            self.version += 1

    def entries(self) -> list[Entry]:
        """Return the closed and readable episodes, sorted by id."""
        with self._lock:
            said: defaultdict[str, list[Label]] = defaultdict(list)
            marked: defaultdict[str, list[StageMark]] = defaultdict(list)
            for label in self._view.labels:
                said[label.episode_id].append(label)
            for mark in self._view.marks:
                marked[mark.episode_id].append(mark)
            notes = {label.episode_id: label.note for label in self._view.labels if label.note}
            notes |= {note.episode_id: note.text for note in self._view.notes}
            return [
                Entry(
                    header=header,
                    steps=manifest.length,
                    end=manifest.end,
                    outcome=outcome(said[name], manifest.end).name.lower(),
                    said_by=said_by(said[name]),
                    truth=truth_of(said[name]),
                    note=notes.get(name, ""),
                    labels=tuple(said[name]),
                    marks=counting(marked[name]),
                    proposed=counting(marked[name], LabelSource.MODEL),
                )
                for name in self._view.episodes
                if name in self._heads and name not in self._bad
                for header, manifest in [self._heads[name]]
            ]

    def course(self, episode_id: str) -> Course | None:
        """Return the course of an episode, or None while it has not been read."""
        return self._courses.get(episode_id)

    def unread(self) -> Iterator[str]:
        """Yield the episodes whose course has not been read, the newest first."""
        with self._lock:
            names = [name for name in reversed(self._view.episodes) if name in self._heads]
        yield from (name for name in names if name not in self._courses and name not in self._bad)

    def read_course(self, episode_id: str) -> None:
        """Read the course of an episode; one that cannot be read counts as bad from now on."""
        try:
            arrays = read_episode(self._view.checked(episode_id), only=("stamp_ns",)).arrays
            _check_sources(arrays["source"], episode_id)
        except StoreError as error:
            self._set_bad(episode_id, str(error))
            return
        seconds = float(arrays["stamp_ns"][-1] - arrays["stamp_ns"][0]) * 1e-9
        demo = self._heads[episode_id][0].kind is EpisodeKind.DEMO
        spans = _spans(arrays["source"])
        with self._lock:
            takeovers = 0 if demo else _takeovers(arrays["source"])
            self._courses[episode_id] = Course(seconds=seconds, spans=spans, takeovers=takeovers)
            self.version += 1

    def whole(self, episode_id: str) -> Path:
        """Return the directory of an episode whose course is known and whose checksums, compared once, are right.

        Raises:
            StoreError: If there is none of that id, it has not ended, or it is broken.
        """
        path = self._view.path(episode_id)
        if episode_id not in self._whole:
            if self.course(episode_id) is None and episode_id not in self._bad:
                self.read_course(episode_id)
            reason = self._bad.get(episode_id) or broken(path)
            if reason is not None:
                self._set_bad(episode_id, reason)
                raise StoreError(f"episode {episode_id} is broken, must be whole: {reason}; restore it from a copy")
            self._whole.add(episode_id)
        return path

    def _read_head(self, episode_id: str) -> None:
        path = self._view.paths.episode(episode_id)
        try:
            check_names(path)
            header, spec = read_header(path)
            check_own(path, header)
            check_spec(spec, self._view.spec, f"episode {episode_id}")
            manifest = Manifest.load(path)
            if manifest is None:
                raise StoreError(f"manifest of {path.name} is gone, must stay once it is there; restore it")
            self._heads[episode_id] = (header, manifest)
        except StoreError as error:
            self._bad[episode_id] = str(error)

    def _set_bad(self, episode_id: str, reason: str) -> None:
        with self._lock:
            self._bad[episode_id] = reason
            self.version += 1


def _written(paths: StorePaths) -> list[tuple[int, int]]:
    """Return what differs once something was written that a list or a copy has; a few stats, whatever the size."""
    logs = (paths.labels, paths.stages, paths.preferences, paths.notes)
    return [_stat(path) for path in (paths.episodes, *logs, paths.quarantine)]


def _closed(view: StoreView) -> tuple[bool, ...]:
    """Return which of the episodes that were being written have closed since."""
    return tuple((view.paths.episode(name) / FILE_NAME).exists() for name in view.unfinished)


def _stat(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


def _check_sources(source: np.ndarray, episode_id: str) -> None:
    unknown = set(np.unique(source).tolist()) - set(Source)
    if unknown:
        raise StoreError(
            f"source of {episode_id} is {min(unknown)}, must be one of {[int(each) for each in Source]}; leave it out"
        )


def _spans(source: np.ndarray) -> tuple[tuple[int, int], ...]:
    """Return sources, uint8, shape (T,), as (value, how many in a row)."""
    cuts = np.flatnonzero(np.diff(source.astype(np.int16))) + 1
    return tuple((int(part[0]), len(part)) for part in np.split(source, cuts) if len(part))


def _takeovers(source: np.ndarray) -> int:
    held = np.isin(source, IN_HAND).astype(np.int8)
    return int((np.diff(np.concatenate([[0], held])) == 1).sum())
