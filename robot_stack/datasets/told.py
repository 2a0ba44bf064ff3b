"""Parsing of headers, labels, stage marks and texts in files from elsewhere, each of known type and length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from robot_stack.datasets import bounds
from robot_stack.replay.annotations import label_from, mark_from
from robot_stack.replay.stored_episode import header_from
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.names import check_name
from robot_stack.types.stages import MOST_STAGES, StageMark
from robot_stack.types.transition import EpisodeHeader


def header_of(raw: Mapping[str, Any]) -> EpisodeHeader:
    """Build a header from its JSON form, and check its fields.

    Raises:
        StoreError, SpecError: If a field is too long, no name or out of range.
        ValueError, KeyError, TypeError: If it is none.
    """
    header = header_from(raw)
    check_name(text_of(header.episode_id, "episode id"), "episode id")
    text_of(header.task, "task", bounds.MAX_NAME_CHARS)
    text_of(header.task_id, "task id", bounds.MAX_NAME_CHARS)
    text_of(header.actor, "actor", bounds.MAX_NAME_CHARS)
    _number(header.started_unix_s, "started_unix_s", bounds.MAX_UNIX_S)
    for name, value in (("seed", header.seed), ("level", header.level)):
        if value is not None and (not isinstance(value, int) or not -(2**63) <= value < 2**63):
            raise StoreError(f"{name} of {header.episode_id} is {str(value)[:40]}, must be a whole number of 64 bits")
    return header


def labels_of(raw: Sequence[Mapping[str, Any]]) -> list[Label]:
    """Build labels from their JSON form, and check their fields.

    Raises:
        StoreError, SpecError: If there are too many, or a field is too long, no name or out of range.
        ValueError, KeyError, TypeError: If one is none.
    """
    if len(raw) > bounds.MAX_LABELS:
        raise StoreError(
            f"number of labels is {len(raw)}, must be at most {bounds.MAX_LABELS} an episode; leave it out"
        )
    labels = [label_from(each) for each in raw]
    for label in labels:
        check_name(text_of(label.episode_id, "episode id of a label"), "episode id of a label")
        text_of(label.note, f"note on {label.episode_id}")
        _number(label.stamp_unix_s, f"stamp_unix_s of a label of {label.episode_id}", bounds.MAX_UNIX_S)
    return labels


def marks_of(raw: Sequence[Mapping[str, Any]]) -> list[StageMark]:
    """Build stage marks from their JSON form, and check their fields.

    Raises:
        StoreError, SpecError: If there are too many, or a field is too long, no name or out of range.
        ValueError, KeyError, TypeError: If one is none.
    """
    if len(raw) > bounds.MAX_LABELS:
        raise StoreError(
            f"number of stage marks is {len(raw)}, must be at most {bounds.MAX_LABELS} an episode; leave it out"
        )
    marks = [mark_from(each) for each in raw]
    for mark in marks:
        check_name(text_of(mark.episode_id, "episode id of a stage mark"), "episode id of a stage mark")
        text_of(mark.name, f"name of a stage of {mark.episode_id}", bounds.MAX_NAME_CHARS)
        _number(mark.stamp_unix_s, f"stamp_unix_s of a stage mark of {mark.episode_id}", bounds.MAX_UNIX_S)
        _number(mark.stage, f"stage of a mark of {mark.episode_id}", MOST_STAGES)
        _number(mark.frame, f"frame of a stage mark of {mark.episode_id}", bounds.MAX_FRAMES)
    return marks


def text_of(value: object, what: str, most: int = bounds.MAX_TEXT_CHARS) -> str:
    """Check that a value is a text of bounded length, and return it.

    Raises:
        StoreError: If it is longer, or none.
    """
    if not isinstance(value, str):
        raise StoreError(f"{what} is {str(value)[:40]!r}, must be a text; fetch or export the dataset again")
    if len(value) > most:
        raise StoreError(f"length of {what} is {len(value)} characters, must be at most {most}; shorten it")
    return value


def _number(value: object, what: str, most: float) -> None:
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0.0 <= value <= most:
        raise StoreError(f"{what} is {str(value)[:40]}, must be a number from 0 to {most:g}; leave it out")
