"""cameras/*.yaml: a type of camera and how its images become the policy's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.section import Section

CapturePx = Annotated[int, Field(ge=8, le=8192)]
PolicyPx = Annotated[int, Field(ge=8, le=1024)]


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
    """A camera."""

    backend: Literal["sim"]
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
    freeze_frames: Annotated[int, Field(ge=2, le=1000)]
    """This many identical images in a row mean that the camera is frozen."""

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
