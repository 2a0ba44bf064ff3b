"""Settings of the reward model by written expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field

from reward_models.expression.formula import Formula, FormulaError
from reward_models.progress.config import ProgressConfig

SCORES = ("phi", "done")
"""What a formula can read beside the parts of proprio: Φ and the probability of success of the embedded model."""


def _readable(text: str) -> str:
    Formula(text)
    return text


class ExpressionConfig(ProgressConfig):
    """Settings of two formulas over proprio, and of the embedded model where they read its scores."""

    part = "expression"

    progress: Annotated[str, AfterValidator(_readable)] = Field(
        description="formula of Φ over parts of proprio by name, `phi` and `done`; what lies beyond 0 and 1 is clamped"
    )
    success: Annotated[str, AfterValidator(_readable)] = Field(
        description="formula of the probability that the task is done, or of whether it is"
    )

    @cached_property
    def formulas(self) -> Mapping[str, Formula]:
        """Return the formulas by the setting that holds them."""
        return {"progress": Formula(self.progress), "success": Formula(self.success)}

    @property
    def reads_scores(self) -> bool:
        """Return whether a formula reads what the embedded model says."""
        return any(not formula.names.isdisjoint(SCORES) for formula in self.formulas.values())

    def mistakes(self, parts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Return what does not fit the proprio of a run; see `LiveRewardConfig.mistakes`."""
        for name, formula in self.formulas.items():
            try:
                formula.check({**parts, **dict.fromkeys(SCORES, 1)})
            except FormulaError as error:
                yield name, str(error)
            if not formula.remembered.isdisjoint(SCORES):
                text = (
                    f"first, lowest and highest are of {', '.join(SCORES)}, must be of parts of proprio; leave them out"
                )
                yield name, text
        if self.confirm is not None:
            text = "a classifier is set, must not be with formulas: nothing declares success but `success`; remove it"
            yield "confirm", text
