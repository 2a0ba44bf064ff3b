"""The questions that a reward model is asked and the answers that it gives.

numpy only; every model, small or large, meets the rest here.

A model answers what it can and raises `Unsupported` for what it cannot; it never makes a score up. An answer that
cannot be read is a score that is not valid: it masks what it would have shaped and is never taken for 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from robot_stack.types.errors import RewardError

LONGEST_TEXT = 2000
"""Characters of a task in words: beyond, it is a file that was given by mistake, and no model reads it."""


class Unsupported(RewardError):
    """The refusal of a query that the model cannot answer."""


class OtherWords(RewardError):
    """The refusal of a task that a model was not fitted on, by a model that is of one task and reads no language."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A single instant as a reward model sees it: images by view, and proprio.

    Attributes:
        images: View name -> uint8 RGB, shape (H, W, 3).
        proprio: float32, shape (P,), for models that read it; None where there is none.

    Raises:
        RewardError: If there is no view, or an image is not uint8 RGB.
    """

    images: Mapping[str, np.ndarray]
    proprio: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not self.images:
            raise RewardError(
                "frame has no view, must have at least one; reward models of pictures judge no run of numbers alone"
            )
        for view, image in self.images.items():
            if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or not image.size:
                raise RewardError(f"view {view} is {image.dtype} {image.shape}, must be uint8 (H, W, 3), RGB")

    @cached_property
    def key(self) -> str:
        """Return a hash of the content, the same in every process and run."""
        digest = hashlib.sha256()
        for view in sorted(self.images):
            image = self.images[view]
            digest.update(f"{view} {image.shape}".encode())
            digest.update(np.ascontiguousarray(image).data)
        if self.proprio is not None:
            digest.update(np.ascontiguousarray(self.proprio, dtype=np.float32).data)
        return digest.hexdigest()[:32]

    def view(self, name: str) -> np.ndarray:
        """Return the image of a view.

        Raises:
            RewardError: If the frame does not show it.
        """
        if name not in self.images:
            raise RewardError(f"view {name} is missing, must be one of {sorted(self.images)}")
        return self.images[name]


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """The task that the robot was given, with what a model may look at to understand it.

    Attributes:
        text: The task in words.
        goal: The finished task, of another episode than the one to be scored; a rollout's own last frame would make
            every failure look complete.
        reference: One demonstration in order, 0 to 100 %, for one-shot models.

    Raises:
        RewardError: If the text is empty, or too long to be a task.
    """

    text: str
    goal: Frame | None = None
    reference: tuple[Frame, ...] = ()

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise RewardError("task text is empty, must say what the robot shall do")
        if len(self.text) > LONGEST_TEXT:
            raise RewardError(
                f"task text has {len(self.text)} characters, must have at most {LONGEST_TEXT}; say in a sentence what "
                "the robot shall do"
            )

    @cached_property
    def key(self) -> str:
        """Return a hash of the content, the same in every process and run."""
        parts = [self.text, self.goal.key if self.goal else ""]
        return hashlib.sha256("\n".join([*parts, *(frame.key for frame in self.reference)]).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairQuery:
    """A question about two frames: how does `after` stand to `before`?

    Attributes:
        start: First frame of the episode that both are of, which several models want to see too.
    """

    instruction: Instruction
    before: Frame
    after: Frame
    start: Frame

    @property
    def key(self) -> str:
        """Return the identity of the question: the hashes of all that it shows."""
        return "-".join((self.instruction.key, self.start.key, self.before.key, self.after.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipQuery:
    """A question about a clip: how far is its last frame, or is it done?

    The clip is a causal prefix, from the first frame of the episode up to now.

    Raises:
        RewardError: If there is no frame.
    """

    instruction: Instruction
    frames: tuple[Frame, ...]

    def __post_init__(self) -> None:
        if not self.frames:
            raise RewardError("clip has no frames, must have at least one")

    @property
    def key(self) -> str:
        """Return the identity of the question: the hashes of all that it shows."""
        return "-".join((self.instruction.key, *(frame.key for frame in self.frames)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A model's answer to one query.

    Attributes:
        value: In [-1, 1] for a pair, in [0, 1] for a clip; NaN if and only if the answer could not be read.
        raw: What the model said, in its own words, cut to 200 characters; "" for models without words.
        latency_s: From question to answer; NaN if not measured.
        lost: The model never answered: its server was away, or the question was given up. Worth asking again.
    """

    value: float
    raw: str = ""
    latency_s: float = float("nan")
    lost: bool = False

    @property
    def valid(self) -> bool:
        """Return False if the answer could not be read."""
        return bool(np.isfinite(self.value))


