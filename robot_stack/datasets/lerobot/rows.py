"""Conversion of an episode to rows of a LeRobotDataset, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from robot_stack.datasets.lerobot import layout
from robot_stack.datasets.told import Said, header_of, said_of
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.outcome import Outcome, trained_outcome
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.preferences import Preference
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EndReason


def rows_of(
    episode: StoredEpisode, labels: Sequence[Label], *, number: int, first: int, task: int
) -> dict[str, np.ndarray]:
    """Return the T rows of each feature of an episode, without videos.

    Args:
        episode: With or without images.
        labels: Of this episode; they say how it ended for those who learn from it.
        number: Index of the episode in the dataset.
        first: Index of its first row in the dataset.
        task: Index of what the robot was told.
    """
    steps = episode.length
    found = {
        # a vector of one entry is a number there
        layout.feature_of(column): episode.arrays[column.name][:steps].reshape(
            (steps, *(size for size in column.shape if size != 1))
        )
        for column in layout.plain_columns(episode.spec)
    }
    counts = trained_outcome(labels, episode.end)
    last = np.arange(steps) == steps - 1
    success = last & (counts is Outcome.SUCCESS)
    done = last & (counts in (Outcome.SUCCESS, Outcome.FAILURE))
    frame = np.arange(steps, dtype=np.int64)
    return {
        **found,
        layout.PREFIX + "source": found[layout.PREFIX + "source"].astype(np.int64),
        layout.REWARD: success.astype(np.float32),
        layout.DONE: done,
        layout.TRUNCATED: last & ~done,
        layout.SUCCESS: success,
        layout.INTERVENTION: episode.arrays["source"] == Source.HUMAN,
        "timestamp": (frame / layout.whole_rate(episode.spec)).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.full(steps, number, np.int64),
        "index": first + frame,
        "task_index": np.full(steps, task, np.int64),
    }


def rest_of(
    episode: StoredEpisode, labels: Sequence[Label], marks: Sequence[StageMark], preferences: Sequence[Preference]
) -> str:
    """Return as JSON what the rows do not say: header, end, what operators said, and the numbers of the last frame."""
    assert episode.end is not None
    last = {c.name: episode.arrays[c.name][-1].tolist() for c in layout.plain_columns(episode.spec) if c.per_frame}
    rest = {
        "header": asdict(episode.header),
        "end": episode.end.value,
        "labels": [asdict(label) for label in labels],
        "stages": [asdict(mark) for mark in marks],
        "preferences": [asdict(each) for each in preferences],
        "last": last,
    }
    return json.dumps(rest, sort_keys=True)


def episode_from(
    rows: Mapping[str, np.ndarray], images: Mapping[str, np.ndarray], rest: str, spec: Spec
) -> tuple[StoredEpisode, Said]:
    """Rebuild an episode and what operators said of it; the inverse of `rows_of` and `rest_of`.

    Args:
        rows: Feature -> T rows.
        images: Camera -> T+1 images.

    Raises:
        StoreError: If the JSON or a feature is missing something.
    """
    try:
        raw = json.loads(rest)
        last = raw["last"]
        header, end = header_of(raw["header"]), EndReason(raw["end"])
        said = said_of(raw, header.episode_id)
        arrays = {IMAGE_PREFIX + name: values for name, values in images.items()}
        for column in layout.plain_columns(spec):
            values = rows[layout.feature_of(column)].astype(column.dtype).reshape(-1, *column.shape)
            tail = np.asarray([last[column.name]], column.dtype) if column.per_frame else values[:0]
            arrays[column.name] = np.concatenate([values, tail])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StoreError(
            f"column {layout.EPISODE_COLUMN} of an episode is unreadable ({error!r}), must be as data export writes "
            "it; export the dataset again"
        ) from error
    return StoredEpisode(header=header, spec=spec, end=end, arrays=arrays), said


def foreign_episode(
    rows: Mapping[str, np.ndarray], images: Mapping[str, np.ndarray], header: Mapping[str, Any], spec: Spec
) -> StoredEpisode:
    """Build an episode from a dataset that another program recorded, or has changed.

    Its last action led to a frame that is not there, so it goes: T rows become T frames and T-1 actions. Columns of
    ours that it has still are taken. Where the dataset does not say who acted, an operator did. Where it does not say
    how it ended, it was cut short.

    Args:
        rows: Feature -> rows; at least observation.state and action.
        images: Camera -> as many images.

    Raises:
        StoreError: If it is too short.
    """
    head = header_of(header)
    action = rows[layout.ACTION].astype(np.float32).reshape(-1, spec.action_size)[:-1]
    human = rows.get(layout.INTERVENTION, np.ones(len(rows["timestamp"]), np.bool_)).astype(np.bool_).ravel()[:-1]
    steps, frames = len(action), len(action) + 1
    if steps < 1:
        raise StoreError(f"length of episode {head.episode_id} is {frames} rows, must be 2 or more; leave it out")
    source = np.where(human, Source.HUMAN, Source.POLICY).astype(np.uint8)
    several = len(spec.arms) > 1  # whose intervention was of all arms, for all that is known
    arrays = {
        **{IMAGE_PREFIX + name: values for name, values in images.items()},
        **({"sources": np.repeat(source[:, None], len(spec.arms), axis=1)} if several else {}),
        "stamp_ns": np.round(rows["timestamp"].astype(np.float64).ravel() * 1e9).astype(np.int64),
        "age_s": np.zeros(frames, np.float32),
        "skew_s": np.zeros(frames, np.float32),
        "proposed": np.zeros_like(action),
        "human": action * human[:, None],
        "gripper_pressed": human,
        "clipped": np.zeros(steps, np.bool_),
        "params_version": np.zeros(steps, np.int64),
        "params_age_s": np.zeros(steps, np.float32),
        "source": source,
    }
    for column in layout.plain_columns(spec):
        if (kept := rows.get(layout.feature_of(column))) is not None:
            values = kept.astype(column.dtype).reshape(-1, *column.shape)
            arrays[column.name] = values if column.per_frame else values[:-1]
    return StoredEpisode(header=head, spec=spec, end=_foreign_end(rows), arrays=arrays)


def _foreign_end(rows: Mapping[str, np.ndarray]) -> EndReason:
    def said(name: str) -> bool:
        return name in rows and bool(np.asarray(rows[name]).ravel()[-1])

    if said(layout.SUCCESS):
        return EndReason.SUCCESS
    if said(layout.DONE) and layout.SUCCESS in rows:
        return EndReason.FAILURE
    return EndReason.TIMEOUT if said(layout.TRUNCATED) else EndReason.OPERATOR
