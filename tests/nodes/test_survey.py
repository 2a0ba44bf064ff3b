"""What a ROS domain is found to publish, over real DDS, and what servos at a port answer."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.cli.init import survey, survey_servos
from robot_stack.config.feetech import ServoPort
from robot_stack.nodes.drivers.servo_line import DirectLine
from robot_stack.processes.profile import IMAGES_FILE, claim_domain, ros_environment, write_profiles
from robot_stack.types.errors import RobotError
from tests.servos.sts_emulator import Servo, StsBus

DOMAIN = 62
JOINTS = ["shoulder_pan_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint"]
DRIVER = """
import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory
turned = 0.0
rclpy.init()
node = rclpy.create_node("driver")
joints = node.create_publisher(JointState, "joint_states", 10)
colour = node.create_publisher(Image, "front/image_raw", 10)
depth = node.create_publisher(Image, "depth/image_raw", 10)
broken = node.create_publisher(CompressedImage, "wrist/compressed", 10)
node.create_publisher(Image, "silent/image_raw", 10)
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
described = node.create_publisher(String, "robot_description", latched)
described.publish(String(data='<?xml version="1.0"?><!-- an arm --><robot xmlns:x="y" name="ur5e">' + "<link/>" * 9))
node.create_subscription(JointTrajectory, "arm_controller/joint_trajectory", lambda msg: None, 10)
node.create_publisher(JointTrajectory, "nobody_controller/joint_trajectory", 10)
node.create_publisher(String, "chatter", 10).publish(String(data='<robot name="wrong">'))

def say():
    global turned
    turned += 0.01
    names = ["shoulder_pan_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint"]
    joints.publish(JointState(name=names, position=[0.5, turned, float("nan")]))
    colour.publish(Image(height=4, width=6, encoding="rgb8", step=18, data=bytes([200, 10, 20] * 24)))
    depth.publish(Image(height=4, width=6, encoding="32FC1", step=24, data=bytes(96)))
    broken.publish(CompressedImage(format="jpeg", data=b"no picture"))

node.create_timer(0.1, say)
print("up", flush=True)
rclpy.spin(node)
"""

MANY = """
for number in range(40):
    node.create_publisher(Image, f"a{number}/image_raw", 10)
    node.create_publisher(CompressedImage, f"a{number}/image_raw/compressedDepth", 10)

"""


@contextmanager
def driver(folder: Path, domain: int, program: str = DRIVER) -> Iterator[None]:
    """Somebody else's driver, in a process of its own."""
    write_profiles(folder)
    ros = ros_environment(folder / IMAGES_FILE, domain)
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, env={**os.environ, **ros}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            yield
        finally:
            process.kill()


def test_drivers_are_found_by_what_they_publish(tmp_path: Path) -> None:
    with claim_domain(DOMAIN, exact=False) as domain, driver(tmp_path, domain):
        found = survey(domain)
    assert found.joints == {"/joint_states": JOINTS}
    assert found.robot == "ur5e"
    description = found.descriptions["/robot_description"]
    assert description.startswith('<?xml version="1.0"?>')
    assert description.endswith("<link/>"), "all of it, for its kinematics"
    angles = found.angles["/joint_states"]
    assert set(angles) == {"shoulder_pan_joint", "elbow_joint"}, "one is no number, one was not told"
    assert angles["shoulder_pan_joint"] == 0.5
    assert found.moving == {"/joint_states": ["elbow_joint"]}
    assert found.commanded == {"/arm_controller/joint_trajectory": "trajectory_msgs/msg/JointTrajectory"}
    images = {each.topic: each for each in found.images}
    assert set(images) == {"/front/image_raw", "/depth/image_raw", "/wrist/compressed", "/silent/image_raw"}
    front = images["/front/image_raw"]
    assert (front.size_px, front.compressed, front.problem) == ((6, 4), False, "")
    seen = cv2.imdecode(np.frombuffer(base64.b64decode(front.jpeg), np.uint8), cv2.IMREAD_COLOR)
    assert np.abs(seen.astype(int) - [20, 10, 200]).max() < 12
    assert "32FC1" in images["/depth/image_raw"].problem
    assert images["/wrist/compressed"].compressed
    assert images["/wrist/compressed"].problem
    assert "nothing comes" in images["/silent/image_raw"].problem


def test_many_cameras_do_not_hide_an_arm(tmp_path: Path) -> None:
    many = DRIVER.replace("def say():", MANY + "def say():")
    with claim_domain(DOMAIN, exact=False) as domain, driver(tmp_path, domain, many):
        found = survey(domain)
    assert found.joints == {"/joint_states": JOINTS}
    assert found.robot == "ur5e"
    assert found.left_out > 10
    assert not [each for each in found.images if each.topic.endswith("compressedDepth")]


def test_a_domain_on_which_nobody_speaks_is_empty() -> None:
    with claim_domain(DOMAIN, exact=False) as domain:
        found = survey(domain)
    assert (found.joints, found.robot, found.images) == ({}, "", [])


def test_servos_are_asked_where_they_stand_and_told_nothing() -> None:
    bus = StsBus()
    try:
        bus.servos[3].put(56, 1234, 2)
        bus.silent.add(6)
        bus.servos[4] = Servo(low=700, high=3100, offset=-20)
        seen = survey_servos(bus.port)
        assert {name: servo.ticks for name, servo in seen.items()} == {
            "1": 2048,
            "2": 2048,
            "3": 1234,
            "4": 2048,
            "5": 2048,
        }
        assert {name: servo.stored for name, servo in seen.items()} == {
            **dict.fromkeys("1235", (0, 800, 3200)),
            "4": (-20, 700, 3100),
        }
        assert {instruction for _, instruction, _ in bus.packets} == {2}, "reads alone"
    finally:
        bus.close()


def test_the_port_of_an_arm_that_runs_is_left_alone() -> None:
    bus = StsBus()
    try:
        holder = DirectLine(ServoPort(port=bus.port, calibration="none"), {})
        with pytest.raises(RobotError, match="is in use by another process"):
            survey_servos(bus.port)
        assert not bus.packets
        holder.close()
        assert survey_servos(bus.port)
    finally:
        bus.close()


def test_what_is_no_port_of_servos_is_said(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="dialout"):
        survey_servos("/dev/ttyNothing")
    with pytest.raises(RobotError, match="no serial port"):
        survey_servos("/dev/null")
