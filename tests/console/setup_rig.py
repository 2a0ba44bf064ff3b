"""A set-up page over a bench that the test lays out: cameras, devices and ports as they would be connected."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from robot_stack.cli.checked_run import load_checked
from robot_stack.console.access import Gate
from robot_stack.console.serving import AppServer, listen, page_address
from robot_stack.console.setup.app import Looks, SetupPage
from robot_stack.sensing.connected import ConnectedCamera
from robot_stack.teleop.connected import ConnectedDevice, ConnectedDevices
from robot_stack.types.errors import RobotError
from robot_stack.types.surveyed import Surveyed, SurveyedImages, SurveyedServo

UR_JOINTS = [
    "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint",
]  # fmt: skip


def scene_jpeg(height: int, width: int, hue: int) -> bytes:
    """A picture with something to crop on."""
    y, x = np.mgrid[:height, :width]
    image = np.stack([255 * x // width, 255 * y // height, np.full_like(x, hue)], -1).astype(np.uint8)
    cv2.circle(image, (width // 2, height // 2), height // 5, (240, 240, 240), -1)
    return cv2.imencode(".jpg", image)[1].tobytes()


def camera(name: str, number: int, serial: str | None = None, device: str | None = None) -> ConnectedCamera:
    return ConnectedCamera(name=name, path=f"/dev/video{number}", serial=serial, device=device)


@dataclass
class Bench:
    """What is connected, and what answers when it is looked at."""

    cameras: list[ConnectedCamera] = field(default_factory=list)
    devices: list[ConnectedDevice] = field(default_factory=list)
    hidden: tuple[str, ...] = ()
    ports: list[str] = field(default_factory=list)
    calibrations: list[str] = field(default_factory=list)
    drivers: dict[int, Surveyed] = field(default_factory=dict)
    servos: dict[str, dict[str, int]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    stored: tuple[int, int, int] | None = (0, 1048, 3048)
    """Offset and range that a calibration has left in each servo."""
    limp: int = 0
    """Ticks by which servo 2 gives way from look to look."""

    def picture(self, camera: ConnectedCamera, model: str) -> bytes:
        if camera.name in self.busy:
            raise RobotError(f"device {camera.path} cannot be opened, must be a free camera; close other programs")
        return scene_jpeg(480, 640, 60 * len(model) % 256)

    def ask(self, port: str) -> Mapping[str, SurveyedServo]:
        if port not in self.servos:
            raise RobotError(f"{port} cannot be asked, plug it in")
        if self.limp:
            self.servos[port]["2"] += self.limp
        return {id: SurveyedServo(ticks=ticks, stored=self.stored) for id, ticks in self.servos[port].items()}

    def looks(self) -> Looks:
        return Looks(
            cameras=lambda: list(self.cameras),
            picture=self.picture,
            devices=lambda: ConnectedDevices(devices=tuple(self.devices), hidden=self.hidden),
            ports=lambda: list(self.ports),
            calibrations=lambda: list(self.calibrations),
            ros=lambda domain: self.drivers.get(domain, Surveyed(joints={}, robot="", images=[])),
            servos=self.ask,
            check=lambda run, root: load_checked(run, root=root),
        )


UR_STANDS = (0.3, -1.4, 1.7, -1.9, -1.55, 0.2)
"""Angles of its joints, rad."""


def ur_drivers(robot: str = "ur5e", angles: tuple[float, ...] = UR_STANDS, moving: tuple[str, ...] = ()) -> Surveyed:
    """What a UR's driver and that of one camera publish."""
    jpeg = base64.b64encode(scene_jpeg(720, 1280, 10)).decode()
    images = [
        SurveyedImages(topic="/camera/front/color/image_raw", compressed=False, size_px=(1280, 720), jpeg=jpeg),
        SurveyedImages(topic="/depth/image", compressed=False, problem="encoding is 16UC1, must be rgb8; ask for it"),
    ]
    joints = {"/joint_states": [*UR_JOINTS, "robotiq_85_left_knuckle_joint"]}
    waiting = {"/scaled_joint_trajectory_controller/joint_trajectory": "trajectory_msgs/msg/JointTrajectory"}
    return Surveyed(
        joints=joints,
        robot=robot,
        images=images,
        commanded=waiting,
        angles={"/joint_states": dict(zip(UR_JOINTS, angles)), "/leader/joint_states": dict.fromkeys(UR_JOINTS, 1.0)},
        moving={"/joint_states": list(moving), "/leader/joint_states": UR_JOINTS},
    )


def franka_bench() -> Bench:
    """An FR3 with its hand behind its drivers, two RealSense behind theirs, a SpaceMouse, a pedal and a keypad."""
    jpeg = base64.b64encode(scene_jpeg(480, 640, 10)).decode()
    topics = ("/camera/wrist/color/image_rect_raw", "/camera/front/color/image_raw")
    images = [SurveyedImages(topic=topic, compressed=False, size_px=(640, 480), jpeg=jpeg) for topic in topics]
    joints = [f"fr3_joint{number}" for number in range(1, 8)]
    drivers = Surveyed(
        joints={"/franka/joint_states": joints},
        robot="fr3",
        images=images,
        commanded={"/target_pose": "geometry_msgs/msg/PoseStamped"},
        angles={"/franka/joint_states": dict(zip(joints, (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)))},
    )
    devices = [
        ConnectedDevice(kind="spacemouse", name="3Dconnexion SpaceMouse Compact", usb="256f:c635"),
        ConnectedDevice(kind="buttons", name="PCsensor FootSwitch", usb="3553:b001"),
        ConnectedDevice(kind="keyboard", name="Logitech keypad", usb="046d:c52b"),
    ]
    return Bench(devices=devices, drivers={10: drivers})


def so101_bench(home: Path) -> Bench:
    """An SO-101 with its leader, two cameras and a pedal."""
    ports = [f"/dev/serial/by-id/usb-1a86_USB_Single_Serial_5A6{each}-if00" for each in ("80", "91")]
    return Bench(
        cameras=[camera("046d_HD_Pro_Webcam_C920_5D3C1B6F", 0, "5D3C1B6F"), camera("Sonix_Wrist_A1", 2, "A1")],
        devices=[ConnectedDevice(kind="buttons", name="PCsensor FootSwitch", usb="3553:b001")],
        ports=ports,
        calibrations=[f"{home}/robots/so_follower/mine.json", f"{home}/teleoperators/so_leader/mine.json"],
        servos={port: {str(each): 2000 + each for each in range(1, 7)} for port in ports},
    )


@contextmanager
def setting_up(bench: Bench, token: str = "") -> Iterator[str]:
    """The address of the set-up page, for as long as it is served."""
    listening = listen("127.0.0.1:0")
    page = SetupPage(bench.looks(), Gate(token))
    with AppServer(page.app(), listening, page.run):
        yield page_address(listening, "127.0.0.1", token)
