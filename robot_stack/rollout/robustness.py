"""Evaluates a saved policy where the scene is not as it was in training: one held-out range after the other."""

from __future__ import annotations

from pathlib import Path

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.evaluate import Evaluation, evaluate, training_age_s
from robot_stack.runs.paths import RunPaths
from robot_stack.types.params import Params
from robot_stack.workcell.variations import tested_override


def evaluate_held_out(
    resolved: ResolvedRun, folder: Path, params: Params | None, tested: tuple[str, ...], episodes: int
) -> Evaluation:
    """Evaluate a policy on held-out resets whose scenes draw some factors from their held-out ranges.

    Args:
        resolved: The run.
        folder: Of the run.
        params: Of the policy; None: the run's base policy acts.
        tested: Names of these factors; all others are as in training.
        episodes: How many.
    """
    varied = load_resolved(RunPaths(folder).resolved, [tested_override(tested)])
    return evaluate(varied, params, episodes, observation_age_s=training_age_s(resolved, folder))
