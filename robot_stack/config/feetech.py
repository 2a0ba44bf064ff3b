"""The models of servos at a serial port of this machine, which robots and leader arms share, and of such robots."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.driver_parts import Timeout
from robot_stack.config.drivers import JointCommandedRobot, LeadAngle
from robot_stack.config.files import patterns
from robot_stack.config.kinematics import DhKinematics, UrdfFile
from robot_stack.config.robot import GripperConfig
from robot_stack.config.section import Section

Port = Annotated[str, Field(pattern=patterns.DEVICE, max_length=256)]
"""Serial port, best one below /dev/serial/by-id/."""
Bus = Literal["direct", "lerobot"]
"""What speaks on the port: this project, or the motors bus of the lerobot package."""


class ServoPort(Section):
    """The serial port of an arm's servos, and their calibration."""

    port: Port
    """Serial port, best one below /dev/serial/by-id/. Belongs to a cell."""
    calibration: Annotated[str, Field(min_length=1)]
    """The JSON that lerobot-calibrate writes; ~ is the home folder. Belongs to a cell."""
    bus: Bus = "direct"
    """What speaks on it: this project, or the motors bus of the lerobot package."""
    baud: Literal[1_000_000, 500_000, 115_200] = 1_000_000
    """Of the servos; with lerobot always 1000000."""
    reply_s: Annotated[float, Field(ge=0.002, le=0.1)] = 0.02
    """Within this a servo answers, or it counts as silent."""

    @field_validator("baud")
    @classmethod
    def _is_lerobots(cls, baud: int, info: ValidationInfo) -> int:
        if info.data.get("bus") == "lerobot" and baud != 1_000_000:
            raise ValueError(f"baud is {baud} with bus 'lerobot', must be 1000000; take bus: direct")
        return baud


class ServoGripper(GripperConfig):
    """A gripper with one servo, whose range is that of its calibration: 0 shut, 100 open."""

    joint: Annotated[str, Field(min_length=1)]
    """As in the calibration file."""


class So101Robot(JointCommandedRobot):
    """An SO-101, or another arm of Feetech STS servos, at a serial port of this machine."""

    over_topics: ClassVar[bool] = False

    backend: Literal["so101"]
    """Joint positions to the servos."""
    kinematics: Annotated[DhKinematics | UrdfFile, Field(discriminator="source")]
    """Of the arm: there is no driver to describe it."""
    servos: ServoPort
    """Where its servos are."""
    joint_states_timeout_s: Timeout = 0.15
    """Age at which what the servos say is stale."""
    max_lead_rad: LeadAngle = 0.15
    """The goal is at most this far ahead of each joint: what is left to go if this process dies."""
    rate_hz: Annotated[float, Field(ge=50, le=100)] = 50.0
    """How often the servos are read and commanded."""
    gripper: ServoGripper | None = None  # type: ignore[assignment]  # of its own kind: it has no topic
    """The gripper, if there is one."""
