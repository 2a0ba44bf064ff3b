"""Published backbones: tiny checkpoints, written here in the released format and read by the real loaders."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from policies.encoders.config import TimmConfig, TransformersConfig
from policies.encoders.preprocess import Preprocess, read_processor
from policies.encoders.pretrained import make_timm, make_tower
from robot_stack.types.errors import ConfigError
from tests.policies.tiny_encoders import PROCESSOR, SHAPES, checkpoint, images, tiny_trunk

pytestmark = pytest.mark.long  # importing a library of models takes seconds

TOWERS = ("dinov2", "dinov3", "clip")
ONE_LEVEL = 1.01 / 255 / min(PROCESSOR["image_std"])  # type: ignore[type-var]
"""One of 255: PIL's weights are integers, so that it rounds a half to the other side now and then."""


def tower(path: Path, **more: Any) -> Any:
    pytest.importorskip("transformers")
    return make_tower(SHAPES, TransformersConfig(model=str(path), **more))


def real_processor(size: dict[str, int], crop_px: int | None) -> Any:
    """CLIP's own image processor, on PIL."""
    module = pytest.importorskip("transformers.models.clip.image_processing_pil_clip")
    crop = {"crop_size": {"height": crop_px, "width": crop_px}} if crop_px is not None else {}
    numbers = {name: PROCESSOR[name] for name in ("image_mean", "image_std", "resample")}
    return module.CLIPImageProcessorPil(size=size, do_center_crop=crop_px is not None, **crop, **numbers)


def shown_to_model(processor: Any, frames: np.ndarray) -> np.ndarray:
    pixels: np.ndarray = processor(list(frames), return_tensors="np")["pixel_values"]
    return pixels


def ours(settings: dict[str, Any], frames: np.ndarray) -> np.ndarray:
    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2).float()
    shown: np.ndarray = read_processor(settings, None, "this model")(pixels).numpy()
    return shown


@pytest.mark.parametrize("side_px", [20, 32, 50, 128])
@pytest.mark.parametrize("resample", [2, 3])
def test_square_images_reach_the_model_as_through_its_own_processor(side_px: int, resample: int) -> None:
    processor = real_processor({"shortest_edge": 32}, 32)
    processor.resample = resample
    frames = images(3, shapes={"a": (side_px, side_px, 3)})["a"]
    found = ours(processor.to_dict(), frames)
    np.testing.assert_allclose(found, shown_to_model(processor, frames), atol=ONE_LEVEL, rtol=0)


def test_whole_image_is_kept_and_squeezed_where_the_processor_would_cut_out_the_centre() -> None:
    cutting = real_processor({"shortest_edge": 36}, 32)
    whole = real_processor({"height": 32, "width": 32}, None)
    frames = images(2, shapes={"a": (40, 60, 3)})["a"]
    found = ours(cutting.to_dict(), frames)
    assert found.shape == (2, 3, 32, 32)
    np.testing.assert_allclose(found, shown_to_model(whole, frames), atol=ONE_LEVEL, rtol=0)


def test_images_of_the_models_size_are_only_normalised() -> None:
    frames = images(2, shapes={"a": (32, 32, 3)})["a"]
    mean, std = np.array(PROCESSOR["image_mean"]), np.array(PROCESSOR["image_std"])
    expected = ((frames / 255 - mean) / std).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(ours(PROCESSOR | {"size": 32}, frames), expected, atol=1e-5)


@pytest.mark.parametrize("missing", ["size", "image_mean", "image_std", "resample"])
def test_processor_without_a_number_is_refused(missing: str) -> None:
    settings = {name: value for name, value in (PROCESSOR | {"size": 32}).items() if name != missing}
    with pytest.raises(ConfigError, match=f"image processor of x is .*{missing}.*must have all four"):
        read_processor(settings, None, "x")


def test_way_of_resizing_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"with resample one of \[0, 2, 3\]"):
        read_processor(PROCESSOR | {"size": 32, "resample": 5}, None, "x")


