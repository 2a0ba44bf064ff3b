"""One simulated camera of a cell: rendered as captured, then cropped and resized like any other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robot_stack.config.camera import CameraConfig
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.lens import Lens
from sim.cell import scene_camera
from sim.description import focal_length_px
from sim.scene import CameraRenderer
from sim.world import World

NOISY_ENTRIES = 64


class SimCamera:
    """A simulated camera of a cell, which belongs to the thread that made it.

    Args:
        world: What it looks at.
        name: Name of the camera in the cell.
        config: Size as captured, kept part, size as the policy sees it.
    """

    def __init__(self, world: World, name: str, config: CameraConfig) -> None:
        self._world = world
        self._framing = replace(Framing.of(config), flip="none")  # the simulator's cameras hang upright
        self._cell_name = name
        self._name = scene_camera(name, world.model)
        self.captured = np.zeros((config.height_px, config.width_px, 3), np.uint8)
        """Whole image that was captured last, RGB."""
        self._renderer = CameraRenderer(world.model, height_px=config.height_px, width_px=config.width_px)

    def see(self, noise: np.random.Generator | None = None) -> np.ndarray:
        """Return the policy's image, RGB uint8 (H, W, 3), of a sensor with noise if that is given."""
        self.captured = captured = self._renderer.render(self._world.data, self._name)
        if noise is not None:
            add_sensor_noise(captured, noise)
        return self._world.conditions.spoil(self._framing.apply(captured))

    def lens(self) -> Lens:
        """Return the lens of the policy's image."""
        width_px, height_px = self._framing.width_px, self._framing.height_px
        focal_px = focal_length_px(self._world.model, self._cell_name, height_px)
        whole = Lens(
            width_px=width_px,
            height_px=height_px,
            focal_px=(focal_px, focal_px),
            centre_px=((width_px - 1) / 2, (height_px - 1) / 2),
        )
        return whole.framed(self._framing)

    def close(self) -> None:
        """Free the GL context of the renderer."""
        self._renderer.close()


def add_sensor_noise(image: np.ndarray, rng: np.random.Generator) -> None:
    """Flip the last bit of a few entries, in place: without any noise a still scene looks like a frozen camera."""
    image.reshape(-1)[rng.integers(0, image.size, NOISY_ENTRIES)] ^= 1
