"""Encoders by name, and what another process is told when it cannot have the same trunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from ruamel.yaml import YAML

from policies.encoders.config import EmbeddedConfig, ResNetConfig
from policies.encoders.embedded import DemoFrames
from policies.encoders.registry import ENCODERS, find_encoder, load_trunk, make_trunk
from robot_stack.types.errors import ConfigError, SpecError
from tests.policies.tiny_encoders import SHAPES, checkpoint, demo, images, resnet_file, tiny_trunk

pytestmark = pytest.mark.long

PAGE = Path(__file__).resolve().parents[2] / "docs" / "encoders.md"
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_of_the_page_is_a_valid_setting(example: str) -> None:
    chosen = YAML(typ="safe").load(example)["encoder"]
    assert find_encoder(chosen["name"]).config(**chosen.get("settings", {}))


def test_every_encoder_has_an_example_and_every_setting_stands_in_the_page() -> None:
    assert {YAML(typ="safe").load(example)["encoder"]["name"] for example in EXAMPLES} == set(ENCODERS)
    settings = {name for kind, e in ENCODERS.items() if kind != "embedded" for name in e.config.model_fields}
    assert not [name for name in settings if f"| `{name}` |" not in PAGE.read_text()]


def test_unknown_encoder_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="encoder is 'resnet50', must be one of") as refused:
        find_encoder("resnet50")
    assert all(name in str(refused.value) for name in ENCODERS)


@pytest.mark.parametrize("name", ENCODERS)
def test_unknown_setting_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        ENCODERS[name].config(model="x", trained=True, weights="x", steps=1, droupout=0.1)


def test_demonstrations_are_read_only_by_the_encoder_that_is_trained_on_them() -> None:
    def never() -> Iterator[DemoFrames]:
        raise AssertionError("read")
        yield

    assert make_trunk("resnet10", SHAPES, ResNetConfig(trained=True), demos=never(), seed=0).feature_size
    with pytest.raises(AssertionError, match="read"):
        make_trunk("embedded", SHAPES, EmbeddedConfig(steps=1), demos=never(), seed=0)


def test_training_of_the_embedded_trunk_is_reported() -> None:
    said: list[tuple[int, int]] = []
    config = EmbeddedConfig(steps=3, batch=4)
    made = make_trunk(
        "embedded", SHAPES, config, demos=[demo()], seed=0, on_step=lambda step, steps, loss: said.append((step, steps))
    )
    assert said == [(1, 3), (2, 3), (3, 3)]
    assert made.travels


def test_other_weights_on_the_actors_machine_are_refused(tmp_path: Path) -> None:
    made = tiny_trunk("resnet10", tmp_path)
    resnet_file(tmp_path, seed=1).replace(tmp_path / "resnet10-0.safetensors")
    with pytest.raises(SpecError, match=f"must be {made.identity}; put the learner's weights file on this machine"):
        load_trunk(made.reference, SHAPES, {})


def test_weights_that_are_not_on_the_actors_machine_are_named(tmp_path: Path) -> None:
    made = tiny_trunk("resnet10", tmp_path)
    (tmp_path / "resnet10-0.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"resnet10-0.safetensors, must be a file; copy it there, .* each actor's"):
        load_trunk(made.reference, SHAPES, {})


def test_other_checkpoint_on_the_actors_machine_is_refused(tmp_path: Path) -> None:
    made = tiny_trunk("clip", tmp_path)
    checkpoint(tmp_path, "clip", seed=1).joinpath("model.safetensors").replace(tmp_path / "clip-0/model.safetensors")
    with pytest.raises(SpecError, match="put the learner's weights file on this machine"):
        load_trunk(made.reference, SHAPES, {})


def test_damaged_weights_of_a_frozen_trunk_that_travels_are_refused(tmp_path: Path) -> None:
    made = tiny_trunk("embedded", tmp_path)
    damaged: dict[str, Any] = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    damaged["fused.0.bias"][0] += 1e-3
    with pytest.raises(SpecError, match="the parameters are damaged"):
        load_trunk(made.reference, SHAPES, damaged)


def test_weights_for_other_cameras_are_refused(tmp_path: Path) -> None:
    made = tiny_trunk("embedded", tmp_path)
    with pytest.raises(SpecError, match="weights of the trunk do not fit the cameras of this cell"):
        load_trunk(made.reference, {"front": (40, 48, 3)}, made.state_dict())


@pytest.mark.parametrize("kind", ["embedded", "resnet10", "resnet10 trained", "clip"])
def test_reference_is_made_of_strings_alone(kind: str, tmp_path: Path) -> None:
    reference = tiny_trunk(kind, tmp_path).reference
    assert set(reference) == {"encoder", "settings", "identity"}
    assert all(isinstance(value, str) for value in reference.values())


def test_feature_that_half_precision_cannot_hold_is_refused(tmp_path: Path) -> None:
    made: Any = tiny_trunk("resnet10", tmp_path, pool="pooled")
    with torch.no_grad():
        made.backbone.stages[3][0].norm2.weight.fill_(1e6)
    with pytest.raises(SpecError, match="a feature is not finite as float16, must be"):
        made.encode(images(1))
    assert np.isfinite(made({n: torch.from_numpy(i) for n, i in images(1).items()}).numpy()).all()