@pytest.mark.parametrize("kind", TOWERS)
def test_maps_and_summary_are_what_the_model_says(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    path = checkpoint(tmp_path, kind)
    loader = transformers.CLIPVisionModel if kind == "clip" else transformers.AutoModel
    plain = loader.from_pretrained(path).eval()
    backbone = tower(path).backbone
    pixels = torch.from_numpy(images(2)["wrist"]).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        maps, summary = backbone(pixels)
        said = plain(pixel_values=backbone.preprocess(pixels))
    torch.testing.assert_close(summary, said.pooler_output)
    patches = said.last_hidden_state[:, -16:]
    for row in range(4):
        for column in range(4):
            torch.testing.assert_close(maps[:, :, row, column], patches[:, 4 * row + column])


@pytest.mark.parametrize("kind", TOWERS)
@pytest.mark.parametrize(("row", "column"), [(0, 3), (2, 1)])
def test_cell_of_the_maps_lies_where_its_patch_lies_in_the_image(
    kind: str, row: int, column: int, tmp_path: Path
) -> None:
    backbone = tower(checkpoint(tmp_path, kind)).backbone
    before = torch.full((1, 3, 32, 32), 90.0)
    after = before.clone()
    after[:, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 4] = 200.0
    with torch.no_grad():
        change = (backbone(after)[0] - backbone(before)[0]).square().sum(dim=1)[0]
    assert divmod(int(change.argmax()), 4) == (row, column)


@pytest.mark.parametrize("kind", TOWERS)
def test_one_changed_weight_changes_the_identity(kind: str, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, kind)
    before = tower(path).identity
    tensors = load_file(path / "model.safetensors")
    name = next(name for name in sorted(tensors) if "patch_embed" in name and name.endswith("weight"))
    tensors[name].view(-1)[0] += 1e-6
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    assert tower(path).identity != before


@pytest.mark.parametrize("change", [{"image_std": [0.3, 0.3, 0.3]}, {"resample": 2}])
def test_another_processor_changes_the_identity(change: dict[str, Any], tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "clip")
    before = tower(path).identity
    file = path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert tower(path).identity != before


def test_another_setting_of_the_network_changes_the_identity(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "dinov2")
    before = tower(path).identity
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_attention_heads": 4}))
    assert tower(path).identity != before


def test_place_of_the_checkpoint_does_not_change_the_identity(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "clip")
    before = tower(path).identity
    assert tower(path.rename(tmp_path / "elsewhere")).identity == before


@pytest.mark.parametrize("kind", TOWERS)
def test_smaller_input_gives_fewer_cells_and_another_identity(kind: str, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, kind)
    whole, small = (tower(path, pool="spatial_embeddings", input_px=px) for px in (None, 16))
    assert [part.maps for part in whole.parts] == [(24, 4, 4)] * 3
    assert [part.maps for part in small.parts] == [(24, 2, 2)] * 3
    assert whole.identity != small.identity


@pytest.mark.parametrize("kind", TOWERS)
def test_weights_are_fp32_whatever_the_file_holds(kind: str, tmp_path: Path) -> None:
    path = checkpoint(tmp_path, kind)
    halved = {
        name: t.half() if t.is_floating_point() else t for name, t in load_file(path / "model.safetensors").items()
    }
    save_file(halved, path / "model.safetensors", {"format": "pt"})
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"dtype": "float16"}))
    assert {p.dtype for p in tower(path).parameters()} == {torch.float32}


