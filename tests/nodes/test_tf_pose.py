"""The pose of a TCP that is read from TF: what can be used, and what is refused in words."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import TransformStamped

from robot_stack.nodes.drivers.sense import POSE, TfPose
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
