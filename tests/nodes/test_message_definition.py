"""Definitions out of classes: what a reader without ROS decodes by them is what was sent."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("mcap_ros2", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseWithCovariance
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CameraInfo
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_stack.nodes.tools.topic_recorder import definition_of, in_msg_words

STATUS = DiagnosticStatus(level=b"\x02", name="arm: motion", values=[KeyValue(key="age_ms", value="3")])
POINT = JointTrajectoryPoint(positions=[1.0, 2.0])


@pytest.mark.parametrize(
    ("kind", "message", "look"),
    [
        ("diagnostic_msgs/msg/DiagnosticArray", DiagnosticArray(status=[STATUS]),
         lambda m: m.status[0].values[0].value),
        ("geometry_msgs/msg/PoseWithCovariance", PoseWithCovariance(covariance=list(range(36))),
         lambda m: list(m.covariance)),
        ("sensor_msgs/msg/CameraInfo", CameraInfo(width=640, d=[0.5, 0.25]), lambda m: (m.width, list(m.d))),
        ("trajectory_msgs/msg/JointTrajectory", JointTrajectory(points=[POINT]),
         lambda m: (list(m.points[0].positions), m.points[0].time_from_start.sec)),
    ],
)  # fmt: skip
def test_what_is_decoded_is_what_was_sent(kind, message, look) -> None:
    schema = Schema(id=1, name=kind, encoding="ros2msg", data=definition_of(kind).encode())
    decode = DecoderFactory().decoder_for("cdr", schema)
    assert look(decode(serialize_message(message))) == look(message)


def test_a_type_is_defined_once_however_often_it_is_contained() -> None:
    text = definition_of("diagnostic_msgs/msg/DiagnosticArray")
    assert text.count("MSG: diagnostic_msgs/DiagnosticStatus") == 1
    assert text.startswith("std_msgs/Header header\ndiagnostic_msgs/DiagnosticStatus[] status\n===")


@pytest.mark.parametrize(
    ("idl", "words"),
    [
        ("double", "float64"),
        ("sequence<octet>", "byte[]"),
        ("sequence<double, 3>", "float64[<=3]"),
        ("float[9]", "float32[9]"),
        ("string<10>", "string<=10"),
        ("sequence<string<4>, 2>", "string<=4[<=2]"),
        ("pkg/Part", "pkg/Part"),
    ],
)
def test_types_are_said_in_the_words_of_msg_files(idl: str, words: str) -> None:
    assert in_msg_words(idl) == words


def test_a_type_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(ImportError):
        definition_of("nobody_msgs/msg/Nothing")
