"""The layout of a LeRobotDataset v3.0: its files, its features, and the names of our columns there.

meta/info.json                                features, rate, counts, patterns of paths
meta/stats.json                               per feature: min, max, mean, std, count, five quantiles
meta/tasks.parquet                            task_index by task text
meta/episodes/chunk-000/file-000.parquet      per episode: length, where its rows and frames lie, its stats
data/chunk-000/file-000.parquet               a row per action
videos/<feature>/chunk-000/file-000.mp4       frames of many episodes, one after the other
meta/robot_stack.json                         ours: spec, task, image errors; other readers do not look at it

An episode of T actions has T+1 frames here. The table gets the T rows that are transitions; the last frame goes into
the video right behind them, outside the span that the table names, and its numbers into the column `robot_stack` of
the episode. So every row is a transition for whoever trains on it, and nothing is lost on the way back.

Source: huggingface/lerobot, src/lerobot/datasets, format version v3.0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from robot_stack.replay.columns import IMAGE_PREFIX, Column, columns
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec

VERSION = "v3.0"
INFO = "meta/info.json"
STATS = "meta/stats.json"
TASKS = "meta/tasks.parquet"
OURS = "meta/robot_stack.json"
EPISODES = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
FILES_PER_CHUNK = 1000
DATA_FILE_MB = 100
VIDEO_FILE_MB = 200

STATE = "observation.state"
ACTION = "action"
IMAGES = "observation.images."
REWARD, DONE, TRUNCATED, SUCCESS = "next.reward", "next.done", "next.truncated", "next.success"
INTERVENTION = "intervention"
PROGRESS, ADVANTAGE, POSITIVE = "progress", "advantage", "advantage_positive"
"""Of an export that was asked for them."""
RA_BC = "sarm_progress.parquet"
"""Where LeRobot looks for the progress by which it weights the rows that it trains on (RA-BC)."""
PREFIX = "robot_stack."
"""Of features that only this program has. Not "action." or "observation.": LeRobot takes those for policy inputs."""
EPISODE_COLUMN = "robot_stack"
"""Column of the episode table with the rest of an episode, as JSON."""
INDEX = ("timestamp", "frame_index", "episode_index", "index", "task_index")

_DTYPES = {"<f4": "float32", "<i8": "int64", "|b1": "bool", "|u1": "int64"}


def video_key(camera: str) -> str:
    """Return the feature of a camera."""
    return IMAGES + camera


def feature_of(column: Column) -> str:
    """Return the feature that carries a column of ours."""
    return {"proprio": STATE, "executed": ACTION}.get(column.name, PREFIX + column.name)


def plain_columns(spec: Spec) -> list[Column]:
    """Return our columns but the images, in order."""
    return [column for column in columns(spec) if not column.name.startswith(IMAGE_PREFIX)]


def features(spec: Spec, video_info: dict[str, dict[str, Any]], *, worth: bool) -> dict[str, dict[str, Any]]:
    """Return the `features` of info.json; `video_info`: camera -> `info` of its feature; `worth`: advantages too."""
    found: dict[str, dict[str, Any]] = {}
    for camera in spec.cameras:
        found[video_key(camera.name)] = {
            "dtype": "video",
            "shape": list(camera.shape),
            "names": ["height", "width", "channels"],
            "info": video_info[camera.name],
        }
    for column in plain_columns(spec):
        found[feature_of(column)] = {
            "dtype": _DTYPES[column.dtype],
            "shape": list(column.shape or (1,)),
            "names": _names(column, spec),
        }
    for name, dtype in ((REWARD, "float32"), (DONE, "bool"), (TRUNCATED, "bool"), (SUCCESS, "bool")):
        found[name] = {"dtype": dtype, "shape": [1], "names": None}
    found[INTERVENTION] = {"dtype": "bool", "shape": [1], "names": None}
    if worth:
        for name, dtype in ((PROGRESS, "float32"), (ADVANTAGE, "float32"), (POSITIVE, "bool")):
            found[name] = {"dtype": dtype, "shape": [1], "names": None}
    for name in INDEX:
        found[name] = {"dtype": "float32" if name == "timestamp" else "int64", "shape": [1], "names": None}
    return found


def info(
    spec: Spec, video_info: dict[str, dict[str, Any]], *, episodes: int, frames: int, tasks: int, worth: bool
) -> dict[str, Any]:
    """Return the whole content of info.json."""
    return {
        "codebase_version": VERSION,
        "robot_type": "+".join(arm.name for arm in spec.arms),
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": FILES_PER_CHUNK,
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "fps": whole_rate(spec),
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA,
        "video_path": VIDEO,
        "features": features(spec, video_info, worth=worth),
    }


def whole_rate(spec: Spec) -> int:
    """Return the control rate in Hz as a whole number, which this format needs.

    Raises:
        StoreError: If it is no whole number of Hz.
    """
    if spec.rate_hz != round(spec.rate_hz):
        raise StoreError(
            f"rate_hz of the spec is {spec.rate_hz}, must be a whole number in a LeRobotDataset; export as mcap instead"
        )
    return round(spec.rate_hz)


def place(pattern: str, number: int, **names: str) -> Path:
    """Return the path of the file with this number, counted from 0 through all chunks."""
    chunk, file = divmod(number, FILES_PER_CHUNK)
    return Path(pattern.format(chunk_index=chunk, file_index=file, **names))


def proprio_names(spec: Spec) -> list[str]:
    """Return the name of each entry of a proprio vector, e.g. "tcp_pose.0"."""
    return [f"{field.name}.{i}" for field in spec.proprio for i in range(field.size)]


def _names(column: Column, spec: Spec) -> list[str] | None:
    if column.name == "proprio":
        return proprio_names(spec)
    if column.name in ("executed", "proposed", "human"):
        return spec.action_names
    return None
