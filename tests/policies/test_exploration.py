"""Exploration noise: white, or one function of the state for some ticks; standard normal at any state either way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from policies.exploration import ExplorationNoise
from policies.registry import ALGORITHMS
from tests.policies.small_task import SPEC, random_batch
from tests.policies.test_all_algorithms import SMALL

STATE = torch.tanh(torch.randn(1, 32, generator=torch.Generator().manual_seed(0)))


def at(state: Tensor) -> Callable[[], Tensor]:
    return lambda: state


def never() -> Tensor:
    raise AssertionError("white noise asks for no state")


def test_white_noise_is_drawn_anew_at_each_decision_and_is_what_the_generator_gives() -> None:
    noise, rng, same = ExplorationNoise(3, 1), torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    for tick in range(3):
        assert torch.equal(noise.draw(2, never, tick=tick, rng=rng), torch.randn(2, 3, generator=same))


def test_smooth_noise_is_one_function_of_the_state_for_as_many_ticks_as_it_is_told() -> None:
    noise, rng = ExplorationNoise(3, 4), torch.Generator().manual_seed(1)
    drawn = [noise.draw(1, at(STATE), tick=tick, rng=rng) for tick in range(9)]
    assert all(torch.equal(each, drawn[0]) for each in drawn[1:4])
    assert not torch.equal(drawn[4], drawn[0])
    assert torch.equal(drawn[7], drawn[4])
    assert not torch.equal(drawn[8], drawn[4])


@pytest.mark.parametrize("ticks", [(0, 0), (0, 1, 0), (5, 0), (4, 5, 4)])
def test_another_episode_gets_another_function(ticks: tuple[int, ...]) -> None:
    noise, rng = ExplorationNoise(3, 100), torch.Generator().manual_seed(1)
    *first, again = [noise.draw(1, at(STATE), tick=tick, rng=rng) for tick in ticks]
    assert all(torch.equal(each, first[0]) for each in first)
    assert not torch.equal(again, first[0])


def test_near_states_get_near_noise_and_far_ones_do_not() -> None:
    noise, rng = ExplorationNoise(400, 100), torch.Generator().manual_seed(1)
    here = noise.draw(1, at(STATE), tick=0, rng=rng)
    near = noise.draw(1, at(STATE + 0.02 * torch.sign(STATE)), tick=1, rng=rng)
    far = noise.draw(1, at(STATE.roll(7)), tick=2, rng=rng)
    assert (near - here).square().mean().sqrt() < 0.1
    assert (far - here).square().mean().sqrt() > 0.8


def test_at_any_state_it_is_standard_normal_over_draws() -> None:
    noise, rng = ExplorationNoise(2, 2), torch.Generator().manual_seed(1)
    drawn = torch.cat([noise.draw(1, at(3.0 * STATE), tick=tick, rng=rng) for tick in range(0, 8000, 2)])
    assert drawn.mean(dim=0).abs().max() < 0.06
    assert (drawn.std(dim=0) - 1).abs().max() < 0.05


@pytest.mark.parametrize("name", ["rlpd", "cal_ql", "residual", "residual_on_base", "jump_start"])
def test_a_policy_explores_smoothly_where_it_is_asked_to(name: str) -> None:
    rows = random_batch(0)
    for ticks, same in ((1, False), (50, True)):
        torch.manual_seed(0)
        algorithm = ALGORITHMS[name]
        config = algorithm.config(**SMALL[name], head=8, hidden=(16,), smooth_ticks=ticks, std_max=0.5, std_min=0.4)
        network = algorithm.builders().policy(SPEC, config)
        rng = torch.Generator().manual_seed(2)
        first, second = (
            network.act(rows.features, rows.proprio, tick=tick, rng=rng, deterministic=False) for tick in (10, 11)
        )
        assert torch.equal(first, second) is same
        still = network.act(rows.features, rows.proprio, tick=12, rng=rng, deterministic=True)
        assert not torch.equal(first, still)
