"""An encoder that is trained with the learner: what moves it, what targets see with, what is published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from policies.acting import ActingPolicy, actor_metadata, pack_tensors
from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.encoders.registry import find_encoder, make_trunk
from policies.learner import LearnerSpec, TensorBatch
from policies.registry import find_algorithm
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.types.errors import ConfigError
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec
from tests.policies.small_task import PROPRIO, flat, random_batch, through_a_file

pytestmark = pytest.mark.long

CELL = Spec(
    arms=(ArmSpec(name="left", axes=("x", "y", "z"), translation_m=0.01, rotation_rad=0.05),),
    cameras=(CameraSpec(name="wrist", height_px=32, width_px=32),),
    proprio=(ProprioField(name="tcp_pose", size=PROPRIO),),
    rate_hz=10.0,
)
SHAPES = {"wrist": (32, 32, 3)}


def sizes(pool: str = "pooled") -> LearnerSpec:
    config = find_encoder("resnet10").config(trained=True, pool=pool)
    trunk: Any = make_trunk("resnet10", SHAPES, config, demos=(), seed=0)
    return LearnerSpec(
        parts=trunk.parts, proprio_mean=torch.zeros(PROPRIO), proprio_std=torch.ones(PROPRIO), actions=3, trunk=trunk
    )


def learner(spec: LearnerSpec, **settings: Any) -> RLPDLearner:
    return RLPDLearner(spec, RLPDConfig(**{"hidden": (16,), "head": 8, "target_tau": 0.25} | settings), seed=0)


def batch(number: int) -> TensorBatch:
    rng = np.random.default_rng(number)

    def images() -> dict[str, torch.Tensor]:
        return {"wrist": torch.from_numpy(rng.integers(0, 256, (16, 32, 32, 3), dtype=np.uint8))}

    made = random_batch(number)
    nothing = torch.zeros(16, 0)
    return replace(made, features=nothing, next_features=nothing, images=images(), next_images=images())


@pytest.mark.parametrize("pool", ["pooled", "spatial_embeddings"])
def test_critic_loss_reaches_every_weight_of_the_encoder(pool: str) -> None:
    made = learner(sizes(pool), critic_actor_ratio=20)
    made.update(batch(0))
    assert all(p.grad is not None and (p.grad != 0).any() for p in made.vision.trained_parameters())


def test_actor_update_moves_the_actor_and_not_the_encoder() -> None:
    spec = sizes()
    without, with_actor = learner(spec, critic_actor_ratio=20), learner(spec, critic_actor_ratio=1)
    for made in (without, with_actor):
        made.update(batch(0))
    assert torch.equal(flat(without.vision), flat(with_actor.vision))
    assert not torch.equal(flat(without.policy), flat(with_actor.policy))


def test_targets_see_through_the_running_average() -> None:
    made = learner(sizes(), target_tau=0.25)
    assert made.vision.trunk is not None
    assert made.vision.average is not None
    before = flat(made.vision.average)
    made.update(batch(0))
    after, trained = flat(made.vision.average), flat(made.vision.trunk)
    assert not torch.equal(before, trained)
    torch.testing.assert_close(after, before + 0.25 * (trained - before))
    assert not any(p.requires_grad for p in made.vision.average.parameters())
    seen = made.vision.see(batch(1))
    assert not torch.equal(seen.following, seen.target)
    assert not seen.target.requires_grad
    assert not seen.following.requires_grad


def test_the_runs_first_weights_stay_as_they_are() -> None:
    spec = sizes()
    assert spec.trunk is not None
    before = flat(spec.trunk)
    learner(spec).update(batch(0))
    assert torch.equal(flat(spec.trunk), before)


def test_restored_learner_goes_on_with_identical_losses() -> None:
    spec = sizes("spatial_embeddings")
    first, other = learner(spec), learner(spec)
    for number in range(3):
        first.update(batch(number))
    other.load_state_dict(through_a_file(first.state_dict()))
    for number in range(3, 6):
        expected, got = first.update(batch(number)), other.update(batch(number))
        assert all(torch.equal(expected[name], got[name]) for name in expected)


def test_imitation_trains_the_encoder_too() -> None:
    spec = sizes()
    made = BCLearner(spec, BCConfig(hidden=(16,), head=8), seed=0)
    made.update(batch(0))
    assert all(p.grad is not None and (p.grad != 0).any() for p in made.vision.trained_parameters())


@pytest.mark.parametrize("name", ["residual", "jump_start"])
def test_algorithms_with_a_frozen_part_refuse_a_trained_encoder(name: str) -> None:
    algorithm = find_algorithm(name)
    with pytest.raises(ConfigError, match="encoder is trained end to end, must be frozen"):
        algorithm.builders().learner(sizes(), algorithm.config(), seed=0)


def test_actor_sees_with_the_published_encoder_and_takes_newer_ones() -> None:
    spec = sizes()
    made = learner(spec)
    assert spec.trunk is not None
    trunk: Any = spec.trunk

    def params(version: int) -> Params:
        return Params(
            version=version,
            tensors=pack_tensors(trunk, made.actor_tensors(), made.trunk_tensors()),
            sha256="",
            metadata=actor_metadata(trunk, algorithm="rlpd", config=made.config, trained=True),
        )

    made.update(batch(0))
    policy = ActingPolicy(CELL, params(1), seed=0)
    rows = batch(7)
    observation = Observation(
        images={"wrist": rows.images["wrist"][0].numpy()}, proprio=rows.proprio[0].numpy(), stamp_ns=0
    )

    def expected() -> np.ndarray:
        assert made.vision.average is not None
        with torch.no_grad():
            features = made.vision.average({"wrist": rows.images["wrist"][:1]})
            return made.published.actor.deterministic(features, rows.proprio[:1])[0].numpy()

    first = policy.act(observation, deterministic=True)
    np.testing.assert_allclose(first, expected(), atol=5e-3)
    for number in range(1, 4):
        made.update(batch(number))
    policy.load(params(2))
    second = policy.act(observation, deterministic=True)
    assert not np.array_equal(first, second)
    np.testing.assert_allclose(second, expected(), atol=5e-3)
