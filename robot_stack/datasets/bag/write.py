"""Export of episodes as MCAP files, one each, that `ros2 bag`, Foxglove and all readers of ROS 2 bags open."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.bag import messages
from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.extras import need
from robot_stack.datasets.new_store import Progress
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label

SUFFIX = ".mcap"
Row = tuple[int, str, str, Any]
"""Control tick in ns, topic, type, message."""


def export_mcap(view: StoreView, episode_ids: Sequence[str], out: Path, *, on_episode: Progress) -> int:
    """Write `out/<episode>.mcap` for each episode; return the number of messages.

    Raises:
        StoreError: If an episode or a package is missing, or the disk refuses.
    """
    view.check_there(episode_ids)
    writer_of = need("mcap_ros2.writer", "mcap-ros2-support").Writer
    count = 0
    with new_folder(out) as draft:
        for number, episode_id in enumerate(episode_ids):
            on_episode("exported", number + 1, len(episode_ids))
            episode = view.read(episode_id)
            with (draft / (episode_id + SUFFIX)).open("wb") as file:
                writer = writer_of(file)
                schemas = {name: writer.register_msgdef(name, text) for name, text in messages.DEFINITIONS.items()}
                shift_ns = round(episode.header.started_unix_s * 1e9) - int(episode.arrays["stamp_ns"][0])
                for tick_ns, topic, kind, message in _rows(episode, view.labels_of(episode_id), view):
                    at_ns = max(tick_ns + shift_ns, 0)
                    writer.write_message(topic, schemas[kind], message, log_time=at_ns, publish_time=at_ns)
                    count += 1
                writer.finish()
    return count


def _rows(episode: StoredEpisode, labels: Sequence[Label], view: StoreView) -> Iterator[Row]:
    """Yield all messages of an episode, in the order of their ticks."""
    if episode.end is None:
        raise StoreError(f"end of {episode.header.episode_id} is None, must be set; leave the episode out")
    arrays, spec = episode.arrays, episode.spec
    ticks = [int(tick) for tick in arrays["stamp_ns"]]
    about = {
        "header": asdict(episode.header),
        "end": episode.end.value,
        "labels": [asdict(label) for label in labels],
        "stages": [asdict(mark) for mark in view.marks_of(episode.header.episode_id)],
        "preferences": [asdict(each) for each in view.preferences_from(episode.header.episode_id)],
        "spec": json.loads(spec.to_json()),
        "task": view.task,
        "text": view.text_of(episode.header),
    }
    yield ticks[0], messages.ABOUT, messages.STRING, {"data": json.dumps(about, sort_keys=True)}
    names = [f"{field.name}.{i}" for field in spec.proprio for i in range(field.size)]
    for t, tick in enumerate(ticks):
        for camera in spec.cameras:
            image = _image(tick, camera.name, arrays[IMAGE_PREFIX + camera.name][t])
            yield tick, messages.camera_topic(camera.name), messages.IMAGE, image
        yield tick, messages.STATE, messages.JOINT_STATE, _joints(tick, names, arrays["proprio"][t])
        timing = np.array([arrays["age_s"][t], arrays["skew_s"][t]])
        yield tick, messages.TIMING, messages.JOINT_STATE, _joints(tick, ["age_s", "skew_s"], timing)
        if t == episode.length:
            return
        buttons = [int(arrays[name][t]) for name in ("source", "gripper_pressed", "clipped")]
        buttons += [int(source) for source in arrays["sources"][t]] if "sources" in arrays else []
        yield tick, messages.EXECUTED, messages.JOY, _joy(tick, arrays["executed"][t], buttons)
        yield tick, messages.PROPOSED, messages.JOY, _joy(tick, arrays["proposed"][t], [])
        yield tick, messages.HUMAN, messages.JOY, _joy(tick, arrays["human"][t], [])
        params = np.array([arrays["params_version"][t], arrays["params_age_s"][t]], np.float64)
        yield tick, messages.PARAMS, messages.JOINT_STATE, _joints(tick, ["version", "age_s"], params)


def _header(tick_ns: int, frame: str = "") -> dict[str, Any]:
    return {"stamp": {"sec": tick_ns // 1_000_000_000, "nanosec": tick_ns % 1_000_000_000}, "frame_id": frame}


def _image(tick_ns: int, camera: str, image: np.ndarray) -> dict[str, Any]:
    height, width = image.shape[:2]
    return {
        "header": _header(tick_ns, camera),
        "height": height,
        "width": width,
        "encoding": "rgb8",
        "is_bigendian": 0,
        "step": 3 * width,
        "data": image.tobytes(),
    }


def _joints(tick_ns: int, names: list[str], values: np.ndarray) -> dict[str, Any]:
    return {"header": _header(tick_ns), "name": names, "position": array("d", values.astype(np.float64).tobytes())}


def _joy(tick_ns: int, axes: np.ndarray, buttons: list[int]) -> dict[str, Any]:
    return {"header": _header(tick_ns), "axes": array("f", axes.tobytes()), "buttons": buttons}
