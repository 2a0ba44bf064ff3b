"""The draft of a dataset: whole episodes are copied file by file, changed ones are written anew."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.declared import check_names
from robot_stack.datasets.store_view import Note, StoreView, broken
from robot_stack.disk.durable import write_json
from robot_stack.replay.columns import columns
from robot_stack.replay.episode_writer import write_whole
from robot_stack.replay.identity import check_identity
from robot_stack.replay.layout import StorePaths
from robot_stack.replay.manifest import FILE_NAME, Manifest
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.names import check_name
from robot_stack.types.preferences import Kept, Preference, carried
from robot_stack.types.spec import GRIPPER_MEANING, Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeKind

Progress = Callable[[str, int, int], None]
"""Told what was done to an episode, its number from 1, and of how many."""


@dataclass(slots=True, kw_only=True)
class NewStore:
    """A dataset in the making; not frozen, because it grows.

    Attributes:
        others: Id -> words of the other tasks of its run: its way back, or those that take turns with it.
        left_out: Episode -> why it was not taken.
        renamed: Episode, with the folder it is from -> its id here, where that is another one.
        taken: Ids of what has been written.
        warnings: What was taken, and may not be what it is taken for.
    """

    root: Path
    spec: Spec
    task: str
    text: str
    others: dict[str, str] = field(default_factory=dict)
    labels: list[Label] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    marks: list[StageMark] = field(default_factory=list)
    preferences: list[Preference] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def free(self, episode_id: str) -> str:
        """Return this id, with a number behind it if an episode here has it already."""
        name, number = episode_id, 1
        while name in self.taken:
            number += 1
            name = f"{episode_id}-{number}"
        return name

    def copy(
        self, view: StoreView, episode_id: str, *, name: str | None = None, kind: EpisodeKind | None = None
    ) -> bool:
        """Copy an episode with all that was said of it; False, and named in `left_out`, if it is broken.

        Args:
            view: Where it is.
            episode_id: Its id there.
            name: Its id in this store, if it is to have another.
            kind: What it is to be in this store, if not what it was.
        """
        name = name or episode_id
        target = StorePaths(self.root).episode(name)
        reason = _copy_files(view.path(episode_id), target) or _misfit(view, episode_id)
        if reason is not None:
            shutil.rmtree(target, ignore_errors=True)
            self.left_out[episode_id] = reason
            return False
        changes = {"episode_id": name} | ({} if kind is None else {"kind": kind.value})
        if name != episode_id or kind is not None:
            _change_header(target, changes)
        self.labels += [replace(label, episode_id=name) for label in view.labels_of(episode_id)]
        self.notes += [replace(note, episode_id=name) for note in view.notes if note.episode_id == episode_id]
        self.marks += [replace(mark, episode_id=name) for mark in view.marks if mark.episode_id == episode_id]
        self.copy_scores(view, episode_id, name)
        self.taken.append(name)
        return True

    def copy_scores(self, view: StoreView, episode_id: str, name: str) -> None:
        """Copy the scores of an episode, which is `name` in this store, by the reward models that have none here."""
        for scores in view.paths.scores.glob(f"*/{episode_id}.npz"):
            beside = StorePaths(self.root).scores / scores.parent.name / f"{name}.npz"
            if not beside.exists():
                beside.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(scores, beside)

    def carry(self, view: StoreView, kept: Mapping[str, Kept]) -> None:
        """Take the preferences of another folder both of whose moments are here.

        Args:
            view: The folder.
            kept: By id there, what was asked for of its episodes.
        """
        there = {name: place for name, place in kept.items() if place.name in self.taken}
        self.preferences += [each for each in carried(view.preferences, there) if each not in self.preferences]

    def write(self, episode: StoredEpisode) -> None:
        """Write a made or changed episode, without labels.

        Raises:
            StoreError: If it has not ended, does not fit the spec, or an episode of this id is there.
        """
        name = check_name(episode.header.episode_id, "episode id")
        _check_arrays(episode.arrays, self.spec, name)
        if name in self.taken:
            raise StoreError(f"episode {name} is there twice, must be there once; give one of them another id")
        write_whole(StorePaths(self.root).episode(name), episode)
        self.taken.append(name)

    def finish(self, made_by: str, sources: Iterable[Path], changes: Mapping[str, Any]) -> None:
        """Write identity, labels, notes, stage marks, preferences, and from what the dataset was made.

        Raises:
            StoreError: If no episode was taken.
        """
        if not self.taken:
            reasons = "; ".join(self.left_out.values()) or "none was asked for"
            raise StoreError(f"number of episodes to write is 0, must be at least 1: {reasons}; nothing was written")
        paths = StorePaths(self.root)
        check_identity(paths.identity, self.spec, self.task)
        there = carried(self.preferences, {name: Kept(name=name) for name in self.taken})
        logs = (self.labels, paths.labels), (self.notes, paths.notes), (self.marks, paths.stages)
        for rows, path in (*logs, (there, paths.preferences)):
            path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
        origin = {
            "made_by": made_by,
            "text": self.text,
            **({"others": self.others} if self.others else {}),
            "sources": [str(source.resolve()) for source in sources],
            "changes": dict(changes),
            "left_out": self.left_out,
        }
        write_json(paths.origin, origin)


def start_store(root: Path, like: StoreView) -> NewStore:
    """Create an empty store in the draft `root`, of the spec and task of another."""
    StorePaths(root).episodes.mkdir(parents=True)
    return NewStore(root=root, spec=like.spec, task=like.task, text=like.text, others=dict(like.others))


def _misfit(view: StoreView, episode_id: str) -> str | None:
    """Return why an episode does not fit its name or its folder, or None."""
    try:
        view.checked(episode_id)
    except StoreError as error:
        return str(error)
    return None


def _copy_files(source: Path, target: Path) -> str | None:
    """Copy what the manifest lists, and the manifest; return why the copy is broken, or None."""
    try:
        check_names(source)
        manifest = Manifest.load(source)
    except StoreError as error:
        return str(error)
    if manifest is None:
        return f"{source.name} is unfinished"
    for name in (*manifest.sha256, FILE_NAME):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
    return broken(target)


def _check_arrays(arrays: Mapping[str, np.ndarray], spec: Spec, name: str) -> None:
    """Raise StoreError naming the first array of an episode that has not the shape and values of the spec."""
    steps = len(arrays["source"])
    for column in columns(spec):
        wanted = (steps + column.per_frame, *column.shape)
        if arrays[column.name].shape != wanted:
            raise StoreError(
                f"shape of {column.name} in episode {name} is {arrays[column.name].shape}, must be {wanted}; "
                "name a run of the same cell"
            )
    if len(unknown := np.setdiff1d(arrays["source"], list(Source))):
        legal = ", ".join(f"{each:d}" for each in Source)
        raise StoreError(f"source of episode {name} has {unknown[0]}, must be one of {legal}; leave the episode out")
    for action in ("executed", "proposed", "human"):
        values = arrays[action]
        if not (np.abs(values) <= 1.0 + 1e-5).all():
            gripper = f", and a discrete gripper: {GRIPPER_MEANING}" if spec.discrete_gripper_indices else ""
            raise StoreError(
                f"{action} of episode {name} spans {values.min():.3g} to {values.max():.3g}, must be within [-1, 1]; "
                f"scale the actions to the steps of the cell first{gripper}"
            )
    if not np.isfinite(arrays["proprio"]).all():
        raise StoreError(f"proprio of episode {name} has an entry that is not finite, must be finite; leave it out")


def _change_header(path: Path, changes: Mapping[str, str]) -> None:
    """Change fields of the header of the copied episode in `path`, and seal it again."""
    episode = read_episode(path, only=())
    assert episode.end is not None
    group = json.loads((path / "zarr.json").read_text())
    group["attributes"]["header"] |= changes
    (path / "zarr.json").write_text(json.dumps(group, indent=2))
    Manifest.seal(path, end=episode.end, length=episode.length)
