"""Export of episodes as a LeRobotDataset v3.0.

In memory are one episode and, without images, the open file of rows. Statistics are as LeRobot defines them: min, max,
mean, std, count and five quantiles; vectors per entry; images per channel, divided by 255, shape (3, 1, 1). Quantiles
of one episode are exact; of several, as there, the outermost of the episodes' own: a bound, no estimate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.advantage import Advantages, StepWorth
from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.extras import need
from robot_stack.datasets.lerobot import layout
from robot_stack.datasets.lerobot.codec import Codec, ImageError, VideoReader, VideoWriter, check_codec
from robot_stack.datasets.lerobot.rows import rest_of, rows_of
from robot_stack.datasets.lerobot.tables import MEGABYTE, RollingTable, arrow_table, write_tasks
from robot_stack.datasets.new_store import Progress
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.spec import CameraSpec

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}

FeatureStats = dict[str, np.ndarray]
Stats = dict[str, FeatureStats]


def vector_stats(values: np.ndarray) -> FeatureStats:
    """Compute statistics of numbers or bools, shape (T,) or (T, D); each float64, shape (D,), D = 1 for (T,)."""
    rows = values.reshape(len(values), -1).astype(np.float64)
    quantiles = np.quantile(rows, list(QUANTILES.values()), axis=0)
    return {
        "min": rows.min(axis=0),
        "max": rows.max(axis=0),
        "mean": rows.mean(axis=0),
        "std": rows.std(axis=0),
        "count": np.array([len(rows)]),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    }


def image_stats(images: np.ndarray) -> FeatureStats:
    """Compute statistics over every pixel of uint8 images, shape (T, H, W, 3); each in [0, 1], shape (3, 1, 1)."""
    found: dict[str, list[float]] = {}
    for channel in range(3):
        counts = np.bincount(images[..., channel].ravel(), minlength=256)
        for name, value in _histogram_stats(counts).items():
            found.setdefault(name, []).append(value / 255.0)
    stats = {name: np.array(values).reshape(3, 1, 1) for name, values in found.items()}
    return {**stats, "count": np.array([len(images)])}


def _histogram_stats(counts: np.ndarray) -> dict[str, float]:
    levels = np.arange(256)
    total = counts.sum()
    mean = float((counts * levels).sum() / total)
    met = np.flatnonzero(counts)
    below = np.cumsum(counts)
    return {
        "min": float(met[0]),
        "max": float(met[-1]),
        "mean": mean,
        "std": float(np.sqrt((counts * np.square(levels - mean)).sum() / total)),
        **{name: float(np.searchsorted(below, share * total)) for name, share in QUANTILES.items()},
    }


def merge_stats(known: Stats | None, more: Stats) -> Stats:
    """Merge the statistics of two sets of episodes: mean and std by the parallel formula of Chan et al., 1979."""
    if known is None:
        return more
    return {name: _merged(known[name], more[name]) for name in more}


def _merged(one: FeatureStats, two: FeatureStats) -> FeatureStats:
    count = one["count"] + two["count"]
    share = two["count"][0] / count[0]
    apart = two["mean"] - one["mean"]
    variance = (1 - share) * one["std"] ** 2 + share * two["std"] ** 2 + share * (1 - share) * apart**2
    found = {
        "min": np.minimum(one["min"], two["min"]),
        "max": np.maximum(one["max"], two["max"]),
        "mean": one["mean"] + share * apart,
        "std": np.sqrt(variance),
        "count": count,
    }
    for name, level in QUANTILES.items():
        found[name] = (np.minimum if level <= 0.5 else np.maximum)(one[name], two[name])
    return found


def to_json(stats: Stats) -> dict[str, dict[str, list[float]]]:
    """Return statistics as JSON, with lists in place of arrays."""
    return {feature: {name: value.tolist() for name, value in each.items()} for feature, each in stats.items()}


def flat(stats: Stats) -> dict[str, list[float]]:
    """Return statistics as columns of the episode table."""
    return {f"stats/{feature}/{name}": v for feature, each in to_json(stats).items() for name, v in each.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The result of an export: how much was written, and how far the codec changed the images.

    Attributes:
        rows: Rows of the table: actions of all episodes.
        codec: Of the videos.
        image_errors: Camera -> `ImageError.to_json`, measured on every pixel by reading the videos back.
    """

    episodes: int
    rows: int
    codec: str
    image_errors: dict[str, dict[str, float]]


