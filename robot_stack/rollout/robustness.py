"""Evaluates a saved policy where the scene is not as it was in training: one held-out range after the other."""

from __future__ import annotations

from pathlib import Path

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.evaluate import Evaluation, evaluate, training_age_s
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.types.params import Params
from sim.cell import find_task
from sim.randomise import KEY, RandomiseConfig

AS_TRAINED = "none"
"""The row in which nothing is held out."""
TOGETHER = {"camera": ("camera_shift_m", "camera_tilt_rad")}
"""Factors that make one row."""


def rows(resolved: ResolvedRun) -> dict[str, tuple[str, ...]]:
    """Return each row of a run's table with the factors that are tested in it, the row as trained first.

    Raises:
        ConfigError: If no simulated scene stands behind the run.
    """
    if resolved.is_environment:
        raise ConfigError(f"run {resolved.name} is of an environment, must be of a scene; nothing in it can vary")
    joined = {name for names in TOGETHER.values() for name in names}
    config = find_task(resolved.task.simulated).config
    lacking = set() if "clearance_m" in config.model_fields else {"tighter_m"}
    single = {name: (name,) for name in RandomiseConfig().factors if name not in joined | lacking}
    return {AS_TRAINED: (), **single, **TOGETHER}


def words(resolved: ResolvedRun, tested: tuple[str, ...]) -> str:
    """Return what is varied in a row, with the range that it is drawn from."""
    config = resolved.section(f"task.sim.{KEY}", RandomiseConfig)
    said = []
    for name in tested:
        ranges = config.factors[name]
        low, high = ranges.held_out
        said.append(ranges.words.format(f"{low:g}" if low == high else f"{low:g} to {high:g}"))
    return " and ".join(said) or "as in training"


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
    asked = f"task.sim.{KEY}.tested=[{', '.join(tested)}]"
    varied = load_resolved(RunPaths(folder).resolved, [asked])
    return evaluate(varied, params, episodes, observation_age_s=training_age_s(resolved, folder))
