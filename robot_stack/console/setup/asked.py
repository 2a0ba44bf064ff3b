"""Requests that the set-up page may send with a body, one JSON object each; nothing else gets past here."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from robot_stack.config.camera import Roi
from robot_stack.config.cell import Point, TaughtPose
from robot_stack.config.files import patterns
from robot_stack.console.messages import PRINTABLE, PageMessage
from robot_stack.workcell.setup.plan import PlannedCamera, PlannedCell, PlannedPort

FileName = Annotated[str, Field(pattern=patterns.NAME, max_length=64)]
Text = Annotated[str, Field(min_length=1, max_length=256), PRINTABLE]
Key = Annotated[str, Field(pattern=r"^[a-z]+(\.[a-z]+)?$", max_length=32)]
Pixels = Annotated[int, Field(ge=8, le=8192)]
Usb = Annotated[str, Field(pattern=patterns.USB)]


YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")


class Domain(PageMessage):
    """A ROS domain to be listened to."""

    domain: Annotated[int, Field(ge=0, le=101)]


class AskedPort(PageMessage):
    """A serial port that was chosen, and a calibration file."""

    port: Text
    calibration: Text


class AskedServos(PageMessage):
    """A serial port whose servos are to be asked for their positions, and the arm that they are taken for."""

    port: Text
    robot: FileName | None = None
    calibration: Text | None = None


class AskedCrop(PageMessage):
    """A crop that was drawn on a picture."""

    top: Annotated[int, Field(ge=0, le=8192)]
    left: Annotated[int, Field(ge=0, le=8192)]
    height: Pixels
    width: Pixels


class AskedCamera(PageMessage):
    """A camera that is to be used."""

    model: FileName
    serial: Text | None = None
    device: Text | None = None
    topic: Text | None = None
    size: tuple[Pixels, Pixels] | None = None
    crop: AskedCrop | None = None

    def planned(self) -> PlannedCamera:
        """Return it as a part of a planned cell."""
        crop = None if self.crop is None else Roi(**self.crop.model_dump())
        return PlannedCamera(
            model=self.model, serial=self.serial, device=self.device, topic=self.topic, size_px=self.size, roi=crop
        )


class AskedCell(PageMessage):
    """Everything that was chosen for a new cell."""

    name: Annotated[str, Field(max_length=64)]
    example: FileName
    robot: FileName
    frame: Annotated[str, Field(min_length=1, max_length=64), PRINTABLE]
    low: Point
    high: Point
    table: Annotated[float, Field(ge=-5, le=5)] | None
    cameras: Annotated[dict[FileName, AskedCamera], Field(max_length=8)]
    teleop: FileName
    safety: FileName
    domain: Annotated[int, Field(ge=0, le=101)]
    arm_port: AskedPort | None = None
    leader_port: AskedPort | None = None
    found: Annotated[dict[Key, Usb], Field(max_length=4)] = Field(default_factory=dict)
    poses: Annotated[dict[FileName, TaughtPose], Field(max_length=16)] = Field(default_factory=dict)
    start: FileName | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> AskedCell:
        if not self.cameras:
            raise ValueError("no camera is used yet, must be one at least; choose what a camera is used as")
        if self.arm_port is not None and self.leader_port is not None and self.arm_port.port == self.leader_port.port:
            raise ValueError("arm and leader have one serial port, must have one each; ask which port is which")
        for name in (*self.cameras, *self.poses):
            if name in YAML_WORDS:
                raise ValueError(
                    f"{name!r} is a name, must be none of {', '.join(YAML_WORDS)}, which YAML reads otherwise"
                )
        if self.start is not None and self.start not in self.poses:
            raise ValueError(f"episodes begin at {self.start!r}, must be one of the poses; choose it again")
        return self

    def planned(self) -> PlannedCell:
        """Return the cell as it is planned."""
        return PlannedCell(
            name=self.name,
            example=self.example,
            robot=self.robot,
            base_frame=self.frame,
            box_m=(self.low, self.high),
            table_z_m=self.table,
            cameras={name: camera.planned() for name, camera in self.cameras.items()},
            teleop=self.teleop,
            safety=self.safety,
            dds_domain=self.domain,
            arm_port=_port(self.arm_port),
            leader_port=_port(self.leader_port),
            found={tuple(key.split(".")): usb for key, usb in self.found.items()},
            poses=self.poses,
            start=self.start,
        )


def _port(port: AskedPort | None) -> PlannedPort | None:
    return None if port is None else PlannedPort(port=port.port, calibration=port.calibration)
