"""What a stranger's tool sees of a running cell, and what a stranger's policy can do in it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import cv2
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip("rclpy", reason="no ROS on this machine")

import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.topic_or_service_is_hidden import topic_or_service_is_hidden
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from std_msgs.msg import String

from robot_stack.config.resolve import load_run
from robot_stack.nodes import topics
from robot_stack.nodes.qos import LATCHED, SAMPLED
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes
from robot_stack.sensing.framing import Framing
from tests.nodes.cell_rig import START_S, wait_until

EXAMPLE = Path(__file__).parents[2] / "docs/examples/policy_node.py"
ARM, NAMESPACE = "fr3", "/sim"
ENOUGH = 20
"""Messages of a topic that are looked at."""
COMPILER = '<mujoco><compiler fusestatic="false" boundmass="1" boundinertia="1" discardvisual="false"/></mujoco>'
KINDS: dict[str, Any] = {
    "joint_states": JointState, "tcp_pose": PoseStamped, "tcp_twist": TwistStamped, "wrench": WrenchStamped,
    "gripper": JointState,
}  # fmt: skip


@dataclass
class Stranger:
    """A node that knows of the cell only what its documentation says."""

    node: Node
    environment: dict[str, str]
    heard: dict[str, list[tuple[float, Any]]] = field(default_factory=dict)
    """Topic -> ROS time of arrival in s, and the message."""

    def listen(self, kind: type, topic: str, profile: Any = SAMPLED) -> None:
        """Keep what comes on a topic."""
        kept = self.heard.setdefault(topic, [])
        clock = self.node.get_clock()
        self.node.create_subscription(kind, topic, lambda m: kept.append((clock.now().nanoseconds / 1e9, m)), profile)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    run, folder = load_run("peg_insert", ["cell.dds_domain=64"]), tmp_path_factory.mktemp("cell")
    before = dict(os.environ)
    with (
        prepared(run, folder) as ready,
        Supervisor(cell_processes(run, folder), environment=ready.environment, log_folder=ready.log_folder),
    ):
        os.environ.update(ready.environment)
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        seen = Stranger(Node("stranger", namespace=NAMESPACE), dict(ready.environment))
        executor = SingleThreadedExecutor()
        executor.add_node(seen.node)

        def spin() -> None:
            with suppress(ExternalShutdownException):
                executor.spin()

        thread = threading.Thread(target=spin)
        thread.start()
        try:
            for view, kind in KINDS.items():
                seen.listen(kind, topics.state_view(ARM, view))
            seen.listen(Image, topics.observation("wrist"))
            seen.listen(CameraInfo, topics.camera_info("wrist"))
            seen.listen(CompressedImage, topics.compressed("wrist"))
            seen.listen(CompressedImage, topics.captured("wrist"))
            seen.listen(String, topics.ROBOT_DESCRIPTION, LATCHED)
            seen.listen(String, topics.MODE, LATCHED)
            seen.listen(TwistStamped, topics.applied(ARM))
            for topic in set(seen.heard) - {topics.applied(ARM)}:
                wait_until(lambda topic=topic: seen.heard[topic], START_S, topic)
            yield seen
        finally:
            rclpy.try_shutdown()
            thread.join(10.0)
            os.environ.clear()
            os.environ.update(before)


def test_every_stamp_is_ros_time_and_young(stranger: Stranger) -> None:
    for topic, kept in stranger.heard.items():
        if kept and hasattr(kept[0][1], "header"):
            wait_until(
                lambda kept=kept: len(kept) > ENOUGH, START_S, topic
            )  # the first came while the cell was starting
            ages_s = [at_s - m.header.stamp.sec - m.header.stamp.nanosec / 1e9 for at_s, m in list(kept)]
            assert min(ages_s) > -0.005, topic
            assert np.median(ages_s) < 0.2, topic


def test_every_number_has_a_name_and_every_frame_is_a_frame(stranger: Stranger) -> None:
    newest = {topic: kept[-1][1] for topic, kept in stranger.heard.items() if kept}
    joints = newest[topics.state_view(ARM, "joint_states")]
    assert list(joints.name) == [f"fr3_joint{number}" for number in range(1, 8)]
    assert len(joints.position) == len(joints.velocity) == 7
    assert list(newest[topics.state_view(ARM, "gripper")].name) == ["fr3_gripper_opening"]
    frames = {
        view: newest[topics.state_view(ARM, view)].header.frame_id for view in ("tcp_pose", "tcp_twist", "wrench")
    }
    assert frames == {"tcp_pose": "fr3_base", "tcp_twist": "fr3_tcp", "wrench": "fr3_tcp"}
    assert newest[topics.observation("wrist")].header.frame_id == "wrist_optical_frame"


def test_a_panel_in_three_dimensions_finds_all_that_it_draws(stranger: Stranger) -> None:
    newest = {topic: kept[-1][1] for topic, kept in stranger.heard.items() if kept}
    urdf = ElementTree.fromstring(newest[topics.ROBOT_DESCRIPTION].data)
    links = {link.get("name") for link in urdf.iter("link")}
    moving = {joint.get("name") for joint in urdf.iter("joint") if joint.get("type") == "revolute"}
    assert moving == set(newest[topics.state_view(ARM, "joint_states")].name)
    headers = [msg.header for msg in newest.values() if hasattr(msg, "header")]
    assert {header.frame_id for header in headers if header.frame_id} <= links
    info, image = newest[topics.camera_info("wrist")], newest[topics.observation("wrist")]
    assert (info.width, info.height, info.header.frame_id) == (image.width, image.height, image.header.frame_id)
    assert info.k[0] > info.width / 2
    raw, file = (stranger.heard[topic] for topic in (topics.observation("wrist"), topics.compressed("wrist")))
    stamps = {(m.header.stamp.sec, m.header.stamp.nanosec): m for _, m in raw}
    pairs = [(stamps[m.header.stamp.sec, m.header.stamp.nanosec], m) for _, m in file
             if (m.header.stamp.sec, m.header.stamp.nanosec) in stamps]  # fmt: skip
    whole, small = pairs[-1]
    decoded = cv2.imdecode(np.frombuffer(small.data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1].astype(int)
    pixels = np.frombuffer(whole.data, np.uint8).reshape(decoded.shape).astype(int)
    assert np.abs(decoded - pixels).mean() < 6.0


def test_a_whole_picture_shows_what_the_policys_was_made_of(stranger: Stranger) -> None:
    framing = Framing.of(load_run("peg_insert").cameras["wrist"])
    raw, file = (stranger.heard[topic] for topic in (topics.observation("wrist"), topics.captured("wrist")))
    wait_until(lambda: len(file) > 4, START_S, "whole pictures")
    stamps = {(m.header.stamp.sec, m.header.stamp.nanosec): m for _, m in raw}
    pairs = [(stamps[m.header.stamp.sec, m.header.stamp.nanosec], m) for _, m in file
             if (m.header.stamp.sec, m.header.stamp.nanosec) in stamps]  # fmt: skip
    policys, whole = pairs[-1]
    decoded = cv2.imdecode(np.frombuffer(whole.data, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert decoded.shape == (framing.height_px, framing.width_px, 3)
    made = framing.apply(np.ascontiguousarray(decoded)).astype(int)
    pixels = np.frombuffer(policys.data, np.uint8).reshape(made.shape).astype(int)
    assert np.abs(made - pixels).mean() < 4.0
    times_s = [m.header.stamp.sec + m.header.stamp.nanosec / 1e9 for _, m in file]
    assert min(np.diff(times_s)) > 0.1, "for operators, not at the camera's rate"


def test_what_is_sealed_or_packed_is_hidden_from_lists_of_topics(stranger: Stranger) -> None:
    seen = {name.removeprefix(f"{NAMESPACE}/") for name, _ in stranger.node.get_topic_names_and_types()}
    packed = {topics.state(ARM), topics.command(ARM), topics.label(ARM), topics.EVENTS, topics.SNAPSHOT}
    assert packed <= seen
    assert all(topic_or_service_is_hidden(topic) for topic in packed)
    public = {topics.state_view(ARM, view) for view in KINDS} | {topics.applied(ARM), topics.foreign_policy(ARM)}
    assert public <= seen
    assert not any(topic_or_service_is_hidden(topic) for topic in public)


def test_the_example_of_a_policy_moves_the_arm_in_a_circle(stranger: Stranger, tmp_path: Path) -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 45
    pose, mode = stranger.heard[topics.state_view(ARM, "tcp_pose")], stranger.heard[topics.MODE]
    words = [sys.executable, str(EXAMPLE), NAMESPACE.strip("/"), ARM]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, env=stranger.environment, stdout=log, stderr=log)
    second = None
    try:
        wait_until(
            lambda: mode[-1][1].data.startswith("POLICY"), 30.0, "POLICY",
            lambda: f"{mode[-1][1].data}; {(tmp_path / 'log').read_text()}",
        )  # fmt: skip
        first = len(pose)

        def spread_m() -> np.ndarray:
            points = [(m.pose.position.x, m.pose.position.y, m.pose.position.z) for _, m in pose[first:]]
            return np.ptp(np.array(points), axis=0) if points else np.zeros(3)

        # speed times period is 2 pi radii: the circle is 25 mm wide
        wait_until(
            lambda: (spread_m()[:2] > 0.02).all(), 30.0, "a circle", lambda: f"{spread_m()} m; {mode[-1][1].data}"
        )
        assert (spread_m()[:2] < 0.04).all()
        assert spread_m()[2] < 0.005
        second = subprocess.Popen(words, env=stranger.environment)
        wait_until(lambda: "has 2 publishers (" in mode[-1][1].data, 30.0, "HOLD for the second policy")
    finally:
        for each in (process, second):
            if each is not None:
                each.kill()
                each.wait(5.0)


def test_the_tool_of_the_urdf_at_measured_angles_is_at_the_pose_of_the_same_stamp(stranger: Stranger) -> None:
    text = stranger.heard[topics.ROBOT_DESCRIPTION][-1][1].data
    model = mujoco.MjModel.from_xml_string(text.replace('<robot name="cell">', f'<robot name="cell">{COMPILER}'))
    drawn = mujoco.MjData(model)
    poses = {stamp_of(m): m for _, m in stranger.heard[topics.state_view(ARM, "tcp_pose")]}
    measured = [m for _, m in stranger.heard[topics.state_view(ARM, "joint_states")] if stamp_of(m) in poses]
    assert len(measured) > 10
    for joints in measured:
        pose = poses[stamp_of(joints)]
        for name, angle in zip(joints.name, joints.position, strict=True):
            drawn.joint(name).qpos[0] = angle
        mujoco.mj_kinematics(model, drawn)
        base, tcp = drawn.body(pose.header.frame_id), drawn.body(f"{ARM}_tcp")
        R_base_world = base.xmat.reshape(3, 3).T
        point, turn = pose.pose.position, pose.pose.orientation
        off_m = R_base_world @ (tcp.xpos - base.xpos) - [point.x, point.y, point.z]
        shown = Rotation.from_quat([turn.x, turn.y, turn.z, turn.w])
        off_rad = (Rotation.from_matrix(R_base_world @ tcp.xmat.reshape(3, 3)) * shown.inv()).magnitude()
        assert np.linalg.norm(off_m) < 1e-3
        assert off_rad < np.deg2rad(0.1)


def stamp_of(msg: Any) -> tuple[int, int]:
    """Return the stamp of a message, to be compared."""
    return msg.header.stamp.sec, msg.header.stamp.nanosec
