"""Import of a LeRobotDataset v3.x: our own exactly, another program's as far as it says.

Where LeRobot's own tools have cut episodes out of one of ours, the frames behind the tables are gone: such a dataset is
read like another program's, with the ids of its episodes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets import bounds
from robot_stack.datasets.declared import check_held
from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.extras import need
from robot_stack.datasets.inside import fill, inside, inside_folder, short_text
from robot_stack.datasets.lerobot import layout
from robot_stack.datasets.lerobot.codec import VideoReader, frame_count
from robot_stack.datasets.lerobot.rows import episode_from, foreign_episode
from robot_stack.datasets.lerobot.tables import numpy_rows, read_bounded
from robot_stack.datasets.new_store import NewStore, Progress
from robot_stack.datasets.told import Said, text_of
from robot_stack.replay.layout import StorePaths
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import DAMAGES, StoreError
from robot_stack.types.preferences import Kept, Preference, carried
from robot_stack.types.spec import GRIPPER_DEADBAND, GRIPPER_MEANING, Spec

SMALL_ACTION = 0.05
"""Motions of people fill more of a cell's steps than this share; metres do not."""
MOST_LISTED = 40
"""Names or texts of another program in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """The spec and task of a run that a dataset of another program must fit.

    Attributes:
        only_task: Words of the one task whose episodes are taken; None takes all, if they are of one.
        names_differ: True if somebody says that entries of state and action mean what the run's do, in that order,
            though the dataset calls them otherwise.
    """

    spec: Spec
    task: str
    only_task: str | None = None
    names_differ: bool = False


@dataclass(slots=True, kw_only=True)
class LeRobotFolder:
    """An opened LeRobotDataset; not frozen, because it keeps the file it reads from.

    Attributes:
        spec: Ours, or that of the run it is to fit.
        episodes: A row of the episode table each.
        chosen: Numbers of those that are taken.
        ours: True if `data export` wrote it, whatever LeRobot's tools have done to it since.
        complete: True if the videos still hold the last frame of each episode, behind the rows of the table.
    """

    root: Path
    info: dict[str, Any]
    spec: Spec
    task: str
    text: str
    episodes: list[dict[str, Any]]
    chosen: list[int]
    ours: bool
    complete: bool
    _data: tuple[int, int, Any] | None = None
    _videos: dict[str, tuple[Path, VideoReader]] = field(default_factory=dict)

    def told(self, number: int) -> str:
        """Return the task in words, as the robot was told it in an episode."""
        return _told(self.episodes[number]) or self.text

    def read(self, number: int) -> tuple[StoredEpisode, Said]:
        """Read one episode and what operators said of it.

        Raises:
            StoreError: If it is damaged or does not fit.
        """
        line = self.episodes[number]
        with readable(self.root):
            rows = self._rows(line, number)
            rest = line.get(layout.EPISODE_COLUMN)
            whole = rest if self.complete else None
            frames = int(line["length"]) + (whole is not None)
            check_held(f"episode {number} of {self.root}", frames - 1, self.spec)
            images = {c.name: self._images(c.name, line, frames) for c in self.spec.cameras}
            if whole is not None:
                return episode_from(rows, images, whole, self.spec)
            name = f"{number:06d}-demo-lerobot"
            header = {"episode_id": name, "kind": "demo", "task": self.task, "actor": "lerobot", "started_unix_s": 0.0}
            if rest is not None:
                header = json.loads(rest)["header"]
            return foreign_episode(rows, images, header, self.spec), ([], [], [])

    def close(self) -> None:
        """Close the video files that were read from."""
        for _, reader in self._videos.values():
            reader.close()

    def _rows(self, line: dict[str, Any], number: int) -> dict[str, np.ndarray]:
        chunk, file = int(line["data/chunk_index"]), int(line["data/file_index"])
        if self._data is None or self._data[:2] != (chunk, file):
            path = inside(self.root, fill(self.info["data_path"], chunk_index=chunk, file_index=file))
            self._data = (chunk, file, read_bounded(path, self._columns()))
        table = self._data[2]
        mine = np.flatnonzero(table["episode_index"].to_numpy() == number)
        if len(mine) != line["length"] or not len(mine) or mine[-1] - mine[0] + 1 != len(mine):
            raise StoreError(
                f"episode {number} of {self.root} has {len(mine)} rows, must have {line['length']} in a row; fetch "
                "the dataset again"
            )
        return numpy_rows(table.slice(mine[0], len(mine)))

    def _columns(self) -> set[str]:
        """Return the columns of the data table that make an episode; others are not unpacked."""
        ours = {layout.feature_of(column) for column in layout.plain_columns(self.spec)}
        return {*ours, *layout.INDEX, layout.INTERVENTION, layout.SUCCESS, layout.DONE, layout.TRUNCATED}

    def _images(self, camera: str, line: dict[str, Any], count: int) -> np.ndarray:
        path = _video(self.root, self.info, line, camera)
        if camera not in self._videos or self._videos[camera][0] != path:
            if camera in self._videos:
                self._videos[camera][1].close()
            shape = next(each.shape for each in self.spec.cameras if each.name == camera)
            self._videos[camera] = (path, VideoReader(path, float(self.info["fps"]), shape))
        first = round(line[f"videos/{layout.video_key(camera)}/from_timestamp"] * self.info["fps"])
        return self._videos[camera][1].take(first, count)


def import_lerobot(folder: Path, out: Path, *, like: Like | None, on_episode: Progress) -> NewStore:
    """Write a folder of episodes from a LeRobotDataset.

    Args:
        like: What it is to fit; needed, and only used, if another program wrote it.
        on_episode: Called with what is done, its number from 1, and of how many.

    Raises:
        StoreError: If it is damaged, of another version or does not fit, a package is missing, or the disk refuses.
    """
    source = open_lerobot(folder, like)
    with new_folder(out) as draft:
        StorePaths(draft).episodes.mkdir()
        store = NewStore(root=draft, spec=source.spec, task=source.task, text=source.text)
        try:
            executed, answers = [], []
            for done, number in enumerate(source.chosen, 1):
                on_episode("imported", done, len(source.chosen))
                episode, (labels, marks, preferences) = source.read(number)
                executed.append(episode.arrays["executed"])
                if episode.header.first_task:
                    store.text = source.told(number)
                else:
                    store.others[episode.header.task_id] = source.told(number)
                called = episode.header.episode_id
                name = called if source.ours else store.free(called)
                if name != called:  # of exports that LeRobot has merged: each run begins with the same ids
                    episode = replace(episode, header=replace(episode.header, episode_id=name))
                    store.renamed[f"{folder}/episode {number}, {called}"] = name
                store.write(episode)
                store.labels += [replace(label, episode_id=name) for label in labels]
                store.marks += [replace(mark, episode_id=name) for mark in marks]
                answers.append((called, name, preferences))
        finally:
            source.close()
        _take_preferences(store, answers)
        if not source.ours:
            store.warnings += _doubts(np.concatenate(executed), source.spec)
        store.finish(
            "import lerobot", [folder], {"dataset": str(source.info.get("robot_type"))[: bounds.MAX_NAME_CHARS]}
        )
    return store


def _take_preferences(store: NewStore, answers: Sequence[tuple[str, str, list[Preference]]]) -> None:
    """Take the preferences of episodes, but those that name another one whose id is there twice.

    Args:
        store: Gets them.
        answers: Per episode, what it was called, what it is called, and the preferences beside it.
    """
    called = Counter(each for each, *_ in answers)
    unclear = 0
    for own, name, preferences in answers:
        for each in preferences:
            kept = {other: Kept(name=other) for other in each.episodes if called[other] < 2} | {own: Kept(name=name)}
            found = carried([each], kept)
            store.preferences += found
            unclear += not found
    if unclear:
        store.warnings.append(f"{unclear} preferences name an episode whose id is there twice, and are left out")


def _doubts(actions: np.ndarray, spec: Spec) -> Iterator[str]:
    """Yield what of the actions of another program, (N, A), may not mean what the same numbers mean here."""
    motion = [i for i, name in enumerate(spec.action_names) if not name.endswith(".gripper")]
    usual = float(np.percentile(np.abs(actions[:, motion]), 99))
    if usual < SMALL_ACTION:
        yield (
            f"99 % of motions are below {usual:.2g}, where 1 is the cell's step in m or rad; if these are metres, "
            "divide them by the steps and import again"
        )
    for entry in spec.discrete_gripper_indices:
        values = np.unique(np.round(actions[:, entry], 3))
        only_opens = values[0] >= -GRIPPER_DEADBAND and values[-1] > GRIPPER_DEADBAND
        if only_opens or not np.isin(values, (-1, 0, 1)).all():
            listed = ", ".join(f"{value:g}" for value in values[:5]) + ", ..." * (len(values) > 5)
            yield (
                f"{spec.action_names[entry]} of the actions is {listed}, where {GRIPPER_MEANING}; if these mean "
                "otherwise, convert them and import again"
            )


def _told(line: Mapping[str, Any]) -> str:
    return text_of((line.get("tasks") or [""])[0], "task of an episode")


def open_lerobot(folder: Path, like: Like | None) -> LeRobotFolder:
    """Open a LeRobotDataset, and compare its features with the spec.

    Raises:
        StoreError: If it cannot be used; the message names the field.
    """
    if not (folder / layout.INFO).is_file():
        raise StoreError(
            f"file {folder / layout.INFO} is missing, must be there; name the folder of a LeRobotDataset "
            f"{layout.VERSION}"
        )
    with readable(folder):
        inside_folder(folder, folder)
        info = json.loads(short_text(folder, layout.INFO))
        if not str(info["codebase_version"]).startswith("v3."):
            raise StoreError(
                f"codebase_version of {folder} is {info['codebase_version']}, must be {layout.VERSION}; convert it "
                "with LeRobot's convert_dataset_v21_to_v30"
            )
        ours = (folder / layout.OURS).is_file()
        if ours and like is not None and (like.names_differ or like.only_task is not None):
            raise StoreError(
                f"--only-task and --names-differ are for a dataset of another program, but {folder} is one of ours; "
                "leave them out"
            )
        spec, task = _identity(folder, like)
        _check_features(folder, info, spec, ours or (like is not None and like.names_differ))
        lines = []
        for file in sorted((folder / "meta/episodes").glob("*/*.parquet")):
            lines += read_bounded(inside(folder, file.relative_to(folder)), _episode_columns(spec)).to_pylist()
        lines.sort(key=lambda line: int(line["episode_index"]))
        indices = [int(line["episode_index"]) for line in lines]
        if not lines or len(lines) != int(info["total_episodes"]) or indices != list(range(len(lines))):
            raise StoreError(
                f"episode table of {folder} has {len(lines)} episodes, must have the {info['total_episodes']} of "
                "info.json; fetch the dataset again"
            )
        chosen = list(range(len(lines))) if ours or like is None else _of_one_task(folder, lines, like.only_task)
        followers = [*lines[1:], None]
        complete = not any(_is_cut(folder, info, spec, one, two) for one, two in zip(lines, followers, strict=True))
    return LeRobotFolder(
        root=folder, info=info, spec=spec, task=task, text=_told(lines[chosen[0]]) or task, episodes=lines,
        chosen=chosen, ours=ours, complete=complete,
    )  # fmt: skip


def _of_one_task(folder: Path, lines: list[dict[str, Any]], wanted: str | None) -> list[int]:
    """Return the numbers of the episodes of the wanted task, or of all if none is wanted and all are of one.

    Raises:
        StoreError: If they are of several, or none is of the wanted one; the message lists the texts.
    """
    told = [tuple(line.get("tasks") or ()) for line in lines]
    texts = sorted({text for each in told for text in each if wanted is None or len(each) == 1})
    chosen = [number for number, each in enumerate(told) if wanted is None or each == (wanted,)]
    if not chosen or (wanted is None and len(texts) > 1):
        listed = ", ".join(repr(text[: bounds.MAX_NAME_CHARS]) for text in texts[:MOST_LISTED])
        if wanted is not None:
            raise StoreError(f"--only-task is {wanted!r}, must be one of: {listed}; correct it")
        raise StoreError(
            f"dataset {folder} has {len(texts)} tasks, must have one: {listed}; name it with --only-task, and import "
            "each into a folder of its own"
        )
    return chosen


def _episode_columns(spec: Spec) -> set[str]:
    """Return the columns of the episode table that are needed; the others, with statistics, are not unpacked."""
    videos = [f"videos/{layout.video_key(camera.name)}" for camera in spec.cameras]
    places = {f"{video}/{key}" for video in (*videos, "data") for key in ("chunk_index", "file_index")}
    spans = {f"{video}/{key}" for video in videos for key in ("from_timestamp", "to_timestamp")}
    return {"episode_index", "length", "tasks", layout.EPISODE_COLUMN, *places, *spans}


def _is_cut(
    folder: Path, info: dict[str, Any], spec: Spec, line: dict[str, Any], follower: dict[str, Any] | None
) -> bool:
    """Return True if a video lacks the frame that `data export` puts behind the rows of an episode.

    Then the next episode's frames follow at once, or the file ends with the rows.
    """
    for camera in spec.cameras:
        video, fps = f"videos/{layout.video_key(camera.name)}", float(info["fps"])
        place = [f"{video}/chunk_index", f"{video}/file_index"]
        end = round(line[f"{video}/to_timestamp"] * fps)
        if follower is not None and all(line[key] == follower[key] for key in place):
            cut = round(follower[f"{video}/from_timestamp"] * fps) == end
        else:
            cut = layout.EPISODE_COLUMN in line and frame_count(_video(folder, info, line, camera.name)) == end
        if cut:
            return True
    return False


def _video(folder: Path, info: dict[str, Any], line: dict[str, Any], camera: str) -> Path:
    """Return the video file that holds an episode's frames of a camera."""
    key = layout.video_key(camera)
    chunk, file = int(line[f"videos/{key}/chunk_index"]), int(line[f"videos/{key}/file_index"])
    return inside(folder, fill(info["video_path"], video_key=key, chunk_index=chunk, file_index=file))


