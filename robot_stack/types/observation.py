"""The observation sensed at one control tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from robot_stack.types.pose import Pose


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One synchronised observation of a cell, with images already cropped and resized.

    Attributes:
        images: Camera name -> RGB uint8, shape (H, W, 3), as `Spec.check_images` demands.
        proprio: float32, shape (P,), concatenated in the order of `Spec.proprio`, SI units.
        stamp_ns: Control tick on the loop's clock.
        age_s: Age of the oldest part (camera or state) at the tick, in seconds.
        skew_s: Largest difference between the capture stamps of the parts, in seconds.
        T_base_tcp: Arm -> pose of its TCP, for the tick alone: neither recorded nor sent, empty in what is read back.
    """

    images: Mapping[str, np.ndarray]
    proprio: np.ndarray
    stamp_ns: int
    age_s: float = 0.0
    skew_s: float = 0.0
    T_base_tcp: Mapping[str, Pose] = field(default_factory=dict)
