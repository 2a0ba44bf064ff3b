"""The models of cameras/*.yaml: a type of camera and how its images become the policy's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.files import patterns
from robot_stack.config.section import Section

CapturePx = Annotated[int, Field(ge=8, le=8192)]
PolicyPx = Annotated[int, Field(ge=8, le=1024)]
Topic = Annotated[str, Field(pattern=patterns.ROS_NAME, max_length=256)]
"""Name of a ROS topic; with a leading slash as it is, without one below the namespace of the cell."""


class Roi(Section):
    """The part of the captured image that is kept."""

    top: Annotated[int, Field(ge=0)]
    """First row."""
    left: Annotated[int, Field(ge=0)]
    """First column."""
    height: Annotated[int, Field(ge=8)]
    """Rows."""
    width: Annotated[int, Field(ge=8)]
    """Columns."""


class CameraConfig(Section):
    """The settings that every camera has, wherever its images come from."""

    backend: str
    """Where its images come from."""
    width_px: CapturePx
    """Captured columns."""
    height_px: CapturePx
    """Captured rows."""
    roi_px: Roi | None = None
    """Crop before resizing; the whole image if absent. A cell may set its own."""
    policy_width_px: PolicyPx
    """Columns after crop and resize."""
    policy_height_px: PolicyPx
    """Rows after crop and resize."""
    rate_hz: Annotated[float, Field(gt=0, le=240)]
    """Frame rate."""
    max_age_s: Annotated[float, Field(gt=0, le=1)]
    """An older image is stale, and stale means hold."""

    @property
    def frozen_after_s(self) -> float | None:
        """Return how long content may stay unchanged before it counts as frozen, in seconds; None never looks."""
        raise NotImplementedError

    @field_validator("roi_px")
    @classmethod
    def _inside_image(cls, roi: Roi | None, info: ValidationInfo) -> Roi | None:
        height, width = info.data.get("height_px"), info.data.get("width_px")
        if roi is None or height is None or width is None:
            return roi
        bottom, right = roi.top + roi.height, roi.left + roi.width
        if bottom > height or right > width:
            raise ValueError(
                f"roi_px ends at row {bottom} and column {right}, must be within {height} rows and {width} columns; "
                "make it smaller or move it"
            )
        return roi

    @field_validator("max_age_s")
    @classmethod
    def _longer_than_a_frame(cls, age_s: float, info: ValidationInfo) -> float:
        rate_hz = info.data.get("rate_hz")
        if rate_hz is not None and age_s * rate_hz <= 1.0:
            raise ValueError(
                f"max_age_s is {age_s}, must be longer than one frame at {rate_hz} Hz ({1 / rate_hz:.3f} s); raise it"
            )
        return age_s


class SimCameraConfig(CameraConfig):
    """A camera of the simulator."""

    backend: Literal["sim"]
    """Rendered."""
    freeze_frames: Annotated[int, Field(ge=2, le=1000)]
    """This many identical images in a row mean that the camera is frozen."""

    @property
    def frozen_after_s(self) -> float | None:
        """Return the time that `freeze_frames` take at the frame rate, in seconds."""
        return self.freeze_frames / self.rate_hz


class EnvironmentCameraConfig(CameraConfig):
    """An image in the observation of an environment."""

    backend: Literal["gymnasium"]
    """Comes with each step of it."""

    @property
    def frozen_after_s(self) -> float | None:
        """Return None: nobody looks, an environment may well stand still."""
        return None


class LiveCameraConfig(CameraConfig):
    """The settings that every camera has that is not simulated."""

    flip: Literal["none", "rotate_180", "horizontal", "vertical"] = "none"
    """How the camera hangs; turned before the crop, so that roi_px is in the image as it is seen."""
    freeze_s: Annotated[float, Field(ge=0.1, le=60)] | None
    """Content that has not changed for this long is frozen; null never looks, for a source without sensor noise."""
    reference: Annotated[str, Field(min_length=1)] | None = None
    """Image of this view, made by `robot-stack camera`, to notice two cameras that were swapped. Belongs to a cell."""

    @property
    def frozen_after_s(self) -> float | None:
        """Return `freeze_s`, in seconds; None never looks."""
        return self.freeze_s


class V4l2CameraConfig(LiveCameraConfig):
    """A camera at a USB port or any other Video4Linux device."""

    backend: Literal["v4l2"]
    """Read from the device, without a driver of ROS."""
    device: Annotated[str, Field(pattern=patterns.DEVICE, max_length=256)] | None = None
    """Path, best one below /dev/v4l/by-path/. Belongs to a cell."""
    serial: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Serial number, in quotes, as in the names below /dev/v4l/by-id/. Belongs to a cell."""
    fourcc: Annotated[str, Field(pattern=patterns.FOURCC)]
    """Pixel format that is asked for: MJPG saves USB bandwidth, YUYV has no compression artefacts."""
    buffers: Annotated[int, Field(ge=1, le=8)] = 1
    """Of the driver; 1 keeps no old frame. Some devices then deliver half their rate: give those 2."""
    exposure_s: Annotated[float, Field(gt=0, le=1)] | None = None
    """Fixed exposure time; automatic if absent."""
    gain: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Fixed gain, in the device's unit."""
    white_balance_k: Annotated[int, Field(ge=1000, le=15_000)] | None = None
    """Fixed colour temperature; automatic if absent."""
    focus: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """Fixed focus, in the device's unit; automatic if absent."""


class TopicCameraConfig(LiveCameraConfig):
    """A camera with a ROS driver of its own, whose images are passed through."""

    backend: Literal["topic"]
    """Read from the driver's topic."""
    source_topic: Topic
    """Where the driver publishes. A cell may set its own."""
    compressed: bool = False
    """True for a CompressedImage topic (JPEG or PNG), false for an Image topic."""
    reliable: bool = False
    """Ask for RELIABLE delivery, for raw images over a network; a driver that offers BEST_EFFORT is then not heard."""
    stamps: Literal["wall", "own", "arrival"] = "wall"
    """Clock of header.stamp: this host's wall clock; one of its own, whose offset is estimated; or use the arrival."""
    frame_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """header.frame_id that images must carry; absent takes any. Belongs to a cell."""


class FileCameraConfig(LiveCameraConfig):
    """A video or a folder of images in a camera's place, played again and again."""

    backend: Literal["file"]
    """Read from the disk, at rate_hz."""
    path: Annotated[str, Field(min_length=1)]
    """A video that OpenCV can read, or a folder of .png and .jpg images, shown in the order of their names."""