def _identity(folder: Path, like: Like | None) -> tuple[Spec, str]:
    ours = folder / layout.OURS
    if ours.is_file():
        raw = json.loads(short_text(folder, layout.OURS))
        return Spec.from_json(json.dumps(raw["spec"])), text_of(raw["task"], "task", bounds.MAX_NAME_CHARS)
    if like is None:
        raise StoreError(
            f"spec of {folder} is not known, must be that of a run, because another program wrote this dataset; name "
            "a run whose cell it fits with --like"
        )
    return like.spec, like.task


def _check_features(folder: Path, info: dict[str, Any], spec: Spec, any_names: bool) -> None:
    features = info["features"]
    wanted: dict[str, list[int]] = {layout.STATE: [spec.proprio_size], layout.ACTION: [spec.action_size]}
    wanted |= {layout.video_key(camera.name): list(camera.shape) for camera in spec.cameras}
    called = {layout.STATE: layout.proprio_names(spec), layout.ACTION: spec.action_names}
    problems, otherwise = [], False
    for name, shape in wanted.items():
        if name not in features:
            problems.append(f"feature {name} is missing, must be there (there are {', '.join(sorted(features)[:40])})")
            continue
        found = list(features[name]["shape"])
        names = features[name].get("names")
        if isinstance(names, list) and names[:1] in (["channel"], ["channels"]) and len(found) == 3:
            found = [found[1], found[2], found[0]]
        if found != shape:
            problems.append(f"shape of {name} is {found}, must be {shape}")
        names = next(iter(names.values()), None) if isinstance(names, dict) else names
        if name in called and isinstance(names, list) and names != called[name] and not any_names:
            otherwise = True
            problems.append(f"names of {name} are {_listed(names)}, must be {_listed(called[name])}")
        if name.startswith(layout.IMAGES) and features[name]["dtype"] != "video":
            problems.append(f"dtype of {name} is {features[name]['dtype']!r}, must be 'video'")
    if float(info["fps"]) != spec.rate_hz:
        problems.append(f"fps is {info['fps']}, must be {spec.rate_hz:g}")
    if problems:
        advice = ", or give --names-differ if these entries mean the same, in this order" if otherwise else ""
        raise StoreError(f"dataset {folder}: {'; '.join(problems)}; name a run of the same cell and rate{advice}")


def _listed(names: list[Any]) -> str:
    return ", ".join(str(name)[: bounds.MAX_NAME_CHARS] for name in names[:MOST_LISTED])


@contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Turn what damaged files raise into a StoreError that names the folder."""
    arrow = need("pyarrow", "pyarrow")
    try:
        yield
    except (*DAMAGES, arrow.ArrowException) as error:
        raise StoreError(
            f"dataset {folder} is unreadable ({error!r}), must be a LeRobotDataset {layout.VERSION}; fetch it again"
        ) from error
