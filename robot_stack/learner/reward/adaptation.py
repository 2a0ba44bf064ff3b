"""One-shot adaptation of a run's reward model to a changed scene, cell or operator."""

from __future__ import annotations

from collections.abc import Sequence

from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.fit import fit
from reward_models.progress.model import ProgressModel
from robot_stack.learner.fitting import OnStep


def adapt(
    model: ProgressModel,
    episodes: Sequence[ScoredEpisode],
    config: ProgressConfig,
    *,
    seed: int,
    on_step: OnStep = lambda step, steps, loss: None,
) -> ProgressModel:
    """Go on fitting a progress model on demonstrations of a changed scene, with the steps of a refit.

    Args:
        model: As the run has it.
        episodes: At least one success, on the features of the same trunk.
        config: Of the run.
        seed: Of the draws.
        on_step: Told of each step; may raise to end it.

    Raises:
        RewardError: If there is no success.
    """
    adapted, _ = fit(episodes, config.for_refit(), text=model.text, seed=seed, start=model, on_step=on_step)
    return adapted
