"""The discrete gripper critic: penalty and mask from config to loss, its target, and what it ends up doing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from policies.learner import TensorBatch
from policies.rlpd import losses
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from tests.policies.small_task import SPEC, flat, random_batch

pytestmark = pytest.mark.long

GRIPPING = replace(SPEC, grippers=(2,))
CLOSE, STAY, OPEN = 0, 1, 2


def learner(**settings: Any) -> RLPDLearner:
    config = RLPDConfig(**{"hidden": (16,), "head": 8, "learning_rate": 3e-3, "target_tau": 0.05} | settings)
    return RLPDLearner(GRIPPING, config, seed=0)


def batch(seed: int = 0) -> TensorBatch:
    made = random_batch(seed, rows=64)
    made.action[:, 2] = torch.tensor([-1.0, 0.0, 1.0, 0.0]).repeat(16)
    return replace(made, gripper_change=(made.action[:, 2:] != 0))


def test_target_is_that_of_the_arms_with_the_penalty_on_changes() -> None:
    got = losses.gripper_target(torch.tensor([1.5, 0.5]), torch.tensor([[True], [False]]), penalty=0.02)
    torch.testing.assert_close(got, torch.tensor([[1.48], [0.5]]))


def test_the_margin_does_not_feed_on_itself_where_the_policy_did_something_else_for_long() -> None:
    """An operator opens closed fingers, 4 rows, worth .3; the policy kept them closed for long, 32 rows."""
    made, rows = learner(gripper_margin=0.05, discount=0.98, hidden=(64, 64), head=16, bf16=False), batch()
    closed = torch.tensor([1.0] * 4 + [0.0] * 28 + [1.0] * 32)
    for state in (rows.features, rows.next_features):
        state.zero_()
        state[:, 0] = closed
    opened = torch.arange(64) < 4
    shown = torch.arange(64) < 32
    rows.expert[:], rows.human[:] = shown, shown[:, None]
    rows.proprio.zero_()
    rows.next_proprio.zero_()
    rows.action.zero_()
    rows.action[:, 2] = opened.float()
    rows.gripper_change[:] = opened[:, None]
    rows.reward.zero_()
    rows.reward[:32] = 0.3
    rows.discount.fill_(0.98)
    rows.discount[:32] = 0.0
    for _ in range(1500):
        made.update(rows)
    assert made.policy.gripper is not None
    with torch.no_grad():
        value = made.policy.gripper(rows.features[:1], rows.proprio[:1])[0, 0]
    assert value.argmax() == OPEN
    assert value.max() < 0.5, "worth .3, and the margin"


def test_what_was_executed_is_learned_from_whoever_did_it() -> None:
    learned = []
    for shown in (True, False):
        made, rows = learner(gripper_margin=0.0), batch()
        rows.label[:32, 2] = shown
        made.update(rows)
        assert made.policy.gripper is not None
        learned.append(flat(made.policy.gripper))
    assert torch.equal(*learned)
    chosen, target = torch.ones(3, 1, dtype=torch.long), torch.tensor([[1.0], [2.0], [3.0]])
    loss = losses.gripper_loss(torch.zeros(3, 1, 3), chosen, target)
    assert float(loss) == pytest.approx((1 + 4 + 9) / 3)


def test_the_margin_is_missed_by_what_the_best_other_choice_lacks_to_it() -> None:
    q = torch.tensor([[[0.0, 0.5, 0.48]], [[0.0, 0.5, 0.0]], [[9.0, 0.0, 0.0]]])
    chosen = torch.tensor([[STAY], [STAY], [STAY]])
    weight = torch.tensor([[2.0], [1.0], [0.0]])
    loss = losses.gripper_margin_loss(q, chosen, weight, torch.tensor(2), margin=0.05)
    assert float(loss) == pytest.approx(2.0 * (0.48 + 0.05 - 0.5) / 2)


def test_only_labelled_entries_of_experts_have_a_margin() -> None:
    moved = []
    for margin in (0.0, 0.5):
        for entries in (slice(0, 0), slice(0, 4)):
            made, rows = learner(gripper_margin=margin), batch()
            rows.label[:, 2] = False
            rows.label[entries, 2] = True
            rows.label[8:, 2] = True  # not an expert's
            made.update(rows)
            assert made.policy.gripper is not None
            moved.append(flat(made.policy.gripper))
    assert torch.equal(moved[0], moved[1])
    assert torch.equal(moved[0], moved[2])
    assert not torch.equal(moved[0], moved[3])


def test_the_margin_teaches_the_operators_choice_where_nothing_pays() -> None:
    made, rows = learner(gripper_margin=0.05), batch()
    rows.discount.zero_()
    rows.reward.zero_()
    rows.features[:8], rows.action[:8, 2] = 2.0, 1.0
    for _ in range(200):
        made.update(rows)
    rng = torch.Generator().manual_seed(0)
    action = made.policy.act(rows.features[:8], rows.proprio[:8], tick=0, rng=rng, deterministic=True)
    assert (action[:, 2] == 1.0).all()


def test_penalty_from_the_settings_reaches_what_is_learned() -> None:
    learned = []
    for penalty in (0.0, 0.5):
        made = learner(gripper_penalty=penalty)
        for number in range(5):
            made.update(batch(number))
        assert made.policy.gripper is not None
        learned.append(flat(made.policy.gripper))
    assert not torch.equal(*learned)


def test_gripper_learns_to_close_where_only_closing_pays() -> None:
    made, rows = learner(gripper_penalty=0.02, gripper_margin=0.0), batch()
    rows.discount.zero_()
    rows.reward.copy_((rows.action[:, 2] < -0.5).float())
    for _ in range(300):
        made.update(rows)
    rng = torch.Generator().manual_seed(0)
    action = made.policy.act(rows.features, rows.proprio, tick=0, rng=rng, deterministic=False)
    assert (action[:, 2] == -1.0).float().mean() > 0.95


def test_gripper_stays_where_changes_cost_and_nothing_pays() -> None:
    made, rows = learner(gripper_penalty=0.5, gripper_margin=0.0), batch()
    rows.discount.zero_()
    rows.reward.zero_()
    for _ in range(300):
        made.update(rows)
    rng = torch.Generator().manual_seed(0)
    action = made.policy.act(rows.features, rows.proprio, tick=0, rng=rng, deterministic=True)
    assert (action[:, 2] == 0.0).float().mean() > 0.95


def test_gripper_entries_never_reach_the_critic_of_the_arms() -> None:
    changed = []
    for entry in (-1.0, 1.0):
        made, rows = learner(critic_actor_ratio=20), batch()
        rows.action[:, 2] = entry
        made.update(rows)
        changed.append(flat(made.critic))
    assert torch.equal(*changed)
