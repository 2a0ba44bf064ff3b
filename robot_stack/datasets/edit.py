"""Datasets made from others, which stay as they are: edited, merged, or split by outcome, by kind or at random.

A trim that cuts an episode's tail makes its verdicts void, because they spoke of a last frame that is gone: it then
counts as cut short, until somebody relabels it. One that is discarded stays so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.new_store import NewStore, start_store
from robot_stack.datasets.store_view import Note, StoreView, broken
from robot_stack.datasets.summary import EpisodeSummary
from robot_stack.datasets.told import text_of
from robot_stack.replay.columns import columns
from robot_stack.replay.identity import check_spec
from robot_stack.replay.manifest import FILE_NAME, Manifest
from robot_stack.replay.outcome import Outcome, outcome
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource, Verdict, stamp_after
from robot_stack.types.names import check_name
from robot_stack.types.preferences import Kept
from robot_stack.types.stages import shifted
from robot_stack.types.transition import EndReason

Field = Literal["outcome", "kind"]


def by_field(lines: Sequence[EpisodeSummary], field: Field) -> dict[str, list[str]]:
    """Group episodes by a field: its value -> ids, both sorted."""
    values = {line.episode_id: line.outcome if field == "outcome" else line.kind.value for line in lines}
    return {value: sorted(i for i in values if values[i] == value) for value in sorted(set(values.values()))}


def by_share(episode_ids: Sequence[str], shares: Mapping[str, float], seed: int) -> dict[str, list[str]]:
    """Draw named parts of the episodes without replacement; the same ids and seed always give the same parts.

    Sizes are the shares of the whole, rounded so that they add up (largest remainder).

    Raises:
        StoreError: If the shares do not add up to 1, or a part would be empty.
    """
    above = all(share > 0 for share in shares.values())  # which nan is not, nor does it add up
    if len(shares) < 2 or not above or not abs(sum(shares.values()) - 1) <= 1e-6:
        raise StoreError(
            f"shares are {dict(shares)}, must be two or more above 0 that add up to 1; e.g. train=0.8 and val=0.2"
        )
    exact = np.array(list(shares.values())) * len(episode_ids)
    sizes = np.floor(exact + 1e-9).astype(int)
    rest = len(episode_ids) - sizes.sum()
    sizes[np.argsort(-(exact - sizes), kind="stable")[:rest]] += 1
    if not sizes.all():
        empty = list(shares)[int(np.argmin(sizes))]
        raise StoreError(
            f"share {empty!r} is 0 of {len(episode_ids)} episodes, must be at least 1; choose a larger share"
        )
    order = np.random.default_rng(seed).permutation(len(episode_ids))
    drawn = [sorted(episode_ids)[i] for i in order]
    cuts = np.cumsum(sizes)
    return {name: sorted(drawn[end - size : end]) for name, size, end in zip(shares, sizes, cuts, strict=True)}


def split(view: StoreView, out: Path, parts: Mapping[str, Sequence[str]], how: Mapping[str, object]) -> list[NewStore]:
    """Write a dataset `out/<name>` per part; all of them appear together.

    Args:
        parts: Name -> ids.
        how: For the record of where they come from.

    Raises:
        StoreError: If a name is no file name, an episode is not there, or the disk refuses.
    """
    for name, episode_ids in parts.items():
        check_name(name, "name of a part")
        view.check_there(episode_ids)
    with new_folder(out) as draft:
        stores = []
        for name, episode_ids in parts.items():
            store = start_store(draft / name, view)
            for episode_id in episode_ids:
                store.copy(view, episode_id)
            store.carry(view, {name: Kept(name=name) for name in episode_ids})
            store.finish("split", [view.root], {**how, "part": name})
            stores.append(store)
    return stores


def merge(views: Sequence[StoreView], out: Path) -> NewStore:
    """Write one dataset of all episodes of several.

    The same episode in two of them is taken once, with what operators and reward models said of both. Another episode
    of the same id gets a number behind its id.

    Raises:
        StoreError: If there are fewer than two, their specs or tasks differ (every differing field is named), or the
            disk refuses.
    """
    if len(views) < 2:
        raise StoreError(f"number of datasets to merge is {len(views)}, must be at least 2; name another one")
    first, *others = views
    for view in others:
        check_spec(view.spec, first.spec, f"spec of {view.root} against {first.root}")
        if view.task != first.task:
            raise StoreError(f"task of {view.root} is {view.task!r}, must be {first.task!r}; leave it out")
    with new_folder(out) as draft:
        store = start_store(draft, first)
        names: dict[bytes, str] = {}
        for view in views:
            kept = {}
            _take_words(store, view)
            for episode_id in view.episodes:
                seal = (view.path(episode_id) / FILE_NAME).read_bytes()
                if seal in names:
                    kept[episode_id] = Kept(name=names[seal])
                    said = (replace(label, episode_id=names[seal]) for label in view.labels_of(episode_id))
                    store.labels += [label for label in said if label not in store.labels]
                    marked = (replace(m, episode_id=names[seal]) for m in view.marks if m.episode_id == episode_id)
                    store.marks += [mark for mark in marked if mark not in store.marks]
                    noted = (replace(n, episode_id=names[seal]) for n in view.notes if n.episode_id == episode_id)
                    store.notes += [note for note in noted if note not in store.notes]
                    store.copy_scores(view, episode_id, names[seal])
                    continue
                name = store.free(episode_id)
                if store.copy(view, episode_id, name=name):
                    names[seal] = name
                    kept[episode_id] = Kept(name=name)
                    if name != episode_id:
                        store.renamed[f"{view.root}/{episode_id}"] = name
            store.carry(view, kept)
        store.finish("merge", [view.root for view in views], {"renamed": store.renamed})
    return store


def _take_words(store: NewStore, view: StoreView) -> None:
    """Take the words of a dataset's other tasks; where two datasets word a task differently, the first's count."""
    words, taken = {store.task: view.text, **view.others}, {store.task: store.text, **store.others}
    for task_id, text in words.items():
        if taken.setdefault(task_id, text) != text:
            store.warnings.append(f"task {task_id} is {text!r} in {view.root}, and is now {taken[task_id]!r}")
    store.others = {task_id: text for task_id, text in taken.items() if task_id != store.task}


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
        now_unix_s: Stamp of new labels and notes.

    Raises:
        StoreError: If nothing changes, an episode is not there or cannot be trimmed so, a note is too long, or the disk
            refuses.
    """
    changed = {*changes.verdicts, *changes.trims, *changes.notes}
    if not changed:
        raise StoreError("number of changes is 0, must be at least 1; say what to relabel, discard, trim or note")
    view.check_there(sorted(changed))
    for episode_id, text in changes.notes.items():
        text_of(text, f"note on {episode_id}")
    with new_folder(out) as draft:
        store = start_store(draft, view)
        for episode_id in view.episodes:
            if episode_id in changes.trims:
                _trimmed(store, view, episode_id, changes.trims[episode_id])
            else:
                store.copy(view, episode_id)
        store.carry(view, {name: _kept(view, name, changes) for name in view.episodes})
        for episode_id, verdict in changes.verdicts.items():
            stamp_unix_s = stamp_after((each for each in store.labels if each.episode_id == episode_id), now_unix_s)
            store.labels.append(
                Label(episode_id=episode_id, verdict=verdict, source=LabelSource.OPERATOR, stamp_unix_s=stamp_unix_s)
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


def _kept(view: StoreView, episode_id: str, changes: Changes) -> Kept:
    if episode_id not in changes.trims:
        return Kept(name=episode_id)
    first, last = changes.trims[episode_id]
    manifest = Manifest.load(view.path(episode_id)) if broken(view.path(episode_id)) is None else None
    whole = manifest is not None and manifest.length == last
    return Kept(name=episode_id, first=first, last=None if whole else last)


def _trimmed(store: NewStore, view: StoreView, episode_id: str, frames: tuple[int, int]) -> None:
    reason = broken(view.path(episode_id))
    if reason is not None:
        store.left_out[episode_id] = reason
        return
    episode = view.read(episode_id)
    changed = trim(episode, *frames)
    store.write(changed)
    store.notes += [note for note in view.notes if note.episode_id == episode_id]
    store.marks += shifted(view.marks_of(episode_id), *frames)
    labels = view.labels_of(episode_id)
    if frames[1] == episode.length:
        store.labels += labels
    elif outcome(labels, episode.end) is Outcome.DISCARD:
        store.labels += [label for label in labels if label.verdict is Verdict.DISCARD]
