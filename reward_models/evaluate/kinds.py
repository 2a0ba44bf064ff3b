"""Failures kind by kind: each by its name, and whether the model had ever been shown one of that kind.

Failures held out one by one say how well a model knows failures that it has seen. What a policy finds is of another
kind, and a figure over all kinds hides the one that the model falls for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.evaluate.accuracy import finals
from reward_models.evaluate.estimate import Estimate, Rate, mean_of, of_groups
from reward_models.evaluate.judge import Judged
from reward_models.evaluate.rank_metrics import auc


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfFailure:
    """The figures of one kind of failure.

    Attributes:
        unseen: Whether the model was fitted without any episode of this kind; None if that is not known.
        false_done: Episodes in which the rule ever said done.
        final_phi: Φ of the last frame, mean.
        final_truth: True progress of the last frame, mean; NaN where not known.
        auc: Of the final Φ, against all successes.
    """

    unseen: bool | None
    false_done: Rate
    final_phi: Estimate
    final_truth: float
    auc: Estimate


def failures_by_kind(
    judged: Sequence[Judged], rng: np.random.Generator, *, fitted_on: Collection[str] | None
) -> dict[str, KindOfFailure]:
    """Compute the figures of each kind that has episodes without success, by name.

    Args:
        judged: Successes and failures.
        rng: Of the bootstrap.
        fitted_on: Kinds of episodes that the model was fitted on; None if that is not known.
    """
    won = finals([one for one in judged if one.success])
    kinds: dict[str, list[Judged]] = {}
    for one in judged:
        if not one.success:
            kinds.setdefault(one.kind, []).append(one)
    return {
        kind: KindOfFailure(
            unseen=None if fitted_on is None else kind not in fitted_on,
            false_done=Rate.of(sum(one.latched is not None for one in members), len(members)),
            final_phi=mean_of([one.final for one in members], rng),
            final_truth=float(np.mean([one.truth[-1] for one in members])),
            auc=of_groups(auc, [won, finals(members)], rng),
        )
        for kind, members in sorted(kinds.items())
    }
