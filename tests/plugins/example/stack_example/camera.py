"""A camera that shows noise, in the place of one with a library of its own."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from robot_stack.config.camera import LiveCameraConfig
from robot_stack.sensing.capture import CameraPart, Frame
from robot_stack.types.errors import RobotError


class NoiseCamera(LiveCameraConfig):
    """A camera that shows noise."""

    backend: Literal["example_noise"]
    """Made here."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of the noise."""


class NoiseSource:
    """The source of noise; implements `Source`."""

    def __init__(self, config: NoiseCamera) -> None:
        self._config = config
        self._rng: np.random.Generator | None = None
        self._pause = threading.Event()

    def open(self) -> None:
        """Seed the noise."""
        self._rng = np.random.default_rng(self._config.seed)

    def read(self) -> Frame:
        """Wait for one period and return the next frame."""
        if self._rng is None:
            raise RobotError("noise is not open, must be opened first")
        self._pause.wait(1 / self._config.rate_hz)
        shape = (self._config.height_px, self._config.width_px, 3)
        return Frame(image=self._rng.integers(0, 256, shape, np.uint8), encoding="rgb8", stamp_ns=time.monotonic_ns())

    def close(self) -> None:
        """Forget the noise."""
        self._rng = None


CAMERA = CameraPart(config=NoiseCamera, source=NoiseSource)
