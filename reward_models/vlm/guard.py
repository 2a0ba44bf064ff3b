"""A guard before a large model: it is not asked about images in which there is nothing to see, or of the wrong camera.

A model that has to answer says something about a black image too, and what it says would shape the reward. A question
that shows one gets a score that is not valid and says why, so it is counted and interpolated like any other that could
not be read, and an episode with many of them is refused by name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reward_models.interface import ClipQuery, Frame, Instruction, PairQuery, RewardModel, Score
from reward_models.vlm.prompt import BreakerState

BLACK = 16
"""Value of pixels, of 255, below which nearly all of a black image are: a sensor's noise, and no more."""
NEARER = 0.5
"""Cameras count as swapped if images are at most this share as far from those of each other's as from their own."""


class Guarded:
    """A large model that is only asked about what can be seen; implements `RewardModel`."""

    def __init__(self, model: RewardModel) -> None:
        self._model = model
        self.name, self.version, self.capabilities = model.name, model.version, model.capabilities

    @property
    def breaker(self) -> BreakerState:
        """Return the state of the model's breaker."""
        return getattr(self._model, "breaker", "closed")

    def close(self) -> None:
        """Give memory and connections back, where the model has a way to."""
        close = getattr(self._model, "close", None)
        if close is not None:
            close()

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Score the pairs that can be seen."""
        return self._asked(self._model.score_pairs, queries, lambda query: (query.start, query.before, query.after))

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the progress of the clips of which all that the model is shown can be seen."""
        shown = getattr(self._model, "shown_for_progress", lambda frames: frames[-1:])
        return self._asked(self._model.score_progress, queries, lambda query: shown(query.frames))

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the clips whose last frame can be seen for done."""
        return self._asked(self._model.score_done, queries, lambda query: query.frames[-1:])

    def _asked(
        self, ask: Callable[[Any], list[Score]], queries: Sequence[Any], shown: Callable[[Any], Sequence[Frame]]
    ) -> list[Score]:
        why = [self._unfit(query.instruction, shown(query)) for query in queries]
        fit = [query for query, reason in zip(queries, why, strict=True) if not reason]
        answers = iter(ask(fit)) if fit or not queries else iter(())
        return [Score(value=math.nan, raw=reason) if reason else next(answers) for reason in why]

    def _unfit(self, task: Instruction, frames: Sequence[Frame]) -> str:
        """Return why these frames cannot be asked about, "" if they can."""
        views = self.capabilities.views
        known = [shown for shown in (*task.reference[:1], task.goal) if shown is not None]
        for frame in frames:
            for view in views or sorted(frame.images):
                if view in frame.images and is_black(frame.images[view]):
                    return f"view {view} is black"
            if pair := swapped(frame, known, views):
                return f"views {pair[0]} and {pair[1]} are swapped"
        return ""


def is_black(image: np.ndarray) -> bool:
    """Return whether an image, uint8, shows nothing but a dark sensor's noise."""
    return bool(np.percentile(image, 99) < BLACK)


def swapped(frame: Frame, known: Sequence[Frame], views: Sequence[str]) -> tuple[str, str] | None:
    """Return two views of a frame that show what the other one shows in frames that are known to be right, or None.

    Only what is clear is called so: each of the known frames has to say it. One of the two is among `views`, if there
    are any.
    """
    for one, other in itertools.combinations(sorted(frame.images), 2):
        if views and one not in views and other not in views:
            continue
        a, b = frame.images[one], frame.images[other]
        both = [shown for shown in known if one in shown.images and other in shown.images]
        if both and all(_crossed(a, b, shown.images[one], shown.images[other]) for shown in both):
            return one, other
    return None


def _crossed(a: np.ndarray, b: np.ndarray, own_a: np.ndarray, own_b: np.ndarray) -> bool:
    if not a.shape == b.shape == own_a.shape == own_b.shape:
        return False
    straight, crossed = _apart(a, own_a) + _apart(b, own_b), _apart(a, own_b) + _apart(b, own_a)
    return straight > 0 and crossed <= NEARER * straight


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one[::2, ::2].astype(np.int16) - other[::2, ::2]).mean())
