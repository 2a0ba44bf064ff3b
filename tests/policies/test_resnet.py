"""The residual networks: their size, their padding, their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from policies import precision
from policies.encoders.config import ResNetConfig
from policies.encoders.registry import load_trunk
from policies.encoders.resnet import BLOCKS, IMAGENET_MEAN, IMAGENET_STD, ResNet, make_resnet
from robot_stack.types.errors import ConfigError
from tests.policies.tiny_encoders import SHAPES, images, resnet_file, tiny_trunk


@pytest.mark.parametrize(("kind", "millions"), [("resnet10", 4.90), ("resnet18", 11.17)])
def test_number_of_parameters_is_the_published_one(kind: str, millions: float) -> None:
    count = sum(parameter.numel() for parameter in ResNet(BLOCKS[kind]).parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.01)


def test_an_image_of_128_pixels_gives_maps_of_four_by_four() -> None:
    maps, summary = ResNet(BLOCKS["resnet10"])(torch.zeros(1, 3, 128, 128))
    assert maps.shape == (1, 512, 4, 4)
    torch.testing.assert_close(summary, maps.mean(dim=(2, 3)))


@pytest.mark.long
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))],
)
def test_maps_stay_bf16_on_the_fast_path_and_gradients_those_of_float32(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    network = ResNet(BLOCKS["resnet10"]).to(device)
    pixels = torch.randint(0, 256, (4, 3, 64, 64), device=device).float()
    found = {}
    for fast in (False, True):
        monkeypatch.setitem(precision.FAST_BF16, device, fast)
        network.zero_grad()
        with precision.fast(device):
            maps, _ = network(pixels)
        maps.float().square().mean().backward()
        found[fast] = maps, torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
    assert (found[False][0].dtype, found[True][0].dtype) == (torch.float32, torch.bfloat16)
    for exact, near in zip(found[False], found[True], strict=True):
        assert (near.float() - exact).norm() < 0.05 * exact.norm()


@pytest.mark.parametrize(("size", "first_rows"), [(8, [0, 1, 2]), (7, [0, 1])])
def test_stride_of_two_pads_below_and_to_the_right_first(size: int, first_rows: list[int]) -> None:
    convolution = ResNet(BLOCKS["resnet10"]).stages[1][0].conv1  # type: ignore[index,union-attr]
    pixels = torch.randn(1, 64, size, size, requires_grad=True)
    found = convolution(pixels)  # type: ignore[operator]
    assert found.shape[2:] == (4, 4)
    found[0, :, 0, 0].sum().backward()
    assert pixels.grad is not None
    assert pixels.grad[0].abs().sum(dim=(0, 2)).nonzero().flatten().tolist() == first_rows
    assert pixels.grad[0].abs().sum(dim=(0, 1)).nonzero().flatten().tolist() == first_rows


def test_pixels_are_normalised_with_the_means_of_imagenet() -> None:
    network = ResNet(BLOCKS["resnet10"]).eval()
    seen: list[torch.Tensor] = []
    network.stem.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(torch.full((1, 3, 32, 32), 200.0))
    expected = (200 / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    np.testing.assert_allclose(seen[0][0, :, 5, 5].numpy(), expected, rtol=1e-5)


@pytest.mark.long
def test_weights_of_the_file_are_those_of_the_trunk(tmp_path: Path) -> None:
    path = resnet_file(tmp_path)
    trunk = make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(path)), seed=0)
    for name, tensor in load_file(path).items():
        assert torch.equal(trunk.state_dict()[f"backbone.{name}"], tensor)


@pytest.mark.long
def test_one_changed_weight_changes_the_identity(tmp_path: Path) -> None:
    tensors = load_file(resnet_file(tmp_path))
    tensors["stages.3.0.norm2.bias"][7] += 1e-6
    save_file(tensors, tmp_path / "changed.safetensors")
    configs = [ResNetConfig(weights=str(tmp_path / f"{n}.safetensors")) for n in ("resnet10-0", "changed")]
    first, other = (make_resnet("resnet10", SHAPES, config, seed=0).identity for config in configs)
    assert first != other


@pytest.mark.long
def test_place_of_the_file_does_not_change_the_identity(tmp_path: Path) -> None:
    path = resnet_file(tmp_path)
    moved = path.rename(tmp_path / "elsewhere.safetensors")
    first = make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(moved)), seed=0).identity
    again = make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(resnet_file(tmp_path))), seed=1).identity
    assert first == again


@pytest.mark.long
def test_random_weights_are_decided_by_the_seed_and_leave_the_global_one_alone() -> None:
    config = ResNetConfig(trained=True)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, again, other = (make_resnet("resnet10", SHAPES, config, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    seen = images(1)
    assert np.array_equal(first.encode(seen), again.encode(seen))
    assert not np.array_equal(first.encode(seen), other.encode(seen))


@pytest.mark.long
def test_training_goes_on_from_the_file_where_one_is_given(tmp_path: Path) -> None:
    frozen = tiny_trunk("resnet10", tmp_path)
    trained = tiny_trunk("resnet10", tmp_path, trained=True)
    assert np.array_equal(trained.encode(images(2)), frozen.encode(images(2)))
    assert trained.travels
    assert not frozen.travels


def test_identity_of_a_trained_trunk_stays_while_it_learns(tmp_path: Path) -> None:
    trunk = tiny_trunk("resnet10 trained", tmp_path)
    before = trunk.identity
    with torch.no_grad():
        trunk.backbone.stem.weight.mul_(1.5)  # type: ignore[attr-defined]
    assert trunk.identity == before


@pytest.mark.long
def test_trained_trunk_reaches_the_actor_without_its_file(tmp_path: Path) -> None:
    trunk = tiny_trunk("resnet10", tmp_path, trained=True)
    (tmp_path / "resnet10-0.safetensors").unlink()
    published = {name: tensor.half() for name, tensor in trunk.state_dict().items()}
    again = load_trunk(trunk.reference, SHAPES, published)
    features, found = trunk.encode(images(2)).astype(np.float32), again.encode(images(2)).astype(np.float32)
    np.testing.assert_allclose(found, features, atol=5e-3 * np.abs(features).max(), rtol=0)


def test_frozen_network_without_weights_is_refused_in_words() -> None:
    with pytest.raises(ValidationError, match="weights is missing, must be a safetensors file; or set trained: true"):
        ResNetConfig()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"weights of encoder resnet10 is .*none.safetensors, must be a file"):
        make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(tmp_path / "none.safetensors")), seed=0)


def test_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = resnet_file(tmp_path)
    path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(ConfigError, match="must be a whole safetensors file"):
        make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(path)), seed=0)


def test_file_of_another_network_is_refused_with_what_does_not_fit(tmp_path: Path) -> None:
    path = resnet_file(tmp_path, "resnet18")
    with pytest.raises(ConfigError, match=r"24 do not fit: stages.0.1.conv1.weight is left over"):
        make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(path)), seed=0)


def test_weight_of_another_shape_is_refused(tmp_path: Path) -> None:
    tensors = load_file(resnet_file(tmp_path))
    tensors["stem_norm.bias"] = torch.zeros(65)
    save_file(tensors, tmp_path / "odd.safetensors")
    with pytest.raises(ConfigError, match=r"stem_norm.bias is \(65,\), must be \(64,\)"):
        make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(tmp_path / "odd.safetensors")), seed=0)


def test_weight_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    tensors = load_file(resnet_file(tmp_path))
    tensors["stem.weight"][0, 0, 0, 0] = torch.nan
    save_file(tensors, tmp_path / "nan.safetensors")
    with pytest.raises(ConfigError, match=r"weight stem.weight of .* is not finite"):
        make_resnet("resnet10", SHAPES, ResNetConfig(weights=str(tmp_path / "nan.safetensors")), seed=0)
