"""What sets each neighbour of RLPD apart, against numbers worked out by hand or the effect that its paper names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from policies.cal_ql.config import CalQLConfig
from policies.cal_ql.learner import make_learner as make_cal_ql
from policies.hg_dagger.config import HGDAggerConfig
from policies.hg_dagger.learner import make_learner as make_hg_dagger
from policies.jump_start.config import JumpStartConfig
from policies.jump_start.learner import JumpStartLearner
from policies.jump_start.policy import JumpStartPolicy
from policies.jump_start.retreat import Retreat
from policies.residual.config import ResidualConfig
from policies.residual.learner import ResidualLearner
from tests.policies.small_task import SPEC, flat, random_batch

pytestmark = pytest.mark.long

SMALL: dict[str, Any] = {"head": 8, "hidden": (16,), "learning_rate": 3e-3}


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# ------------------------------------------------------------------------------------------------ Cal-QL
def test_conservatism_keeps_other_actions_below_the_executed_ones() -> None:
    gaps = []
    for weight in (0.0, 5.0):
        learner = make_cal_ql(
            SPEC, CalQLConfig(**SMALL, cql_weight_offline=weight, pretrain_updates=10_000, target_tau=0.05), seed=0
        )
        batch = random_batch(0, rows=64)
        for _ in range(150):
            learner.update(batch)
        other = 2 * torch.rand(batch.action.shape, generator=rng()) - 1
        q = learner.critic(batch.features, batch.proprio, batch.action).mean()
        gaps.append(float((learner.critic(batch.features, batch.proprio, other).mean() - q).detach()))
    assert gaps[1] < gaps[0] - 0.2


def test_conservatism_eases_once_online_training_begins() -> None:
    moved = []
    for online in (0.0, 5.0):
        learner = make_cal_ql(SPEC, CalQLConfig(**SMALL, pretrain_updates=2, cql_weight=online), seed=0)
        learner.update(random_batch(0))
        learner.update(random_batch(1))
        offline = flat(learner.critic)
        learner.update(random_batch(2))
        moved.append((offline, flat(learner.critic)))
    assert torch.equal(moved[0][0], moved[1][0])
    assert not torch.equal(moved[0][1], moved[1][1])


# ------------------------------------------------------------------------------------------------ residual
def residual(**settings: Any) -> ResidualLearner:
    settings = {"base_updates": 150, "pretrain_updates": 200, "bc_weight": 0.0} | settings
    return ResidualLearner(SPEC, ResidualConfig(**SMALL, **settings), seed=0)


def test_the_base_is_not_cloned_from_entries_that_a_person_has_not_shown() -> None:
    losses = []
    for shift in (0.0, 0.7):
        learner, batch = residual(), random_batch(0)
        batch.label[:, 1] = False
        batch.action[:, 1] += shift
        losses.append(float(learner.update(batch)["base_loss"]))
    assert losses[0] == losses[1]


def test_base_is_cloned_first_and_frozen_then() -> None:
    learner, batch = residual(), random_batch(0)
    losses = [float(learner.update(batch)["base_loss"]) for _ in range(150)]
    assert losses[-1] < 0.3 * losses[0]
    base, correction = flat(learner._policy.base), flat(learner._policy.actor)
    for _ in range(4):
        assert "base_loss" not in learner.update(batch)
    assert torch.equal(flat(learner._policy.base), base)
    assert not torch.equal(flat(learner._policy.actor), correction)
    published = learner._rlpd.published
    assert torch.equal(flat(published.base), base)  # type: ignore[arg-type]


def test_correction_goes_as_far_as_its_scale() -> None:
    learner, batch = residual(residual_scale=0.25), random_batch(0, rows=64)
    policy = learner._policy
    base = policy.base.deterministic(batch.features, batch.proprio)
    action, _, _ = policy.sample(batch.features, batch.proprio, torch.randn(batch.action.shape, generator=rng()))
    assert ((action - base).abs() <= 0.25 + 1e-6).all()
    assert (action.abs() <= 1).all()


def test_critics_see_the_whole_action() -> None:
    learner, batch = residual(base_updates=1), random_batch(0)
    seen: list[torch.Tensor] = []
    learner.update(batch)
    learner._rlpd.critic.on_state = lambda state, action: (  # type: ignore[method-assign]
        seen.append(action.detach()),
        type(learner._rlpd.critic).on_state(learner._rlpd.critic, state, action),
    )[1]
    learner.update(batch)
    assert torch.equal(seen[0], batch.action)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"base_updates": 500}, "base_updates is 500, must be at most"),
        ({"chunk": 2}, "chunk is 2, must be 1"),
        ({"cql_weight": 0.2}, "cql_weight is 0.2, must be 0"),
    ],
)
def test_residual_settings_that_contradict_each_other_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        residual(**wrong)


# ------------------------------------------------------------------------------------------------ jump-start
def test_guide_retreats_a_stage_whenever_success_holds() -> None:
    retreat = Retreat(steps=30, stages=3, window=2, tolerance=0.1)
    assert retreat.guide_steps == 30
    seen = []
    for alone in (True, True, True, False, True, True, False, False, True, True):
        retreat.episode_ended(alone)
        seen.append(retreat.guide_steps)
    assert seen == [30, 20, 20, 20, 20, 10, 10, 10, 10, 0]


def test_guide_does_not_retreat_from_failures_beyond_the_first_stage() -> None:
    retreat = Retreat(steps=30, stages=3, window=2, tolerance=0.1)
    seen = []
    for alone in 8 * [False] + 2 * [True]:
        retreat.episode_ended(alone)
        seen.append(retreat.guide_steps)
    assert seen == [30] + 7 * [20] + 2 * [10]  # one success of two is more than the first stage had


def test_guide_stays_away_once_it_is_gone() -> None:
    retreat = Retreat(steps=5, stages=1, window=1, tolerance=0.0)
    retreat.episode_ended(True)
    retreat.episode_ended(False)
    assert retreat.guide_steps == 0


def test_guide_acts_first_and_the_learned_policy_then() -> None:
    policy = JumpStartPolicy(SPEC, JumpStartConfig(**SMALL, guide_steps=4))
    batch = random_batch(0)

    def act(tick: int) -> torch.Tensor:
        return policy.act(batch.features, batch.proprio, tick=tick, rng=rng(), deterministic=True)

    guide = policy.guide.actor.deterministic(batch.features, batch.proprio)
    learned = policy.rlpd.actor.deterministic(batch.features, batch.proprio)
    assert torch.equal(act(3), guide)
    assert torch.equal(act(4), learned)


def test_published_guide_steps_follow_how_episodes_end() -> None:
    config = JumpStartConfig(**SMALL, guide_updates=1, pretrain_updates=1, guide_steps=10, stages=2, window=1)
    learner = JumpStartLearner(SPEC, config, seed=0)
    learner.episode_ended(success=True, alone=False)
    helped = float(learner.actor_tensors()["guide_steps"])
    learner.episode_ended(success=True, alone=True)
    alone = float(learner.actor_tensors()["guide_steps"])
    assert (helped, alone) == (5.0, 0.0)  # the first stage has nothing to be held against


# ------------------------------------------------------------------------------------------------ both
@pytest.mark.parametrize("name", ["residual", "jump_start"])
def test_imitation_fades_from_the_first_update_of_online_training_on(name: str) -> None:
    fades: dict[str, Any] = {"bc_weight": 8.0, "bc_half_life": 2, "pretrain_updates": 5}
    learner = (
        residual(**fades, base_updates=3)
        if name == "residual"
        else JumpStartLearner(SPEC, JumpStartConfig(**SMALL, **fades, guide_updates=3), seed=0)
    )
    weights = []
    for number in range(9):
        weights.append(float(learner._rlpd.draw_inputs(16, with_actor=True).bc_weight))
        learner.update(random_batch(number))
    assert weights[:6] == [8.0] * 6
    assert weights[7] == 4.0


# ------------------------------------------------------------------------------------------------ HG-DAgger
def test_dagger_draws_from_people_alone() -> None:
    assert HGDAggerConfig().sampling.expert_fraction == 1.0


def test_rows_of_the_robot_teach_dagger_nothing() -> None:
    moved = []
    for shift in (0.0, 0.5):
        learner = make_hg_dagger(SPEC, HGDAggerConfig(head=8, hidden=(16,)), seed=0)
        batch = random_batch(0, expert_rows=8)
        batch = replace(batch, action=torch.cat([batch.action[:8], batch.action[8:] + shift]))
        learner.update(batch)
        moved.append(flat(learner.policy))
    assert torch.equal(*moved)
