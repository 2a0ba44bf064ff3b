"""The rows of a table of robustness: which factors of a simulated scene are not as in training, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.errors import ConfigError
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


def tested_override(tested: Sequence[str]) -> str:
    """Return the override of a run by which these factors draw from their held-out ranges, the rest as in training."""
    return f"task.sim.{KEY}.tested=[{', '.join(tested)}]"
