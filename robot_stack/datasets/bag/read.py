"""MCAP files of episodes become a folder of episodes again, without ROS."""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.bag import messages
from robot_stack.datasets.bag.write import SUFFIX
from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.extras import need
from robot_stack.datasets.new_store import NewStore, Progress
from robot_stack.replay.annotations import label_from
from robot_stack.replay.columns import IMAGE_PREFIX, columns
from robot_stack.replay.identity import check_spec
from robot_stack.replay.stored_episode import StoredEpisode, header_from
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import Label
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason


def import_mcap(folder: Path, out: Path, *, on_episode: Progress) -> NewStore:
    """Write a folder of episodes from all MCAP files in `folder`.

    Raises:
        StoreError: If there are none, one is damaged or holds no episode, they are of different cells, a package is
            missing, or the disk refuses.
    """
    files = sorted(folder.glob("*" + SUFFIX))
    if not files:
        raise StoreError(f"number of {SUFFIX} files in {folder} is 0, must be at least 1; name a folder that has some")
    with new_folder(out) as draft:
        (draft / "episodes").mkdir()
        store: NewStore | None = None
        for number, file in enumerate(files):
            on_episode("imported", number + 1, len(files))
            episode, labels, task, text = read_mcap(file)
            if store is None:
                store = NewStore(root=draft, spec=episode.spec, task=task, text=text)
            if episode.header.backward:
                store.back_text = text
            else:
                store.text = text
            check_spec(episode.spec, store.spec, f"file {file.name}")
            if task != store.task:
                raise StoreError(f"task of {file} is {task!r}, must be {store.task!r}; import it by itself")
            store.write(episode)
            store.labels += labels
        assert store is not None
        store.finish("import mcap", [folder], {})
    return store


def read_mcap(file: Path) -> tuple[StoredEpisode, list[Label], str, str]:
    """One episode, its labels, the name of its task and the task in words.

    Raises:
        StoreError: If the file is damaged or holds no episode.
    """
    try:
        topics = _topics(file)
        if messages.ABOUT not in topics:
            raise StoreError(
                f"topic {messages.ABOUT} of {file} is missing (there are {', '.join(sorted(topics)) or 'none'}), must "
                "be there; only files that data export wrote hold an episode"
            )
        return _episode(topics)
    except _damages() as error:
        raise StoreError(
            f"file {file} is unreadable ({error!r}), must be an episode as data export wrote it; copy it again"
        ) from error


def _damages() -> tuple[type[Exception], ...]:
    """What a damaged or foreign file makes its readers raise."""
    ours = (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, EOFError, struct.error, SpecError)
    return (*ours, need("mcap.exceptions", "mcap").McapError, need("zstandard", "zstandard").ZstdError)


def _topics(file: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    make_reader = need("mcap.reader", "mcap").make_reader
    decoder = need("mcap_ros2.decoder", "mcap-ros2-support").DecoderFactory()
    with file.open("rb") as stream:
        reader = make_reader(stream, validate_crcs=True, decoder_factories=[decoder])
        for _, channel, _, message in reader.iter_decoded_messages(log_time_order=False):
            found[channel.topic].append(message)
    return found


def _episode(topics: dict[str, list[Any]]) -> tuple[StoredEpisode, list[Label], str, str]:
    about = json.loads(topics[messages.ABOUT][0].data)
    spec = Spec.from_json(json.dumps(about["spec"]))
    labels = [label_from(each) for each in about["labels"]]
    states, executed = topics[messages.STATE], topics[messages.EXECUTED]
    timing, params = _positions(topics[messages.TIMING], 2), _positions(topics[messages.PARAMS], 2)
    several = len(spec.arms) if len(spec.arms) > 1 else 0
    buttons = np.array([message.buttons for message in executed], np.int64).reshape(len(executed), 3 + several)
    arrays = {
        "proprio": _positions(states, spec.proprio_size),
        "stamp_ns": np.array([m.header.stamp.sec * 1_000_000_000 + m.header.stamp.nanosec for m in states]),
        "age_s": timing[:, 0],
        "skew_s": timing[:, 1],
        "executed": _axes(executed, spec.action_size),
        "proposed": _axes(topics[messages.PROPOSED], spec.action_size),
        "human": _axes(topics[messages.HUMAN], spec.action_size),
        "source": buttons[:, 0],
        "gripper_pressed": buttons[:, 1],
        "clipped": buttons[:, 2],
        "sources": buttons[:, 3:],
        "params_version": params[:, 0],
        "params_age_s": params[:, 1],
    }
    for camera in spec.cameras:
        images = [np.frombuffer(m.data, np.uint8) for m in topics[messages.camera_topic(camera.name)]]
        arrays[IMAGE_PREFIX + camera.name] = np.stack(images).reshape(-1, *camera.shape)
    typed = {column.name: arrays[column.name].astype(column.dtype) for column in columns(spec)}
    header = header_from(about["header"])
    episode = StoredEpisode(header=header, spec=spec, end=EndReason(about["end"]), arrays=typed)
    return episode, labels, str(about["task"]), str(about["text"])


def _positions(found: list[Any], size: int) -> np.ndarray:
    return np.array([message.position for message in found], np.float64).reshape(len(found), size)


def _axes(found: list[Any], size: int) -> np.ndarray:
    return np.array([message.axes for message in found], np.float32).reshape(len(found), size)