@dataclass(slots=True)
class _Videos:
    """The video files of one camera; not frozen, because they grow."""

    root: Path
    camera: CameraSpec
    codec: Codec
    rate_hz: int
    number: int = -1
    writer: VideoWriter | None = None
    error: ImageError = field(default_factory=ImageError)

    def add(self, images: np.ndarray) -> tuple[int, int]:
        """Append an episode's frames; return the number of the file and the first frame in it."""
        if self.writer is not None and self.writer.size_bytes >= layout.VIDEO_FILE_MB * MEGABYTE:
            self.close()
        if self.writer is None:
            self.number += 1
            path = layout.place(layout.VIDEO, self.number, video_key=layout.video_key(self.camera.name))
            self.writer = VideoWriter(self.root / path, self.codec, self.camera, self.rate_hz)
        first = self.writer.frames
        self.writer.add(images)
        return self.number, first

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def export_lerobot(
    view: StoreView,
    episode_ids: Sequence[str],
    out: Path,
    *,
    codec: str,
    on_episode: Progress,
    advantages: Advantages | None = None,
) -> Exported:
    """Write the dataset, then read every video back and compare it with the store.

    Args:
        advantages: Of these episodes, to be written beside the rest; None for not.
        codec: One of `codec.CODECS`.
        on_episode: Called with what is done, its number from 1, and of how many.

    Raises:
        StoreError: If an episode, a package or a codec is missing, or the disk refuses.
    """
    view.check_there(episode_ids)
    rate_hz = layout.whole_rate(view.spec)
    need("pyarrow", "pyarrow")
    chosen = check_codec(codec, view.spec.cameras)
    with new_folder(out) as draft:
        videos = [_Videos(draft, camera, chosen, rate_hz) for camera in view.spec.cameras]
        data = RollingTable(draft, layout.DATA, layout.DATA_FILE_MB)
        table = RollingTable(draft, layout.EPISODES, layout.DATA_FILE_MB)
        stats: Stats | None = None
        spans: list[dict[str, tuple[int, int]]] = []
        first = 0
        texts: dict[str, int] = {}
        for number, episode_id in enumerate(episode_ids):
            on_episode("exported", number + 1, len(episode_ids))
            episode = view.read(episode_id)
            labels = view.labels_of(episode_id)
            task = texts.setdefault(view.text_of(episode.header), len(texts))
            rows = rows_of(episode, labels, number=number, first=first, task=task)
            if advantages is not None:
                rows |= _worth(advantages.episodes[episode_id])
            spans.append({v.camera.name: v.add(episode.arrays[IMAGE_PREFIX + v.camera.name]) for v in videos})
            own = _stats(rows, episode)
            file = data.add(arrow_table(rows))
            line = {
                **_line(number, episode, first, view.text_of(episode.header)),
                **_where("data", file),
                **_video_columns(spans[-1], episode.length, rate_hz),
                **flat(own),
                layout.EPISODE_COLUMN: rest_of(
                    episode, labels, view.marks_of(episode_id), view.preferences_from(episode_id)
                ),
            }
            table.add(_episode_table(line, table))
            stats = merge_stats(stats, own)
            first += episode.length
        data.close()
        table.close()
        for video in videos:
            video.close()
        assert stats is not None
        errors = _compare(view, episode_ids, videos, spans, draft, on_episode)
        if advantages is not None:
            _write_progress(draft / layout.RA_BC, advantages, episode_ids)
        described = {v.camera.name: _video_info(v.camera, chosen, codec, rate_hz) for v in videos}
        info = layout.info(
            view.spec,
            described,
            episodes=len(episode_ids),
            frames=first,
            tasks=len(texts),
            worth=advantages is not None,
        )
        ours = {"task": view.task, "spec": json.loads(view.spec.to_json()), "codec": codec, "image_errors": errors}
        if advantages is not None:
            ours |= {"scores": advantages.version, "usual_steps": dict(advantages.usual_steps)}
        for name, content in ((layout.INFO, info), (layout.STATS, to_json(stats)), (layout.OURS, ours)):
            (draft / name).write_text(json.dumps(content, indent=4) + "\n")
        write_tasks(draft / layout.TASKS, list(texts))
    return Exported(episodes=len(episode_ids), rows=first, codec=codec, image_errors=errors)


