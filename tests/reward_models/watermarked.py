"""Labelled episodes whose true progress is written into a pixel, and models that read it, or do not."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from reward_models.decode import hop_between, remaining_between
from reward_models.evaluate.done_metrics import DoneRule
from reward_models.interface import (
    Capabilities,
    ClipQuery,
    Frame,
    Instruction,
    LabelledEpisode,
    PairQuery,
    Score,
    Unsupported,
)

TASK, OTHER = "insert the peg", "open the drawer"
RULE = DoneRule(threshold=0.8, n=2, m=3)
KINDS = {
    "success": 6, "near_miss": 4, "drop": 4, "stall": 4, "partial": 4, "missing": 4, "mismatch": 5,
    "regress_recover": 2,
}  # fmt: skip


def frame(progress: float, seed: int) -> Frame:
    """Two small views; the first pixel is the progress, of 255, the others are noise."""
    rng = np.random.default_rng(seed)
    images = {}
    for view in ("front", "wrist"):
        image = rng.integers(0, 256, (8, 8, 3), np.uint8)
        image[0, 0] = round(255 * progress)
        images[view] = image
    return Frame(images=images, proprio=np.array([progress], np.float32))


def episode(kind: str, seed: int) -> LabelledEpisode:
    """An episode of a kind, 15 to 30 frames long whatever it is."""
    rng = np.random.default_rng((seed, zlib.crc32(kind.encode())))
    count = int(rng.integers(15, 31))
    rise = np.linspace(0, 1, count)
    shapes = {
        "near_miss": np.minimum(rise, 0.4),
        "drop": np.where(rise < 0.4, rise, 0.0),
        "stall": np.minimum(rise, 0.5),
        "partial": 0.45 * rise,
        "missing": 0.0 * rise,
        "regress_recover": np.interp(rise, [0, 0.4, 0.6, 1.0], [0, 0.6, 0.1, 1.0]),
    }
    shown = np.round(255 * shapes.get(kind, rise)) / 255
    success = kind in ("success", "regress_recover")
    if kind in ("success", "regress_recover", "mismatch"):
        shown[-3:] = 1.0
    return LabelledEpisode(
        name=f"{kind}-{seed}",
        kind=kind,
        frames=tuple(frame(p, int(rng.integers(1 << 31))) for p in shown),
        instruction=Instruction(text=OTHER if kind == "mismatch" else TASK),
        success=success,
        done_at=count - 3 if success else None,
        progress=shown * (kind != "mismatch"),
    )


def episodes() -> list[LabelledEpisode]:
    """Of all kinds."""
    return [episode(kind, i) for kind, count in KINDS.items() for i in range(count)]


def written(shown: Frame) -> float:
    """The progress in the pixel."""
    return float(shown.view("front")[0, 0, 0]) / 255


class Watermark:
    """Answers from one function of a clip, and is sure of done only at the very end of progress."""

    name, version = "watermark", "1"
    capabilities = Capabilities(progress=True, done=True, max_batch=7)

    def __init__(self, answer: Callable[[ClipQuery], float]) -> None:
        self._answer = answer

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        raise Unsupported("no pairs")

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        return [Score(value=self._answer(query)) for query in queries]

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        said = [score.value for score in self.score_progress(queries)]
        return [Score(value=value if value > 0.99 else 0.5 * value) for value in said]


def read(query: ClipQuery) -> float:
    """What a perfect model says."""
    return written(query.frames[-1]) if query.instruction.text == TASK else 0.0


def drawn(query: ClipQuery) -> float:
    """Return a random value, the same for the same question."""
    return float(np.random.default_rng(zlib.crc32(query.key.encode())).random())


class Pairs(Watermark):
    """A perfect judge of pairs that knows nothing else."""

    def __init__(self, semantics: str) -> None:
        super().__init__(read)
        self._between = remaining_between if semantics == "remaining" else hop_between
        self.capabilities = Capabilities(pair=semantics, max_batch=7)  # type: ignore[arg-type]

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        return [
            Score(value=self._between(written(q.before), written(q.after)) if q.instruction.text == TASK else 0.0)
            for q in queries
        ]

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        raise Unsupported("pairs only")
