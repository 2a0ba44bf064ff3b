"""cells/*.yaml: what is true of one table in one room."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.camera import Roi
from robot_stack.config.section import Name, Section

Coordinate = Annotated[float, Field(ge=-5, le=5)]
Point = tuple[Coordinate, Coordinate, Coordinate]


class CellCamera(Section):
    """One mounted camera."""

    model: str
    """File in cameras/."""
    serial: str | None = None
    """Serial number of the device, in quotes."""
    roi_px: Roi | None = None
    """Crop for this mounting; replaces the model's."""


class Workspace(Section):
    """The box that the TCP stays in."""

    frame: Annotated[str, Field(min_length=1)]
    """Must be the robot's base frame."""
    min_m: Point
    """Lower corner: x, y, z."""
    max_m: Point
    """Upper corner: x, y, z."""

    @field_validator("max_m")
    @classmethod
    def _above_lower_corner(cls, upper: Point, info: ValidationInfo) -> Point:
        lower = info.data.get("min_m")
        for axis, low, high in zip("xyz", lower if lower is not None else upper, upper):
            if lower is not None and high <= low:
                raise ValueError(f"max_m is {high} in {axis}, must be above min_m ({low}); swap or correct them")
        return upper


class CellConfig(Section):
    """A cell."""

    robot: str
    """File in robots/."""
    cameras: Annotated[dict[Name, CellCamera], Field(min_length=1, max_length=8)]
    """By the name that observations use."""
    workspace: Workspace
    """Where the TCP may be."""
    teleop: str
    """File in teleop/."""
    safety: str
    """File in safety/."""
    downstream_timeout_s: Annotated[float, Field(gt=0, le=1)] | None = None
    """After this long without commands, something below the robot process stops the arm. Needed for controllers that
    keep the last velocity for ever; without such a thing, leave it out."""
    dds_domain: Annotated[int, Field(ge=0, le=101)] = 0
    """ROS domain of this cell."""
    learner_address: Annotated[str, Field(pattern=r"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$")] = (
        "127.0.0.1:50051"
    )
    """Where the learner listens, host:port, an IPv6 address in brackets. Beyond loopback it needs certificates."""
    learner_certs: Annotated[str, Field(min_length=1)] | None = None
    """Folder of a set made by `robot-stack certs`, at the same path on the learner's and the robot's machine."""