def test_folder_that_is_not_there_is_answered_with_how_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model of encoder transformers is .*none, must be .*`hf download"):
        tower(tmp_path / "none")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every question to the network, none of which gets an answer."""
    asked: list[object] = []

    def refuse(*arguments: object) -> None:
        asked.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return asked


def test_nothing_is_fetched_unasked(asked: list[object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`hf download facebook/no-such-model`, set local_files_only: false"):
        tower(Path("facebook/no-such-model"))
    assert tower(checkpoint(tmp_path, "clip")).feature_size
    assert not asked


def test_what_is_asked_for_is_fetched(asked: list[object]) -> None:
    with pytest.raises(ConfigError, match="must be a whole checkpoint on this machine"):
        tower(Path("facebook/no-such-model"), local_files_only=False)
    assert asked


def test_model_that_was_fetched_once_is_found_by_its_name(
    asked: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    made = checkpoint(tmp_path, "dinov2")
    cached = tmp_path / "models--lab--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("abc")
    shutil.copytree(made, cached / "snapshots" / "abc")
    assert tower(Path("lab/tiny")).identity == tower(made).identity
    assert not asked


def test_model_that_sees_nothing_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model type of .* is 'bert', must be one of \['clip', .*'dinov3_vit'\]"):
        tower(checkpoint(tmp_path, "bert"))


def test_file_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    file = checkpoint(tmp_path, "dinov2") / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-2000])
    with pytest.raises(ConfigError, match="must be a whole checkpoint on this machine"):
        tower(file.parent)


def test_checkpoint_without_its_weights_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "dinov2")
    (path / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="must be a whole checkpoint on this machine"):
        tower(path)


def test_checkpoint_without_its_processor_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "clip")
    (path / "preprocessor_config.json").unlink()
    with pytest.raises(ConfigError, match="must be a whole checkpoint on this machine"):
        tower(path)


def test_weight_that_the_file_lacks_is_named_instead_of_left_at_random(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "dinov2")
    tensors = load_file(path / "model.safetensors")
    del tensors["layernorm.bias"]
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"lack \['layernorm.bias'\], must fill Dinov2Model"):
        tower(path)


def test_weights_of_another_width_are_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "dinov2")
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hidden_size": 32}))
    with pytest.raises(ConfigError, match="must"):
        tower(path)


def test_weight_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, "clip")
    tensors = load_file(path / "model.safetensors")
    tensors["vision_model.post_layernorm.weight"][3] = torch.inf
    save_file(tensors, path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ConfigError, match=r"post_layernorm.weight of .* is not finite"):
        tower(path)


@pytest.mark.parametrize(("package", "make", "config"), [
    ("transformers", make_tower, TransformersConfig(model="x")),
    ("timm", make_timm, TimmConfig(model="resnet18")),
])  # fmt: skip
def test_missing_package_is_answered_with_the_extra(
    package: str, make: Any, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"needs the package {package}, .*pip install 'robot-stack\[vlm\]'"):
        make(SHAPES, config)


@pytest.mark.parametrize("wrong", [{}, {"model": ""}, {"model": "x", "pool": "mean"}, {"model": "x", "input_px": 8}])
@pytest.mark.parametrize("config", [TransformersConfig, TimmConfig])
def test_settings_out_of_bounds_are_refused(config: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        config(**wrong)


# ------------------------------------------------------------------------------------------------------------- timm
@pytest.fixture
def timm() -> Any:
    return pytest.importorskip("timm", exc_type=ImportError)


def saved(timm: Any, folder: Path, name: str, **options: Any) -> Path:
    torch.manual_seed(0)
    path = folder / f"{name}.safetensors"
    save_file(timm.create_model(name, **options).state_dict(), path)
    return path


@pytest.mark.parametrize("name", ["test_vit", "test_resnet", "test_convnext", "test_efficientnet"])
def test_backbone_of_timm_says_what_the_plain_model_says(timm: Any, name: str, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, name)
    trunk = make_timm(SHAPES, TimmConfig(model=name, weights=str(path)))
    plain = timm.create_model(name, num_classes=0).eval()
    plain.load_state_dict({k: v for k, v in load_file(path).items() if k in plain.state_dict()})
    backbone: Any = trunk.backbone
    pixels = torch.from_numpy(images(2)["front"]).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        maps, summary = backbone(pixels)
        expected = plain(backbone.preprocess(pixels))
    torch.testing.assert_close(summary, expected)
    assert maps.ndim == 4
    assert len(maps) == 2


def test_numbers_of_the_preprocessing_are_those_that_timm_resolves(timm: Any, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, "test_vit")
    preprocess: Preprocess = make_timm(SHAPES, TimmConfig(model="test_vit", weights=str(path))).backbone.preprocess  # type: ignore[attr-defined]
    resolved = timm.data.resolve_model_data_config(timm.create_model("test_vit"))
    assert preprocess.input_px == resolved["input_size"][-1]
    assert preprocess.facts["mean"] == tuple(resolved["mean"])
    assert preprocess.facts["std"] == tuple(resolved["std"])
    assert preprocess.resample == resolved["interpolation"]


def test_smaller_input_of_a_vision_transformer_of_timm(timm: Any, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, "test_vit")
    trunk = make_timm(SHAPES, TimmConfig(model="test_vit", weights=str(path), input_px=96, pool="spatial_embeddings"))
    assert [part.maps for part in trunk.parts] == [(64, 6, 6)] * 3


def test_one_changed_weight_of_timm_changes_the_identity(timm: Any, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, "test_resnet")
    config = TimmConfig(model="test_resnet", weights=str(path))
    before = make_timm(SHAPES, config).identity
    tensors = load_file(path)
    tensors["conv1.0.weight"].view(-1)[0] += 1e-6
    save_file(tensors, path)
    assert make_timm(SHAPES, config).identity != before


def test_misspelt_model_of_timm_is_answered_with_a_near_one(timm: Any) -> None:
    with pytest.raises(ConfigError, match=r"model is 'resnet_18', must be a name of timm; .*'resnet18'"):
        make_timm(SHAPES, TimmConfig(model="resnet_18"))


def test_weights_of_another_model_of_timm_are_refused(timm: Any, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, "test_resnet")
    with pytest.raises(ConfigError, match="must be of timm model test_vit; they do not fit"):
        make_timm(SHAPES, TimmConfig(model="test_vit", weights=str(path)))


def test_weight_that_a_file_for_timm_lacks_is_named(timm: Any, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, "test_resnet")
    tensors = load_file(path)
    del tensors["bn1.running_mean"]
    save_file(tensors, path)
    with pytest.raises(ConfigError, match=r"they do not fit: .*\n?.*bn1.running_mean"):
        make_timm(SHAPES, TimmConfig(model="test_resnet", weights=str(path)))


def test_weights_of_timm_that_are_not_on_this_disk_are_answered_with_how_to_fetch(
    timm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"`hf download timm/resnet18.a1_in1k`"):
        make_timm(SHAPES, TimmConfig(model="resnet18"))


def test_a_convolutional_backbone_of_timm_keeps_its_running_statistics(timm: Any, tmp_path: Path) -> None:
    path = saved(timm, tmp_path, "test_resnet")
    trunk = make_timm(SHAPES, TimmConfig(model="test_resnet", weights=str(path)))
    before = trunk.identity, trunk.encode(images(3))
    trunk.train()
    again = trunk.encode(images(3))
    assert np.array_equal(before[1], again)


def test_towers_of_one_kind_and_other_weights_are_told_apart(tmp_path: Path) -> None:
    assert tower(checkpoint(tmp_path, "clip", seed=0)).identity != tower(checkpoint(tmp_path, "clip", seed=1)).identity
    assert tiny_trunk("clip", tmp_path).identity == tiny_trunk("clip", tmp_path).identity
