"""Differences between forms of reward are told with how likely they are by chance."""

from __future__ import annotations

import pytest

from benchmarks.learning.shaping import difference_by_chance, together


def test_three_seeds_against_three_cannot_be_surer_than_one_in_ten() -> None:
    assert difference_by_chance([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)
    assert difference_by_chance([1, 2, 30], [4, 5, 6]) > 0.3


def test_the_table_says_how_likely_a_difference_is_by_chance() -> None:
    runs = [
        {"form": form, "seed": seed, "episodes_to_wanted": episodes + seed, "success": 0.9, "hovering": 0.0}
        for form, episodes in (("sparse", 20), ("potential", 10))
        for seed in range(3)
    ]
    sparse, potential = together(runs)
    assert sparse == "| sparse | 3 | 21.0 | 1.00 | - | 90% | 0% |"
    assert potential == "| potential | 3 | 11.0 | 0.52 | 0.1 | 90% | 0% |"
