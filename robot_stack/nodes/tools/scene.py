"""A listener for `robot-stack scene` that brings a view of the cell to what its processes and drivers say.

A simulated cell is drawn as the simulator has it. A real arm is drawn from its URDF, in the places to which TF or its
joint states bring it; without one its tool alone is shown. Other frames that TF tells are shown by their axes.
"""

from __future__ import annotations

import importlib.util
import math
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String

from robot_stack.config.cell import CameraMount
from robot_stack.config.drivers import DriverRobot
from robot_stack.config.kinematics import UrdfFile, UrdfTopic
from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.config.robot import RobotConfig
from robot_stack.console.scene_view import SceneView
from robot_stack.control.kinematics.frame_graph import FrameGraph
from robot_stack.control.kinematics.link_tree import LinkTree
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import image_from_msg, mode_from_text, pose_from_msg, vector_from_msg
from robot_stack.nodes.diagnostics import Due
from robot_stack.nodes.qos import FIXED, LATCHED, SAMPLED
from robot_stack.nodes.tools.listening import listening
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.lens import Lens
from robot_stack.types.errors import ConfigError, RobotError, SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.shape import Shape, ShapeKind
from robot_stack.workcell.build import build_world

SHOWN_HZ = 15.0
IMAGES_HZ = 5.0
TRAIL_HZ = 15.0
TRAIL = 150
"""Points of a trail: ten seconds."""
STANDPOINT_M = np.array([0.9, 0.7, 0.6])
"""From the middle of the workspaces to whoever looks."""
FOV_RAD = 1.0
"""Taken for a real camera whose lens the cell's file does not have."""
DESCRIPTION = "/robot_description"
SLICE_S = 0.05
MOVING = QoSProfile(depth=100)
"""As tf2 listens."""
MOST_AXES = 60
"""Frames that are drawn: more hide the cell."""


