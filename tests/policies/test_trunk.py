"""The embedded trunk: what it encodes, how it is trained, and that two trunks are never mistaken for one another."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from policies.encoders.config import EmbeddedConfig
from policies.encoders.embedded import REFIT, DemoFrames, EmbeddedTrunk, fit_trunk
from policies.encoders.registry import load_trunk
from robot_stack.types.errors import SpecError

SHAPES = {"front": (24, 32, 3), "wrist": (24, 24, 3)}
QUICK = EmbeddedConfig(steps=40, batch=16)
QUARTER_TURN = np.pi / 2


def trunk(seed: int = 0) -> EmbeddedTrunk:
    torch.manual_seed(seed)
    return EmbeddedTrunk(SHAPES, 2)


def images(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 256, (count, *shape), dtype=np.uint8) for name, shape in SHAPES.items()}


def demo(seed: int, steps: int = 12) -> DemoFrames:
    """A bright square that moves to the right, one pixel a frame."""
    rng = np.random.default_rng(seed)
    row, column = rng.integers(2, 18), rng.integers(0, 6)
    seen = {name: np.full((steps + 1, *shape), 60, np.uint8) for name, shape in SHAPES.items()}
    for frames in seen.values():
        for t in range(steps + 1):
            frames[t, row : row + 5, column + t : column + t + 5] = (250, 200, 40)
    left = np.linspace(1, 0, steps + 1, dtype=np.float32)
    return DemoFrames(
        images=seen,
        proprio=rng.normal(size=(steps + 1, 4)).astype(np.float32),
        actions=np.tile(np.float32([0.5, -0.2]), (steps, 1)),
        to_go=np.stack([left, 0 * left], axis=1),
    )


def test_features_are_standardised_half_floats_of_the_declared_size() -> None:
    made = trunk()
    features = made.encode(images(5))
    assert features.dtype == np.float16
    assert features.shape == (5, made.feature_size)
    assert np.abs(features.astype(np.float32)).max() <= 8
    assert made.slices[-1].stop == made.feature_size
    assert [part.start for part in made.slices[1:]] == [part.stop for part in made.slices[:-1]]


def test_slice_of_a_camera_depends_on_that_camera_alone() -> None:
    made, seen = trunk(), images(3)
    before = made.encode(seen)
    after = made.encode(seen | {"wrist": 255 - seen["wrist"]})
    front, wrist, fused = made.slices
    assert np.array_equal(before[:, front], after[:, front])
    assert not np.allclose(before[:, wrist], after[:, wrist])
    assert not np.allclose(before[:, fused], after[:, fused])


@pytest.mark.long
def test_light_of_another_brightness_and_colour_changes_no_feature() -> None:
    made = fit_trunk([demo(1), demo(2)], SHAPES, QUICK, seed=0)
    seen = {name: frames.astype(np.float64) for name, frames in demo(3).images.items()}
    plain = made.encode({name: frames.astype(np.uint8) for name, frames in seen.items()}).astype(np.float32)
    for gain in ((0.7, 0.7, 0.7), (0.5, 0.8, 1.0)):
        lit = made.encode({name: np.rint(frames * gain).astype(np.uint8) for name, frames in seen.items()})
        assert np.abs(lit.astype(np.float32) - plain).mean() < 0.2 * plain.std()


def test_a_black_image_has_features_too() -> None:
    black = {name: np.zeros((1, *shape), np.uint8) for name, shape in SHAPES.items()}
    assert np.isfinite(trunk().encode(black)).all()


def test_long_recordings_are_encoded_in_chunks_of_no_consequence() -> None:
    made, seen = trunk(), images(7)
    np.testing.assert_allclose(made.encode(seen, chunk=3), made.encode(seen, chunk=100), atol=5e-3)


def test_no_frames_give_no_features() -> None:
    made = trunk()
    assert made.encode(images(0)).shape == (0, made.feature_size)


@pytest.mark.parametrize("wrong", [{"wrist": np.zeros((2, 24, 32, 3), np.uint8)}, {"wrist": None}])
def test_images_of_another_cell_are_refused(wrong: dict[str, np.ndarray | None]) -> None:
    seen = {name: array for name, array in (images(2) | wrong).items() if array is not None}
    with pytest.raises(SpecError, match=r"camera wrist .* must be \(N, \(24, 24, 3\)\)"):
        trunk().encode(seen)


def test_identity_changes_with_any_weight_and_with_the_scale() -> None:
    made = trunk()
    identities = {made.identity}
    for parameter in made.parameters():
        with torch.no_grad():
            parameter.view(-1)[0] += 1e-3
        identities.add(made.identity)
    made.standardise_over(torch.randn(10, made.feature_size))
    identities.add(made.identity)
    assert len(identities) == len(list(made.parameters())) + 2


def test_identity_survives_saving() -> None:
    made, other = trunk(0), trunk(1)
    assert other.identity != made.identity
    other.load_state_dict(made.state_dict())
    assert other.identity == made.identity


def test_standardised_features_of_the_training_frames_have_mean_zero_and_spread_one() -> None:
    made, seen = trunk(), images(64)
    with torch.no_grad():
        made.standardise_over(made.measure({name: torch.from_numpy(array) for name, array in seen.items()}))
    features = made.encode(seen).astype(np.float32)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=0.02)
    assert np.median(features.std(axis=0)) == pytest.approx(1, abs=0.05)


@pytest.mark.long
def test_training_lowers_its_loss_and_freezes_the_trunk() -> None:
    losses: list[float] = []
    made = fit_trunk([demo(0), demo(1)], SHAPES, QUICK, seed=0, on_step=lambda *step: losses.append(step[2]))
    assert len(losses) == QUICK.steps
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
    assert not any(parameter.requires_grad for parameter in made.parameters())


@pytest.mark.long
def test_training_is_decided_by_its_seed() -> None:
    short = QUICK.model_copy(update={"steps": 3})
    first, again, other = (fit_trunk([demo(0)], SHAPES, short, seed=seed).identity for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in EmbeddedConfig.model_fields if name not in REFIT])
def test_every_setting_changes_the_trunk(name: str) -> None:
    base = EmbeddedConfig(steps=4, batch=8)
    value = getattr(base, name)
    changed = base.model_copy(update={name: value + 1 if isinstance(value, int) else 0.5 * value})
    assert changed != base
    first, other = (fit_trunk([demo(0)], SHAPES, config, seed=0).identity for config in (base, changed))
    assert first != other


@pytest.mark.long
def test_a_refit_has_steps_of_its_own_and_the_first_fit_none_of_it() -> None:
    base = EmbeddedConfig(steps=4, batch=8)
    asked = base.model_copy(update={"refit_at": (3,), "refit_steps": 7})
    first, same, again = (
        fit_trunk([demo(0)], SHAPES, config, seed=0).identity for config in (base, asked, asked.for_refit())
    )
    assert first == same != again
    assert asked.for_refit().steps == 7


def turning(seed: int, steps: int = 10) -> DemoFrames:
    """A square somewhere in the image, seen from a hand that turns until it is aligned; "to go" is what is left."""
    rng = np.random.default_rng(seed)
    left = np.linspace(rng.uniform(-0.7, 0.7), 0.0, steps + 1)
    frames, colour = np.zeros((steps + 1, 32, 32, 3), np.uint8), rng.uniform(0.8, 1.0)
    for frame, angle, middle in zip(frames, left, rng.uniform(11, 21, (steps + 1, 2)), strict=True):
        turns = angle + np.pi / 4 + QUARTER_TURN * np.arange(4)
        corners = middle + 7 * np.stack([np.cos(turns), np.sin(turns)], axis=1)
        frame[:] = 90 * colour
        cv2.fillPoly(frame, [np.round(16 * corners).astype(np.int32)], (250 * colour, 140, 40), cv2.LINE_AA, 4)
    return DemoFrames(
        images={"wrist": frames},
        proprio=np.zeros((steps + 1, 1), np.float32),
        actions=np.clip(left[:-1, None] / 0.2, -1, 1).astype(np.float32),
        to_go=(left[:, None] / 0.15).astype(np.float32),
    )


def angle_error_rad(made: EmbeddedTrunk, demos: list[DemoFrames]) -> float:
    """Root mean square error of the way that is left, of demonstrations that taught nothing."""
    told = [made.measure({"wrist": torch.from_numpy(demo.images["wrist"])})[:, -1].numpy() for demo in demos]
    return float(0.15 * np.sqrt(np.mean((np.concatenate(told) - np.concatenate([d.to_go[:, 0] for d in demos])) ** 2)))


@pytest.mark.long
def test_twenty_demonstrations_teach_an_angle() -> None:
    shapes, config = {"wrist": (32, 32, 3)}, EmbeddedConfig(steps=150, batch=48)
    made = fit_trunk([turning(seed) for seed in range(20)], shapes, config, seed=0)
    assert angle_error_rad(made, [turning(100 + seed) for seed in range(20)]) < 0.09  # 0.115 with a third of the rate


def test_a_trunk_of_before_the_hidden_layer_is_loaded_as_it_was() -> None:
    torch.manual_seed(0)
    old = EmbeddedTrunk(SHAPES, 2, hidden=0)
    assert "hidden" not in old.reference["settings"]
    assert load_trunk(old.reference, SHAPES, old.state_dict()).identity == old.identity


def test_a_hidden_layer_travels_with_the_reference() -> None:
    made = trunk().eval()
    again = load_trunk(made.reference, SHAPES, made.state_dict())
    assert again.identity == made.identity
    assert np.array_equal(again.encode(images(2)), made.encode(images(2)))
