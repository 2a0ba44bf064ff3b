"""The kinematics of an arm, from the angles of its joints to its TCP: a table in the robot file, or a URDF."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from robot_stack.config.files import patterns
from robot_stack.config.section import Section

RosName = Annotated[str, Field(pattern=patterns.ROS_NAME, max_length=200)]
"""A topic, service or action: from the root with a leading slash, else under the namespace of the cell."""
Frame = Annotated[str, Field(min_length=1)]
Length = Annotated[float, Field(ge=-3, le=3)]
Turn = Annotated[float, Field(ge=-2 * math.pi, le=2 * math.pi)]


class Transform(Section):
    """The pose of one frame in another."""

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
    """Kinematics of a table of Denavit-Hartenberg parameters, as the manufacturer prints it."""

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