class SceneNode(Node):
    """A ROS node that listens to one cell and keeps a view of it up to date.

    Args:
        run: Of the cell.
        namespace: Of the cell.
        view: Where it is drawn.
        say: Tells the operator what cannot be drawn.
    """

    def __init__(self, run: ResolvedRun, namespace: str, view: SceneView, say: Callable[[str], None]) -> None:
        super().__init__("scene", namespace=namespace, start_parameter_services=False, enable_rosout=False)
        self._run, self._view, self._say = run, view, say
        self._mode = ""
        self._prompt = ""
        self._tools: dict[str, np.ndarray] = {}
        self._bases = {name: _transform(arm.T_cell_base) for name, arm in run.arms.items()}
        self._trees: dict[str, LinkTree] = {}
        self._angles: dict[str, dict[str, float]] = {name: {} for name in run.arms}
        self._trails: dict[str, deque[tuple[np.ndarray, str]]] = {name: deque(maxlen=TRAIL) for name in run.arms}
        self._frames = FrameGraph()
        self._due = Due(SHOWN_HZ)
        simulated = run.simulated
        self._scene = _Simulated(self, run, view) if simulated else None
        if self._scene is not None:
            self._bases = self._scene.bases
        else:
            for name, arm in run.arms.items():
                self._describe(name, arm)
            if importlib.util.find_spec("tf2_msgs") is not None:  # only with an installed ROS
                self._listen_to_tf()
        middles = []
        for name, arm in run.arms.items():
            middle = np.array([*arm.workspace.min_m, 2.0]) + np.array([*arm.workspace.max_m, 0.0])
            middles.append((self._bases[name] @ (middle / 2.0))[:3])
            view.box(name, arm.workspace.min_m, arm.workspace.max_m, self._bases[name])
            topic = topics.state_view(name, "tcp_pose")
            self.create_subscription(PoseStamped, topic, self._on_tool(name), SAMPLED)
        view.aim(np.mean(middles, 0), np.mean(middles, 0) + STANDPOINT_M)
        for camera in run.cameras:
            self.create_subscription(Image, topics.observation(camera), self._on_image(camera), SAMPLED)
        self.create_subscription(String, topics.MODE, self._on_mode, LATCHED)
        self.create_subscription(String, topics.PROMPT, self._on_prompt, LATCHED)

    def step(self, now_ns: int) -> None:
        """Bring the view to what was heard; call it often."""
        if not self._due.now(now_ns) or not self._view.watched:
            return
        if self._scene is not None:
            self._scene.step()
        if self._scene is None:
            self._stand(now_ns / 1e9)
        for name, trail in self._trails.items():
            self._view.trail(name, np.array([point for point, _ in trail]), [mode for _, mode in trail])
        who = self._mode or "nobody speaks yet"
        self._view.say(f"**{who}**\n\n{self._prompt}" if self._prompt else f"**{who}**")

    def _stand(self, now_s: float) -> None:
        """Bring links to where TF has them, else to where the joints do, and show what else TF tells."""
        others: dict[str, np.ndarray] = {}
        drawn: set[str] = set()
        for name, arm in self._run.arms.items():
            base_link = _base_link(arm.robot)
            told = self._frames.seen_from(base_link, now_s)
            others |= {frame: self._bases[name] @ pose for frame, pose in told.items()}
            drawn.add(base_link)
            tree = self._trees.get(name)
            if tree is not None:
                links = tree.frames(self._angles[name])
                drawn |= links.keys()
                to_base = np.linalg.inv(links.get(base_link, np.eye(4)))
                in_base = {link: told.get(link, to_base @ pose) for link, pose in links.items()}
                self._view.move({link: self._bases[name] @ pose for link, pose in in_base.items()}, f"{name}/")
        free = sorted(others.keys() - drawn)[:MOST_AXES]
        self._view.axes({frame: others[frame] for frame in free})

    def _listen_to_tf(self) -> None:
        from tf2_msgs.msg import TFMessage

        self.create_subscription(TFMessage, "/tf", lambda msg: self.take_tf(msg, time.monotonic()), MOVING)
        self.create_subscription(TFMessage, "/tf_static", lambda msg: self.take_tf(msg, math.inf), FIXED)

    def take_tf(self, msg: Any, heard_s: float) -> None:
        """Take what a message of TF tells: `transforms`, each a TransformStamped.

        Args:
            msg: The message.
            heard_s: When it came, by the monotonic clock; infinity if it holds for ever.
        """
        for each in msg.transforms:
            shift, turn = each.transform.translation, each.transform.rotation
            try:
                pose = Pose(
                    position_m=np.array([shift.x, shift.y, shift.z]),
                    quaternion_xyzw=np.array([turn.x, turn.y, turn.z, turn.w]),
                )
            except SpecError:
                continue  # whoever obeys such a frame refuses it by name; here it is not drawn
            self._frames.hang(
                each.child_frame_id.lstrip("/"), each.header.frame_id.lstrip("/"), _transform(pose), heard_s
            )

    def _describe(self, name: str, arm: RunArm) -> None:
        """Draw an arm once its URDF is known."""
        robot = arm.robot
        assert isinstance(robot, DriverRobot)
        if isinstance(robot.kinematics, UrdfFile):
            path = Path(robot.kinematics.path).expanduser()
            try:
                self._draw(name, path.read_text(), str(path))
            except OSError as error:
                self._say(
                    f"arm {name} is not drawn: {path} cannot be read ({error.strerror}); start it where the run was"
                )
        else:
            topic = robot.kinematics.topic if isinstance(robot.kinematics, UrdfTopic) else DESCRIPTION
            self.create_subscription(String, topic, self._on_description(name, topic), LATCHED)
        if robot.over_topics:
            self.create_subscription(JointState, robot.joint_states, self._on_joints(name), SAMPLED)
        else:
            self.create_subscription(
                JointState, topics.state_view(name, "joint_states"), self._on_joints(name), SAMPLED
            )

    def _draw(self, name: str, text: str, source: str) -> None:
        if name in self._trees:
            return
        try:
            tree = LinkTree(text, source=source)
        except ConfigError as error:
            self._say(f"arm {name} is not drawn: {error}")
            return
        self._trees[name] = tree
        self._view.draw([_located(shape, source) for shape in tree.shapes], f"{name}/")
        if _base_link(self._run.arms[name].robot) not in tree.frames({}):
            base = _base_link(self._run.arms[name].robot)
            self._say(f"arm {name} is drawn from its root {tree.root}: {base} is no link of its URDF")
        for sentence in self._view.left_out:
            self._say(sentence)
        self._view.left_out.clear()

    def _on_description(self, name: str, topic: str) -> Callable[[String], None]:
        return lambda msg: self._draw(name, msg.data, topic)

    def _on_joints(self, name: str) -> Callable[[JointState], None]:
        def receive(msg: JointState) -> None:
            values = vector_from_msg(msg)
            if len(values) == len(msg.name) and np.isfinite(values).all():
                self._angles[name].update(zip(msg.name, values.tolist()))

        return receive

    def _on_tool(self, name: str) -> Callable[[PoseStamped], None]:
        due = Due(TRAIL_HZ)

        def receive(msg: PoseStamped) -> None:
            if not due.now(time.monotonic_ns()):
                return
            try:
                pose = self._bases[name] @ _transform(pose_from_msg(msg))
            except SpecError:
                return  # whoever obeys such a pose refuses it by name; here it is not drawn
            self._tools[name] = pose
            self._trails[name].append((pose[:3, 3], self._mode))

        return receive

    def _on_image(self, camera: str) -> Callable[[Image], None]:
        due = Due(IMAGES_HZ)

        def receive(msg: Image) -> None:
            if not self._view.watched or not due.now(time.monotonic_ns()):
                return
            placed = self._scene.camera(camera) if self._scene is not None else self._placed(camera)
            try:
                image = image_from_msg(msg)
            except SpecError:
                return  # whoever acts on images refuses it by name
            if placed is not None:
                self._view.see(camera, image, *placed)

        return receive

    def _placed(self, camera: str) -> tuple[np.ndarray, float] | None:
        """Return where a real camera is, as far as its extrinsics were calibrated."""
        mount = self._run.cell.cameras[camera].mount
        if mount is None:
            return None
        arm = mount.arm or next(iter(self._run.arms))
        parent = self._bases[arm] if mount.parent == "base" else self._tools.get(arm)
        lens, framing = self._run.cell.cameras[camera].lens, Framing.of(self._run.cameras[camera])
        fov_rad = FOV_RAD if lens is None else Lens.of(lens).framed(framing).vertical_view_rad
        return None if parent is None else (parent @ _pose_of(mount), fov_rad)

    def _on_mode(self, msg: String) -> None:
        try:
            self._mode = mode_from_text(msg.data)[0].value
        except SpecError:
            self._mode = ""

    def _on_prompt(self, msg: String) -> None:
        self._prompt = msg.data[:200]


