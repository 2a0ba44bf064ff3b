"""The headline says what one would say in a talk, the advice what one would do next; neither says what is not known."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from robot_stack.report.headline import advice, headline
from robot_stack.report.html import _grouped
from robot_stack.report.summary import build_summary

GOOD: dict[str, Any] = {
    "policy": {"episodes": 100, "success": 100, "wilson95": [0.963, 1.0], "cycle_s": 2.04},
    "bc": {"episodes": 100, "success": 28, "wilson95": [0.2, 0.37], "cycle_s": None},
    "training": {
        "episodes": 193,
        "robot_time_s": 780.0,
        "human_share": 0.15,
        "base_share": 0.0,
        "human_share_last20": 0.01,
    },
    "reward": {"missed_rate": 0.1, "false_done_rate": 0.0, "false_done": 0, "episodes_failed": 9},
    "learner": {"utd": 5.2, "utd_asked": 8.0},
    "critic": {"learned_from": "both"},
    "control": {"holds": 0},
}


def but(**changes: dict[str, Any]) -> dict[str, Any]:
    summary = deepcopy(GOOD)
    for group, values in changes.items():
        summary[group] |= values
    return summary


def test_the_headline_has_result_comparison_cost_and_source() -> None:
    found = headline(GOOD)
    assert found.result == "100 of 100 (96 to 100 %)"
    assert found.rest == (
        "2.0 s a cycle · behaviour cloning 28 of 100 · 13 min of robot time, 11 of them alone. "
        "The policy learned from reward and from imitation."
    )


def test_time_in_which_the_base_policy_led_is_not_the_policys_own() -> None:
    assert "13 min of robot time, 1 of them alone" in headline(but(training={"base_share": 0.75})).rest


def test_what_is_not_known_is_left_out() -> None:
    nothing = but(
        policy={"episodes": None, "cycle_s": None},
        bc={"episodes": None},
        training={"robot_time_s": None},
        critic={"learned_from": "unknown"},
    )
    found = headline(nothing)
    assert found.result == ""
    assert found.rest == "It cannot be said whether the policy learned from reward or from corrections."


@pytest.mark.parametrize("learner", [{}, {"utd": 1.0, "utd_asked": 1.0}, {"utd": 0.1, "utd_asked": None}])
def test_a_good_run_needs_no_advice(learner: dict[str, Any]) -> None:
    assert list(advice(but(learner=learner))) == []


@pytest.mark.parametrize(
    ("group", "values", "said"),
    [
        ("training", {"human_share_last20": 0.08}, "still drove 8 % of the last 20 episodes"),
        ("training", {"human_share_last20": 0.08, "episodes": 7}, "still drove 8 % of the last 7 episodes"),
        ("reward", {"missed_rate": 0.84}, "missed 84 % of the successes"),
        ("reward", {"false_done_rate": 0.2, "false_done": 3, "episodes_failed": 15}, "3 of 15 failures a success"),
        ("learner", {"utd": 1.56}, "1.6 updates per step, 8 are asked for"),
        ("critic", {"learned_from": "guesses"}, "a critic that guesses"),
        ("control", {"holds": 2}, "held without being asked"),
    ],
)
def test_each_figure_that_asks_for_something_gets_its_sentence(group: str, values: dict[str, Any], said: str) -> None:
    (line,) = advice(but(**{group: values}))
    assert said in line


def test_a_run_that_has_only_begun_gets_neither_error_nor_advice(tmp_path: Path) -> None:
    summary = build_summary(tmp_path)
    assert list(advice(summary)) == []
    assert headline(summary).result == ""


def test_reasons_that_differ_in_numbers_are_one_line() -> None:
    reasons = Counter(
        {"fr3/state is 203 ms old (since 14:39:38)": 1, "fr3/state is 251.5 ms old (since 14:40:02)": 2, "STOP": 1}
    )
    assert _grouped(reasons) == [("fr3/state is 203 ms old (since 14:39:38)", 3), ("STOP", 1)]
