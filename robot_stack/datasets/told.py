"""Parsing of headers, annotations and texts in files from elsewhere, each of known type and length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robot_stack.datasets import bounds
from robot_stack.replay.annotations import Annotation, label_from, mark_from, preference_from
from robot_stack.replay.stored_episode import header_from
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.names import check_name
from robot_stack.types.preferences import Preference
from robot_stack.types.stages import MOST_STAGES, StageMark
from robot_stack.types.transition import EpisodeHeader

Said = tuple[list[Label], list[StageMark], list[Preference]]
"""Labels and stage marks of an episode, and the preferences whose first moment is in it."""


def header_of(raw: Mapping[str, Any]) -> EpisodeHeader:
    """Build a header from its JSON form, and check its fields.

    Raises:
        StoreError, SpecError: If a field is too long, no name or out of range.
        ValueError, KeyError, TypeError: If it is none.
    """
    header = header_from(raw)
    check_header(header)
    return header


def check_header(header: EpisodeHeader) -> None:
    """Raise StoreError or SpecError if a field of a header is too long, no name or out of range."""
    check_name(text_of(header.episode_id, "episode id"), "episode id")
    text_of(header.task, "task", bounds.MAX_NAME_CHARS)
    text_of(header.task_id, "task id", bounds.MAX_NAME_CHARS)
    text_of(header.actor, "actor", bounds.MAX_NAME_CHARS)
    _number(header.started_unix_s, "started_unix_s", bounds.MAX_UNIX_S)
    for name, value in (("seed", header.seed), ("level", header.level)):
        if value is not None and (not isinstance(value, int) or not -(2**63) <= value < 2**63):
            raise StoreError(f"{name} of {header.episode_id} is {str(value)[:40]}, must be a whole number of 64 bits")


def said_of(raw: Mapping[str, Any], episode_id: str) -> Said:
    """Build what a file tells of its episode: labels, stage marks and preferences, each of this episode and no other.

    Raises:
        StoreError, SpecError: If there are too many, a field is out of range, or one is of another episode.
        ValueError, KeyError, TypeError: If one is none.
    """
    said = labels_of(raw["labels"]), marks_of(raw.get("stages", [])), preferences_of(raw.get("preferences", []))
    labels, marks, preferences = said
    of_labels, of_marks = (each.episode_id for each in labels), (each.episode_id for each in marks)
    for of in (*of_labels, *of_marks, *(each.first.episode_id for each in preferences)):
        if of != episode_id:
            raise StoreError(
                f"episode of a label, mark or answer is {of}, must be {episode_id}, beside which it is; leave it out"
            )
    return said


def labels_of(raw: Sequence[Mapping[str, Any]]) -> list[Label]:
    """Build labels from their JSON form, and check their fields.

    Raises:
        StoreError, SpecError: If there are too many, or a field is too long, no name or out of range.
        ValueError, KeyError, TypeError: If one is none.
    """
    labels = _annotations(raw, label_from, "label")
    for label in labels:
        text_of(label.note, f"note on {label.episode_id}")
    return labels


def marks_of(raw: Sequence[Mapping[str, Any]]) -> list[StageMark]:
    """Build stage marks from their JSON form, and check their fields.

    Raises:
        StoreError, SpecError: If there are too many, or a field is too long, no name or out of range.
        ValueError, KeyError, TypeError: If one is none.
    """
    marks = _annotations(raw, mark_from, "stage mark")
    for mark in marks:
        text_of(mark.name, f"name of a stage of {mark.episode_id}", bounds.MAX_NAME_CHARS)
        _number(mark.stage, f"stage of a mark of {mark.episode_id}", MOST_STAGES)
        _number(mark.frame, f"frame of a stage mark of {mark.episode_id}", bounds.MAX_FRAMES)
    return marks


def preferences_of(raw: Sequence[Mapping[str, Any]]) -> list[Preference]:
    """Build preferences from their JSON form, and check their fields.

    Raises:
        StoreError, SpecError: If there are too many, or a field is no name or out of range.
        ValueError, KeyError, TypeError: If one is none.
    """
    preferences = _annotations(raw, preference_from, "preference")
    for each in preferences:
        for moment in (each.first, each.second):
            _number(moment.frame + 1, f"frame of a preference of {moment.episode_id}", bounds.MAX_FRAMES)
    return preferences


def _annotations(
    raw: Sequence[Mapping[str, Any]], parse: Callable[[Mapping[str, Any]], Annotation], what: str
) -> list[Annotation]:
    """Build annotations of an episode, and check how many there are, and the episode's name and the time of each."""
    if len(raw) > bounds.MAX_LABELS:
        raise StoreError(
            f"number of {what}s is {len(raw)}, must be at most {bounds.MAX_LABELS} an episode; leave it out"
        )
    found = [parse(each) for each in raw]
    for each in found:
        episodes = each.episodes if isinstance(each, Preference) else (each.episode_id,)
        for episode_id in episodes:
            check_name(text_of(episode_id, f"episode id of a {what}"), f"episode id of a {what}")
        _number(each.stamp_unix_s, f"stamp_unix_s of a {what} of {episodes[0]}", bounds.MAX_UNIX_S)
    return found


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
