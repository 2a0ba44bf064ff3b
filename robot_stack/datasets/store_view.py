"""A read-only view of a folder of episodes: a run's store, or a dataset made by `robot-stack data`.

It needs no lock.

root/store.json, episodes/, labels.jsonl, scores/, quarantine/   as in `replay.episode_store`
root/stages.jsonl                                                marks of where stages begin
root/preferences.jsonl                                           which of two moments got further
root/notes.jsonl                                                 what operators wrote about episodes
root/origin.json                                                 of a dataset: from what it was made, and how
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robot_stack.datasets import bounds
from robot_stack.datasets.declared import check_declared, check_names, check_sizes
from robot_stack.datasets.inside import check_log, inside_folder, short_text
from robot_stack.datasets.told import text_of
from robot_stack.disk.jsonl import read_jsonl
from robot_stack.replay.annotations import read_labels, read_marks, read_preferences
from robot_stack.replay.columns import SCHEMA_VERSION
from robot_stack.replay.identity import check_spec
from robot_stack.replay.layout import SUFFIX, StorePaths
from robot_stack.replay.manifest import FILE_NAME, Manifest
from robot_stack.replay.stored_episode import StoredEpisode, read_episode, read_header
from robot_stack.types.errors import DAMAGES, SpecError, StoreError
from robot_stack.types.event import Label
from robot_stack.types.names import check_name
from robot_stack.types.preferences import Preference
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark, counting
from robot_stack.types.transition import EpisodeHeader, back_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note that an operator wrote about an episode.

    Attributes:
        stamp_unix_s: When, seconds since the epoch.
    """

    episode_id: str
    text: str
    stamp_unix_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreView:
    """A read-only view of a folder of episodes.

    Attributes:
        spec: Of the cell that all episodes were recorded on.
        text: The task in words, as a policy that reads language is told it.
        episodes: Ids of the closed episodes, sorted.
        unfinished: Ids of episodes that are still being written, or whose writer died.
        quarantined: What is broken and set aside: episode or line -> reason.
        labels: All labels in the order of their arrival.
        notes: All notes in the order of their arrival.
        marks: All stage marks in the order of their arrival.
        preferences: All preferences in the order of their arrival.
    """

    root: Path
    spec: Spec
    task: str
    text: str
    episodes: tuple[str, ...]
    unfinished: tuple[str, ...]
    quarantined: Mapping[str, str]
    labels: tuple[Label, ...]
    notes: tuple[Note, ...]
    marks: tuple[StageMark, ...] = ()
    preferences: tuple[Preference, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    """Id -> words of the other tasks of its run: its way back, or those that take turns with it."""

    def text_of(self, header: EpisodeHeader) -> str:
        """Return the task in words, as the robot was told it in an episode."""
        if header.first_task:
            return self.text
        return self.others.get(header.task_id, f"undo: {self.text}" if header.goes_back else header.task_id)

    @property
    def paths(self) -> StorePaths:
        """Return the paths of the folder's parts."""
        return StorePaths(self.root)

    def path(self, episode_id: str) -> Path:
        """Return the directory of a closed episode.

        Raises:
            StoreError: If there is none; the message says which one may be meant.
        """
        self.check_there([episode_id])
        return self.paths.episode(episode_id)

    def checked(self, episode_id: str) -> Path:
        """Return the directory of a closed episode whose header and declared sizes fit its name and this folder.

        Raises:
            StoreError: If it is not there or does not fit; the first thing that is wrong.
        """
        path = self.path(episode_id)
        check_declared(path)
        check_spec(read_header(path)[1], self.spec, f"episode {episode_id}")
        return path

    def check_there(self, episode_ids: Iterable[str]) -> None:
        """Raise StoreError naming the first of these that is no closed episode."""
        known = set(self.episodes)
        for wanted in episode_ids:
            if wanted in known:
                continue
            near = difflib.get_close_matches(wanted, [*self.episodes, *self.unfinished, *self.quarantined], n=1)
            if wanted in self.unfinished:
                advice = "it is unfinished, let the run close it first"
            elif wanted in self.quarantined:
                advice = f"it was set aside: {self.quarantined[wanted]}"
            elif near:
                advice = f"did you mean {near[0]!r}?"
            else:
                advice = "see robot-stack data list"
            raise StoreError(f"episode is {wanted!r}, must be one of the {len(known)} in {self.root}; {advice}")

    def read(self, episode_id: str, *, images: bool = True) -> StoredEpisode:
        """Read one closed episode, once it is checked that it fits.

        Raises:
            StoreError: If it is not there or cannot be read.
        """
        return read_episode(self.checked(episode_id), images=images)

    def labels_of(self, episode_id: str) -> tuple[Label, ...]:
        """Return the labels of one episode, in the order of their arrival."""
        return tuple(label for label in self.labels if label.episode_id == episode_id)

    def marks_of(self, episode_id: str) -> tuple[StageMark, ...]:
        """Return an operator's stage marks of one episode that count, by stage."""
        return counting(mark for mark in self.marks if mark.episode_id == episode_id)

    def preferences_from(self, episode_id: str) -> tuple[Preference, ...]:
        """Return the preferences whose first moment is in that episode, in the order of their arrival."""
        return tuple(each for each in self.preferences if each.first.episode_id == episode_id)

    def note_of(self, episode_id: str) -> str:
        """Return the newest note on an episode, else the note of its newest label that has one, else ""."""
        notes = [note.text for note in self.notes if note.episode_id == episode_id]
        notes = notes or [label.note for label in self.labels if label.episode_id == episode_id and label.note]
        return notes[-1] if notes else ""


def open_store(root: Path, text: str | None = None, others: Mapping[str, str] | None = None) -> StoreView:
    """Open a folder of episodes for reading.

    Args:
        root: The folder.
        text: The task in words; by default what the folder says of itself, else the name of the task.
        others: Other tasks of its run in words, by id; by default what the folder says of itself.

    Raises:
        StoreError: If it is none, or of another version of this program.
    """
    paths = StorePaths(root)
    spec, task = _identity(paths.identity)
    inside_folder(root, root)
    for log in (paths.labels, paths.stages, paths.preferences, paths.notes):
        check_log(log)
    said = read_labels(paths.labels)
    marked = read_marks(paths.stages)
    preferred = read_preferences(paths.preferences)
    damaged = {**said.damaged, **marked.damaged, **preferred.damaged}
    closed: list[str] = []
    unfinished: list[str] = []
    for path in paths.episodes.glob("*" + SUFFIX):
        name = path.name.removesuffix(SUFFIX)
        if path.name.startswith("."):
            continue
        try:
            check_name(name, "episode id")
        except SpecError as error:
            damaged[name[: bounds.MAX_NAME_CHARS]] = str(error)
            continue
        (closed if (path / FILE_NAME).exists() else unfinished).append(name)
    return StoreView(
        root=root,
        spec=spec,
        task=task,
        text=text or _origin_text(root) or task,
        others=_other_texts(root, task) if others is None else others,
        episodes=tuple(sorted(closed)),
        unfinished=tuple(sorted(unfinished)),
        quarantined={**_set_aside(paths.quarantine), **damaged},
        labels=tuple(said.rows),
        notes=_notes(paths.notes),
        marks=tuple(marked.rows),
        preferences=tuple(preferred.rows),
    )


def broken(path: Path) -> str | None:
    """Return why a closed episode differs from its checksums, or None if it is whole. Reads every byte of it."""
    try:
        check_names(path)
        manifest = Manifest.load(path)
        if manifest is not None:
            manifest.verify(path)
            check_sizes(path)
    except StoreError as error:
        return str(error)
    return None


def _identity(path: Path) -> tuple[Spec, str]:
    try:
        raw = json.loads(short_text(path.parent, path.name) if path.exists() else path.read_text())
        schema, task = raw["schema"], text_of(raw["task"], "task", bounds.MAX_NAME_CHARS)
        if schema != SCHEMA_VERSION:
            raise StoreError(
                f"schema of {path} is {schema}, must be {SCHEMA_VERSION}; use the version of this program that wrote it"
            )
        return Spec.from_json(json.dumps(raw["spec"])), task
    except FileNotFoundError as error:
        raise StoreError(
            f"{path.name} of {path.parent} is missing, must be there; name a folder of episodes"
        ) from error
    except DAMAGES as error:
        raise StoreError(f"file {path} is unreadable ({error!r}), must say spec and task; restore it") from error


def _set_aside(aside: Path) -> dict[str, str]:
    found = {}
    for path in sorted(aside.iterdir()) if aside.exists() else ():
        try:
            with (path / "reason.txt").open(errors="replace") as file:
                found[path.name] = file.read(bounds.MAX_TEXT_CHARS).strip()
        except OSError:
            found[path.name] = "unknown"
    return found


def _notes(path: Path) -> tuple[Note, ...]:
    found = read_jsonl(path, _note)
    for where, why in found.damaged.items():
        raise StoreError(f"{where} of {path.parent} is unreadable ({why}), must be a note; remove the line")
    return tuple(found.rows)


def _note(row: Any) -> Note:
    note = Note(**row)
    if not (type(note.text) is type(note.episode_id) is str and isinstance(note.stamp_unix_s, int | float)):
        raise ValueError("it must have texts for episode and text, and a time")
    if len(note.text) > bounds.MAX_TEXT_CHARS:
        raise ValueError(f"its text has {len(note.text)} characters, must have at most {bounds.MAX_TEXT_CHARS}")
    return note


def _origin_text(root: Path) -> str | None:
    text = _origin(root).get("text")
    return None if text is None else str(text)


def _other_texts(root: Path, task: str) -> dict[str, str]:
    """Return what the folder says of the other tasks; folders of before several tasks know a way back alone."""
    said = _origin(root)
    if "back_text" in said:
        return {back_id(task): str(said["back_text"])}
    others = said.get("others", {})
    if not isinstance(others, dict):
        raise _unreadable(root, f"others is {type(others).__name__}")
    return {str(task_id): str(text) for task_id, text in others.items()}


def _origin(root: Path) -> dict[str, Any]:
    path = StorePaths(root).origin
    try:
        said = json.loads(short_text(root, path.name)) if path.exists() else {"text": None}
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(root, repr(error)) from error
    if not isinstance(said, dict) or "text" not in said:
        raise _unreadable(root, "it has no text")
    return said


def _unreadable(root: Path, why: str) -> StoreError:
    path = StorePaths(root).origin
    return StoreError(f"file {path} is unreadable ({why}), must be as data edit writes it; remove it")
