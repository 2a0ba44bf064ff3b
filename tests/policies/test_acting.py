"""The acting policy does what the learner's actor would, and takes no parameters that are not its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from policies.acting import ActingPolicy, actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.learner import LearnerSpec
from policies.registry import ALGORITHMS, find_algorithm
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec

SPEC = Spec(
    arms=(ArmSpec(name="left", axes=("x", "y", "z"), translation_m=0.01, rotation_rad=0.05),),
    cameras=(CameraSpec(name="wrist", height_px=24, width_px=24),),
    proprio=(ProprioField(name="tcp_pose", size=6),),
    rate_hz=10.0,
)


def learned(seed: int = 0, **settings: Any) -> tuple[EmbeddedTrunk, object, Params]:
    torch.manual_seed(seed)
    trunk = EmbeddedTrunk({"wrist": (24, 24, 3)}, 3).requires_grad_(False)
    sizes = LearnerSpec(
        parts=trunk.parts, proprio_mean=torch.full((6,), 0.2), proprio_std=torch.full((6,), 0.1), actions=3
    )
    algorithm = find_algorithm("rlpd")
    config = algorithm.config(head=8, hidden=(16, 16), **settings)
    learner = algorithm.builders().learner(sizes, config, seed=seed)
    params = Params(
        version=3,
        tensors=pack_tensors(trunk, learner.actor_tensors()),
        sha256="",
        metadata=actor_metadata(trunk, algorithm="rlpd", config=config),
    )
    return trunk, learner.published.actor, params


def observation(seed: int = 0) -> Observation:
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
    return Observation(images={"wrist": image}, proprio=rng.normal(size=6).astype(np.float32) * 0.1, stamp_ns=0)


@pytest.mark.long
def test_deterministic_action_is_the_learners_to_half_precision() -> None:
    trunk, actor, params = learned()
    seen = observation()
    features = torch.from_numpy(trunk.encode({"wrist": seen.images["wrist"][None]})).float()
    expected = actor.deterministic(features, torch.from_numpy(seen.proprio)[None])[0]  # type: ignore[attr-defined]
    action = ActingPolicy(SPEC, params, seed=0).act(seen, deterministic=True)
    SPEC.check_action(action)
    np.testing.assert_allclose(action, expected.detach(), atol=5e-3)


@pytest.mark.long
def test_exploring_actions_differ_from_each_other_and_repeat_with_the_seed() -> None:
    _, _, params = learned()
    first, again = (ActingPolicy(SPEC, params, seed=5) for _ in range(2))
    actions = [first.act(observation(), deterministic=False) for _ in range(2)]
    assert not np.array_equal(*actions)
    assert np.array_equal(actions[0], again.act(observation(), deterministic=False))


@pytest.mark.long
def test_newer_parameters_take_effect_at_the_next_action() -> None:
    _, _, params = learned()
    policy = ActingPolicy(SPEC, params, seed=0)
    before = policy.act(observation(), deterministic=True)
    tensors = {
        name: value * 2 if name == "actor.actor.mean.weight" else value for name, value in params.tensors.items()
    }
    policy.load(replace(params, version=4, tensors=tensors))
    assert policy.version == 4
    assert not np.array_equal(policy.act(observation(), deterministic=True), before)


@pytest.mark.parametrize("version", [2, 3])
def test_parameters_that_are_not_newer_are_refused(version: int) -> None:
    _, _, params = learned()
    policy = ActingPolicy(SPEC, params, seed=0)
    with pytest.raises(SpecError, match=f"params version is {version}, must be above 3"):
        policy.load(replace(params, version=version))


def test_parameters_for_another_trunk_are_refused() -> None:
    _, _, params = learned()
    _, _, foreign = learned(seed=1)
    with pytest.raises(SpecError, match="trunk of params 4 is"):
        ActingPolicy(SPEC, params, seed=0).load(replace(foreign, version=4))


def test_damaged_trunk_is_refused() -> None:
    _, _, params = learned()
    name = next(name for name in params.tensors if name.startswith("trunk.cameras"))
    damaged = params.tensors | {name: params.tensors[name] + 1e-3}  # type: ignore[operator]
    with pytest.raises(SpecError, match="the parameters are damaged"):
        ActingPolicy(SPEC, replace(params, tensors=damaged), seed=0)


def test_unknown_algorithm_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="algorithm is 'ppo', must be one of") as refused:
        find_algorithm("ppo")
    assert all(name in str(refused.value) for name in ALGORITHMS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trunk": None}, r"params 3 do not say \['trunk'\]"),
        ({"settings": '{"batch_sise": 3}'}, "settings of params 3 are not of rlpd as known here .*batch_sise"),
        ({"settings": "{"}, "settings of params 3 are not of rlpd"),
    ],
)
def test_parameters_that_do_not_say_how_to_build_them_are_refused(change: dict[str, str | None], message: str) -> None:
    _, _, params = learned()
    said = {key: value for key, value in (dict(params.metadata) | change).items() if value is not None}
    with pytest.raises(SpecError, match=message):
        ActingPolicy(SPEC, replace(params, version=3, metadata=said), seed=0)


def test_parameters_of_another_size_are_refused() -> None:
    _, _, params = learned()
    name = "actor.actor.mean.weight"
    wrong = {key: value * 2 for key, value in params.tensors.items()} | {name: params.tensors[name][:, :8]}
    policy = ActingPolicy(SPEC, params, seed=0)
    before = policy.act(observation(), deterministic=True)
    with pytest.raises(SpecError, match=r"params 4 do not fit the networks of this run: actor.mean.weight is"):
        policy.load(replace(params, version=4, tensors=wrong))
    np.testing.assert_array_equal(policy.act(observation(), deterministic=True), before)


def test_a_chunk_is_acted_out_tick_by_tick_and_then_planned_anew() -> None:
    _, _, params = learned(chunk=3)
    policy = ActingPolicy(SPEC, params, seed=0)
    first = [policy.act(observation(0), deterministic=True) for _ in range(3)]
    policy.begin_episode()
    blind_to_what_follows = [policy.act(observation(n), deterministic=True) for n in range(3)]
    np.testing.assert_array_equal(first, blind_to_what_follows)
    assert not np.array_equal(policy.act(observation(3), deterministic=True), first[0])


@pytest.mark.parametrize("void", ["interrupted", "new episode"])
def test_the_rest_of_a_chunk_is_void_after_someone_else_moved_the_robot(void: str) -> None:
    _, _, params = learned(chunk=3)
    policy, fresh = (ActingPolicy(SPEC, params, seed=0) for _ in range(2))
    policy.act(observation(0), deterministic=True)
    if void == "new episode":
        policy.begin_episode()
    action = policy.act(observation(5), deterministic=True, interrupted=void == "interrupted")
    np.testing.assert_array_equal(action, fresh.act(observation(5), deterministic=True))
