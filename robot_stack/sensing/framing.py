"""The framing of a captured image as the policy's: turned, cropped, made RGB, resized. The same everywhere.

The order matters for speed alone: turning and cropping are views, so only what is kept is ever converted. Each step
acts on single pixels until the one resize, which is `crop_and_resize`; so every source gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.config.camera import CameraConfig, LiveCameraConfig
from robot_stack.sensing.crop import Roi, crop, crop_and_resize
from robot_stack.sensing.pixels import to_rgb
from robot_stack.types.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """The framing of one camera: sizes, flip and crop, in pixels.

    Attributes:
        height_px: Rows as captured.
        width_px: Columns as captured.
        flip: "none", "rotate_180", "horizontal" or "vertical", before the crop.
        roi: Part that is kept, or None for all.
        policy_height_px: Rows of the result.
        policy_width_px: Columns of the result.
    """

    height_px: int
    width_px: int
    flip: str = "none"
    roi: Roi | None = None
    policy_height_px: int
    policy_width_px: int

    @classmethod
    def of(cls, config: CameraConfig) -> Framing:
        """Build the framing that a camera's file asks for."""
        return cls(
            height_px=config.height_px,
            width_px=config.width_px,
            flip=config.flip if isinstance(config, LiveCameraConfig) else "none",
            roi=None if config.roi_px is None else Roi(**config.roi_px.model_dump()),
            policy_height_px=config.policy_height_px,
            policy_width_px=config.policy_width_px,
        )

    def require(self, rows: int, columns: int) -> None:
        """Refuse a captured image of another size than the camera's file says.

        Raises:
            SpecError: If it has that.
        """
        if (rows, columns) != (self.height_px, self.width_px):
            raise SpecError(
                f"image is {columns}x{rows}, must be {self.width_px}x{self.height_px} as in the camera's file; set the "
                "driver to that size, or the file to this one and crop anew"
            )

    def upright(self, captured: np.ndarray) -> np.ndarray:
        """Return the captured image as it is seen, a view, of the size that is expected.

        Raises:
            SpecError: If it has another size.
        """
        self.require(*captured.shape[:2])
        if self.flip in ("rotate_180", "vertical"):
            captured = captured[::-1]
        return captured[:, ::-1] if self.flip in ("rotate_180", "horizontal") else captured

    def apply(self, captured: np.ndarray, encoding: str = "rgb8") -> np.ndarray:
        """Make the policy's image of a captured one.

        Args:
            captured: uint8, shape (height_px, width_px, channels); is not changed.
            encoding: Layout of its channels.

        Returns:
            RGB uint8, shape (policy_height_px, policy_width_px, 3), contiguous, never a view of `captured`.

        Raises:
            SpecError: If size or encoding are not those expected.
        """
        upright = self.upright(captured)
        kept = upright if self.roi is None else crop(upright, self.roi)
        return crop_and_resize(to_rgb(kept, encoding), None, self.policy_height_px, self.policy_width_px)