def _worth(steps: StepWorth) -> dict[str, np.ndarray]:
    return {layout.PROGRESS: steps.progress, layout.ADVANTAGE: steps.advantage, layout.POSITIVE: steps.positive}


def _write_progress(path: Path, advantages: Advantages, episode_ids: Sequence[str]) -> None:
    """Write the table from which LeRobot's RA-BC weights rows; its column is called "sparse" whatever made it."""
    arrow, parquet = need("pyarrow", "pyarrow"), need("pyarrow.parquet", "pyarrow")
    progress = [advantages.episodes[name].progress for name in episode_ids]
    lengths = [len(each) for each in progress]
    table = arrow.table(
        {
            "index": np.arange(sum(lengths), dtype=np.int64),
            "episode_index": np.repeat(np.arange(len(lengths), dtype=np.int64), lengths),
            "frame_index": np.concatenate([np.arange(length, dtype=np.int64) for length in lengths]),
            "progress_sparse": np.concatenate(progress),
        }
    )
    parquet.write_table(table.replace_schema_metadata({"reward_model_path": advantages.version}), path)


def _stats(rows: dict[str, np.ndarray], episode: StoredEpisode) -> Stats:
    found = {name: vector_stats(values) for name, values in rows.items()}
    for camera in episode.spec.cameras:
        images = episode.arrays[IMAGE_PREFIX + camera.name][: episode.length]
        found[layout.video_key(camera.name)] = image_stats(images)
    return found


def _line(number: int, episode: StoredEpisode, first: int, text: str) -> dict[str, Any]:
    return {
        "episode_index": number,
        "tasks": [text],
        "length": episode.length,
        "dataset_from_index": first,
        "dataset_to_index": first + episode.length,
    }


def _where(what: str, file: int) -> dict[str, int]:
    chunk, number = divmod(file, layout.FILES_PER_CHUNK)
    return {f"{what}/chunk_index": chunk, f"{what}/file_index": number}


def _video_columns(spans: dict[str, tuple[int, int]], steps: int, rate_hz: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for camera, (file, first) in spans.items():
        name = f"videos/{layout.video_key(camera)}"
        found |= _where(name, file)
        found[f"{name}/from_timestamp"] = first / rate_hz
        found[f"{name}/to_timestamp"] = (first + steps) / rate_hz
    return found


def _episode_table(line: dict[str, Any], table: RollingTable) -> Any:
    arrow = need("pyarrow", "pyarrow")
    line |= _where("meta/episodes", table.turn())
    return arrow.Table.from_pylist([line])


def _video_info(camera: CameraSpec, chosen: Codec, codec: str, rate_hz: int) -> dict[str, Any]:
    info = {
        "video.height": camera.height_px,
        "video.width": camera.width_px,
        "video.fps": rate_hz,
        "video.channels": 3,
        "has_audio": False,
        "is_depth_map": False,
    }
    if chosen.pixels == "rgb24":
        return info  # LeRobot's tools encode anew with what stands here, and do not know this pixel format
    how = {"video.g": int(chosen.options["g"]), "video.crf": int(chosen.options["crf"])}
    return {**info, **how, "video.codec": codec, "video.pix_fmt": chosen.pixels}


def _compare(
    view: StoreView,
    episode_ids: Sequence[str],
    videos: list[_Videos],
    spans: list[dict[str, tuple[int, int]]],
    draft: Path,
    on_episode: Progress,
) -> dict[str, dict[str, float]]:
    """Measure how far the pixels of each camera were changed; a video that lacks a frame is an error."""
    readers: dict[str, tuple[int, VideoReader]] = {}
    for number, episode_id in enumerate(episode_ids):
        on_episode("compared", number + 1, len(episode_ids))
        arrays = view.read(episode_id).arrays
        for video in videos:
            name = video.camera.name
            file, first = spans[number][name]
            if name not in readers or readers[name][0] != file:
                if name in readers:
                    readers[name][1].close()
                path = draft / layout.place(layout.VIDEO, file, video_key=layout.video_key(name))
                readers[name] = (file, VideoReader(path, video.rate_hz, arrays[IMAGE_PREFIX + name].shape[1:]))
            wanted = arrays[IMAGE_PREFIX + name]
            video.error.add(readers[name][1].take(first, len(wanted)), wanted)
    for _, reader in readers.values():
        reader.close()
    return {video.camera.name: video.error.to_json() for video in videos}