class _Simulated:
    """The scene of a simulated cell, as its robot process last described it."""

    def __init__(self, node: Node, run: ResolvedRun, view: SceneView) -> None:
        from sim.shapes import bases_of, shapes_of  # a real cell's machine has no simulator

        self._world, self._view = build_world(run), view
        view.draw(shapes_of(self._world))
        self.bases = dict(bases_of(self._world))
        node.create_subscription(JointState, topics.SNAPSHOT, self._on_snapshot, SAMPLED)

    def step(self) -> None:
        from sim.shapes import frames_of

        self._view.move(frames_of(self._world))

    def camera(self, name: str) -> tuple[np.ndarray, float]:
        from sim.shapes import camera_of

        return camera_of(self._world, name)

    def _on_snapshot(self, msg: JointState) -> None:
        try:
            self._world.show(vector_from_msg(msg))
        except RobotError:
            return  # of another task: the cell itself refuses it by name


def watch(
    run: ResolvedRun, namespace: str, view: SceneView, say: Callable[[str], None], ended: Callable[[], bool]
) -> None:
    """Keep a view up to date until `ended` says so."""
    with listening(lambda: SceneNode(run, namespace, view, say)) as scene:
        while not ended():
            scene.listen(SLICE_S)
            scene.node.step(time.monotonic_ns())


def _pose_of(mount: CameraMount) -> np.ndarray:
    return _transform(Pose(position_m=np.array(mount.position_m), quaternion_xyzw=np.array(mount.quaternion_xyzw)))


def _transform(pose: Pose) -> np.ndarray:
    transform = np.eye(4)
    transform[:3, :3], transform[:3, 3] = pose.matrix, pose.position_m
    return transform


def _base_link(robot: RobotConfig) -> str:
    """Return the link of a robot's URDF whose frame is that of its base."""
    described = isinstance(robot.kinematics, UrdfFile | UrdfTopic)
    return robot.kinematics.base_link if described else robot.base_frame  # type: ignore[union-attr,no-any-return]


def _located(shape: Shape, source: str) -> Shape:
    """Return a shape whose file is named by a path.

    `package://` is looked up where ROS packages are installed, a relative path beside the URDF.
    """
    if shape.kind is not ShapeKind.FILE:
        return shape
    scheme, _, rest = shape.path.partition("://")
    if scheme == "package":
        for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
            path = Path(prefix) / "share" / rest
            if prefix and path.is_file():
                return replace(shape, path=str(path))
    if scheme == "package":
        return replace(shape, path=shape.path)
    return replace(shape, path=str(Path(source).parent / (rest or shape.path)))
