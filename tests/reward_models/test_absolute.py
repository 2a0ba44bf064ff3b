"""Scores of a single frame."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reward_models.absolute import between, goal_baseline

directions = arrays(np.float64, 5, elements=st.floats(-1, 1)).filter(lambda v: np.linalg.norm(v) > 0.1)


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


@given(directions, directions, directions)
def test_without_projection_it_is_the_cosine(state: np.ndarray, goal: np.ndarray, baseline: np.ndarray) -> None:
    if np.linalg.norm(unit(goal) - unit(baseline)) < 1e-3:
        return
    reward = goal_baseline(state, goal, baseline, alpha=0.0)
    assert reward == pytest.approx(float(unit(state) @ unit(goal)), abs=1e-9)


@given(directions, directions, st.floats(0.0, 1.0))
def test_the_goal_itself_is_worth_one_and_nothing_more(goal: np.ndarray, baseline: np.ndarray, alpha: float) -> None:
    if np.linalg.norm(unit(goal) - unit(baseline)) < 1e-3:
        return
    assert goal_baseline(goal, goal, baseline, alpha=alpha) == pytest.approx(1.0)
    assert goal_baseline(-goal, goal, baseline, alpha=alpha) <= 1.0 + 1e-12


def test_what_lies_across_the_line_does_not_count_with_full_projection() -> None:
    goal, baseline = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    dirty = np.array([0.6, 0.4, 0.3])
    length = np.linalg.norm(dirty)
    on_line = np.array([0.5, 0.5, 0]) + (dirty / length @ [0.5, -0.5, 0]) * np.array([1, -1, 0])
    reward = goal_baseline(dirty, goal, baseline, alpha=1.0)
    assert reward == pytest.approx(1 - 0.5 * np.sum((on_line - goal) ** 2))


def test_a_batch_of_images_is_scored_at_once() -> None:
    states = np.eye(4)
    assert goal_baseline(states, states[0], states[1], alpha=0.0).tolist() == pytest.approx([1, 0, 0, 0])


@pytest.mark.parametrize(
    ("state", "goal", "baseline", "alpha", "message"),
    [
        (np.ones(3), np.ones(3), np.ones(3), 0.5, "must differ"),
        (np.ones(3), np.ones(3), np.eye(3)[0], 1.5, "alpha is 1.5"),
        (np.zeros(3), np.ones(3), np.eye(3)[0], 0.5, "length 0"),
    ],
)
def test_bad_embeddings_are_refused(
    state: np.ndarray, goal: np.ndarray, baseline: np.ndarray, alpha: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        goal_baseline(state, goal, baseline, alpha=alpha)


def test_a_scale_becomes_progress_and_unknown_stays_unknown() -> None:
    phi = between(1, 5, np.array([1.0, 2.0, 5.0, np.nan]))
    assert phi[:3].tolist() == [0.0, 0.25, 1.0]
    assert np.isnan(phi[3])
    with pytest.raises(ValueError, match="low is 5"):
        between(5, 1, np.zeros(1))
