"""The encoder that looks at nothing: features of length 0, however many frames there are, and no weights."""

from __future__ import annotations

import numpy as np
import torch

from policies.encoders.config import NoConfig
from policies.encoders.registry import load_trunk, make_trunk
from policies.encoders.trunk import encode_frames

IMAGES = {"front": np.zeros((3, 16, 16, 3), np.uint8)}


def test_it_has_no_features_with_and_without_images() -> None:
    trunk = make_trunk("none", {}, NoConfig(), demos=[], seed=0)
    assert (trunk.feature_size, trunk.parts) == (0, ())
    assert trunk.encode(IMAGES).shape == (3, 0)
    assert trunk({name: torch.from_numpy(pixels) for name, pixels in IMAGES.items()}).shape == (3, 0)
    assert encode_frames(trunk, {}, 5).shape == (5, 0)
    assert encode_frames(trunk, {}, 5).dtype == np.float16


def test_it_is_the_same_elsewhere_without_any_weights() -> None:
    trunk = make_trunk("none", {}, NoConfig(), demos=[], seed=0)
    assert not trunk.travels
    assert load_trunk(trunk.reference, {"front": (16, 16, 3)}, {}).identity == trunk.identity
