"""Edits of a dataset: relabel, discard, trim and note episodes in a new one; the one that was read stays as it is.

A trim that cuts an episode's tail makes its verdicts void, because they spoke of a last frame that is gone: it then
counts as cut short, until somebody relabels it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.new_store import NewStore, start_store
from robot_stack.datasets.store_view import Note, StoreView, broken
from robot_stack.replay.columns import columns
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes of an edit, by episode.

    Attributes:
        verdicts: New verdicts, said by the operator; DISCARD keeps the episode and excludes it from training.
        trims: First and last frame that stay, counted from 0.
        notes: Free text.
    """

    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    trims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the changes as JSON, for the record of where a dataset comes from."""
        return {
            "verdicts": {name: verdict.value for name, verdict in self.verdicts.items()},
            "trims": {name: list(frames) for name, frames in self.trims.items()},
            "notes": dict(self.notes),
        }


def edit(view: StoreView, out: Path, changes: Changes, *, now_unix_s: float) -> NewStore:
    """Write a changed dataset; episodes that are broken or unfinished are left out by name.

    Args:
        view: What is changed.
        out: The new folder.
        changes: Per episode.
        now_unix_s: Stamp of new labels and notes.

    Raises:
        StoreError: If nothing changes, an episode is not there or cannot be trimmed so, or the disk refuses.
    """
    changed = {*changes.verdicts, *changes.trims, *changes.notes}
    if not changed:
        raise StoreError("number of changes is 0, must be at least 1; say what to relabel, discard, trim or note")
    view.check_there(sorted(changed))
    with new_folder(out) as draft:
        store = start_store(draft, view)
        for episode_id in view.episodes:
            if episode_id in changes.trims:
                _trimmed(store, view, episode_id, changes.trims[episode_id])
            else:
                store.copy(view, episode_id)
        for episode_id, verdict in changes.verdicts.items():
            store.labels.append(
                Label(episode_id=episode_id, verdict=verdict, source=LabelSource.OPERATOR, stamp_unix_s=now_unix_s)
            )
        store.notes += [
            Note(episode_id=name, text=text, stamp_unix_s=now_unix_s) for name, text in changes.notes.items()
        ]
        for episode_id in changed & set(store.left_out):
            raise StoreError(
                f"episode {episode_id} is broken, must be whole to be edited: {store.left_out[episode_id]}"
            )
        store.finish("edit", [view.root], changes.to_json())
    return store


def trim(episode: StoredEpisode, first: int, last: int) -> StoredEpisode:
    """Return frames `first` to `last` of an episode, both kept, and the actions between them.

    If the last frame goes, the episode ends as OPERATOR: cut short, so that values lie behind it.

    Raises:
        StoreError: If these are not two or more frames of it.
    """
    frames = episode.length + 1
    if not 0 <= first < last < frames:
        raise StoreError(
            f"trim of {episode.header.episode_id} is {first}:{last}, must be two frames of 0:{frames - 1}, the first "
            "before the last; count frames from 0"
        )
    arrays = {
        column.name: episode.arrays[column.name][first : last + column.per_frame] for column in columns(episode.spec)
    }
    end = episode.end if last == frames - 1 else EndReason.OPERATOR
    return replace(episode, end=end, arrays=arrays)


def _trimmed(store: NewStore, view: StoreView, episode_id: str, frames: tuple[int, int]) -> None:
    reason = broken(view.path(episode_id))
    if reason is not None:
        store.left_out[episode_id] = reason
        return
    episode = view.read(episode_id)
    changed = trim(episode, *frames)
    store.write(changed)
    store.notes += [note for note in view.notes if note.episode_id == episode_id]
    if frames[1] == episode.length:
        store.labels += view.labels_of(episode_id)
