"""Each loss against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from policies.rlpd import losses


def test_td_target_is_reward_plus_discounted_minimum() -> None:
    next_q = torch.tensor([[1.0, 5.0, -2.0], [3.0, 4.0, -1.0]])
    reward, discount = torch.tensor([0.5, 1.0, -1.0]), torch.tensor([0.9, 0.5, 0.9])
    target = losses.td_target(reward, discount, next_q, torch.tensor([1, 0]))
    np.testing.assert_allclose(target, [0.5 + 0.9 * 1.0, 1.0 + 0.5 * 4.0, -1.0 + 0.9 * -2.0], rtol=1e-6)


def test_td_target_never_bootstraps_where_the_discount_is_zero() -> None:
    reward, discount = torch.tensor([1.0, 0.0, -3.0]), torch.zeros(3)
    for value in (-1e30, 1e30):
        target = losses.td_target(reward, discount, torch.full((4, 3), value), torch.tensor([0, 3]))
        assert torch.equal(target, reward)


def test_td_target_takes_its_minimum_over_the_critics_it_is_told() -> None:
    next_q = torch.arange(5.0)[:, None]  # critic i says i
    for subset in ([4], [3, 1], [2, 4, 3]):
        target = losses.td_target(torch.zeros(1), torch.ones(1), next_q, torch.tensor(subset))
        assert float(target) == min(subset)


def test_td_target_is_the_mean_of_the_critics_it_is_told_where_asked() -> None:
    next_q = torch.tensor([[1.0, 5.0], [3.0, 4.0], [100.0, 100.0]])
    target = losses.td_target(
        torch.tensor([0.5, 1.0]), torch.tensor([0.9, 0.5]), next_q, torch.tensor([0, 1]), mean=True
    )
    np.testing.assert_allclose(target, [0.5 + 0.9 * 2.0, 1.0 + 0.5 * 4.5], rtol=1e-6)


def test_td_target_carries_no_gradient() -> None:
    next_q = torch.ones(2, 3, requires_grad=True)
    assert not losses.td_target(torch.zeros(3), torch.ones(3), next_q, torch.arange(2)).requires_grad


def test_critic_loss_is_the_mean_square_over_critics_and_rows() -> None:
    q, target = torch.tensor([[1.0, 2.0], [0.0, 4.0]]), torch.tensor([1.0, 1.0])
    assert float(losses.critic_loss(q, target)) == pytest.approx((0 + 1 + 1 + 9) / 4)


def test_actor_loss_weighs_entropy_and_averages_critics() -> None:
    q, log_prob = torch.tensor([[1.0, 3.0], [2.0, 5.0]]), torch.tensor([-1.0, 2.0])
    by_hand = ((0.1 * -1.0 - 3 * 1.5) + (0.1 * 2.0 - 3 * 4.0)) / 2
    assert float(losses.actor_loss(q, log_prob, torch.tensor(0.1), q_weight=3.0)) == pytest.approx(by_hand)


def test_temperature_loss_is_softplus_times_surplus_entropy() -> None:
    raw, log_prob = torch.tensor(0.3), torch.tensor([1.0, -2.0])
    by_hand = -math.log1p(math.exp(0.3)) * ((1.0 - 1.5) + (-2.0 - 1.5)) / 2
    assert float(losses.temperature_loss(raw, log_prob, -1.5)) == pytest.approx(by_hand)


@pytest.mark.parametrize(("entropy", "direction"), [(-3.0, 1), (1.0, -1)])
def test_temperature_rises_while_entropy_is_below_its_target(entropy: float, direction: int) -> None:
    raw = torch.tensor(0.3, requires_grad=True)
    losses.temperature_loss(raw, torch.full((4,), -entropy), target_entropy=-1.5).backward()
    assert raw.grad is not None
    assert -direction * float(raw.grad) > 0


def test_correction_loss_by_hand() -> None:
    q, q_proposed = torch.tensor([[1.0, 2.0, 0.0], [0.0, 2.0, 0.0]]), torch.tensor([[0.9, 0.0, 0.0], [0.5, 0.0, 0.0]])
    distance = torch.tensor([2.0, 1.0, 0.0])  # the last is no correction
    loss = losses.correction_loss(q, q_proposed, distance, torch.tensor(2.0), margin=0.25)
    assert loss.item() == pytest.approx((0.4**2 + 1.0**2) / 2 / 2)  # margins 0.5 and 0.25, the second is met


def test_correction_loss_without_corrections_is_nothing() -> None:
    q = torch.ones(2, 3, requires_grad=True)
    loss = losses.correction_loss(q, torch.ones(2, 3), torch.zeros(3), torch.tensor(1.0), margin=0.25)
    loss.backward()
    assert loss.item() == 0
    assert q.grad is not None
    assert not q.grad.any()


def test_temperature_loss_leaves_the_policy_alone() -> None:
    log_prob = torch.ones(4, requires_grad=True)
    losses.temperature_loss(torch.tensor(0.0, requires_grad=True), log_prob, -1.0).backward()
    assert log_prob.grad is None


def test_calibrated_gap_is_the_log_mean_of_the_others_over_the_executed() -> None:
    q = torch.tensor([[1.0]])
    uniform, policy = torch.tensor([[[2.0]]]), torch.tensor([[[0.0]]])
    gap = losses.calibrated_gap(
        q, uniform, policy, log_uniform=-1.0, log_policy=torch.tensor([[0.5]]), mc_return=torch.tensor([0.7])
    )
    by_hand = math.log((math.exp(2.0 + 1.0) + math.exp(0.7 - 0.5)) / 2) - 1.0
    assert float(gap) == pytest.approx(by_hand, rel=1e-5)


def test_returns_hold_up_the_policys_actions_and_nothing_else() -> None:
    q, uniform = torch.zeros(1, 2), torch.full((1, 1, 2), -5.0)
    policy = torch.full((1, 1, 2), -3.0, requires_grad=True)
    losses.calibrated_gap(
        q, uniform, policy, log_uniform=0.0, log_policy=torch.zeros(1, 2), mc_return=torch.tensor([1.0, torch.nan])
    ).backward()
    assert policy.grad is not None
    assert policy.grad[0, 0, 0] == 0  # valued below what was achieved: not pushed down any further
    assert policy.grad[0, 0, 1] > 0  # no return known: pushed down
