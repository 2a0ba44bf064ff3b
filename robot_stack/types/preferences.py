"""Preferences: which of two moments, or of two episodes, got further with the task. Append-only, like verdicts.

Who answers the same pair again replaces what he said before; "unknown" takes it back. Operators override models.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from robot_stack.types.errors import SpecError
from robot_stack.types.event import LabelSource
from robot_stack.types.names import check_name

MOST_NAME_CHARS = 128
"""Characters of who said it."""


class Further(StrEnum):
    """The answer to which of two got further."""

    FIRST = "first"
    SECOND = "second"
    SAME = "same"
    UNKNOWN = "unknown"
    """Cannot say: the pair is not asked again, and nothing is learned from it."""


OPPOSITE = {Further.FIRST: Further.SECOND, Further.SECOND: Further.FIRST}
"""Of an answer whose pair is turned round; the others stay."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Moment:
    """A frame of an episode, or an episode as a whole.

    Attributes:
        frame: Index of the frame, from 0; -1 is the episode as a whole, which got as far as its last frame.
    """

    episode_id: str
    frame: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """An answer to which of two moments got further with the task.

    Attributes:
        source: OPERATOR or MODEL.
        by: Session id of the operator, or the name of the model with its version.
        stamp_unix_s: When, seconds since the epoch.
    """

    first: Moment
    second: Moment
    further: Further
    source: LabelSource
    by: str
    stamp_unix_s: float

    @property
    def episodes(self) -> tuple[str, str]:
        """Return the ids of both episodes."""
        return self.first.episode_id, self.second.episode_id

    def ordered(self) -> Preference:
        """Return the same preference with the lesser moment first, so that equal pairs compare equal."""
        if self.first <= self.second:
            return self
        turned = OPPOSITE.get(self.further, self.further)
        return replace(self, first=self.second, second=self.first, further=turned)


def check_preference(preference: Preference, frames: Mapping[str, int] | None = None) -> None:
    """Refuse a preference that cannot be.

    Args:
        preference: To be recorded.
        frames: T+1 of every episode that there is; None where only the preference itself is looked at.

    Raises:
        SpecError: If it compares a moment with itself, or a frame with a whole episode, names an episode or a frame
            that is not there, or does not say who said it and when.
    """
    where = f"preference between {_words(preference.first)} and {_words(preference.second)}"
    for name in preference.episodes:
        check_name(name, "episode id of a preference")
    if preference.first == preference.second:
        raise SpecError(f"{where} compares a moment with itself, must compare two; choose another one")
    if (preference.first.frame < 0) != (preference.second.frame < 0):
        raise SpecError(f"{where} compares a frame with an episode, must compare two of a kind; name both frames")
    for moment in (preference.first, preference.second):
        if moment.frame < -1:
            raise SpecError(f"{where} is at frame {moment.frame}, must be 0 or more, or -1 for the whole episode")
        if frames is None:
            continue
        if moment.episode_id not in frames:
            raise SpecError(
                f"{where} is of episode {moment.episode_id!r}, must be of one of the {len(frames)} that have ended; "
                "see robot-stack data list"
            )
        if moment.frame >= frames[moment.episode_id]:
            raise SpecError(
                f"{where} is at frame {moment.frame}, must be within 0 and {frames[moment.episode_id] - 1}; name a "
                "frame of the episode"
            )
    if preference.source is LabelSource.TRUTH:
        raise SpecError(f"source of {where} is 'truth', must be 'operator' or 'model': the truth never trains")
    if not preference.by or len(preference.by) > MOST_NAME_CHARS:
        raise SpecError(
            f"giver of {where} has {len(preference.by)} characters, must have 1 to {MOST_NAME_CHARS}; name who said it"
        )
    if not math.isfinite(preference.stamp_unix_s):
        raise SpecError(f"time of {where} is {preference.stamp_unix_s}, must be finite; say when it was said")


def _words(moment: Moment) -> str:
    return moment.episode_id if moment.frame < 0 else f"frame {moment.frame} of {moment.episode_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The preferences that can be learned from, and how many of the others there are.

    Attributes:
        preferences: Each pair by each giver once, with the lesser moment first.
        by_operators: Of these, those of operators; the rest is of models.
        contradicting: Pairs of these of which two givers say different things; all of them stay.
        unknown: Pairs of which a giver cannot say.
        overruled: A model's answers on pairs of which an operator says something.
        unusable: Answers on an episode that is not learned from, or on a frame that is not there.
    """

    preferences: tuple[Preference, ...]
    by_operators: int
    contradicting: int
    unknown: int
    overruled: int
    unusable: int


def settled(preferences: Iterable[Preference], frames: Mapping[str, int]) -> Settled:
    """Settle which of all preferences, in the order of their arrival, can be learned from.

    Args:
        preferences: As they were recorded.
        frames: T+1 of each episode that is learned from.
    """
    newest: dict[tuple[Moment, Moment], dict[tuple[LabelSource, str], Preference]] = defaultdict(dict)
    for preference in preferences:
        one = preference.ordered()
        newest[one.first, one.second][one.source, one.by] = one
    found: list[Preference] = []
    contradicting = unknown = overruled = unusable = 0
    for answers in newest.values():
        said = [each for each in answers.values() if each.further is not Further.UNKNOWN]
        unknown += len(answers) - len(said)
        usable = [each for each in said if _usable(each, frames)]
        unusable += len(said) - len(usable)
        by_people = [each for each in usable if each.source is LabelSource.OPERATOR]
        counting = by_people if by_people else usable
        overruled += len(usable) - len(counting)
        contradicting += len({each.further for each in counting}) > 1
        found += counting
    return Settled(
        preferences=tuple(found),
        by_operators=sum(each.source is LabelSource.OPERATOR for each in found),
        contradicting=contradicting,
        unknown=unknown,
        overruled=overruled,
        unusable=unusable,
    )


def _usable(preference: Preference, frames: Mapping[str, int]) -> bool:
    try:
        check_preference(preference, frames)
    except SpecError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What of an episode is kept in another folder of episodes.

    Attributes:
        name: Its id there.
        first: First frame that stays.
        last: Last frame that stays; None where its end stays.
    """

    name: str
    first: int = 0
    last: int | None = None


def carried(preferences: Iterable[Preference], kept: Mapping[str, Kept]) -> list[Preference]:
    """Return the preferences both of whose moments are kept, by their new ids and frames.

    Of an episode that lost its end nothing stays that was said of it as a whole.
    """
    found = []
    for preference in preferences:
        first, second = (_carried(moment, kept) for moment in (preference.first, preference.second))
        if first is not None and second is not None:
            found.append(replace(preference, first=first, second=second))
    return found


def _carried(moment: Moment, kept: Mapping[str, Kept]) -> Moment | None:
    place = kept.get(moment.episode_id)
    if place is None or (moment.frame < 0 and place.last is not None):
        return None
    if moment.frame < 0:
        return Moment(episode_id=place.name)
    if moment.frame < place.first or (place.last is not None and moment.frame > place.last):
        return None
    return Moment(episode_id=place.name, frame=moment.frame - place.first)
