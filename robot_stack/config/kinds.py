"""The files that are one of several kinds: robots, cameras and teleop devices, built in or of other packages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from robot_stack import plugins
from robot_stack.config.camera import (
    CameraConfig,
    EnvironmentCameraConfig,
    FileCameraConfig,
    LiveCameraConfig,
    SimCameraConfig,
    TopicCameraConfig,
    V4l2CameraConfig,
)
from robot_stack.config.drivers import (
    DriverRobot,
    ForwardVelocityRobot,
    FrankaRobot,
    JointTrajectoryRobot,
    PoseTargetRobot,
    ServoRobot,
    UrRobot,
)
from robot_stack.config.environment import KEY
from robot_stack.config.feetech import So101Robot
from robot_stack.config.robot import EnvironmentRobot, RobotConfig, SimRobot
from robot_stack.config.section import Tagged
from robot_stack.config.teleop import (
    BrowserTeleop,
    ExpertTeleop,
    GamepadTeleop,
    JoyTeleop,
    KeyboardTeleop,
    LeaderTeleop,
    RealTeleop,
    ScriptedTeleop,
    So101LeaderTeleop,
    SpaceMouseTeleop,
    TeleopConfig,
)

AnyRobot = Annotated[
    SimRobot
    | EnvironmentRobot
    | ServoRobot
    | PoseTargetRobot
    | FrankaRobot
    | JointTrajectoryRobot
    | ForwardVelocityRobot
    | UrRobot
    | So101Robot,
    Field(discriminator="backend"),
]
AnyCamera = Annotated[
    SimCameraConfig | EnvironmentCameraConfig | V4l2CameraConfig | TopicCameraConfig | FileCameraConfig,
    Field(discriminator="backend"),
]
AnyTeleop = Annotated[
    ScriptedTeleop
    | ExpertTeleop
    | BrowserTeleop
    | SpaceMouseTeleop
    | GamepadTeleop
    | KeyboardTeleop
    | JoyTeleop
    | LeaderTeleop
    | So101LeaderTeleop,
    Field(discriminator="device"),
]
ROBOTS = Tagged[RobotConfig](
    base=RobotConfig, tag="backend", union=AnyRobot, parts=plugins.ROBOTS, parts_base=DriverRobot, unsaid=(KEY,)
)
CAMERAS = Tagged[CameraConfig](
    base=CameraConfig, tag="backend", union=AnyCamera, parts=plugins.CAMERAS, parts_base=LiveCameraConfig, unsaid=(KEY,)
)
TELEOPS = Tagged[TeleopConfig](
    base=TeleopConfig, tag="device", union=AnyTeleop, parts=plugins.DEVICES, parts_base=RealTeleop, unsaid=("expert",)
)
