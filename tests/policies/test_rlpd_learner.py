"""The RLPD learner: what each step moves, what each setting does, and that it resumes exactly."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import policies.rlpd.config as config_module
import policies.rlpd.learner as module
import policies.rlpd.policy as policy_module
from policies.learner import TensorBatch
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.learner import preparation, settings, update_loop
from tests.policies.small_task import SPEC, flat, random_batch, through_a_file

BASE: dict[str, Any] = {
    "critics": 3,
    "critic_subset": 2,
    "critic_actor_ratio": 2,
    "learning_rate": 1e-3,
    "target_tau": 0.05,
    "initial_temperature": 0.1,
    "std_min": 0.02,
    "std_max": 0.5,
    "hidden": (16, 16),
    "head": 8,
    "bc_weight": 1.0,
}
IN_THE_LEARNER: dict[str, Any] = {
    "critics": 4,
    "critic_subset": 1,
    "critic_actor_ratio": 3,
    "learning_rate": 2e-3,
    "target_tau": 0.1,
    "actor_tau": 0.5,
    "initial_temperature": 0.2,
    "target_entropy_per_action": 0.7,
    "std_min": 0.3,
    "std_max": 0.05,
    "hidden": (16,),
    "head": 16,
    "layers": "rlpd",
    "subset_mean": True,
    "q_weight": 2.0,
    "bc_weight": 2.0,
    "cql_weight": 0.5,
    "correction_margin": 0.5,
    "bc_half_life": 2,
}
"""Settings that change an update, each with another value than `BASE`."""
WITH_THEIR_OWN_TESTS = {
    *("gripper_penalty", "gripper_margin", "chunk", "cql_actions", "cql_stride", "bc_weight_end", "smooth_ticks"),
    "bf16",
}
AROUND_IT = {"batch_size", "utd", "expert_fraction", "discount", "n_step", "shaping_weight", "pretrain_updates"}
"""Settings of what is around the learner: sampling, reward, governor."""


def learner(seed: int = 0, **settings: Any) -> RLPDLearner:
    return RLPDLearner(SPEC, RLPDConfig(**BASE | settings), seed=seed)


def trained(updates: int, **settings: Any) -> RLPDLearner:
    made = learner(**settings)
    for number in range(updates):
        made.update(random_batch(number))
    return made


def update_actor(made: RLPDLearner, batch: TensorBatch) -> None:
    inputs = made.draw_inputs(len(batch.reward), with_actor=True)
    assert inputs.noise is not None
    made._update_actor(batch, batch.features, inputs.noise, inputs.bc_weight)


def learned_by(made: RLPDLearner) -> list[torch.Tensor]:
    """All but the target network, which differs with its own rate whether or not anything is learned from it."""
    return [flat(made.policy), flat(made.published), flat(made.critic), made.temperature[None]]


def state_of(made: RLPDLearner) -> list[torch.Tensor]:
    return [*learned_by(made), flat(made.target)]


def test_critic_update_moves_neither_actor_nor_temperature() -> None:
    made = learner(critic_actor_ratio=20)
    actor, critic, temperature = flat(made.policy), flat(made.critic), made.temperature
    made.update(random_batch(0))
    assert torch.equal(flat(made.policy), actor)
    assert torch.equal(made.temperature, temperature)
    assert not torch.equal(flat(made.critic), critic)


def test_critics_that_are_updated_alone_leave_the_policy_and_move_as_in_any_update() -> None:
    alone, beside = (learner(critic_actor_ratio=1) for _ in range(2))
    policy, published = flat(alone.policy), flat(alone.published)
    alone.update_critics(random_batch(0))
    beside.update(random_batch(0))
    assert alone.updates == 1
    assert torch.equal(flat(alone.policy), policy)
    assert torch.equal(flat(alone.published), published)
    assert torch.equal(flat(alone.critic), flat(beside.critic))
    assert torch.equal(flat(alone.target), flat(beside.target))


def test_actor_update_does_not_move_the_critic() -> None:
    without, with_actor = learner(critic_actor_ratio=20), learner(critic_actor_ratio=1)
    without.update(random_batch(0))
    with_actor.update(random_batch(0))
    assert torch.equal(flat(without.critic), flat(with_actor.critic))
    assert torch.equal(flat(without.target), flat(with_actor.target))
    assert not torch.equal(flat(without.policy), flat(with_actor.policy))


def test_critic_update_gives_a_gradient_to_every_critic_parameter_and_to_nothing_else() -> None:
    made = learner(critic_actor_ratio=20)
    made.update(random_batch(0))
    assert all(p.grad is not None and (p.grad != 0).any() for p in made.critic.parameters())
    assert all(p.grad is None for p in (*made.policy.parameters(), *made.target.parameters(), made.log_temperature))


def test_actor_update_gives_a_gradient_to_every_actor_parameter() -> None:
    made = learner(critic_actor_ratio=1)
    made.update(random_batch(0))
    assert all(p.grad is not None and (p.grad != 0).any() for p in made.policy.parameters())
    assert made.log_temperature.grad is not None
    assert all(p.requires_grad for p in made.critic.parameters())
    assert not any(p.requires_grad for p in made.target.parameters())


def test_actor_is_updated_once_in_so_many_updates() -> None:
    made = learner(critic_actor_ratio=3)
    acted = ["actor_loss" in made.update(random_batch(number)) for number in range(9)]
    assert acted == [False, False, True] * 3


def test_target_follows_the_critic_by_its_share() -> None:
    made = learner(target_tau=0.25)
    before = flat(made.target)
    made.update(random_batch(0))
    torch.testing.assert_close(flat(made.target), before + 0.25 * (flat(made.critic) - before))


@pytest.mark.long
def test_critic_update_is_gradient_descent_on_the_td_error() -> None:
    made = learner(critic_actor_ratio=20)
    batch = random_batch(0)
    batch.discount.zero_()  # a fixed target: the reward
    errors = [float(made.update(batch)["critic_loss"]) for _ in range(200)]
    assert errors[-1] < 0.1 * errors[0]


@pytest.mark.parametrize(("count", "stride"), [(1, 1), (3, 4)])
def test_contrast_is_the_calibrated_gap_of_every_so_many_rows(count: int, stride: int) -> None:
    made, batch = learner(cql_weight=0.5, cql_actions=count, cql_stride=stride), random_batch(0)
    batch.mc_return[::3] = 0.4
    inputs = made.draw_inputs(16, with_actor=False)
    assert inputs.uniform is not None
    assert inputs.policy_noise is not None
    assert -1 <= inputs.uniform.min() < -0.5
    assert 0.5 < inputs.uniform.max() <= 1
    with torch.no_grad():
        q, contrasts = made._values(batch, batch.features, inputs)
        weight, gap = contrasts["cql_gap"]
        assert weight == 0.5
        gaps = []
        for row in range(0, 16, stride):
            place = [row // stride + copy * len(range(0, 16, stride)) for copy in range(count)]
            seen, known = batch.features[row].expand(count, -1), batch.proprio[row].expand(count, -1)
            own, density, _ = made.policy.sample(seen, known, inputs.policy_noise[place])
            uniform_q = made.critic(seen, known, inputs.uniform[place]) + SPEC.actions * math.log(2)
            own_q = made.critic(seen, known, own).clamp_min(batch.mc_return[row].nan_to_num(-math.inf)) - density
            others = torch.cat([uniform_q, own_q], dim=1).exp().mean(dim=1).log()
            gaps.append(others - made.critic(seen[:1], known[:1], batch.action[row][None])[:, 0])
    torch.testing.assert_close(q, made.critic(batch.features, batch.proprio, batch.action), rtol=0.02, atol=0.02)
    torch.testing.assert_close(gap, torch.stack(gaps).mean(), rtol=0.02, atol=0.02)


@pytest.mark.long
def test_contrast_raises_executed_actions_above_all_others() -> None:
    gaps = []
    for weight in (0.0, 1.0):
        made, batch = learner(cql_weight=weight), random_batch(0, rows=64)
        for _ in range(100):
            made.update(batch)
        other = torch.rand(batch.action.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
        with torch.no_grad():
            q, q_other = (made.critic(batch.features, batch.proprio, a).mean() for a in (batch.action, other))
        gaps.append(float(q - q_other))
    assert gaps[1] > gaps[0] + 0.2


def test_correction_loss_is_what_the_margin_misses_beside_the_contrast_too() -> None:
    batch = random_batch(0)
    for beside in ({}, {"cql_weight": 0.5}):
        made = learner(correction_margin=0.3, **beside)
        with torch.no_grad():
            q, contrasts = made._values(batch, batch.features, made.draw_inputs(16, with_actor=False))
            weight, missed = contrasts["correction_loss"]
            found = []
            for row in range(4):  # of 8 expert rows, see `random_batch`
                asked = batch.features[row][None], batch.proprio[row][None]
                better, worse = (made.critic(*asked, a[row][None])[:, 0] for a in (batch.action, batch.proposed))
                asked_for = 0.3 * float((batch.action[row] - batch.proposed[row]).norm())
                found.append((asked_for - (better - worse)).clamp_min(0).square().mean())
        assert weight == 1.0
        torch.testing.assert_close(missed, torch.stack(found).mean(), rtol=0.02, atol=0.005)
        torch.testing.assert_close(q, made.critic(batch.features, batch.proprio, batch.action), rtol=0.02, atol=0.02)


@pytest.mark.long
def test_corrections_are_valued_above_what_they_corrected() -> None:
    gaps = []
    for margin in (0.0, 0.5):
        made, batch = learner(correction_margin=margin), random_batch(0, rows=64, expert_rows=32)
        for _ in range(100):
            made.update(batch)
        with torch.no_grad():
            q, q_proposed = (
                made.critic(batch.features, batch.proprio, a).mean(dim=0) for a in (batch.action, batch.proposed)
            )
        gaps.append((q - q_proposed)[:16])
    assert gaps[1].mean() > gaps[0].mean() + 0.2
    assert (gaps[1] > 0).all()


def test_imitation_fades_by_halves_from_the_first_online_update_to_its_end() -> None:
    made, weights = learner(bc_weight=8.0, bc_half_life=3, bc_weight_end=1.5, pretrain_updates=2), []
    for number in range(12):
        weights.append(float(made.draw_inputs(16, with_actor=True).bc_weight))
        made.update(random_batch(number))
    assert weights[:3] == [8.0, 8.0, 8.0]
    assert weights[5] == pytest.approx(4.0)
    assert weights[8] == pytest.approx(2.0)
    assert weights[10:] == [1.5, 1.5]
    assert made.config.bc_weight == 8.0


def test_without_weight_the_critics_leave_the_actor_alone() -> None:
    moved = []
    for seed in (0, 1):
        made, critics = learner(q_weight=0.0, critic_actor_ratio=1), learner(seed=seed).critic
        made.critic.load_state_dict(critics.state_dict())
        update_actor(made, random_batch(0))
        moved.append(flat(made.policy))
    assert torch.equal(*moved)


def test_gradients_of_both_terms_of_the_actors_loss_are_told_by_row() -> None:
    made, batch = learner(q_weight=3.0, bc_weight=2.0), random_batch(0, rows=16, expert_rows=4)
    inputs = made.draw_inputs(16, with_actor=True)
    assert inputs.noise is not None
    with torch.no_grad():
        action, _, mean = made.policy.sample(batch.features, batch.proprio, inputs.noise)
    action.requires_grad_()
    made.critic(batch.features, batch.proprio, action).mean(dim=0).sum().backward()
    assert action.grad is not None
    told = made._update_actor(batch, batch.features, inputs.noise, inputs.bc_weight)
    torch.testing.assert_close(told["q_gradient"], 3.0 * action.grad.norm(dim=1).mean(), rtol=1e-2, atol=0)
    slope = ((mean - batch.action) / 0.2).clamp(-1, 1)[:4].norm(dim=1)  # of the Huber distance
    torch.testing.assert_close(told["imitation_gradient"], 2.0 * slope.mean(), rtol=1e-2, atol=0)


def test_actions_of_non_expert_rows_are_not_imitated() -> None:
    moved = []
    for shift in (0.0, 0.7):
        made, batch = learner(critic_actor_ratio=1), random_batch(0, expert_rows=0)
        made.update(batch)  # the critic step, which does read actions, is the same for both
        batch.action.add_(shift)
        update_actor(made, batch)
        moved.append(flat(made.policy))
    assert torch.equal(*moved)


def test_ticks_of_a_chunk_that_no_person_executed_are_not_imitated() -> None:
    moved = []
    for shift in (0.0, 0.7):
        made, batch = learner(critic_actor_ratio=1, chunk=2), random_batch(0, expert_rows=8)
        action, human = batch.action.repeat(1, 2), torch.ones(16, 2, dtype=torch.bool)
        human[:4, 1] = False
        batch = replace(batch, action=action, label=torch.ones(16, 2 * SPEC.actions, dtype=torch.bool), human=human)
        made.update(batch)  # the critic step, which does read actions, is the same for both
        action[:4, SPEC.actions :] += shift  # the robot's
        update_actor(made, batch)
        moved.append(flat(made.policy))
        action[4:8, SPEC.actions :] += shift  # an operator's
        update_actor(made, batch)
        moved.append(flat(made.policy))
    assert torch.equal(moved[0], moved[2])
    assert not torch.equal(moved[1], moved[3])


def test_entries_that_a_person_has_not_shown_are_not_imitated() -> None:
    moved = []
    for shift in (0.0, 0.7):
        made, batch = learner(critic_actor_ratio=1), random_batch(0, expert_rows=8)
        batch.label[:4, 1] = False  # of an arm that was not in a hand
        made.update(batch)  # the critic step, which does read actions, is the same for both
        batch.action[:4, 1] += shift
        update_actor(made, batch)
        moved.append(flat(made.policy))
        batch.action[:4, 0] += shift
        update_actor(made, batch)
        moved.append(flat(made.policy))
    assert torch.equal(moved[0], moved[2])
    assert not torch.equal(moved[1], moved[3])


def test_restored_learner_goes_on_with_identical_losses() -> None:
    first = trained(5)
    other = learner(seed=9)
    other.load_state_dict(through_a_file(first.state_dict()))
    assert other.updates == first.updates == 5
    for number in range(5, 12):
        expected, got = first.update(random_batch(number)), other.update(random_batch(number))
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[name], got[name]) for name in expected)
    assert all(torch.equal(a, b) for a, b in zip(state_of(first), state_of(other), strict=True))


def test_seed_decides_everything() -> None:
    same = [state_of(trained(4, seed=3)) for _ in range(2)]
    other = state_of(trained(4, seed=4))
    assert all(torch.equal(a, b) for a, b in zip(*same, strict=True))
    assert not torch.equal(same[0][0], other[0])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "bc_weight" else pytest.mark.long) for name in IN_THE_LEARNER]
)
def test_every_setting_of_the_learner_changes_what_is_learned(name: str) -> None:
    base, changed = trained(8), trained(8, **{name: IN_THE_LEARNER[name]})
    pairs = zip(learned_by(base), learned_by(changed), strict=True)
    assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in pairs)


def test_every_setting_is_the_learners_or_is_read_around_it() -> None:
    assert set(RLPDConfig.model_fields) == set(IN_THE_LEARNER) | WITH_THEIR_OWN_TESTS | AROUND_IT
    read = set()
    for source in (module, policy_module, config_module, preparation, settings, update_loop):
        for node in ast.walk(ast.parse(Path(str(source.__file__)).read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith(("config", "self")):
                read.add(node.attr)
    assert read >= AROUND_IT


def test_acting_parameters_are_the_actors_weights_in_half_precision_and_its_constants_in_full() -> None:
    made = trained(2)
    tensors = made.actor_tensors()
    assert tensors.keys() == made.policy.state_dict().keys()
    weights = dict(made.policy.named_parameters())
    for name, array in tensors.items():
        assert array.dtype == (np.float16 if name in weights else np.float32)


@pytest.mark.parametrize(
    "wrong", [{"batch_sise": 64}, {"discount": 1.0}, {"critics": "2"}, {"target_tau": 0.0}, {"std_max": 0.01}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RLPDConfig(**wrong)


def test_a_snapshot_has_the_target_that_is_trained_on() -> None:
    for mean in (False, True):
        made = trained(3, subset_mean=mean, critic_subset=3)
        batch = random_batch(9)
        targets = made.critic_snapshot().targets(batch, torch.Generator().manual_seed(1))
        noise = torch.randn(len(batch.reward), made.layout.arm_size, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            action, _, _ = made.policy.sample(batch.next_features, batch.next_proprio, noise)
            each = made.target(batch.next_features, batch.next_proprio, action)
        chosen = each.mean(dim=0) if mean else each.min(dim=0).values
        torch.testing.assert_close(targets, batch.reward + batch.discount * chosen)


@pytest.mark.parametrize("head", [1, 7, -1])
def test_a_head_is_wide_enough_or_none(head: int) -> None:
    with pytest.raises(ValueError, match="head"):
        RLPDConfig(head=head)
