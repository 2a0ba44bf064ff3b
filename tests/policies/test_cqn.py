"""The coarse-to-fine Q-network: its bins, its losses against formulas, and what it learns from reward alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from policies.cqn import losses
from policies.cqn.config import CQNConfig
from policies.cqn.critic import CoarseToFineCritic, bin_of, of_bins, zoom
from policies.cqn.learner import cqn_target
from policies.learner import HasCritic
from policies.networks import StateEncoder
from policies.precision import FAST_BF16
from policies.registry import ALGORITHMS
from policies.vision import Seen
from tests.policies.small_task import SPEC
from tests.policies.test_all_algorithms import batch, make
from tests.policies.test_chunk_learners import BEST, CHUNK, ONE_ACTION, decisions, distance


@given(st.lists(st.floats(-1.0, 1.0, width=32), min_size=1, max_size=4), st.integers(2, 7), st.integers(1, 4))
def test_zooming_into_an_action_ends_within_half_a_last_bin(entries: list[float], bins: int, levels: int) -> None:
    action = torch.tensor([entries])
    centre = torch.zeros_like(action)
    for level in range(levels):
        centre = zoom(centre, bin_of(action, centre, level, bins), level, bins)
    assert (centre - action).abs().max() <= bins**-levels + 1e-5


def test_bins_of_the_first_level_divide_the_whole_range() -> None:
    action = torch.tensor([[-1.0, -0.61, -0.59, 0.0, 0.59, 0.61, 1.0]])
    assert bin_of(action, torch.zeros_like(action), 0, 5).tolist() == [[0, 0, 1, 2, 3, 4, 4]]
    assert zoom(torch.zeros(1, 2), torch.tensor([[0, 2]]), 0, 5).tolist() == [pytest.approx([-0.8, 0.0])]


@pytest.mark.parametrize("reward", [0.0, 0.3, -0.45, 5.0, -5.0])
def test_projection_keeps_the_mean_and_clamps_it_to_the_support(reward: float) -> None:
    support = torch.linspace(-1, 1, 11)
    probabilities = torch.rand(1, 2, 3, 11, generator=torch.Generator().manual_seed(0))
    probabilities /= probabilities.sum(dim=-1, keepdim=True)
    got = losses.projected(probabilities, support, torch.tensor([reward]), torch.tensor([0.5]))
    torch.testing.assert_close(got.sum(dim=-1), torch.ones(1, 2, 3))
    wanted = (probabilities * (reward + 0.5 * support).clamp(-1, 1)).sum(dim=-1)
    torch.testing.assert_close((got * support).sum(dim=-1), wanted)


def test_projection_of_a_certain_return_is_shared_by_its_two_neighbours() -> None:
    support, certain = torch.linspace(-1, 1, 5), torch.zeros(1, 1, 1, 5)
    certain[..., 4] = 1.0  # a return of 1
    got = losses.projected(certain, support, torch.tensor([0.1]), torch.tensor([0.5]))
    assert got[0, 0, 0].tolist() == pytest.approx([0.0, 0.0, 0.0, 0.8, 0.2], abs=1e-6)
    ended = losses.projected(certain, support, torch.tensor([-0.5]), torch.tensor([0.0]))
    assert ended[0, 0, 0].tolist() == pytest.approx([0.0, 1.0, 0.0, 0.0, 0.0], abs=1e-6)


def test_losses_of_imitation_are_their_formulas() -> None:
    rng = torch.Generator().manual_seed(1)
    logits = torch.randn(2, 2, 3, 4, 5, generator=rng)
    chosen = torch.randint(0, 4, (2, 2, 3), generator=rng)
    shown, support = of_bins(logits, chosen), torch.linspace(-1, 1, 5)
    values = (logits.softmax(-1) * support).sum(-1)
    dominance = losses.dominance_loss(logits, shown)
    margin = losses.margin_loss(values, of_bins(values, chosen), 0.3)
    for row in range(2):
        for entry in range(3):
            missed, below = 0.0, 0.0
            for level in range(2):
                own = int(chosen[row, level, entry])
                cdf = np.cumsum(logits[row, level, entry].softmax(-1).numpy(), axis=-1)
                below += sum(max(0.0, cdf[own, z] - cdf[other, z]) for other in range(4) for z in range(5)) / 4
                value = values[row, level, entry].numpy()
                missed += sum(max(0.0, 0.3 - (value[own] - value[other])) for other in range(4)) / 4
            assert float(dominance[row, entry]) == pytest.approx(below / 2, abs=1e-5)
            assert float(margin[row, entry]) == pytest.approx(missed / 2, abs=1e-5)


@pytest.mark.parametrize("bins", [3, 5, 21])
def test_untrained_critic_holds_still(bins: int) -> None:
    learner = make("cqn", SPEC, bins=bins)
    rows = batch(0)
    played = learner.policy.act(
        rows.features, rows.proprio, tick=0, rng=torch.Generator().manual_seed(0), deterministic=True
    )
    assert torch.equal(played, torch.zeros_like(played))


def test_best_is_what_an_exhaustive_look_at_each_level_finds() -> None:
    torch.manual_seed(0)
    encoder = StateEncoder(SPEC.parts, SPEC.proprio_mean, SPEC.proprio_std, head=8)
    critic = CoarseToFineCritic(encoder, 2, hidden=(16,), levels=2, bins=3, atoms=7, value_range=(-1.0, 1.0))
    for layer in (critic.value, critic.advantage):
        torch.nn.init.normal_(layer.weight)
    state = torch.randn(5, encoder.size)
    found = critic.best(state)
    for row in range(5):
        centre = torch.zeros(1, 2)
        for level in range(2):
            values = critic.expected(critic.logits(state[row : row + 1], centre, level))
            centre = zoom(centre, values.argmax(dim=2), level, 3)
        torch.testing.assert_close(found[row : row + 1], centre)


def test_target_is_of_the_action_that_the_policy_prefers_valued_by_the_average() -> None:
    learner = make("cqn", SPEC, td_weight=1.0, learning_rate=1e-2)
    for number in range(20):
        learner.update(batch(number))
    rows = batch(30)
    seen = Seen(rows.features, rows.next_features, rows.next_features)
    target = cqn_target(learner.policy, learner.published, rows, seen)
    chooser, judge = learner.policy.critic, learner.published.critic
    with torch.no_grad():
        best = chooser.best(chooser.encoder(rows.next_features, rows.next_proprio))
        own = judge.best(judge.encoder(rows.next_features, rows.next_proprio))
        after = judge.expected(of_bins(*judge.along(judge.encoder(rows.next_features, rows.next_proprio), best)))
    assert not torch.equal(best, own)
    wanted = (rows.reward[:, None, None] + rows.discount[:, None, None] * after).clamp(-1, 1)
    got = (target * judge.support).sum(dim=-1)
    inside = (rows.reward.abs() < 0.02) | (rows.discount == 0)  # elsewhere a part of the distribution is clamped
    torch.testing.assert_close(got[inside], wanted[inside], atol=2e-2, rtol=0.0)


@pytest.mark.slow
def test_reward_finds_the_chunk_that_imitation_of_the_same_data_does_not() -> None:
    found = {}
    for name, settings in {
        "reward": {"imitation_weight": 0.0, "td_weight": 1.0},
        "imitation": {"td_weight": 0.0},
    }.items():
        common: dict[str, Any] = {"hidden": (64, 64), "head": 8, "chunk": CHUNK, "join": "cut", "noise": 0.0}
        config = ALGORITHMS["cqn_as"].config(
            **common, **settings, learning_rate=2e-3, target_tau=0.02, value_min=-8.0, value_max=0.5
        )
        learner = ALGORITHMS["cqn_as"].builders().learner(ONE_ACTION, config, seed=0)
        rng = np.random.default_rng(0)
        for _ in range(600):
            learner.update(decisions(rng))
        found[name] = distance(learner)
    assert found["reward"] < 0.15, (found, BEST)
    assert found["imitation"] > 0.3, found


@pytest.mark.long
def test_shown_actions_are_played_where_reward_says_nothing() -> None:
    learner = make("cqn", SPEC, td_weight=0.0, hidden=(64, 64), learning_rate=3e-3, target_tau=0.1)
    rows = batch(0)
    rows = replace(rows, expert=torch.ones_like(rows.expert))
    for _ in range(300):
        learner.update(rows)
    with torch.no_grad():
        played = learner.published.act(rows.features, rows.proprio, tick=0, rng=torch.Generator(), deterministic=True)
    assert float((played - rows.action).abs().median()) < 0.2


def test_noise_moves_the_arm_and_not_a_discrete_gripper() -> None:
    learner = make("cqn", replace(SPEC, grippers=(1,)), noise=0.5)
    rows = batch(0, replace(SPEC, grippers=(1,)))
    played = learner.published.act(
        rows.features, rows.proprio, tick=0, rng=torch.Generator().manual_seed(0), deterministic=False
    )
    assert torch.equal(played[:, 1], torch.zeros(len(played)))
    assert (played[:, [0, 2]] != 0).all()


def test_critic_can_be_asked_and_does_not_change() -> None:
    learner = make("cqn_as", SPEC, chunk=3, td_weight=1.0, learning_rate=1e-2)
    assert isinstance(learner, HasCritic)
    rows = batch(5, SPEC, 3)
    learner.update(rows)
    copy = learner.critic_snapshot()
    before = copy.values(rows, [rows.action, -rows.action])
    assert [each.shape for each in before] == [(len(rows.reward),)] * 2
    assert not torch.equal(before[0], before[1])
    assert torch.isfinite(copy.targets(rows, torch.Generator().manual_seed(0))).all()
    learner.update(rows)
    torch.testing.assert_close(copy.values(rows, [rows.action]), before[:1])
    assert not torch.equal(learner.critic_snapshot().values(rows, [rows.action])[0], before[0])


def test_bins_without_a_middle_are_refused() -> None:
    with pytest.raises(ValueError, match="bins is 4, must be odd"):
        make("cqn", SPEC, bins=4)


def test_a_step_trains_all_layers_also_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAST_BF16, "cpu", True)
    learner = make("cqn", SPEC)
    learner.update(batch(0))
    assert [name for name, weight in learner.policy.named_parameters() if weight.grad is None] == []


def test_range_of_values_without_width_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"value_min is 1.0, must be below value_max \(1.0\); lower it"):
        CQNConfig(value_min=1.0)
