"""Potential-based shaping pays for nothing but the way from start to end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robot_stack.replay.outcome import Outcome
from robot_stack.replay.rewards import RewardRule, monte_carlo, payout, returns, shaping
from robot_stack.types.reward import RewardForm

curves = arrays(np.float64, st.integers(2, 60), elements=st.floats(0.0, 1.0))
discounts = st.floats(0.5, 0.999)


def shaped_sum(phi: np.ndarray, gamma: float, jumps: list[int], *, terminal: bool) -> float:
    """Discounted sum of the shaping along an episode that is walked in steps of the given lengths."""
    total, at = 0.0, 0
    while at < len(phi) - 1:
        to = min(at + jumps[at % len(jumps)], len(phi) - 1)
        term = shaping(
            np.array([gamma ** (to - at)]),
            phi=phi[at : at + 1],
            next_phi=phi[to : to + 1],
            terminal=np.array([terminal and to == len(phi) - 1]),
        )
        total += gamma**at * float(term[0])
        at = to
    return total


@given(curves, discounts, st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_it_telescopes_to_minus_the_first_potential_where_the_task_ended(
    phi: np.ndarray, gamma: float, jumps: list[int]
) -> None:
    assert shaped_sum(phi, gamma, jumps, terminal=True) == pytest.approx(-phi[0], abs=1e-12)


@given(curves, discounts, st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_it_telescopes_to_the_ends_where_time_ran_out(phi: np.ndarray, gamma: float, jumps: list[int]) -> None:
    expected = gamma ** (len(phi) - 1) * phi[-1] - phi[0]
    assert shaped_sum(phi, gamma, jumps, terminal=False) == pytest.approx(expected, abs=1e-12)


@given(curves, discounts)
def test_hovering_pays_less_than_nothing(phi: np.ndarray, gamma: float) -> None:
    high = np.full(len(phi), 0.9)
    assert shaped_sum(high, gamma, [1], terminal=False) < 0


def test_an_unknown_potential_shapes_nothing_but_at_the_end_of_the_task() -> None:
    nan = float("nan")
    term = shaping(
        np.full(4, 0.9),
        phi=np.array([nan, 0.5, 0.5, nan]),
        next_phi=np.array([0.5, nan, nan, nan]),
        terminal=np.array([False, False, True, True]),
    )
    assert term.tolist() == [0.0, 0.0, -0.5, 0.0]


def rewards(form: RewardForm, phi: list[float], *, gamma: float = 0.9) -> list[float]:
    """Of each step of a success."""
    steps = len(phi) - 1
    reward, _ = returns(
        RewardRule(form=form),
        gamma,
        steps=np.ones(steps, np.int64),
        outcome=np.array([Outcome.OPEN] * (steps - 1) + [Outcome.SUCCESS]),
        phi=np.array(phi[:-1]),
        next_phi=np.array(phi[1:]),
    )
    return [round(float(r), 6) for r in reward]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("sparse", [0.0, 0.0, 1.0]),
        ("absolute", [0.5, 0.4, 1.9]),
        ("difference", [0.3, -0.1, 1.5]),
        ("potential", [0.25, -0.14, 0.6]),
    ],
)
def test_each_form_pays_what_its_name_says(form: RewardForm, expected: list[float]) -> None:
    assert rewards(form, [0.2, 0.5, 0.4, 0.9]) == expected


def test_absolute_progress_pays_for_hovering_and_the_potential_does_not() -> None:
    hover = np.full(50, 0.9)
    open_ended = np.zeros(49, bool)
    paid = {
        form: payout(form, np.full(49, 0.97), phi=hover[:-1], next_phi=hover[1:], terminal=open_ended).sum()
        for form in ("absolute", "difference", "potential")
    }
    assert paid["absolute"] > 40
    assert paid["difference"] == 0
    assert paid["potential"] < 0


@pytest.mark.parametrize("form", ["absolute", "difference"])
def test_an_unknown_potential_pays_nothing_in_any_form(form: RewardForm) -> None:
    assert rewards(form, [0.2, float("nan"), 0.4])[0] == 0.0


@pytest.mark.parametrize("form", ["absolute", "difference"])
def test_forms_that_do_not_telescope_have_no_monte_carlo_return(form: RewardForm) -> None:
    ended = monte_carlo(
        RewardRule(form=form), 0.9, steps=np.array([2]), outcome=np.array([Outcome.SUCCESS]), phi=np.array([0.5])
    )
    assert np.isnan(ended).all()
