"""Q-chunking and steering on a task of one decision, whose best chunk is known and lies where data are rare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from policies.dsrl.learner import DSRLLearner
from policies.flow import carry
from policies.learner import HasCritic, TensorBatch
from policies.qc.learner import chunk_target
from policies.qc.policy import best_of
from policies.registry import ALGORITHMS
from policies.vision import Seen
from robot_stack.types.errors import ConfigError
from tests.policies.small_task import SPEC, flat
from tests.policies.test_all_algorithms import batch, make

CHUNK = 2
BEST = 0.5
ONE_ACTION = replace(SPEC, actions=1)


def decisions(rng: np.random.Generator, rows: int = 64) -> TensorBatch:
    """Chunks from all over the range, from one state that ends at once; the best is `BEST` in both ticks."""
    action = rng.uniform(-1, 1, (rows, CHUNK)).astype(np.float32)
    reward = -2 * np.square(action - BEST).sum(axis=1)
    everyone, nothing = torch.ones(rows, dtype=torch.bool), torch.zeros(rows, dtype=torch.bool)
    state, proprio = torch.ones(rows, 12), torch.zeros(rows, 5)
    return TensorBatch(
        features=state,
        proprio=proprio,
        action=torch.from_numpy(action),
        proposed=torch.from_numpy(action),
        reward=torch.from_numpy(reward),
        discount=torch.zeros(rows),
        next_features=state,
        next_proprio=proprio,
        expert=everyone,
        imitation=torch.ones(rows),
        human=everyone[:, None].repeat(1, CHUNK),
        label=torch.ones(rows, CHUNK, dtype=torch.bool),
        gripper_change=nothing[:, None][:, :0],
        mc_return=torch.full((rows,), torch.nan),
    )


SETTINGS: dict[str, dict[str, Any]] = {
    "qc": {"candidates": 32},
    "qc_fql": {"distil_weight": 0.1},
    "dsrl": {
        "base_updates": 300,
        "pretrain_updates": 300,
        "noise_bound": 2.0,
        "target_entropy_per_action": -2.0,
    },
    "flow_bc": {},
}

UPDATES = {"dsrl": 1500}
"""Its critic of noise follows one that follows the reward; the others take 600."""


def distance(learner: Any) -> float:
    """Of what is played to the best chunk, rms over many draws."""
    rows = torch.ones(200, 12), torch.zeros(200, 5)
    with torch.no_grad():
        played = learner.published.act(*rows, tick=0, rng=torch.Generator().manual_seed(0), deterministic=False)
    return float((played - BEST).square().mean().sqrt())


@pytest.fixture(scope="module")
def cloned() -> float:
    return distance(trained("flow_bc"))


@pytest.mark.parametrize(
    "name", ["qc", pytest.param("qc_fql", marks=pytest.mark.slow), pytest.param("dsrl", marks=pytest.mark.slow)]
)
@pytest.mark.long
def test_reward_finds_the_chunk_that_the_clone_of_the_same_data_does_not(name: str, cloned: float) -> None:
    assert cloned > 0.6  # uniform data: .76
    assert distance(trained(name)) < 0.3


def trained(name: str) -> Any:
    common = {"hidden": (64, 64), "head": 8, "chunk": CHUNK, "replan": CHUNK, "learning_rate": 2e-3, "actor_tau": 0.02}
    config = ALGORITHMS[name].config(**{**common, **SETTINGS[name]})
    learner, rng = ALGORITHMS[name].builders().learner(ONE_ACTION, config, seed=0), np.random.default_rng(0)
    for _ in range(UPDATES.get(name, 600)):
        learner.update(decisions(rng))
    return learner


class Favourite(nn.Module):
    """Critics that value nearness to a chunk of their own."""

    def __init__(self, *chunks: Tensor) -> None:
        super().__init__()
        self.chunks, self.members = chunks, len(chunks)

    def on_state(self, state: Tensor, action: Tensor) -> Tensor:
        return torch.stack([-(action - chunk).square().sum(dim=1) for chunk in self.chunks])


def test_best_is_taken_by_the_mean_of_the_critics_within_each_row() -> None:
    critic = Favourite(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 0.0]))  # on average (.5, 0)
    candidates = torch.tensor([[0.4, 0.0], [1.0, 1.0], [-1.0, 0.0], [0.0, 0.0], [0.6, 0.1], [1.0, 0.0]])
    best = best_of(critic, torch.zeros(2, 3), candidates)  # type: ignore[arg-type]
    assert best.tolist() == [pytest.approx([0.4, 0.0]), pytest.approx([0.6, 0.1])]
    alone = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    assert torch.equal(best_of(critic, torch.zeros(2, 3), alone), alone)  # type: ignore[arg-type]


def test_target_is_the_least_value_of_the_chunk_that_the_policy_would_choose() -> None:
    learner = make("qc", SPEC, chunk=3, target_candidates=2)
    for number in range(4):
        learner.update(batch(number, SPEC, 3))
    rows = batch(9, SPEC, 3)
    noise = torch.randn(2 * len(rows.reward), 9, generator=torch.Generator().manual_seed(3))
    seen = Seen(rows.features, rows.next_features, rows.next_features)
    policy, after = learner.policy, (rows.next_features, rows.next_proprio)
    with torch.no_grad():
        got = chunk_target(policy, learner.target, rows, seen, noise)
        for row in range(len(rows.reward)):
            one = tuple(each[row : row + 1] for each in after)
            state = policy.encoder(*one)
            chunks = [carry(policy.field, state, noise[2 * row + j : 2 * row + j + 1], 3) for j in range(2)]
            values = [policy.critic(*one, chunk).mean() for chunk in chunks]
            chosen = chunks[int(np.argmax(values))]
            wanted = rows.reward[row] + rows.discount[row] * learner.target(*one, chosen).min()
            torch.testing.assert_close(got[row], wanted, rtol=1e-4, atol=1e-5)


def test_clones_of_experts_ignore_what_the_policy_itself_did() -> None:
    flows = {}
    for clones in ("experts", "all"):
        for own in (0.0, 0.9):
            learner = make("qc", SPEC, clones=clones)
            made = batch(0)
            action = torch.where(made.expert[:, None], made.action, torch.full_like(made.action, own))
            learner.update(replace(made, action=action))
            flows[clones, own] = flat(learner.policy.field)
    assert torch.equal(flows["experts", 0.0], flows["experts", 0.9])
    assert not torch.equal(flows["all", 0.0], flows["all", 0.9])


def test_steered_flow_is_frozen_once_it_is_cloned() -> None:
    learner = make("dsrl", SPEC)
    assert isinstance(learner, DSRLLearner)
    for number in range(3):
        learner.update(batch(number))
    cloned, actor = flat(learner.policy.field), flat(learner.policy.actor)
    assert torch.equal(cloned, flat(learner.published.field)), "what acts and what is steered are one flow"
    for number in range(3, 6):
        learner.update(batch(number))
    assert torch.equal(cloned, flat(learner.policy.field))
    assert not torch.equal(actor, flat(learner.policy.actor))


def test_noise_stays_within_its_bound() -> None:
    learner = make("dsrl", SPEC, noise_bound=0.3)
    rows = batch(1)
    noise = 50 * torch.randn(len(rows.reward), SPEC.actions, generator=torch.Generator().manual_seed(0))
    asked, _ = learner.policy.steer(rows.features, rows.proprio, noise)
    assert 0.25 < asked.abs().max() <= 0.3


@pytest.mark.parametrize("name", ["qc", "qc_fql"])
def test_critic_of_chunks_can_be_asked_and_does_not_change(name: str) -> None:
    learner = make(name, SPEC, chunk=3)
    assert isinstance(learner, HasCritic)
    rows = batch(5, SPEC, 3)
    copy = learner.critic_snapshot()
    before = copy.values(rows, [rows.action, -rows.action])
    assert [each.shape for each in before] == [(len(rows.reward),)] * 2
    assert torch.isfinite(copy.targets(rows, torch.Generator().manual_seed(0))).all()
    learner.update(rows)
    torch.testing.assert_close(copy.values(rows, [rows.action]), before[:1])
    assert not torch.equal(learner.critic_snapshot().values(rows, [rows.action])[0], before[0])


def test_trained_encoder_is_refused_under_a_frozen_flow() -> None:
    with pytest.raises(ConfigError, match="encoder is trained end to end, must be frozen under a frozen flow"):
        make("dsrl", replace(SPEC, trunk=nn.Identity()))


@pytest.mark.parametrize("name", ["qc", "qc_fql", "flow_bc", "dsrl"])
def test_chunk_below_the_default_replan_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be at most chunk \(1\); lower it"):
        ALGORITHMS[name].config(chunk=1)


def test_distilled_policy_is_cut_never_inpainted() -> None:
    with pytest.raises(ValueError, match="join"):
        ALGORITHMS["qc_fql"].config(join="inpaint")
