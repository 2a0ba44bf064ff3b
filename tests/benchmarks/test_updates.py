"""What is measured of an algorithm's update, and of the jerk of an exploring arm."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.learning.exploration import jerk_of
from benchmarks.updates import BEGUN, measure_one, rows_of
from policies.registry import ALGORITHMS


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_batch_is_as_the_settings_of_an_algorithm_ask_for_it(name: str) -> None:
    config = ALGORITHMS[name].config(**BEGUN.get(name, {}))
    rows = rows_of(config)
    assert rows.action.shape == rows.label.shape == (config.batch_size, 4 * config.sampling.chunk)
    assert rows.human.shape == (config.batch_size, config.sampling.chunk)


def test_an_update_takes_time_and_has_products() -> None:
    took_ms, ratio, rows = measure_one("bc", 1)
    assert took_ms > 0
    assert ratio > 0.2
    assert rows == ALGORITHMS["bc"].config().batch_size


def test_jerk_is_the_third_difference_over_the_period_cubed() -> None:
    t = np.arange(8) * 0.1
    path = np.stack([t**3, 2.0 * t**2, np.ones(8)], axis=1)
    assert jerk_of(path, 0.1) == pytest.approx(np.full(5, 6.0))
    assert jerk_of(path[:3], 0.1).size == 0
