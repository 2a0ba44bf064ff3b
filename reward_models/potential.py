"""Φ along an episode: what a model is asked about its frames, and how its answers become one potential.

A run that shapes reward by a large model and an evaluation of that model both get Φ from here, so that what is judged
is what shapes: the same questions, anchors, fusion, gate, and the same treatment of what could not be read.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from reward_models.decode import backward_anchor, decode, forward_anchor, fuse, gaps
from reward_models.interface import Capabilities, ClipQuery, Frame, Instruction, PairQuery
from robot_stack.types.errors import RewardError

Kind = Literal["pair", "progress", "done"]
Part = Literal["steps", "forward", "backward", "progress", "done"]

ENOUGH_READ = 0.8
"""Share of the frames asked about whose Φ must be known, so that it can be interpolated between them."""
READ_TRIES = 2
"""Times that a question is asked whose answer cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The questions about T frames of an episode; each part is None where it is not needed or not known.

    Attributes:
        steps: From each frame to the next, T - 1 of them.
        forward: From the first frame to each, T of them.
        backward: From the goal to each, T of them.
        progress: About each prefix, T of them.
        done: About each prefix, T of them.
    """

    steps: list[PairQuery] | None = None
    forward: list[PairQuery] | None = None
    backward: list[PairQuery] | None = None
    progress: list[ClipQuery] | None = None
    done: list[ClipQuery] | None = None

    def parts(self) -> list[tuple[Part, Kind, Sequence[PairQuery] | Sequence[ClipQuery]]]:
        """Return the parts that there are, with the kind of their questions."""
        found: list[tuple[Part, Kind, Sequence[PairQuery] | Sequence[ClipQuery] | None]] = [
            ("steps", "pair", self.steps),
            ("forward", "pair", self.forward),
            ("backward", "pair", self.backward),
            ("progress", "progress", self.progress),
            ("done", "done", self.done),
        ]
        return [(name, kind, queries) for name, kind, queries in found if queries is not None]

    def over_gaps(self, steps: np.ndarray) -> dict[int, tuple[int, PairQuery]]:
        """Return what to ask over the gaps of the answers about `steps`; nothing where Φ has other anchors.

        Returns:
            Frame behind a gap -> the last frame before it, and the question about the two; as `gaps`.
        """
        if self.steps is None or self.forward is not None:
            return {}
        found = gaps(steps).items()
        return {t: (first, replace(self.steps[first], after=self.steps[t - 1].after)) for t, first in found}


def knows_phi(can: Capabilities) -> bool:
    """Return whether a model says how far an episode is, and not only whether it is done or which frame is further."""
    return can.progress or can.pair in ("remaining", "hop")


def questions(frames: Sequence[Frame], instruction: Instruction, can: Capabilities) -> Questions:
    """Build the questions whose answers `potential` needs, and those about done where the model can tell.

    A model that says progress is asked for it; one that scores hops is asked about the three anchors, which need a
    goal image; any other that scores pairs, about consecutive frames.
    """
    prefixes = [ClipQuery(instruction=instruction, frames=tuple(frames[: t + 1])) for t in range(len(frames))]
    done = prefixes if can.done else None
    if can.progress:
        return Questions(progress=prefixes, done=done)
    if can.pair == "hop" and instruction.goal is not None:
        steps, forward, backward = anchor_queries(instruction, frames)
        return Questions(steps=steps, forward=forward, backward=backward, done=done)
    return Questions(steps=_steps(instruction, frames) if knows_phi(can) else None, done=done)


def anchor_queries(
    instruction: Instruction, frames: Sequence[Frame]
) -> tuple[list[PairQuery], list[PairQuery], list[PairQuery]]:
    """Make the questions for the three anchors of an episode.

    Args:
        instruction: With a goal.
        frames: T+1 of them, from the first of the episode on.

    Returns:
        Of (o_t, o_t+1), T of them, for the hops of `fuse`; of (o_0, o_t), T+1, for `forward_anchor`; of (goal, o_t),
        T+1, for `backward_anchor`. One new frame is the last of each.

    Raises:
        RewardError: If there is no goal.
    """
    if instruction.goal is None:
        raise RewardError("goal image is missing, must show the finished task; take the last frame of a demonstration")
    goal = instruction.goal
    return (
        _steps(instruction, frames),
        [PairQuery(instruction=instruction, start=frames[0], before=frames[0], after=frame) for frame in frames],
        [PairQuery(instruction=instruction, start=frames[0], before=goal, after=frame) for frame in frames],
    )


def _steps(instruction: Instruction, frames: Sequence[Frame]) -> list[PairQuery]:
    return [
        PairQuery(instruction=instruction, start=frames[0], before=before, after=after)
        for before, after in itertools.pairwise(frames)
    ]


def potential(
    can: Capabilities,
    *,
    steps: np.ndarray | None = None,
    forward: np.ndarray | None = None,
    backward: np.ndarray | None = None,
    progress: np.ndarray | None = None,
    over: Mapping[int, tuple[int, float]] | None = None,
) -> np.ndarray:
    """Compute Φ of T frames from the answers: progress as it is, else the fused anchors, else the decoded steps.

    Args:
        over: The answers to `Questions.over_gaps`, with the frame that each is from.

    Returns:
        float64, shape (T,), in [0, 1]; NaN where an answer could not be read, and behind a gap of the decoded steps.

    Raises:
        RewardError: If the model has none of them.
    """
    if progress is not None:
        return progress
    if steps is not None and forward is not None and backward is not None:
        return fuse(steps, forward_anchor(forward), backward_anchor(backward), mode=can.fusion)
    if steps is not None and can.pair in ("remaining", "hop"):
        return decode(steps, start=0.0, semantics=can.pair, over=over)
    raise RewardError("reward model knows neither progress nor how far pairs are apart, must know one; choose another")


def check_read(phi: np.ndarray, said: str = "") -> int:
    """Return how many frames of Φ, shape (T,), could not be read.

    Args:
        said: The words of an answer that could not be read.

    Raises:
        RewardError: If they are too many to interpolate between the others.
    """
    read = int(np.isfinite(phi).sum())
    if read < ENOUGH_READ * len(phi):
        raise RewardError(
            f"frames with answers that could be read are {read} of {len(phi)}, must be {ENOUGH_READ:.0%}; "
            f"look at the model's words{f', such as {said!r}' if said else ''}"
        )
    return len(phi) - read


def spread_out(known: np.ndarray, at: np.ndarray, frames: int) -> np.ndarray:
    """Interpolate the scores of all frames from those that are valid, linearly; float64, shape (frames,).

    Shaping telescopes only where no term of it is left out, so an answer that could not be read leaves no hole.

    >>> spread_out(np.array([0.0, np.nan, 1.0, np.nan]), np.array([0, 2, 4, 6]), 7).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    """
    valid = np.isfinite(known)
    if not valid.any():
        return np.full(frames, np.nan)
    return np.asarray(np.interp(np.arange(frames), at[valid], known[valid]), np.float64)
