"""What the files of arms behind drivers are made of: names on the wire, kinematics, pose, wrench, gripper."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.robot import GripperConfig
from robot_stack.config.section import Section

RosName = Annotated[str, Field(pattern=r"^/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$", max_length=200)]
"""A topic, service or action: from the root with a leading slash, else under the namespace of the cell."""
Frame = Annotated[str, Field(min_length=1)]
Timeout = Annotated[float, Field(gt=0, le=2)]
Length = Annotated[float, Field(ge=-3, le=3)]
Turn = Annotated[float, Field(ge=-2 * math.pi, le=2 * math.pi)]


class Transform(Section):
    """Pose of one frame in another."""

    position_m: tuple[Length, Length, Length] = (0.0, 0.0, 0.0)
    """x, y, z."""
    rpy_rad: tuple[Turn, Turn, Turn] = (0.0, 0.0, 0.0)
    """Turned about the fixed axes x, y, z, in this order, as in URDF."""


class DhLink(Section):
    """One row of a table of Denavit-Hartenberg parameters."""

    a_m: Length
    """Link length."""
    alpha_rad: Turn
    """Link twist."""
    d_m: Length
    """Joint offset."""
    theta_rad: Turn = 0.0
    """Added to the joint's angle."""


class DhKinematics(Section):
    """Kinematics as the manufacturer prints them."""

    source: Literal["dh"]
    """A table."""
    convention: Literal["standard", "modified"]
    """Denavit and Hartenberg's, or Craig's, with a and alpha of the link before the joint."""
    base: Transform = Transform()
    """From base_frame to frame 0 of the table."""
    links: Annotated[tuple[DhLink, ...], Field(min_length=1, max_length=16)]
    """From base to flange, one per joint."""
    tcp: Transform
    """From the last frame of the table to the TCP."""


class UrdfTopic(Section):
    """Kinematics of the URDF that robot_state_publisher sends."""

    source: Literal["urdf_topic"]
    """A latched String."""
    topic: RosName = "/robot_description"
    """Where."""
    base_link: Frame
    """Link whose frame is base_frame."""
    tcp_link: Frame
    """Link whose frame is tcp_frame."""


class UrdfFile(Section):
    """Kinematics of a URDF file, with xacro expanded."""

    source: Literal["urdf_file"]
    """A file."""
    path: Annotated[str, Field(min_length=1)]
    """On the robot's machine; absolute, or from the folder in which the run is started."""
    base_link: Frame
    """Link whose frame is base_frame."""
    tcp_link: Frame
    """Link whose frame is tcp_frame."""


Kinematics = Annotated[DhKinematics | UrdfTopic | UrdfFile, Field(discriminator="source")]


class PoseFromKinematics(Section):
    """The pose of the TCP is computed from the joints."""

    source: Literal["kinematics"]
    """Of this file."""


class PoseFromTopic(Section):
    """The driver publishes the pose of the TCP."""

    source: Literal["topic"]
    """PoseStamped in base_frame."""
    topic: RosName
    """Where."""
    timeout_s: Timeout = 0.1
    """Age at which it is stale."""


class PoseFromTf(Section):
    """The pose of the TCP is looked up in TF; needs tf2_ros of a ROS installation."""

    source: Literal["tf"]
    """From base_frame to tcp_frame."""
    timeout_s: Timeout = 0.1
    """Age at which it is stale."""


PoseSource = Annotated[PoseFromKinematics | PoseFromTopic | PoseFromTf, Field(discriminator="source")]


class WrenchTopic(Section):
    """Force and torque that act on the tool from outside."""

    topic: RosName
    """WrenchStamped."""
    frame: Frame
    """Of its headers. In base_frame, the torque must already be about the TCP."""
    tcp_in_frame: Transform | None = None
    """Where the TCP is in that frame; needed if it is neither base_frame nor tcp_frame."""
    timeout_s: Timeout = 0.1
    """Age at which it is stale."""


class DriverGripper(GripperConfig):
    """A gripper with one joint in the joint states."""

    joint: Annotated[str, Field(min_length=1)]
    """As the driver names it."""
    closed: float
    """Position of the joint when closed, rad or m."""
    open: float
    """Position of the joint when open."""
    joint_states: RosName | None = None
    """Where its joint is published, if not with the arm's."""

    @field_validator("open")
    @classmethod
    def _apart(cls, opened: float, info: ValidationInfo) -> float:
        closed = info.data.get("closed")
        if closed is not None and abs(opened - closed) < 1e-4:
            raise ValueError(f"open is {opened}, must differ from closed ({closed}); give the joint's two ends")
        return opened


class CommandsGripper(DriverGripper):
    """A forward controller: the position of the joint as a Float64MultiArray of one."""

    interface: Literal["commands"]
    """Newest position wins."""
    command: RosName
    """Where."""


class TrajectoryGripper(DriverGripper):
    """A joint trajectory controller of one joint."""

    interface: Literal["trajectory"]
    """One point per wish."""
    command: RosName
    """Where."""
    duration_s: Annotated[float, Field(gt=0, le=10)] = 0.5
    """From closed to open."""


class ActionGripper(DriverGripper):
    """control_msgs/GripperCommand; needs control_msgs of a ROS installation."""

    interface: Literal["action"]
    """One goal per wish."""
    command: RosName
    """The action."""


Gripper = Annotated[CommandsGripper | TrajectoryGripper | ActionGripper, Field(discriminator="interface")]
