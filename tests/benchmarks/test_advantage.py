"""A moment of a simulated cell can be gone on from again and again, bit for bit; and how ranks are compared."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.advantage import NOISY, UNIFORM, Moment, Trial, correlation, proposals
from robot_stack.config.resolve import load_run
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import LocalCell

TICK_NS = 100_000_000


def trial(q: list[float], returns: list[float]) -> Trial:
    return Trial(actions=np.zeros((len(q), 1, 4), np.float32), q=np.array(q), returns=np.array(returns))


def test_ranks_are_compared_state_by_state_and_averaged() -> None:
    same, reverse = trial([1, 2, 3], [0.1, 0.5, 0.9]), trial([103, 102, 101], [0.1, 0.5, 0.9])
    assert correlation([same]) == pytest.approx(1.0)
    assert correlation([reverse]) == pytest.approx(-1.0)
    assert correlation([same, same, reverse]) == pytest.approx(1 / 3)


def test_equal_returns_say_nothing_and_equal_values_count_as_no_knowledge() -> None:
    assert correlation([trial([1, 2, 3], [0.5, 0.5, 0.5])]) is None
    assert correlation([trial([1, 1, 1], [0.1, 0.5, 0.9]), trial([1, 2, 3], [0.1, 0.5, 0.9])]) == pytest.approx(0.5)


def test_ties_get_average_ranks() -> None:
    assert correlation([trial([1, 2, 3, 4], [0.0, 0.0, 1.0, 1.0])]) == pytest.approx(2 / 5**0.5)


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
