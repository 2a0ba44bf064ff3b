"""Resizing and normalising on the tensor, as the image processors of published models do it with PIL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from robot_stack.types.errors import ConfigError

RESAMPLES = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}
"""PIL's numbers, as they stand in preprocessor_config.json."""


class Preprocess(nn.Module):
    """A layer that resizes the whole image to the model's square input and normalises it.

    Columns first, then rows, rounded to bytes after each, as PIL does it.

    Deviation: where a model's processor enlarges and cuts out the centre, the whole image is kept, squeezed to a
    square if it is none. What a workcell's camera shows was cut out on purpose already; and an insertion often ends
    at the border.

    Args:
        input_px: Side of the model's input.
        mean: Per colour, of [0, 1].
        std: Likewise.
        resample: One of `RESAMPLES`.
    """

    def __init__(self, *, input_px: int, mean: tuple[float, ...], std: tuple[float, ...], resample: str) -> None:
        super().__init__()
        self.mean: Tensor
        self.std: Tensor
        self.input_px = input_px
        self.resample = resample
        self.facts: dict[str, Any] = {"input_px": input_px, "mean": mean, "std": std, "resample": resample}
        self.register_buffer("mean", 255 * torch.tensor(mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(std).view(3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Resize and normalise pixels (N, 3, H, W) in [0, 255] to (N, 3, input_px, input_px)."""
        smooth = self.resample != "nearest-exact"
        for size in ((pixels.shape[2], self.input_px), (self.input_px, self.input_px)):
            if pixels.shape[2:] != size:
                pixels = functional.interpolate(pixels, size, mode=self.resample, antialias=smooth)
                pixels = pixels.round().clamp(0, 255)
        return (pixels - self.mean) / self.std


def read_processor(settings: Mapping[str, Any], input_px: int | None, what: str) -> Preprocess:
    """Build the preprocessing from the settings of a model's image processor.

    Args:
        settings: preprocessor_config.json.
        input_px: Another side than the model's own.
        what: The model, for the message.

    Raises:
        ConfigError: If a setting is missing, or is one that is not known here.
    """
    cut = settings.get("do_center_crop") and settings.get("crop_size")
    size = settings.get("crop_size") if cut else settings.get("size")
    own_px = size.get("height", size.get("shortest_edge")) if isinstance(size, Mapping) else size
    mean, std, resample = (settings.get(name) for name in ("image_mean", "image_std", "resample"))
    if not own_px or not mean or not std or resample not in RESAMPLES:
        found = {"size": size, "image_mean": mean, "image_std": std, "resample": resample}
        raise ConfigError(
            f"image processor of {what} is {found}, must have all four, with resample one of {sorted(RESAMPLES)}; "
            "check its preprocessor_config.json"
        )
    return Preprocess(
        input_px=int(own_px) if input_px is None else input_px,
        mean=tuple(map(float, mean)),
        std=tuple(map(float, std)),
        resample=RESAMPLES[resample],
    )
