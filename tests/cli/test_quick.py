"""`sim --quick` makes a run short by settings that its algorithm and its encoder have."""

from __future__ import annotations

import pytest

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.sim import QUICK_CLONE, QUICK_ENCODER, quick_settings


@pytest.mark.parametrize(
    ("task", "asked", "has"),
    [
        ("peg_insert", [], [QUICK_ENCODER]),
        ("peg_insert", ["algorithm.name=residual"], [QUICK_ENCODER, QUICK_CLONE["residual"]]),
        ("mountain_car", [], []),
        ("peg_two_sockets", [], [QUICK_ENCODER]),
    ],
)
def test_quick_names_what_the_run_has_and_the_run_is_accepted(task: str, asked: list[str], has: list[str]) -> None:
    settings = quick_settings(task, asked, (), None)
    assert {QUICK_ENCODER, *QUICK_CLONE.values()} & set(settings) == set(has)
    assert load_checked(task, settings, None).run.training.max_episodes == 6
