"""Journals of what operators say at a page: verdicts until they are in the store, and notes. On disk before it is told.

The operator's page has `console/labels.jsonl` in the folder of the run, the episode browser `relabels.jsonl` in that of
the store: one label a line, and {"sent": [episode, stamp]} once the learner has taken it, or it is seen in the store of
a process without one, or {"sent": ..., "refused": why}. Notes go where the episodes are, `store/notes.jsonl`, if the
store is on this machine, else beside the labels.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robot_stack.disk.jsonl import append_row, read_jsonl
from robot_stack.replay.annotations import kept_label
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label

LABELS = "labels.jsonl"

log = logging.getLogger(__name__)


class LabelJournal:
    """Verdicts of a page that nobody has taken yet, on disk.

    A disk that refuses is told, and what was said before is safe. One thread at a time writes; others may read what
    waits meanwhile.

    Args:
        path: Of the file.
    """

    def __init__(self, path: Path) -> None:
        self._labels = path
        self._waiting: dict[tuple[str, float], Label] = {}
        self.refused: dict[str, str] = {}
        """Episode -> why the learner will never take its newest verdict."""

    def open(self) -> None:
        """Read the verdicts that were not sent when the last process ended.

        Raises:
            StoreError: If the folder cannot be written.
        """
        try:
            self._labels.parent.mkdir(parents=True, exist_ok=True)
            found = read_jsonl(self._labels, self._read)
        except OSError as error:
            raise _refusal(self._labels, error) from error
        for where, why in found.damaged.items():
            log.warning("%s of %s is passed over (%s), must be a verdict; remove it", where, self._labels.parent, why)

    def _read(self, row: dict[str, Any]) -> None:
        """Take a line of the labels; what is of another version of this program, or edited by hand, is none."""
        if "sent" not in row:
            self._wait(kept_label(row))
            return
        episode_id, stamp_unix_s = row["sent"]
        self._settle((episode_id, stamp_unix_s), str(row.get("refused", "")))

    def _wait(self, label: Label) -> None:
        self._waiting[_key(label)] = label
        self.refused.pop(label.episode_id, None)

    def _settle(self, key: tuple[str, float], refused: str) -> None:
        self._waiting.pop(key, None)
        self.refused.pop(key[0], None)
        if refused:
            self.refused[key[0]] = refused

    @property
    def waiting(self) -> list[Label]:
        """Return the labels that nobody has taken yet, in their order."""
        return list(self._waiting.values())

    def add(self, label: Label) -> None:
        """Keep a label until it is sent.

        Raises:
            StoreError: If the disk refuses.
        """
        self._append(self._labels, asdict(label))
        self._wait(label)

    def sent(self, label: Label, refused: str = "") -> None:
        """Record that the learner has a label, or why it never will.

        Raises:
            StoreError: If the disk refuses: it may be sent once more after a restart, which is harmless.
        """
        self._settle(_key(label), refused)
        row = {"sent": list(_key(label)), **({"refused": refused} if refused else {})}
        self._append(self._labels, row)

    def take_back(self, label: Label) -> None:
        """Take back a label that nobody has taken.

        Raises:
            StoreError: If the disk refuses; it waits as before.
        """
        self._append(self._labels, {"sent": list(_key(label))})
        self._waiting.pop(_key(label), None)

    def _append(self, path: Path, row: dict[str, Any]) -> None:
        try:
            append_row(path, row)
        except OSError as error:
            raise _refusal(path, error) from error


class Journal(LabelJournal):
    """Verdicts and notes of one run, on disk.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(RunPaths(folder).console / LABELS)
        self._run = folder

    def note(self, episode_id: str, text: str, stamp_unix_s: float) -> None:
        """Keep an operator's note on an episode.

        Raises:
            StoreError: If the disk refuses.
        """
        self._append(self.notes_path, {"episode_id": episode_id, "text": text, "stamp_unix_s": stamp_unix_s})

    def notes(self) -> dict[str, str]:
        """Return the newest note of each episode."""
        return dict(read_jsonl(self.notes_path, lambda row: (str(row["episode_id"]), str(row["text"]))).rows)

    @property
    def notes_path(self) -> Path:
        """Return the file of the notes: in the store if it is on this machine, else beside the labels."""
        store = RunPaths(self._run).store
        return store.notes if store.root.is_dir() else self._labels.with_name(store.notes.name)


def said_before(folder: Path, unix_s: float) -> list[Label]:
    """Return the verdicts of a run's page that wait for a store and were given until an instant.

    Raises:
        StoreError: If the folder cannot be written.
    """
    journal = Journal(folder)
    journal.open()
    return [label for label in journal.waiting if label.stamp_unix_s <= unix_s]


def _key(label: Label) -> tuple[str, float]:
    return label.episode_id, label.stamp_unix_s


def _refusal(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} is not written ({error.strerror or error}), must be; free some space or correct its permissions, "
        "then say it again"
    )
