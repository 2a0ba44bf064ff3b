"""What every trunk keeps of its word, whatever it is made of."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from policies.encoders.embedded import EmbeddedTrunk
from policies.encoders.heads import make_head
from policies.encoders.registry import load_trunk
from policies.encoders.thumbnails import thumbnails_of
from policies.encoders.trunk import ImageShape, Trunk
from robot_stack.types.errors import SpecError
from tests.policies.tiny_encoders import KINDS, POOLS, SHAPES, images, tiny_trunk

pytestmark = pytest.mark.long

BACKBONES = tuple(kind for kind in KINDS if kind != "embedded")
FROZEN = tuple(kind for kind in KINDS if "trained" not in kind)
HALF_PRECISION = 1e-3
"""Features of one frame from passes of different sizes differ by at most this, as a share of the largest feature.
Measured: 5e-4, one step of float16, in 1.5 % of the values at most; in fp32 below 1e-5."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encoders")


@pytest.fixture(scope="session", params=KINDS)
def trunk(request: pytest.FixtureRequest, folder: Path) -> Trunk:
    return tiny_trunk(request.param, folder)


def tensors(count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in images(count, seed).items()}


def parameters(trunk: Trunk) -> list[torch.nn.Parameter]:
    assert isinstance(trunk, torch.nn.Module)
    return list(trunk.parameters())


def test_parts_lie_side_by_side_and_fill_the_features(trunk: Trunk) -> None:
    assert trunk.parts[0].slice.start == 0
    beyond = thumbnails_of(trunk)
    edges = [trunk.parts[-1].slice.stop, *(edge for columns in beyond for edge in columns), trunk.feature_size]
    assert edges[::2] == edges[1::2]
    assert bool(beyond) is isinstance(trunk, EmbeddedTrunk)
    assert all(part.slice.stop == following.slice.start for part, following in pairwise(trunk.parts))


def test_encoding_is_the_forward_pass_rounded_to_half(trunk: Trunk) -> None:
    features = trunk.encode(images(3))
    assert features.dtype == np.float16
    assert features.shape == (3, trunk.feature_size)
    with torch.no_grad():
        wide = trunk(tensors(3))
    assert wide.dtype == torch.float32
    assert np.array_equal(wide.half().numpy(), features)


def test_features_at_the_robot_are_those_in_the_replay(trunk: Trunk) -> None:
    seen = images(9)
    stored = trunk.encode(seen).astype(np.float32)
    alone = np.concatenate([trunk.encode({name: array[i : i + 1] for name, array in seen.items()}) for i in range(9)])
    chunked = trunk.encode(seen, chunk=4)
    bound = HALF_PRECISION * np.abs(stored).max()
    np.testing.assert_allclose(alone.astype(np.float32), stored, atol=bound, rtol=0)
    np.testing.assert_allclose(chunked.astype(np.float32), stored, atol=bound, rtol=0)


def test_same_pass_twice_gives_the_same_bits(trunk: Trunk) -> None:
    assert np.array_equal(trunk.encode(images(5)), trunk.encode(images(5)))


def test_features_depend_on_every_camera(trunk: Trunk) -> None:
    seen = images(2)
    before = trunk.encode(seen)
    for name in SHAPES:
        assert not np.array_equal(trunk.encode(seen | {name: 255 - seen[name]}), before)


def test_no_frames_give_no_features(trunk: Trunk) -> None:
    assert trunk.encode(images(0)).shape == (0, trunk.feature_size)


def test_images_of_another_size_are_refused(trunk: Trunk) -> None:
    turned = images(2) | {"front": np.zeros((2, 48, 40, 3), np.uint8)}
    with pytest.raises(SpecError, match=r"camera front are \(2, 48, 40, 3\), must be \(N, \(40, 48, 3\)\)"):
        trunk.encode(turned)


def test_missing_camera_is_refused(trunk: Trunk) -> None:
    with pytest.raises(SpecError, match="images of camera wrist are missing"):
        trunk.encode({name: array for name, array in images(2).items() if name != "wrist"})


def test_half_a_frame_is_refused(trunk: Trunk) -> None:
    with pytest.raises(SpecError, match="must be equally many"):
        trunk.encode(images(2) | {"wrist": images(1)["wrist"]})


