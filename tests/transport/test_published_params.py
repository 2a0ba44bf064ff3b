"""What the shipped run publishes: all that an actor needs, nothing else, in at most 5 MB."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from policies.acting import ActingPolicy, actor_metadata, pack_tensors
from policies.encoders.embedded import EmbeddedTrunk
from policies.familiarity import Familiarity
from policies.learner import PublishesCritic
from policies.registry import find_builders
from robot_stack.config.resolve import load_run
from robot_stack.learner.fitting import image_shapes, learner_spec
from robot_stack.learner.settings import learning_settings
from robot_stack.transport import bundle
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params

LIMIT_BYTES = 5_000_000
SPEC = load_run("peg_insert", []).spec()


@pytest.fixture(scope="module")
def published() -> Params:
    """As `UpdateLoop.seal` makes them, before the first update."""
    settings = learning_settings(load_run("peg_insert", []))
    trunk = EmbeddedTrunk(image_shapes(SPEC), len(SPEC.arms[0].axes))
    trunk.requires_grad_(False).eval()
    shown = SimpleNamespace(arrays={"proprio": np.ones((2, SPEC.proprio_size), np.float32)})
    sizes = learner_spec(trunk, [shown], SPEC, trained=False)  # type: ignore[list-item]
    config = settings.config
    learner = find_builders(settings.algorithm).learner(sizes, config, seed=0)
    metadata = actor_metadata(trunk, algorithm=settings.algorithm, config=config)
    return bundle.seal(
        version=1,
        tensors=pack_tensors(trunk, learner.actor_tensors()),
        metadata={**metadata, bundle.SPEC_DIGEST: SPEC.digest},
    )


def test_the_message_is_small_with_two_cameras(published: Params) -> None:
    assert len(SPEC.cameras) == 2
    assert bundle.encode_params(published, created_unix_s=0.0).ByteSize() <= LIMIT_BYTES


def test_it_is_small_too_where_the_policy_asks_for_help_by_all_signals() -> None:
    settings = learning_settings(load_run("peg_insert", []))
    trunk = EmbeddedTrunk(image_shapes(SPEC), len(SPEC.arms[0].axes))
    trunk.requires_grad_(False).eval()
    shown = SimpleNamespace(arrays={"proprio": np.ones((2, SPEC.proprio_size), np.float32)})
    sizes = learner_spec(trunk, [shown], SPEC, trained=False)  # type: ignore[list-item]
    learner = find_builders(settings.algorithm).learner(sizes, settings.config, seed=0)
    assert isinstance(learner, PublishesCritic)
    features = np.random.default_rng(0).normal(size=(1000, trunk.feature_size)).astype(np.float16)
    familiarity = Familiarity.fit(features)
    assert familiarity is not None
    tensors = pack_tensors(
        trunk, learner.actor_tensors(), critic=learner.critic_tensors(), familiar=familiarity.tensors()
    )
    params = bundle.seal(version=1, tensors=tensors, metadata={bundle.SPEC_DIGEST: SPEC.digest})
    assert bundle.encode_params(params, created_unix_s=0.0).ByteSize() <= LIMIT_BYTES


def test_there_is_nothing_but_trunk_and_actor(published: Params) -> None:
    assert {name.partition(".")[0] for name in published.tensors} == {"trunk", "actor"}
    assert not [
        name for name in published.tensors if any(word in name for word in ("critic", "target", "optim", "log_alpha"))
    ]


def test_what_is_trained_travels_as_fp16_and_constants_as_they_are(published: Params) -> None:
    actor = {name: value.dtype for name, value in published.tensors.items() if name.startswith("actor.")}
    whole = {name for name, dtype in actor.items() if np.issubdtype(dtype, np.floating) and dtype != np.float16}
    constants = {"log_std_range", "encoder.proprio_scale", "encoder.proprio_mean"}
    assert whole == {f"actor.actor.{name}" for name in constants}
    assert len(actor) > 2 * len(whole)


def test_it_is_enough_to_act(published: Params) -> None:
    received = bundle.decode_params(
        bundle.encode_params(published, created_unix_s=0.0), above_version=0, spec_digest=SPEC.digest
    )
    images = {camera.name: np.zeros(camera.shape, np.uint8) for camera in SPEC.cameras}
    seen = Observation(images=images, proprio=np.zeros(SPEC.proprio_size, np.float32), stamp_ns=0)
    SPEC.check_action(ActingPolicy(SPEC, received, seed=0).act(seen, deterministic=True))
