"""RLPD learns a task of an environment in lockstep, from reward and not from imitation."""

from __future__ import annotations

import copy
import dataclasses

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from policies.rlpd.config import RLPDConfig
from policies.rlpd.policy import RLPDPolicy
from robot_stack.replay.hindsight import Hindsight
from robot_stack.suites.gymnasium_cell import GymnasiumCell
from robot_stack.suites.training import Budget, Evaluated, LockstepTraining, Progress
from robot_stack.types.errors import RobotError, SpecError
from tests.suites.point_mass import LONGEST, REACHED_M, PointMass, straight

pytestmark = pytest.mark.long

CONFIG = RLPDConfig(
    batch_size=64,
    utd=1.0,
    bc_weight=0.0,
    hidden=(64, 64),
    head=32,
    learning_rate=1e-3,
    discount=0.9,
    critic_actor_ratio=1,
    target_tau=0.02,
    actor_tau=0.1,
    initial_temperature=0.01,
    target_entropy_per_action=-0.5,
    std_min=0.05,
    std_max=1.0,
)

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


def train(
    config: RLPDConfig, *, hindsight: Hindsight | None = None, device: str = "cpu", **budget: int
) -> list[Evaluated]:
    told = {"demos": 5, "episode_steps": LONGEST, "eval_every": 10_000} | budget
    cell = GymnasiumCell(gymnasium.make("tests/PointMass-v0"), expert=straight)
    return LockstepTraining(cell, config, Budget(**told), seed=0, hindsight=hindsight, device=device).run()


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_success_rises_from_reward_alone(device: str) -> None:
    before, after = train(CONFIG, online_steps=2200, eval_episodes=50, device=device)
    assert (before.online_steps, before.updates) == (0, 0)
    assert (after.online_steps, after.updates) == (2200, 2200)
    assert before.successes < 0.3 * before.episodes
    assert after.successes > 0.9 * after.episodes


def test_training_is_repeated_exactly_by_its_seed() -> None:
    small = CONFIG.model_copy(update={"batch_size": 16})
    runs = [train(small, online_steps=60, eval_every=20, eval_episodes=3) for _ in range(2)]
    made = [[(each.online_steps, each.updates, each.successes) for each in run] for run in runs]
    assert made[0] == made[1]
    assert made[0][-1][:2] == (60, 60)
    assert len(made[0]) >= 3


def test_a_policy_that_was_kept_has_the_successes_that_its_training_counted() -> None:
    cell = GymnasiumCell(gymnasium.make("tests/PointMass-v0"), expert=straight)
    budget = Budget(demos=5, episode_steps=LONGEST, online_steps=400, eval_every=100, eval_episodes=20)
    kept: list[tuple[Progress, nn.Module]] = []
    training = LockstepTraining(cell, CONFIG, budget, seed=0)
    found = training.run(keep=lambda progress, network: kept.append((progress, copy.deepcopy(network))))
    assert [progress.online_steps for progress, _ in kept] == [each.online_steps for each in found]
    assert [progress.updates for progress, _ in kept] == [each.updates for each in found]
    later = LockstepTraining(cell, CONFIG, budget, seed=0)
    assert [later.evaluate(network) for _, network in kept] == [each.successes for each in found]
    assert len({each.successes for each in found}) > 1


def test_sampled_evaluations_are_repeated_by_a_kept_policy_and_training_tells_its_own_successes(monkeypatch) -> None:
    act, modes = RLPDPolicy.act, list[bool]()

    def noted(self, *args, deterministic: bool, **rest):
        modes.append(deterministic)
        return act(self, *args, deterministic=deterministic, **rest)

    monkeypatch.setattr(RLPDPolicy, "act", noted)
    cell = GymnasiumCell(gymnasium.make("tests/PointMass-v0"), expert=straight)
    told = Budget(demos=5, episode_steps=LONGEST, online_steps=400, eval_every=200, eval_episodes=10, eval_sampled=True)
    kept: list[tuple[Progress, nn.Module]] = []
    found = LockstepTraining(cell, CONFIG, told, seed=0).run(
        keep=lambda progress, network: kept.append((progress, copy.deepcopy(network)))
    )
    later = LockstepTraining(cell, CONFIG, told, seed=0)
    assert [later.evaluate(network) for _, network in kept] == [each.successes for each in found]
    assert not any(modes)
    LockstepTraining(cell, CONFIG, dataclasses.replace(told, eval_sampled=False), seed=0).evaluate(kept[-1][1])
    assert any(modes)
    assert kept[0][0].trained_episodes == 0
    trained = [progress for progress, _ in kept[1:]]
    assert all(each.trained_successes <= each.trained_episodes for each in trained)
    assert sum(each.trained_successes for each in trained) > 0
    assert sum(each.trained_episodes for each in trained) >= 400 / LONGEST


def test_updates_before_the_first_step_are_made_too() -> None:
    small = CONFIG.model_copy(update={"batch_size": 16, "pretrain_updates": 12, "utd": 0.5})
    first, *_, after = train(small, online_steps=20, eval_episodes=1)
    assert (first.online_steps, first.updates) == (0, 0)
    assert (after.online_steps, after.updates) == (20, 22)


def test_what_cannot_be_trained_on_is_refused() -> None:
    budget = Budget(demos=2, online_steps=10, episode_steps=5, eval_every=10, eval_episodes=1)
    nobody = GymnasiumCell(PointMass(), expert=lambda seen: np.ones(2))
    with pytest.raises(RobotError, match=r"successful demonstrations are . of 6, must be 2; give the cell a better"):
        LockstepTraining(nobody, CONFIG, budget, seed=0).run()
    seeing = PointMass()
    seeing.observation_space = spaces.Dict(
        {"place": spaces.Box(-1, 1, (2,)), "eye": spaces.Box(0, 255, (16, 16, 3), np.uint8)}
    )
    with pytest.raises(SpecError, match=r"images of the environment are \['eye'\], must be none"):
        LockstepTraining(GymnasiumCell(seeing, expert=straight), CONFIG, budget, seed=0)


@pytest.mark.slow
def test_relabelled_goals_teach_more_of_as_many_steps() -> None:
    """Five demonstrations, few rows of them in a batch: what was tried for nothing becomes a way to somewhere."""
    space = GymnasiumCell(gymnasium.make("tests/PointMass-v0"), expert=straight).spec
    told = Hindsight(share=0.8, desired=space.part("goal"), achieved=space.part("place"), within=REACHED_M)
    few = CONFIG.model_copy(update={"expert_fraction": 0.1})
    _, without = train(few, online_steps=700, eval_episodes=50)
    _, after = train(few, hindsight=told, online_steps=700, eval_episodes=50)
    assert after.successes >= 1.5 * max(1, without.successes)
