"""Marks of where in an episode a stage of the task begins, and which of them count. Append-only, like verdicts.

Stage 0 begins with the episode and is never marked; the mark of stage k says at which frame it begins. A mark is taken
back by another one that says `removed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from robot_stack.types.errors import SpecError
from robot_stack.types.event import LabelSource

MOST_STAGES = 20
"""Stages of a task; somebody who presses the key more often than that does not mark stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMark:
    """A mark of the frame at which a stage of an episode begins.

    Attributes:
        stage: Which stage begins, 1 or more.
        frame: Index of the frame, from 0.
        source: Who marked it.
        stamp_unix_s: When, seconds since the epoch.
        name: Of the stage, as the task file has it; "" where it names none.
        removed: True takes the mark of this stage and source back.
    """

    episode_id: str
    stage: int
    frame: int
    source: LabelSource
    stamp_unix_s: float
    name: str = ""
    removed: bool = False


def counting(marks: Iterable[StageMark], source: LabelSource = LabelSource.OPERATOR) -> tuple[StageMark, ...]:
    """Return the marks of one episode that count, by stage: the newest to arrive of each, unless it is removed."""
    newest = {mark.stage: mark for mark in marks if mark.source is source}
    return tuple(newest[stage] for stage in sorted(newest) if not newest[stage].removed)


def stage_starts(marks: Iterable[StageMark], frames: int, stages: int | None = None) -> tuple[int, ...]:
    """Return the first frame of each stage, the first of them 0, or () unless every stage is marked in order.

    Args:
        marks: Those that count of one episode.
        frames: T+1 of the episode.
        stages: How many stages the task has; None: as many as are marked.
    """
    found = list(marks)
    starts = (0, *(mark.frame for mark in found))
    whole = [mark.stage for mark in found] == list(range(1, len(found) + 1)) and stages in (None, len(starts))
    rising = all(b > a for a, b in zip(starts, (*starts[1:], frames), strict=True))
    return starts if found and whole and rising else ()


def check_mark(
    mark: StageMark, known: Sequence[StageMark], *, frames: int | None = None, names: Sequence[str] = ()
) -> None:
    """Refuse a mark that cannot be.

    Args:
        mark: To be added to an episode, or to take one of it back.
        known: Those that count there.
        frames: T+1 of the episode; None while it runs.
        names: Of the task's stages; () where it names none.

    Raises:
        SpecError: If it lies outside of the episode, stands before the stage that comes first, is there already, or is
            of a stage that the task does not have.
    """
    where = f"stage mark of {mark.episode_id}"
    most = len(names) - 1 if names else MOST_STAGES - 1
    if not 1 <= mark.stage <= most:
        told = f"the task has {', '.join(names)}" if names else "stage 0 begins with the episode"
        raise SpecError(f"{where} is of stage {mark.stage}, must be of one from 1 to {most}: {told}; mark no more")
    if names and mark.name != names[mark.stage]:
        raise SpecError(
            f"{where} names stage {mark.stage} {mark.name[:40]!r}, must be {names[mark.stage]!r}; take the "
            "names of the task file"
        )
    there = {each.stage: each.frame for each in known}
    if mark.removed:
        if there.get(mark.stage) != mark.frame:
            raise SpecError(f"{where} to be removed is of stage {mark.stage}, must be one that counts; look again")
        return
    if mark.stage in there:
        raise SpecError(
            f"{where} is of stage {mark.stage}, must be of one that is not marked; that one is at frame "
            f"{there[mark.stage]}, remove it first"
        )
    if mark.frame < 1 or (frames is not None and mark.frame >= frames):
        last = "its last frame" if frames is None else str(frames - 1)
        raise SpecError(f"{where} is at frame {mark.frame}, must be within 1 and {last}; mark a frame of the episode")
    for stage, frame in there.items():
        if (frame < mark.frame) != (stage < mark.stage) or frame == mark.frame:
            side = "after" if stage < mark.stage else "before"
            raise SpecError(
                f"{where} has stage {mark.stage} at frame {mark.frame}, must be {side} frame {frame}, where stage "
                f"{stage} begins; mark the stages in their order"
            )


def next_mark(
    episode_id: str, known: Sequence[StageMark], *, frame: int, names: Sequence[str], stamp_unix_s: float
) -> StageMark:
    """Make an operator's mark of the next stage, at a frame of a running episode.

    Raises:
        SpecError: If there is no next stage, or it cannot begin there.
    """
    stage = 1 + max((mark.stage for mark in known), default=0)
    mark = StageMark(
        episode_id=episode_id,
        stage=stage,
        frame=frame,
        source=LabelSource.OPERATOR,
        stamp_unix_s=stamp_unix_s,
        name=names[stage] if stage < len(names) else "",
    )
    check_mark(mark, known, names=names)
    return mark


def shifted(marks: Iterable[StageMark], first: int, last: int) -> list[StageMark]:
    """Return the marks of an episode of which only frames `first` to `last` stay; those outside are gone."""
    return [replace(mark, frame=mark.frame - first) for mark in marks if first < mark.frame <= last]
