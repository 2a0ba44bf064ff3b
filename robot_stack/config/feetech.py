"""The models of robots/*.yaml for arms whose servos this machine drives over a serial port, without a ROS driver."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from robot_stack.config.driver_parts import Timeout
from robot_stack.config.drivers import JointCommandedRobot, LeadAngle
from robot_stack.config.kinematics import DhKinematics, UrdfFile
from robot_stack.config.robot import GripperConfig
from robot_stack.config.servos import ServoPort


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
