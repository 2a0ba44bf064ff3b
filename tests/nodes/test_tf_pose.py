"""What is read from TF and told to it: the pose of a TCP, and the place of a camera."""

from __future__ import annotations

import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile

from robot_stack.config.resolve import load_run
from robot_stack.nodes.camera.face import CameraNode
from robot_stack.nodes.drivers.sense import POSE, TfPose
from robot_stack.nodes.tools.doctor import DoctorNode
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind


class Heard:
    """Health and sense of an arm: what was taken in, and what was refused."""

    def __init__(self) -> None:
        self.poses: list[Pose] = []
        self.refusals: list[Fault] = []

    def expect(self, each: object) -> None:
        assert each.name == POSE

    def refused(self, name: str, reason: Fault, now_ns: int) -> None:
        self.refusals.append(reason)

    def heard(self, name: str, now_ns: int) -> None:
        assert self.poses

    def take_pose(self, pose: Pose, frame: str, stamp_ns: int, now_ns: int) -> None:
        self.poses.append(pose)


@pytest.fixture
def transform(monkeypatch: pytest.MonkeyPatch) -> TransformStamped:
    """What TF says of the TCP; tf2_ros is not on every machine."""
    said = TransformStamped()
    module = ModuleType("tf2_ros")
    module.Buffer = lambda: SimpleNamespace(lookup_transform=lambda *_: said)
    module.TransformListener = lambda *_: None
    module.TransformException = type("TransformException", (Exception,), {})
    monkeypatch.setitem(sys.modules, "tf2_ros", module)
    return said


def test_a_turn_that_tf_takes_and_a_pose_does_not_is_refused_until_it_is_right(transform: TransformStamped) -> None:
    heard = Heard()
    wires = SimpleNamespace(node=None, health=heard)
    pose = TfPose(wires, heard, SimpleNamespace(base_frame="base", tcp_frame="tcp"), 0.2)
    turn = transform.transform.rotation
    turn.y, turn.w, transform.header.stamp.sec = 0.71, 0.71, 1  # tf2 asks for a norm within 0.5 %
    pose.look_up(5)
    (refusal,) = heard.refusals
    assert refusal.kind is FaultKind.INPUT_INVALID
    assert "transform from base to tcp on /tf cannot be used" in refusal.text
    assert "unit quaternion" in refusal.text
    turn.y, turn.w, transform.header.stamp.sec = np.sqrt(0.5), np.sqrt(0.5), 2
    pose.look_up(6)
    assert (len(heard.poses), len(heard.refusals)) == (1, 1)


@pytest.fixture
def tf_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """tf2_msgs, which no wheel has."""
    package, module = ModuleType("tf2_msgs"), ModuleType("tf2_msgs.msg")
    package.__spec__ = ModuleSpec("tf2_msgs", None)
    module.TFMessage = SimpleNamespace
    monkeypatch.setitem(sys.modules, "tf2_msgs", package)
    monkeypatch.setitem(sys.modules, "tf2_msgs.msg", module)


class Camera:
    """A camera's node as far as it tells TF where it is."""

    name, frame = "wrist", "wrist_optical_frame"

    def __init__(self) -> None:
        self.said: list[TransformStamped] = []

    def create_publisher(self, kind: object, topic: str, qos: QoSProfile) -> SimpleNamespace:
        assert (topic, qos.durability) == ("/tf_static", DurabilityPolicy.TRANSIENT_LOCAL)
        return SimpleNamespace(publish=lambda msg: self.said.extend(msg.transforms))


def told(run_name: str, *settings: str) -> list[TransformStamped]:
    camera = Camera()
    run = load_run(run_name, list(settings))
    CameraNode.tell_place(camera, run)  # type: ignore[arg-type]
    return camera.said


@pytest.mark.parametrize(("parent", "frame"), [("tcp", "tool0"), ("base", "base")])
def test_a_real_camera_whose_place_is_known_tells_tf(tf_messages: None, parent: str, frame: str) -> None:
    place = "position_m: [0.1, 0.2, 0.3], quaternion_xyzw: [0.6, 0, 0, 0.8], error_m: 0.001"
    (said,) = told("ur5e_table", f"cell.cameras.wrist.mount={{parent: {parent}, {place}}}")
    assert (said.header.frame_id, said.child_frame_id) == (frame, "wrist_optical_frame")
    shift, turn = said.transform.translation, said.transform.rotation
    assert (shift.x, shift.y, shift.z) == (0.1, 0.2, 0.3)
    assert (turn.x, turn.y, turn.z, turn.w) == (0.6, 0.0, 0.0, 0.8)
    assert abs(said.header.stamp.sec - time.time()) < 60


def test_a_camera_without_a_place_or_a_simulated_one_tells_nothing(tf_messages: None) -> None:
    assert told("ur5e_table") == []
    place = "{parent: base, position_m: [0, 0, 0], quaternion_xyzw: [0, 0, 0, 1], error_m: 0.0}"
    assert told("peg_insert", f"cell.cameras.wrist.mount={place}") == []


def test_what_our_own_cameras_tell_is_no_frame_of_a_driver_to_the_doctor(tf_messages: None) -> None:
    doctor = SimpleNamespace(frames=set(), cameras={"wrist": None}, asked=[])
    doctor.create_subscription = lambda kind, topic, receive, qos: doctor.asked.append((topic, receive, qos.depth))
    DoctorNode._listen_to_frames(doctor)  # type: ignore[arg-type]
    (_, _, depth) = doctor.asked[1]
    assert depth == 100, "each publisher of static transforms has a message that waits"
    for parent, child in (("base", "wrist_optical_frame"), ("/flange", "tool0")):
        stamped = TransformStamped(child_frame_id=child)
        stamped.header.frame_id = parent
        doctor.asked[1][1](SimpleNamespace(transforms=[stamped]))
    assert doctor.frames == {"flange", "tool0"}
