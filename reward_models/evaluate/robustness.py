"""Section G: robustness to changes of the images, such as brightness, zoom, JPEG, frame rate or a dark camera.

Nothing has happened in the changed episodes that had not happened before.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from reward_models.evaluate.judge import said_along
from reward_models.interface import Frame, LabelledEpisode, RewardModel
from robot_stack.types.errors import RewardError

CROP = 0.05
JPEG_QUALITY = 75
DARK, BRIGHT = 0.8, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The effect of a change of the images on Φ, or on the probability of done of a model that knows no Φ.

    Attributes:
        mean: Mean |ΔΦ| over the frames that both have, then over episodes.
        final: Mean |ΔΦ| of the last frame.
        unreadable: Share of frames that can no longer be read.
        refused: Why the model would not answer, "" if it did.
    """

    mean: float
    final: float
    unreadable: float
    refused: str


Variant = Callable[[tuple[Frame, ...]], tuple[tuple[Frame, ...], np.ndarray]]
"""Frames -> changed frames, and where in them each of the first ones is, -1 where it is not, shape (K,)."""


def _pixelwise(change: Callable[[np.ndarray], np.ndarray]) -> Variant:
    def variant(frames: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], np.ndarray]:
        changed = tuple(
            replace(frame, images={name: change(image) for name, image in frame.images.items()}) for frame in frames
        )
        return changed, np.arange(len(frames))

    return variant


def scaled(image: np.ndarray, factor: float) -> np.ndarray:
    """Brighten or darken an image by a factor, uint8."""
    return np.clip(image.astype(np.float32) * factor, 0, 255).round().astype(np.uint8)


def zoomed(image: np.ndarray, share: float) -> np.ndarray:
    """Cut that share off height and width and stretch the rest; below 0, move away and repeat the border."""
    axes = []
    for size in image.shape[:2]:
        centre = (size - 1) / 2
        at = centre + (np.arange(size) - centre) * (1 - share)
        axes.append(np.clip(at.round().astype(np.int64), 0, size - 1))
    return image[np.ix_(*axes)]


def recoded(image: np.ndarray) -> np.ndarray:
    """Encode an image as JPEG and decode it."""
    content = io.BytesIO()
    Image.fromarray(image).save(content, format="JPEG", quality=JPEG_QUALITY)
    return np.asarray(Image.open(content), dtype=np.uint8)


def without(view: str) -> Variant:
    """Make a variant in which one camera shows black."""

    def variant(frames: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], np.ndarray]:
        changed = tuple(
            replace(frame, images={**frame.images, view: np.zeros_like(frame.images[view])}) for frame in frames
        )
        return changed, np.arange(len(frames))

    return variant


def _half_rate(frames: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], np.ndarray]:
    kept = np.unique([*range(0, len(frames), 2), len(frames) - 1])
    where = np.full(len(frames), -1)
    where[kept] = np.arange(len(kept))
    return tuple(frames[i] for i in kept), where


def _double_rate(frames: tuple[Frame, ...]) -> tuple[tuple[Frame, ...], np.ndarray]:
    """Show each frame twice, the first time a moment earlier than it was, but the first frame once."""
    return frames[:1] + tuple(frame for frame in frames[1:] for _ in range(2)), 2 * np.arange(len(frames))


def variants(views: Sequence[str]) -> Mapping[str, Variant]:
    """Return the changes to try, name -> change, for episodes with these views."""
    changes: dict[str, Variant] = {
        "darker": _pixelwise(lambda image: scaled(image, DARK)),
        "brighter": _pixelwise(lambda image: scaled(image, BRIGHT)),
        "zoomed in": _pixelwise(lambda image: zoomed(image, CROP)),
        "zoomed out": _pixelwise(lambda image: zoomed(image, -CROP)),
        "jpeg": _pixelwise(recoded),
        "half the rate": _half_rate,
        "twice the rate": _double_rate,
    }
    return changes | ({f"{view} dark": without(view) for view in sorted(views)} if len(views) > 1 else {})


def robustness(model: RewardModel, episodes: Sequence[LabelledEpisode]) -> dict[str, Change]:
    """Measure what each change does on these episodes, at least one; return name -> effect."""
    base = [said_along(model, episode.instruction, episode.frames) for episode in episodes]
    found = {}
    for name, variant in variants(list(episodes[0].frames[0].images)).items():
        try:
            rows = [_change(model, episode, phi, variant) for episode, phi in zip(episodes, base, strict=True)]
        except RewardError as error:
            found[name] = Change(mean=np.nan, final=np.nan, unreadable=np.nan, refused=str(error))
            continue
        mean, final, unreadable = (_mean([row[k] for row in rows]) for k in range(3))
        found[name] = Change(mean=mean, final=final, unreadable=unreadable, refused="")
    return found


def _change(
    model: RewardModel, episode: LabelledEpisode, phi: np.ndarray, variant: Variant
) -> tuple[float, float, float]:
    frames, where = variant(episode.frames)
    changed = said_along(model, episode.instruction, frames)
    there = where >= 0
    delta = np.abs(changed[where[there]] - phi[there])
    return _mean(delta), float(delta[-1]), float(np.isnan(changed).mean())


def _mean(values: Sequence[float] | np.ndarray) -> float:
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else float("nan")
