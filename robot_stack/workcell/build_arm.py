"""Builders of kinematics, joint limits and frames from the file of an arm. They load no simulator and no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from robot_stack.config.drivers import DriverRobot
from robot_stack.config.kinematics import DhKinematics, Transform, UrdfFile, UrdfTopic
from robot_stack.config.robot import RobotConfig
from robot_stack.control.drivers.arm_sense import Frames
from robot_stack.control.kinematics.chain import Chain, DhRow, chain_of_dh, transform_of
from robot_stack.control.kinematics.joint_motion import JointLimits
from robot_stack.control.kinematics.urdf import chain_of_urdf
from robot_stack.control.safety.output_watchdog import HardLimits
from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose


def joint_names(robot: RobotConfig) -> list[str]:
    """Return the names of the joints from base to flange, as the driver has them."""
    return [joint.name for joint in robot.joints]


def turns_freely(robot: RobotConfig) -> bool:
    """Return whether an arm can follow every rotation of its tool: with fewer than six joints it cannot."""
    return len(robot.joints) >= 6


def build_limits(robot: RobotConfig) -> JointLimits:
    """Build the limits of all joints of an arm."""
    return JointLimits(
        lower=np.array([joint.min_rad for joint in robot.joints]),
        upper=np.array([joint.max_rad for joint in robot.joints]),
        speed=np.array([joint.max_speed_rad_s for joint in robot.joints]),
        home=np.array(robot.home_rad),
    )


def build_hard_limits(robot: RobotConfig) -> HardLimits:
    """Build the highest TCP speeds of an arm."""
    return HardLimits(speed_m_s=robot.max_tcp_speed_m_s, rotation_speed_rad_s=robot.max_tcp_rotation_speed_rad_s)


def build_frames(robot: DriverRobot) -> Frames:
    """Build the frame names that headers may carry."""
    wrench = robot.wrench
    tcp = wrench.tcp_in_frame if wrench is not None else None
    return Frames(
        base=robot.base_frame,
        tcp=robot.tcp_frame,
        wrench="" if wrench is None else wrench.frame,
        wrench_sign=-1 if wrench is not None and wrench.acts == "by_tool" else 1,
        tcp_in_wrench=None if tcp is None else Pose.from_matrix(transform(tcp)),
    )


def build_chain(robot: RobotConfig) -> Chain | None:
    """Build the kinematics of a robot file; None if there are none, or if they come over a topic.

    Raises:
        ConfigError: If a URDF file cannot be read or does not fit.
    """
    kinematics = robot.kinematics
    if isinstance(kinematics, DhKinematics):
        rows = [
            DhRow(a_m=link.a_m, alpha_rad=link.alpha_rad, d_m=link.d_m, theta_rad=link.theta_rad)
            for link in kinematics.links
        ]
        return chain_of_dh(
            joint_names(robot),
            rows,
            modified=kinematics.convention == "modified",
            base=transform(kinematics.base),
            tcp=transform(kinematics.tcp),
        )
    if isinstance(kinematics, UrdfFile):
        return described_chain(robot, kinematics, _text_of(kinematics.path), source=kinematics.path)
    return None


def described_chain(robot: RobotConfig, kinematics: UrdfFile | UrdfTopic, text: str, *, source: str) -> Chain:
    """Build the kinematics that a URDF's text describes.

    Raises:
        ConfigError: Naming `source` and line, if it does not fit.
    """
    return chain_of_urdf(
        text,
        base_link=kinematics.base_link,
        tcp_link=kinematics.tcp_link,
        names=joint_names(robot),
        source=source,
    )


def transform(section: Transform) -> np.ndarray:
    """Convert a section of a file to a homogeneous matrix, shape (4, 4)."""
    return transform_of(section.position_m, section.rpy_rad)


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"URDF file {path} cannot be read ({error}); correct kinematics.path") from None
