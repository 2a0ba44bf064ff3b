"""What a policy says of its own decision: distance, samples and critics, without changing what it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from policies.acting import SAMPLES, ActingPolicy, actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.familiarity import Familiarity
from policies.learner import Learner, LearnerSpec, PublishesCritic, TensorBatch
from policies.registry import find_algorithm
from robot_stack.types.errors import SpecError
from robot_stack.types.help import Insight
from robot_stack.types.params import Params
from tests.policies.test_acting import SPEC, observation


def learned(name: str = "rlpd", *, familiar: bool = True, **settings: Any) -> tuple[EmbeddedTrunk, Learner, Params]:
    torch.manual_seed(0)
    trunk = EmbeddedTrunk({"wrist": (24, 24, 3)}, 3).requires_grad_(False)
    sizes = LearnerSpec(
        parts=trunk.parts, proprio_mean=torch.full((6,), 0.2), proprio_std=torch.full((6,), 0.1), actions=3
    )
    algorithm = find_algorithm(name)
    config = algorithm.config(head=8, hidden=(16, 16), **settings)
    learner = algorithm.builders().learner(sizes, config, seed=0)
    shown = trunk.encode({"wrist": np.stack([observation(seed).images["wrist"] for seed in range(20)])})
    familiarity = Familiarity.fit(shown) if familiar else None
    tensors = pack_tensors(
        trunk,
        learner.actor_tensors(),
        critic=learner.critic_tensors() if isinstance(learner, PublishesCritic) else None,
        familiar=None if familiarity is None else familiarity.tensors(),
    )
    metadata = actor_metadata(trunk, algorithm=name, config=config)
    return trunk, learner, Params(version=3, tensors=tensors, sha256="", metadata=metadata)


def insight_of(policy: ActingPolicy, seed: int = 0) -> Insight:
    policy.act(observation(seed), deterministic=False)
    found = policy.insight()
    assert found is not None
    return found


def test_the_critics_value_what_was_sent_as_the_learners_do_to_half_precision() -> None:
    trunk, learner, params = learned(critics=4)
    policy = ActingPolicy(SPEC, params, seed=0)
    action = policy.act(observation(), deterministic=False)
    found = policy.insight()
    assert found is not None
    assert found.q is not None
    features = trunk.encode({"wrist": observation().images["wrist"][None]})
    batch = TensorBatch.for_imitation(features, observation().proprio[None], action[None], np.ones((1, 3), bool))
    expected = learner.critic(batch.features, batch.proprio, batch.action)[:, 0]  # type: ignore[attr-defined]
    np.testing.assert_allclose(found.q, expected.detach(), atol=5e-3)


@pytest.mark.parametrize("smooth_ticks", [1, 8])
def test_samples_are_of_the_policy_and_a_frame_of_the_demonstrations_is_near(smooth_ticks: int) -> None:
    policy = ActingPolicy(SPEC, learned(smooth_ticks=smooth_ticks)[2], seed=0)
    near = insight_of(policy, 3)
    assert near.samples is not None
    assert near.samples.shape == (SAMPLES, 3)
    assert 0.0 < near.samples.std(axis=0).mean() < 0.3
    ramp = np.linspace(0, 255, 24).astype(np.uint8)[None, :, None].repeat(24, axis=0).repeat(3, axis=2)
    policy.act(replace(observation(3), images={"wrist": ramp}), deterministic=False)
    far = policy.insight()
    assert far is not None
    assert max(insight_of(policy, seed).distance for seed in range(20)) < 0.75 * far.distance


@pytest.mark.parametrize("smooth_ticks", [1, 8])
@pytest.mark.parametrize("name", ["rlpd", "residual", "jump_start"])
def test_looking_within_does_not_change_what_the_policy_does(name: str, smooth_ticks: int) -> None:
    settings = {"guide_steps": 10} if name == "jump_start" else {}
    params = learned(name, smooth_ticks=smooth_ticks, **settings)[2]
    frank, silent = ActingPolicy(SPEC, params, seed=5), ActingPolicy(SPEC, params, seed=5)
    for seed in range(20):
        actions = [policy.act(observation(seed), deterministic=False) for policy in (frank, silent)]
        np.testing.assert_array_equal(*actions)
        found = frank.insight()
        assert found is not None
        assert found.samples is not None
        assert bool(found.samples.std(axis=0).mean() > 1e-3) is (name != "jump_start" or seed >= 10)


def test_without_demonstrations_or_critics_it_says_what_it_can() -> None:
    _, _, params = learned("bc", familiar=False)
    found = insight_of(ActingPolicy(SPEC, params, seed=0))
    assert np.isnan(found.distance)
    assert found.q is None
    assert found.samples is not None


@pytest.mark.parametrize("name", ["qc", "qc_fql"])
def test_a_chunk_is_judged_whole_and_once(name: str) -> None:
    policy = ActingPolicy(SPEC, learned(name)[2], seed=0)
    first = insight_of(policy)
    assert first.q is not None
    assert len(first.q) >= 2
    assert policy.insight() is first
    policy.act(observation(), deterministic=False)
    assert policy.insight() is first, "the chunk still plays"


def test_before_its_first_decision_it_says_nothing() -> None:
    policy = ActingPolicy(SPEC, learned()[2], seed=0)
    assert policy.insight() is None
    insight_of(policy)
    policy.begin_episode()
    assert policy.insight() is None


def test_newer_critics_are_taken_with_newer_parameters_and_ones_that_do_not_fit_are_refused() -> None:
    params = learned()[2]
    policy = ActingPolicy(SPEC, params, seed=0)
    before = insight_of(policy).q
    doubled = {name: 2 * value if name == "critic.out.weight" else value for name, value in params.tensors.items()}
    policy.load(replace(params, version=4, tensors=doubled))
    assert not np.allclose(insight_of(policy).q, before)  # type: ignore[arg-type]
    without = {name: value for name, value in params.tensors.items() if name != "critic.out.weight"}
    with pytest.raises(SpecError, match=r"out\.weight is missing"):
        policy.load(replace(params, version=5, tensors=without))
    assert policy.version == 4