def pair_score(value: float, raw: str = "") -> Score:
    """Make a score of a pair from its value; NaN is an answer that could not be read.

    Raises:
        RewardError: If it is outside [-1, 1].
    """
    if not np.isnan(value) and not -1 <= value <= 1:
        raise RewardError(f"pair score is {value}, must be in [-1, 1] or NaN")
    return Score(value=value, raw=raw[:200])


def clip_score(value: float, raw: str = "") -> Score:
    """Make a score of a clip from its value; NaN is an answer that could not be read.

    Raises:
        RewardError: If it is outside [0, 1].
    """
    if not np.isnan(value) and not 0 <= value <= 1:
        raise RewardError(f"clip score is {value}, must be in [0, 1] or NaN")
    return Score(value=value, raw=raw[:200])


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The kinds of query that a model can answer, and what it must be shown.

    Attributes:
        pair: What its pair scores mean, see `reward_models.decode`; "sign" is -1 or 1, which of two frames is further
            and not by how much, and cannot be decoded; None if it scores no pairs.
        fusion: How the three anchors of its hops become one Φ, see `reward_models.decode.fuse`.
        progress: It says how far the last frame of a clip is.
        done: It says whether the last frame of a clip shows the finished task.
        views: Views that a frame must show, () if any will do.
        history: Frames of a clip that it looks at, the last one included.
        needs_goal: It must be shown the finished task.
        needs_reference: It must be shown a demonstration.
        max_batch: Questions that it takes at once.
    """

    pair: Literal["remaining", "hop", "sign"] | None = None
    fusion: Literal["gated", "mean"] = "gated"
    progress: bool = False
    done: bool = False
    views: tuple[str, ...] = ()
    history: int = 1
    needs_goal: bool = False
    needs_reference: bool = False
    max_batch: int = 64

    def check(self, instruction: Instruction, frames: Sequence[Frame]) -> None:
        """Raise RewardError, in words, unless the model has what it needs to answer."""
        if self.needs_goal and instruction.goal is None:
            raise RewardError("goal image is missing, must show the finished task; take the end of a demonstration")
        if self.needs_reference and not instruction.reference:
            raise RewardError("reference is missing, must be one demonstration in order; give its frames")
        for frame in frames:
            for view in self.views:
                frame.view(view)


class RewardModel(Protocol):
    """A model that scores frames; stateless: what it knows of an episode is in the question.

    Attributes:
        name: Of the family: "vlac", "grm", "progress", ...
        version: Identity of weights, prompt, decoding and code: another version may answer otherwise.
    """

    name: str
    version: str
    capabilities: Capabilities

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Score pairs of frames, one score a query, in [-1, 1]; see `Capabilities.pair` for their meaning.

        Raises:
            Unsupported: If it scores no pairs.
            RewardError: If a question lacks what it needs.
        """
        ...

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the progress Φ of the last frame of each clip, in [0, 1], one score a query.

        Raises:
            Unsupported: If it knows no progress.
            RewardError: If a question lacks what it needs.
        """
        ...

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Return the probability that the last frame of each clip shows the finished task, one score a query.

        Raises:
            Unsupported: If it cannot tell.
            RewardError: If a question lacks what it needs.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledEpisode:
    """An episode with the truth about it, to evaluate models on.

    Attributes:
        kind: What happened: "success", "near_miss", "stall", ...
        frames: T+1 of them.
        instruction: What the robot was told; for a mismatch not what it did.
        success: Whether the instruction was fulfilled at the end.
        done_at: First frame that shows the finished task, None without success.
        progress: True progress per frame, float64, shape (T+1,), in [0, 1]; NaN where not known.
    """

    name: str
    kind: str
    frames: tuple[Frame, ...]
    instruction: Instruction
    success: bool
    done_at: int | None
    progress: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.frames) < 2:
            raise RewardError(f"episode {self.name} has {len(self.frames)} frames, must have at least 2")
        if self.progress.shape != (len(self.frames),):
            raise RewardError(
                f"progress of {self.name} has shape {self.progress.shape}, must be ({len(self.frames)},), one a frame"
            )
        if (self.done_at is not None) != self.success:
            raise RewardError(
                f"done_at of {self.name} is {self.done_at}, must be a frame of a success and None without"
            )
