"""Findings of a check: each is one sentence that names the episode and its frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_stack.types.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Frames of an episode in which a rule is broken.

    Attributes:
        first: First frame, counted from 0.
        last: Last one, inclusive.
        value: What was measured there.
    """

    first: int
    last: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFinding(Finding):
    """A finding about one episode; its text leaves out the episode's name.

    Attributes:
        episode_id: Which episode.
        frames: First and last frame, inclusive; None where it is about the whole episode.
    """

    episode_id: str
    frames: tuple[int, int] | None

    @property
    def sentence(self) -> str:
        """Return the finding as a sentence for people."""
        if self.frames is None:
            where = ""
        elif self.frames[0] == self.frames[1]:
            where = f", frame {self.frames[0]}"
        else:
            where = f", frames {self.frames[0]} to {self.frames[1]}"
        return f"episode {self.episode_id}{where}: {self.text}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON for scripts."""
        return {
            "check": self.check,
            "level": self.level.value,
            "episode_id": self.episode_id,
            "frames": None if self.frames is None else list(self.frames),
            "sentence": self.sentence,
        }


def stretches(mask: np.ndarray) -> list[tuple[int, int]]:
    """Return the first and last index, inclusive, of each stretch of True in a bool array of shape (N,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(first), int(end) - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


def spans(mask: np.ndarray, values: np.ndarray) -> list[Span]:
    """Return a span per stretch of True, with the largest of `values` in it; both of shape (N,)."""
    return [Span(first=a, last=b, value=float(values[a : b + 1].max())) for a, b in stretches(mask)]
