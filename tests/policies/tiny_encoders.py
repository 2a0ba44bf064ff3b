"""Small random trunks of every kind, from checkpoints that are written here and read by the real code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from policies.encoders.embedded import DemoFrames
from policies.encoders.registry import find_encoder, make_trunk
from policies.encoders.resnet import BLOCKS, ResNet
from policies.encoders.trunk import ImageShape, Trunk

SHAPES: dict[str, ImageShape] = {"front": (40, 48, 3), "left": (40, 48, 3), "wrist": (32, 32, 3)}
KINDS = ("embedded", "resnet10", "resnet10 trained", "resnet18", "dinov2", "dinov3", "clip", "timm")
POOLS = ("pooled", "spatial_softmax", "spatial_embeddings")
PROCESSOR = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28], "resample": 3, "do_normalize": True}


def images(count: int, seed: int = 0, shapes: dict[str, ImageShape] = SHAPES) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 256, (count, *shape), dtype=np.uint8) for name, shape in shapes.items()}


def demo() -> DemoFrames:
    rng = np.random.default_rng(0)
    return DemoFrames(
        images=images(7),
        proprio=rng.normal(size=(7, 4)).astype(np.float32),
        actions=rng.uniform(-1, 1, (6, 2)).astype(np.float32),
        to_go=rng.normal(size=(7, 2)).astype(np.float32),
    )


def resnet_file(folder: Path, kind: str = "resnet10", seed: int = 0) -> Path:
    """Weights of a random network."""
    torch.manual_seed(seed)
    path = folder / f"{kind}-{seed}.safetensors"
    save_file(ResNet(BLOCKS[kind]).state_dict(), path)
    return path


def checkpoint(folder: Path, kind: str, seed: int = 0) -> Path:
    """A folder as the hub has it: config, weights, processor. Kinds: dinov2, dinov3, clip, bert."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(seed)
    small: dict[str, Any] = {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
        "image_size": 32, "patch_size": 8,
    }  # fmt: skip
    networks = {
        "dinov2": lambda: transformers.Dinov2Model(transformers.Dinov2Config(**small)),
        "dinov3": lambda: transformers.DINOv3ViTModel(transformers.DINOv3ViTConfig(**small, num_register_tokens=3)),
        "clip": lambda: transformers.CLIPModel(
            transformers.CLIPConfig(
                vision_config=small,
                text_config={"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 20},
            )
        ),
        "bert": lambda: transformers.BertModel(
            transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=20)
        ),
    }
    sizes = {
        "dinov2": {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
        "dinov3": {"size": {"height": 32, "width": 32}},
        "clip": {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True},
        "bert": {},
    }
    path = folder / f"{kind}-{seed}"
    networks[kind]().save_pretrained(path)
    (path / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | sizes[kind]))
    return path


def timm_file(folder: Path, name: str = "test_vit", seed: int = 0) -> Path:
    """Weights of a small random model of timm, classifier included, as they are released."""
    timm = pytest.importorskip("timm", exc_type=ImportError)
    torch.manual_seed(seed)
    path = folder / f"{name}-{seed}.safetensors"
    save_file(timm.create_model(name).state_dict(), path)
    return path


def settings(kind: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Name of the encoder, and settings that make a small one of that kind."""
    name, _, trained = kind.partition(" ")
    if name == "embedded":
        return name, {"steps": 2, "batch": 4}
    if trained:
        return name, {"trained": True}
    if name.startswith("resnet"):
        return name, {"weights": str(resnet_file(folder, name))}
    if name == "timm":
        return name, {"model": "test_vit", "weights": str(timm_file(folder)), "input_px": 160}
    return "transformers", {"model": str(checkpoint(folder, name))}


def tiny_trunk(kind: str, folder: Path, *, shapes: dict[str, ImageShape] = SHAPES, seed: int = 0, **more: Any) -> Trunk:
    name, chosen = settings(kind, folder)
    config = find_encoder(name).config(**(chosen | more))
    return make_trunk(name, shapes, config, demos=[demo()], seed=seed)