def test_another_process_builds_the_same_trunk_from_its_reference(trunk: Trunk) -> None:
    travelling = trunk.state_dict() if trunk.travels else {}
    again = load_trunk(trunk.reference, SHAPES, travelling)
    assert again.identity == trunk.identity
    assert again.parts == trunk.parts
    assert np.array_equal(again.encode(images(3)), trunk.encode(images(3)))


@pytest.mark.parametrize("kind", BACKBONES)
def test_another_process_notices_another_cell(kind: str, folder: Path) -> None:
    made = tiny_trunk(kind, folder)
    other = SHAPES | {"wrist": (48, 48, 3)}
    with pytest.raises(SpecError, match=f"must be {made.identity}"):
        load_trunk(made.reference, other, made.state_dict() if made.travels else {})


@pytest.mark.parametrize("kind", BACKBONES)
@pytest.mark.parametrize("pool", POOLS)
def test_every_way_of_pooling_gives_its_own_identity_and_a_head_that_fits(kind: str, pool: str, folder: Path) -> None:
    made = tiny_trunk(kind, folder, pool=pool)
    assert [made.identity == tiny_trunk(kind, folder, pool=other).identity for other in POOLS].count(True) == 1
    features = torch.from_numpy(made.encode(images(2))).float()
    assert torch.isfinite(features).all()
    for part in made.parts:
        assert (part.maps is not None) == (pool == "spatial_embeddings")
        assert make_head(part, 16)(features[:, part.slice]).shape == (2, 16)


@pytest.mark.parametrize("kind", BACKBONES)
def test_cameras_in_one_pass_are_each_camera_alone(kind: str, folder: Path) -> None:
    made, seen = tiny_trunk(kind, folder), images(3)
    together = made.encode(seen).astype(np.float32)
    for name, part in zip(SHAPES, made.parts, strict=True):
        own: dict[str, ImageShape] = {name: SHAPES[name]}
        alone = tiny_trunk(kind, folder, shapes=own).encode({name: seen[name]}).astype(np.float32)
        np.testing.assert_allclose(together[:, part.slice], alone, atol=HALF_PRECISION * np.abs(alone).max(), rtol=0)


@pytest.mark.parametrize("kind", FROZEN)
def test_frozen_trunk_gets_no_gradient_and_its_heads_all_do(kind: str, folder: Path) -> None:
    made = tiny_trunk(kind, folder)
    heads = torch.nn.ModuleList([make_head(part, 8) for part in made.parts])
    features = made(tensors(4))
    state = torch.cat([head(features[:, part.slice]) for head, part in zip(heads, made.parts, strict=True)], dim=1)
    state.square().sum().backward()
    assert not features.requires_grad
    assert not any(parameter.requires_grad for parameter in parameters(made))
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in heads.parameters())


def test_trained_trunk_gets_a_gradient_in_every_weight(folder: Path) -> None:
    made = tiny_trunk("resnet10 trained", folder)
    heads = torch.nn.ModuleList([make_head(part, 8) for part in made.parts])
    features = made(tensors(4))
    state = torch.cat([head(features[:, part.slice]) for head, part in zip(heads, made.parts, strict=True)], dim=1)
    state.square().sum().backward()
    everything = [*parameters(made), *heads.parameters()]
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in everything)


@pytest.mark.parametrize("kind", [kind for kind in FROZEN if kind != "embedded"])
def test_frozen_trunk_stays_in_evaluation_mode_inside_a_learner(kind: str, folder: Path) -> None:
    made = tiny_trunk(kind, folder)
    assert isinstance(made, torch.nn.Module)
    learner = torch.nn.ModuleList([made, torch.nn.Dropout()]).train()
    assert learner[1].training
    assert not any(module.training for module in made.modules())


def test_cameras_of_equal_size_share_one_pass(folder: Path) -> None:
    made = tiny_trunk("resnet10", folder)
    batches: list[tuple[int, ...]] = []
    made.backbone.register_forward_pre_hook(lambda _, inputs: batches.append(tuple(inputs[0].shape)))  # type: ignore[attr-defined]
    made.encode(images(5))
    assert batches == [(10, 3, 40, 48), (5, 3, 32, 32)]
