"""Variations of the world change what they say and nothing else, and are the same for every policy."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.learning.robustness import Variation, cameras, friction, light, row, tinted, variations, varied
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.rollout.evaluate import Evaluation
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.build import build_local_cell

NEARLY = 0.1
"""Mean difference, of 255, of two images of one reset: edges move by a hair as the arms settle."""


@pytest.fixture(scope="module")
def cell():
    return build_local_cell(load_run("peg_insert"), seed=0)


def seen(cell, variation: Variation, seed: int = 3) -> np.ndarray:
    with varied(cell.world, variation):
        cell.reset(seed)
        return cell.observe().images["front"].astype(float)


def test_less_light_makes_a_darker_image_of_the_same_scene(cell) -> None:
    plain, dim = seen(cell, Variation(words="")), seen(cell, Variation(words="", change=light(0.7)))
    assert dim.mean() < 0.85 * plain.mean()
    assert np.corrcoef(plain.ravel(), dim.ravel())[0, 1] > 0.97


@pytest.mark.parametrize("change", [light(0.7), cameras(0.01, 0.035), friction(0.6), tinted(0.4)])
def test_a_change_does_not_add_up_over_resets_and_ends_with_the_context(cell, change) -> None:
    variation = Variation(words="", change=change)
    first = seen(cell, variation)
    seen(cell, variation, seed=4)
    assert np.abs(seen(cell, variation) - first).mean() < NEARLY
    plain, other = Variation(words=""), build_local_cell(load_run("peg_insert"), seed=0)
    assert np.abs(seen(cell, plain) - seen(other, plain)).mean() < NEARLY


def test_noise_is_on_the_image_alone(cell) -> None:
    plain, noisy = seen(cell, Variation(words="")), seen(cell, Variation(words="", noise=8.0))
    assert 5.0 < np.std(noisy - plain) < 8.5  # cut off at black and white


def test_every_variation_of_the_run_is_one_that_the_task_knows(tmp_path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(load_run("peg_insert").to_yaml())
    for variation in variations().values():
        resolved = load_resolved(path, variation.overrides)
        assert (resolved.task.sim != load_resolved(path).task.sim) == bool(variation.overrides)
    with pytest.raises(ConfigError, match=r"there is no 'cameras\.side'"):
        load_resolved(path, ["cameras.side.width_px=64"])


def test_a_row_has_counts_interval_and_cycle() -> None:
    found = Evaluation(successes=[True] * 9 + [False], durations_s=[2.0] * 9 + [8.0], ages_s=[0.03])
    assert row(Variation(words="dim"), found) == "| dim | 9 of 10 (60 to 98 %) | 2.0 s |"
