"""Thumbnails lie beyond what a policy reads, show where things are, and do not change with the light."""

from __future__ import annotations

import numpy as np
import torch

from policies.encoders.config import EmbeddedConfig
from policies.encoders.embedded import EmbeddedTrunk, fit_trunk
from policies.encoders.registry import load_trunk
from policies.encoders.thumbnails import shrink, thumbnails_of
from tests.policies.test_trunk import SHAPES, demo, images


def shown(trunk: EmbeddedTrunk, seen: dict[str, np.ndarray], number: int) -> np.ndarray:
    start, stop = thumbnails_of(trunk)[number]
    return trunk.encode(seen)[:, start:stop].reshape(-1, trunk.thumbnail, trunk.thumbnail, 3)


def test_a_trunk_with_thumbnails_is_the_same_to_a_policy() -> None:
    torch.manual_seed(0)
    plain = EmbeddedTrunk(SHAPES, 2)
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(SHAPES, 2, thumbnail=8)
    assert thumbnails_of(plain) == ()
    assert trunk.parts == plain.parts
    assert [stop - start for start, stop in thumbnails_of(trunk)] == [8 * 8 * 3] * 2
    assert thumbnails_of(trunk)[0][0] == plain.feature_size
    seen = images(3)
    assert np.array_equal(trunk.encode(seen)[:, : plain.feature_size], plain.encode(seen))
    assert trunk.identity != plain.identity


def test_a_thing_is_in_the_cells_where_the_image_has_it() -> None:
    trunk = EmbeddedTrunk({"front": (64, 64, 3), "wrist": (24, 24, 3)}, 2, thumbnail=8)
    seen = {"front": np.full((1, 64, 64, 3), 100, np.uint8), "wrist": np.full((1, 24, 24, 3), 100, np.uint8)}
    seen["front"][0, 16:24, 40:48, 0] = 250
    seen["wrist"][0, 21:, :3, 2] = 250
    front, wrist = shown(trunk, seen, 0)[0], shown(trunk, seen, 1)[0]
    assert np.argwhere(front > 1).tolist() == [[2, 5, 0]]
    assert np.argwhere(wrist > 1).tolist() == [[7, 0, 2]]


def test_light_that_multiplies_the_colours_changes_no_thumbnail() -> None:
    rng = np.random.default_rng(0)
    scene = rng.integers(20, 120, (2, 24, 32, 3)).astype(np.float32)
    one, other = (shrink({"front": torch.from_numpy(scene * light)}, 8) for light in (1.0, np.float32([2.0, 1.5, 0.7])))
    assert torch.allclose(one, other, atol=0.06)


def test_images_of_any_size_are_shrunk() -> None:
    for size in ((24, 32), (5, 7), (480, 640)):
        assert shrink({"front": torch.zeros(1, *size, 3)}, 8).shape == (1, 192)


def test_a_fitted_trunk_has_thumbnails_and_another_process_makes_the_same() -> None:
    trunk = fit_trunk([demo(0)], SHAPES, EmbeddedConfig(steps=2, batch=4), seed=0)
    assert trunk.thumbnail == 8
    again = load_trunk(trunk.reference, SHAPES, trunk.state_dict())
    seen = images(2)
    assert np.array_equal(again.encode(seen), trunk.encode(seen))
    assert thumbnails_of(again) == thumbnails_of(trunk)


def test_a_trunk_of_before_thumbnails_is_loaded_as_it_was() -> None:
    torch.manual_seed(0)
    old = EmbeddedTrunk(SHAPES, 2)
    assert "thumbnail" not in old.reference["settings"]
    assert load_trunk(old.reference, SHAPES, old.state_dict()).identity == old.identity
