"""Canaries: clips that are known to show no finished task, and that models like to be wrong about.

They are scored again by each version; a version that calls them done, or whose mean Φ on them has drifted from that of
the version before, is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reward_models.evaluate.done_metrics import DoneRule
from reward_models.evaluate.estimate import Rate
from reward_models.evaluate.judge import Clip, done_at_end, said_at_end
from reward_models.interface import Frame, LabelledEpisode, RewardModel
from robot_stack.types.errors import RewardError

EACH = 8
"""Clips of each kind."""
STANDING = 40
"""Frames for which nothing happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The scores of a model on one kind of canary.

    Attributes:
        called_done: How many were, by the last frame alone and without the gate.
        mean_phi: Mean Φ of their last frames.
    """

    called_done: Rate
    mean_phi: float


def canaries(
    model: RewardModel, episodes: Sequence[LabelledEpisode], rule: DoneRule, refused: dict[str, str]
) -> dict[str, Canary]:
    """Score the canaries made from these episodes; return kind -> result.

    A kind that these episodes give no material for is left out, and one that the model will not answer about; why says
    `refused`.
    """
    found = {}
    for name, clips in canary_clips(episodes).items():
        if not clips:
            continue
        try:
            done, phi = done_at_end(model, clips), said_at_end(model, clips)
        except RewardError as error:
            refused[name] = str(error)
            continue
        readable = phi[np.isfinite(phi)]
        found[name] = Canary(
            called_done=Rate.of(int((np.nan_to_num(done, nan=0.0) >= rule.threshold).sum()), len(clips)),
            mean_phi=float(readable.mean()) if len(readable) else float("nan"),
        )
    return found


def canary_clips(episodes: Sequence[LabelledEpisode]) -> dict[str, list[Clip]]:
    """Make the canary clips of each kind from episodes; return kind -> clips."""
    won = [episode for episode in episodes if episode.success][:EACH]
    texts = sorted({e.instruction.text for e in episodes if e.kind == "mismatch"})
    return {
        "standing at the start": [(e.instruction, e.frames[:1] * STANDING) for e in episodes[:EACH]],
        "near miss": [(e.instruction, e.frames) for e in episodes if e.kind == "near_miss"][:EACH],
        "covered before the end": [(e.instruction, _covered(e)) for e in won],
        "other words": [
            (replace(e.instruction, text=texts[i % len(texts)]), e.frames) for i, e in enumerate(won) if texts
        ],
        "picture of the goal": [
            (e.instruction, _pictured(e.frames[0], other.frames[-1]))
            for e, other in zip(won, won[1:] + won[:1], strict=True)
            if other is not e
        ],
        "nothing but grey": [(e.instruction, _grey(e.frames[0])) for e in won[:EACH]],
    }


def _covered(episode: LabelledEpisode) -> tuple[Frame, ...]:
    """Break an episode off well before the task is done, and go on with dark cameras."""
    assert episode.done_at is not None
    seen = episode.frames[: max(1, round(0.6 * episode.done_at))]
    return seen + (replace(seen[-1], images={n: np.full_like(i, 20) for n, i in seen[-1].images.items()}),) * 10


def _pictured(start: Frame, goal: Frame) -> tuple[Frame, ...]:
    """Show the start, then the start with a picture of the finished task held into each view."""
    images = {}
    for name, image in start.images.items():
        shown = image.copy()
        small = goal.images[name][::2, ::2]
        top, left = (image.shape[0] - small.shape[0]) // 2, (image.shape[1] - small.shape[1]) // 2
        shown[top : top + small.shape[0], left : left + small.shape[1]] = small
        images[name] = shown
    return (start,) * 10 + (replace(start, images=images),) * 15


def _grey(frame: Frame) -> tuple[Frame, ...]:
    return (replace(frame, images={name: np.full_like(image, 128) for name, image in frame.images.items()}),) * 15
