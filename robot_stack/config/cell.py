"""The model of cells/*.yaml: what is true of one table in one room."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.camera import CapturePx, Roi, Topic
from robot_stack.config.collision import HeldPart, Surroundings
from robot_stack.config.files import patterns
from robot_stack.config.files.explain import PlacedError
from robot_stack.config.kinematics import RosName
from robot_stack.config.section import Name, Quaternion, Section

Coordinate = Annotated[float, Field(ge=-5, le=5)]
Point = tuple[Coordinate, Coordinate, Coordinate]
Turn = Annotated[float, Field(ge=-math.pi, le=math.pi)]
Angle = Annotated[float, Field(ge=-4 * math.pi, le=4 * math.pi)]
DdsReach = Literal["host", "network", "environment"]
Namespace = Annotated[str, Field(pattern=patterns.NAMESPACE, max_length=128)]
Address = Annotated[str, Field(pattern=patterns.IPV4)]


class CameraMount(Section):
    """The place of a camera, as `robot-stack calibrate extrinsics` found it."""

    parent: Literal["base", "tcp"]
    """Frame that it is fixed to."""
    position_m: Point
    """x, y, z in that frame."""
    quaternion_xyzw: Quaternion
    """Orientation of the optical frame: z forward, x right, y down."""
    error_m: Annotated[float, Field(ge=0, le=1)]
    """How far the views disagreed."""
    arm: Name | None = None
    """Of several arms, whose base or TCP it is."""


COEFFICIENTS = {"plumb_bob": 5, "rational_polynomial": 8, "equidistant": 4}
"""Name of a model of distortion, as sensor_msgs has it -> how many coefficients it has."""
Pixels = Annotated[float, Field(ge=-100_000, le=100_000)]


class CameraLens(Section):
    """The lens of a camera, as `robot-stack calibrate lens` or `extrinsics` found it, in front of the whole image.

    The image is the one that is seen: turned as `flip` says, not cropped.
    """

    width_px: CapturePx
    """Columns of the images that it was calibrated on."""
    height_px: CapturePx
    """Rows of them."""
    focal_px: tuple[Annotated[float, Field(gt=0, le=100_000)], Annotated[float, Field(gt=0, le=100_000)]]
    """Focal lengths along columns and rows."""
    centre_px: tuple[Pixels, Pixels]
    """Column and row of the optical axis; the middle of the first pixel is at 0, 0."""
    model: Literal["plumb_bob", "rational_polynomial", "equidistant"] = "plumb_bob"
    """Of the distortion, as sensor_msgs/CameraInfo calls it."""
    distortion: tuple[float, ...] = (0.0,) * 5
    """Its coefficients: 5 of plumb_bob, 8 of rational_polynomial, 4 of equidistant."""
    error_px: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """What the calibration left over, root mean square; 0 where nobody said."""
    flip: Literal["none", "rotate_180"] = "none"
    """How the camera's images were turned when it was calibrated; a mirrored image has no lens."""

    @field_validator("distortion")
    @classmethod
    def _as_many_as_the_model_has(cls, distortion: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        model = info.data.get("model")
        if model is not None and len(distortion) != COEFFICIENTS[model]:
            raise ValueError(
                f"distortion has {len(distortion)} coefficients, must have {COEFFICIENTS[model]} of {model}; copy all"
            )
        return distortion


class TaughtPose(Section):
    """A taught pose of the arm, as `robot-stack calibrate pose` saw it."""

    joints_rad: tuple[Angle, ...]
    """One angle per joint."""
    position_m: Point
    """Of the TCP in the base frame."""
    quaternion_xyzw: Quaternion
    """Orientation of the TCP in the base frame."""


class CellCamera(Section):
    """One camera that is mounted in the cell."""

    model: str
    """File in cameras/."""
    serial: str | None = None
    """Serial number of the device, in quotes."""
    device: str | None = None
    """Path of the device, where the serial number does not tell it from others."""
    source_topic: Topic | None = None
    """Where its driver publishes; replaces the model's."""
    frame_id: str | None = None
    """header.frame_id that its images must carry."""
    reference: str | None = None
    """Image of its view, made by `robot-stack camera`."""
    roi_px: Roi | None = None
    """Crop for this mounting; replaces the model's."""
    mount: CameraMount | None = None
    """Where it is."""
    lens: CameraLens | None = None
    """How it projects."""


MOUNTED = tuple(name for name in CellCamera.model_fields if name not in ("model", "mount", "lens"))
"""What a cell says about a camera and its model's file is then taken to say; where it is and its lens stay the cell's.
"""


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


class Mount(Section):
    """The place of an arm's base in the cell."""

    position_m: Point = (0.0, 0.0, 0.0)
    """In the frame of the cell: x, y, z."""
    rpy_rad: tuple[Turn, Turn, Turn] = (0.0, 0.0, 0.0)
    """Turned about the fixed axes x, y, z of the cell, in this order."""


class CellArm(Section):
    """One of the arms of a cell."""

    robot: str
    """File in robots/."""
    mount: Mount = Mount()
    """Where it stands."""
    workspace: Workspace
    """Where its TCP may be, in its own base frame."""
    teleop: str | None = None
    """File in teleop/, of a device for this arm alone; then each arm has one."""
    poses: dict[Name, TaughtPose] = Field(default_factory=dict)
    """Places of this arm by name."""
    held: HeldPart | None = None
    """What it holds all the time."""


class ConsoleConfig(Section):
    """The settings of the operator's page: where it is served."""

    address: Annotated[str, Field(pattern=patterns.ADDRESS)] = "127.0.0.1:8642"
    """host:port; 0.0.0.0 is every network of this machine. Beyond loopback the page asks for a token."""


class CommandLogConfig(Section):
    """The files of `command_recorder`; of each arm there are so many at most, and the oldest go first."""

    file_mb: Annotated[int, Field(ge=1, le=4096)] = 64
    """A larger file is ended, and the next one begins: about half an hour of one arm."""
    files: Annotated[int, Field(ge=2, le=1000)] = 8
    """Files of an arm that are kept."""


class StopButton(Section):
    """A wired stop button, as a node of the cell reports it."""

    topic: RosName | None = None
    """Bool, true while pressed; without one safety/stop_input/NAME."""
    timeout_s: Annotated[float, Field(gt=0, le=2)] = 0.5
    """It must be heard at least this often."""


class CellConfig(Section):
    """A cell: either one arm (`robot`, `workspace`), or `arms`."""

    robot: str | None = None
    """File in robots/, of the only arm. The arm is called as the robot is."""
    workspace: Workspace | None = None
    """Where the TCP of the only arm may be."""
    arms: Annotated[dict[Name, CellArm], Field(max_length=4)] = Field(default_factory=dict, validate_default=True)
    """Several arms, by name, in the order of the action vector; instead of `robot` and `workspace`."""
    apart_m: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Least distance between the workspaces of two arms: what a hand is wide and holds beside its TCP must fit in."""
    surroundings: Surroundings = Surroundings()
    """What the parts of every arm keep clear of."""
    held: HeldPart | None = None
    """What the only arm holds all the time."""
    cameras: Annotated[dict[Name, CellCamera], Field(max_length=8)]
    """By the name that observations use."""
    poses: dict[Name, TaughtPose] = Field(default_factory=dict)
    """Places of the only arm by name; a task's reset may go to one."""
    teleop: str | None = Field(default=None, validate_default=True)
    """File in teleop/, of the one device: for the only arm, or for one of several after the other."""
    safety: str
    """File in safety/. Its limits hold for each arm."""
    stop_inputs: Annotated[dict[Name, StopButton], Field(max_length=8)] = Field(default_factory=dict)
    """Wired stop buttons by name; each on a topic of its own."""
    teleop_silence_s: Annotated[float, Field(gt=0, le=5)] | None = 0.5
    """Silence of a teleop device that holds also while the policy drives: it is the operator's hold and stop. null:
    another enabling device or stop within reach takes its place."""
    downstream_timeout_s: Annotated[float, Field(gt=0, le=1)] | None = None
    """After this long without commands, something below the robot process stops the arm. Needed for controllers that
    keep the last velocity for ever; without such a thing, leave it out."""
    namespace: Namespace | None = None
    """ROS namespace of its nodes and topics, without the leading slash; left out, it is the cell's name."""
    dds_domain: Annotated[int, Field(ge=0, le=101)] = 0
    """ROS domain of this cell."""
    dds_reach: DdsReach = "host"
    """Whom its processes can meet: drivers on this machine; on others too, over all network interfaces; or whom the
    shell's own ROS variables say (RMW_IMPLEMENTATION, profiles, discovery), for CycloneDDS or Zenoh."""
    dds_peers: Annotated[tuple[Address, ...], Field(max_length=16)] = ()
    """IPv4 addresses of machines that multicast does not reach; with `dds_reach: network`."""
    learner_address: Annotated[str, Field(pattern=patterns.ADDRESS)] = "127.0.0.1:50051"
    """Where the learner listens, host:port, an IPv6 address in brackets. Beyond loopback it needs certificates."""
    console: ConsoleConfig = ConsoleConfig()
    """The operator's page."""
    command_log: CommandLogConfig = CommandLogConfig()
    """How much of what each arm was told is kept."""
    learner_certs: Annotated[str, Field(min_length=1)] | None = None
    """Folder of a set made by `robot-stack certs`, at the same path on the learner's and the robot's machine."""

    @field_validator("dds_peers")
    @classmethod
    def _peers_need_a_network(cls, peers: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        reach = info.data.get("dds_reach", "network")
        if peers and reach != "network":
            raise ValueError(
                f"dds_peers is given with dds_reach {reach}, which asks nobody else; set dds_reach: network"
            )
        return peers

    @field_validator("arms")
    @classmethod
    def _one_form(cls, arms: dict[str, CellArm], info: ValidationInfo) -> dict[str, CellArm]:
        given = [key for key in ("robot", "workspace") if info.data.get(key) is not None]
        if arms and given:
            text = f"{given[0]} is given beside arms, must be said of each arm; move it to its arm"
            raise PlacedError(text, beside=given[0])
        missing = [key for key in ("robot", "workspace") if key in info.data and key not in given]
        if not arms and missing:
            text = f"{missing[0]} is missing, must be given where there are no arms; add '{missing[0]}'"
            raise PlacedError(text, beside=missing[0])
        return arms

    @field_validator("teleop")
    @classmethod
    def _one_device_or_one_each(cls, teleop: str | None, info: ValidationInfo) -> str | None:
        if "arms" not in info.data:
            return teleop  # what is wrong with the arms is said already
        arms: dict[str, CellArm] = info.data["arms"]
        own = [name for name, arm in arms.items() if arm.teleop is not None]
        bare = [name for name in arms if name not in own]
        if teleop is None and (bare or not arms):
            text = f"for each arm; give {', '.join(bare)} one" if own else "there is; add 'teleop'"
            raise ValueError(f"teleop is missing, must name the device {text}")
        if teleop is not None and own:
            raise ValueError(f"teleop is given beside that of {', '.join(own)}, must be one or the other; remove one")
        return teleop
