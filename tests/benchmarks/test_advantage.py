"""A moment of a simulated cell can be gone on from again and again, bit for bit; and how ranks are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.evidence.advantage import NOISY, UNIFORM, Moment, Trial, ceiling, correlation, nearness, proposals
from robot_stack.config.resolve import load_run
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import LocalCell

TICK_NS = 100_000_000


def trial(ways: list[list[float]]) -> Trial:
    """A state whose actions led to these returns, a row of ways each."""
    actions = np.zeros((len(ways), 1, 4), np.float32)
    return Trial(features=np.zeros((1, 2)), proprio=np.zeros(3, np.float32), actions=actions, ways=np.array(ways))


def correlated(*pairs: tuple[Sequence[float], Sequence[float]]) -> float | None:
    """Of states with the Q and the return of each action; the ways to the end differ by the same for all actions."""
    return correlation(
        [trial([[r - 0.1, r + 0.1] for r in returns]) for _, returns in pairs], [np.array(q) for q, _ in pairs]
    )


RISING = [0.1, 0.5, 0.9]


def test_ranks_are_compared_state_by_state_and_averaged() -> None:
    same, reverse = ([1, 2, 3], RISING), ([103, 102, 101], RISING)
    assert correlated(same) == pytest.approx(1.0)
    assert correlated(reverse) == pytest.approx(-1.0)
    assert correlated(same, same, reverse) == pytest.approx(1 / 3)


def test_equal_returns_say_nothing_and_equal_values_count_as_no_knowledge() -> None:
    assert correlated(([1, 2, 3], [0.5, 0.5, 0.5])) is None
    assert correlated(([1, 1, 1], RISING), ([1, 2, 3], RISING)) == pytest.approx(0.5)


def test_ties_get_average_ranks() -> None:
    assert correlated(([1, 2, 3, 4], [0.0, 0.0, 1.0, 1.0])) == pytest.approx(2 / 5**0.5)


def test_the_ceiling_is_what_the_ways_agree_on() -> None:
    assert ceiling([trial([[r, r] for r in RISING])]) == pytest.approx(1.0)
    assert ceiling([trial([[a, b] for a, b in zip(RISING, RISING[::-1], strict=True)])]) is None
    assert ceiling([trial([[0.1, 0.9], [0.5, 0.6], [0.9, 0.2]])]) == 0.0
    assert ceiling([trial([[0.5, 0.5]] * 3)]) is None


def test_the_ceiling_is_what_a_critic_reaches_that_knows_the_mean() -> None:
    rng, truth = np.random.default_rng(0), np.random.default_rng(1).normal(size=(400, 16))
    trials = [trial((row[:, None] + rng.normal(0.0, 1.5, (16, 4))).tolist()) for row in truth]
    highest, reached = ceiling(trials), correlation(trials, list(truth))
    assert highest is not None
    assert reached is not None
    assert reached == pytest.approx(highest, abs=0.05)
    assert reached < 0.85


def test_proposals_are_the_policys_own_action_noisy_ones_and_uniform_ones() -> None:
    own = np.full((2, 4), 0.9, np.float32)
    made = proposals(own, np.random.default_rng(0))
    assert made.shape == (1 + NOISY + UNIFORM, 2, 4)
    np.testing.assert_array_equal(made[0], own)
    assert np.abs(made).max() <= 1.0
    assert np.abs(made[1 : 1 + NOISY] - own).mean() < 0.3 < np.abs(made[1 + NOISY :] - own).mean()


def go_on(cell: LocalCell, rng: np.random.Generator, ticks: int) -> list[np.ndarray]:
    """Play random actions; returns all that is seen and all that the simulator holds."""
    told = []
    for _ in range(ticks):
        cell.send(rng.uniform(-1, 1, 4).astype(np.float32))
        cell.sleep_until_ns(cell.now_ns() + TICK_NS)
        observation = cell.observe()
        assert observation is not None
        told += [observation.proprio, *observation.images.values()]
        told += [cell.world.data.qpos.copy(), cell.world.data.qvel.copy(), cell.world.data.ctrl.copy()]
    return told


@pytest.mark.long
def test_a_restored_moment_goes_on_bit_for_bit_whatever_happened_since() -> None:
    cell = build_local_cell(load_run("peg_insert"), seed=0)
    cell.reset(7)
    cell.start("000000-eval-a", EpisodeKind.EVAL)
    go_on(cell, np.random.default_rng(0), 5)
    observation = cell.observe()
    assert observation is not None
    moment = Moment(cell, observation, 5)
    straight = go_on(cell, np.random.default_rng(1), 6)
    cell.finish()
    cell.reset(8)
    for _ in range(2):
        again = moment.again()
        assert again.mode() is not cell.mode()
        np.testing.assert_equal(go_on(again, np.random.default_rng(1), 6), straight)
    other = go_on(moment.again(), np.random.default_rng(2), 6)
    assert not np.array_equal(other[-3], straight[-3])


def test_the_order_by_nearness_knows_how_far_an_action_is_from_the_policys_own_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    own = rng.uniform(-1, 1, (2, 3)).astype(np.float32)
    away = np.array([0.0, 0.5, 0.1, 0.9])
    actions = own + away[:, None, None] * np.ones((2, 3)) / np.sqrt(6)
    none = np.zeros((1, 1))
    one = Trial(features=none, proprio=none[0], actions=actions.astype(np.float32), ways=np.zeros((4, 2)))
    (found,) = nearness([one])
    assert found == pytest.approx(-away, abs=1e-5)
