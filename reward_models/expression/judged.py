"""Formulas as a reward model that is asked about clips: they read proprio alone, and need no encoder and no fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reward_models.expression.config import ExpressionConfig
from reward_models.expression.model import ExpressionModel
from reward_models.interface import Capabilities, ClipQuery, PairQuery, Score, Unsupported, clip_score
from reward_models.progress.model import FrameScores
from robot_stack.types.errors import RewardError
from robot_stack.types.spec import Spec

WHOLE = 100_000
"""Frames that a formula may look back: all of an episode."""


class FormulaModel:
    """A `RewardModel` that evaluates the formulas of settings on the proprio of frames.

    Args:
        config: With the formulas, checked against the cell.
        spec: Of the cell.

    Raises:
        RewardError: If they read more than the cell's proprio.
    """

    name = "expression"

    def __init__(self, config: ExpressionConfig, spec: Spec) -> None:
        if config.reads_scores:
            raise RewardError(
                "formulas read phi or done of an embedded model, which is fitted in a run, must read proprio alone to "
                "be judged without one; take them into a run, or evaluate with --generated"
            )
        columns = {f.name: (spec.part(f.name).start, spec.part(f.name).stop) for f in spec.proprio}
        still, unit = np.zeros(spec.proprio_size), np.ones(spec.proprio_size)
        self._model = ExpressionModel(config, text="", columns=columns, mean=still, scale=unit)
        self.version = self._model.version
        self.capabilities = Capabilities(progress=True, done=True, views=(), history=WHOLE, max_batch=256)

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Raise `Unsupported`: formulas are of clips."""
        raise Unsupported("pair question to expression has no answer, must be about clips")

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score clips by Φ of their last frame."""
        return [clip_score(float(self._last(query).progress[0])) for query in queries]

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score clips by whether their last frame shows the finished task."""
        return [clip_score(float(self._last(query).success[0])) for query in queries]

    def _last(self, query: ClipQuery) -> FrameScores:
        if any(frame.proprio is None for frame in query.frames):
            raise RewardError("proprio of a frame is missing, must be there; formulas read it")
        rows = np.stack([np.asarray(frame.proprio, np.float32) for frame in query.frames])
        return self._model.score(rows, len(rows) - 1)
