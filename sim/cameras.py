"""Off-screen rendering through EGL or OSMesa."""

from __future__ import annotations

import mujoco
import numpy as np

from robot_stack.types.errors import RobotError

NO_GL = (
    "no OpenGL for rendering ({error}); install Mesa's EGL (Debian and Ubuntu: apt-get install libegl1 libgl1-mesa-dri "
    "libgles2) or OSMesa (apt-get install libosmesa6) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"
)


class CameraRenderer:
    """A renderer of named cameras of one model at one size. Belongs to the thread that made it."""

    def __init__(self, model: mujoco.MjModel, *, height_px: int, width_px: int) -> None:
        try:
            self._renderer = mujoco.Renderer(model, height_px, width_px)
        except Exception as error:  # MuJoCo's GL back ends raise whatever their loader raises
            raise RobotError(NO_GL.format(error=error)) from error
        scene = self._renderer.scene
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            scene.flags[flag] = 0

    def render(self, data: mujoco.MjData, camera: str) -> np.ndarray:
        """Render an image of a camera, RGB uint8, shape (H, W, 3)."""
        self._renderer.update_scene(data, camera)
        return self._renderer.render().copy()

    def close(self) -> None:
        """Free the renderer with its GL context."""
        self._renderer.close()
