"""The view in three dimensions over real DDS: a real arm from its URDF, a simulated cell from the simulator."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("viser", reason="no viser on this machine: pip install 'robot-stack[scene]'")

from robot_stack.cli.cell.own_cell import own_cell
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.kinematics.link_tree import LinkTree
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import namespace_of
from robot_stack.types.shape import Shape
from robot_stack.workcell.build_arm import build_chain

DOMAIN = 66
WAIT_S = 30.0
ANGLES = (0.2, -1.3, 1.4, -1.6, -1.5, 0.1)
DRIVER = """
import sys
import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import String
rclpy.init()
node = rclpy.create_node("driver")
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
described = node.create_publisher(String, "/robot_description", latched)
described.publish(String(data=open(sys.argv[1]).read()))
mode = node.create_publisher(String, sys.argv[2] + "/safety/mode", latched)
mode.publish(String(data="POLICY"))
joints = node.create_publisher(JointState, "/joint_states", 10)
tool = node.create_publisher(PoseStamped, sys.argv[2] + "/ur5e/tcp_pose", 10)
camera = node.create_publisher(Image, sys.argv[2] + "/wrist/obs", 10)
names, angles = sys.argv[3].split(","), [float(each) for each in sys.argv[4].split(",")]

pose, broken = PoseStamped(), PoseStamped()
pose.pose.position.x, pose.pose.orientation.w = -0.4, 1.0
broken.pose.orientation.w = 0.0
good, empty = Image(height=4, width=6, encoding="rgb8", step=18, data=bytes(72)), Image(encoding="rgb8")
turns = [
    (JointState(name=names, position=angles), pose, good),
    (JointState(name=names[:2], position=[float("nan")] * 2), broken, empty),
    (JointState(name=names, position=[0.0]), pose, Image(height=4, width=6, encoding="bgr8", step=18, data=bytes(72))),
]

def say():
    turns.append(turns.pop(0))  # not at once: a reader keeps the newest alone
    for publisher, msg in zip((joints, tool, camera), turns[-1]):
        publisher.publish(msg)

node.create_timer(0.05, say)
rclpy.spin(node)
"""


class Drawn:
    """A view that keeps what it is told, as `SceneView` draws it."""

    def __init__(self) -> None:
        self.watched = True
        self.left_out: list[str] = []
        self.shapes: list[Shape] = []
        self.frames: dict[str, np.ndarray] = {}
        self.free: dict[str, np.ndarray] = {}
        self.boxes: list[str] = []
        self.trails: dict[str, tuple[np.ndarray, Sequence[str]]] = {}
        self.cameras: dict[str, tuple[np.ndarray, float]] = {}
        self.said = ""

    def draw(self, shapes: Sequence[Shape], prefix: str = "") -> None:
        self.shapes += shapes

    def move(self, frames: Mapping[str, np.ndarray], prefix: str = "") -> None:
        self.frames.update({prefix + name: pose for name, pose in frames.items()})

    def axes(self, frames: Mapping[str, np.ndarray]) -> None:
        self.free = dict(frames)

    def box(self, name: str, low: Sequence[float], high: Sequence[float], pose: np.ndarray) -> None:
        self.boxes.append(name)

    def trail(self, arm: str, points: np.ndarray, modes: Sequence[str]) -> None:
        self.trails[arm] = points, modes

    def see(self, camera: str, image: np.ndarray, pose: np.ndarray, fov_rad: float) -> None:
        self.cameras[camera] = pose, fov_rad

    def aim(self, target_m: np.ndarray, from_m: np.ndarray) -> None: ...

    def say(self, text: str) -> None:
        self.said = text


def urdf_of_ur5e(run: ResolvedRun) -> str:
    """A URDF of the table in the robot's file: each link a box, each joint turning about its z."""
    rows = run.robots["ur5e"].kinematics.links  # type: ignore[union-attr]
    text = '<robot name="ur5e"><link name="base"/>'
    parent = "base"
    for number, (row, joint) in enumerate(zip(rows, run.robots["ur5e"].joints)):
        text += (
            f'<link name="turned{number}"/><joint name="{joint.name}" type="revolute"><parent link="{parent}"/>'
            f'<child link="turned{number}"/><axis xyz="0 0 1"/></joint><link name="link{number}"><visual><geometry>'
            f'<box size="0.05 0.05 0.05"/></geometry></visual></link><joint name="fixed{number}" type="fixed">'
            f'<parent link="turned{number}"/><child link="link{number}"/>'
            f'<origin xyz="{row.a_m} 0 {row.d_m}" rpy="{row.alpha_rad} 0 0"/></joint>'
        )
        parent = f"link{number}"
    return text + "</robot>"


@contextmanager
def joined(run: ResolvedRun, folder: Path) -> Iterator[dict[str, str]]:
    """This process in the environment of a run that is going on."""
    with prepared(run, folder) as ready, own_cell(run, folder, running=True):
        yield ready.environment


def watched(run: ResolvedRun, view: Drawn, fits: Any) -> None:
    from robot_stack.nodes.tools.scene import watch

    deadline_s = time.monotonic() + WAIT_S
    watch(run, namespace_of(run), view, print, lambda: fits() or time.monotonic() > deadline_s)  # type: ignore[arg-type]
    assert fits()


def test_a_real_arm_stands_where_its_joints_bring_it(tmp_path: Path) -> None:
    mount = "{parent: tcp, position_m: [0, 0, 0.1], quaternion_xyzw: [0, 0, 0, 1], error_m: 0.001}"
    settings = [f"cell.dds_domain={DOMAIN}", f"cell.cameras.wrist.mount={mount}"]
    run, view = load_run("ur5e_table", settings), Drawn()
    (tmp_path / "arm.urdf").write_text(urdf_of_ur5e(run))
    with joined(run, tmp_path / "run") as environment:
        names = ",".join(joint.name for joint in run.robots["ur5e"].joints)
        words = [str(tmp_path / "arm.urdf"), f"/{namespace_of(run)}", names, ",".join(map(str, ANGLES))]
        with subprocess.Popen([sys.executable, "-c", DRIVER, *words], env={**os.environ, **environment}) as driver:
            try:
                tip = "ur5e/link5"
                watched(
                    run,
                    view,
                    lambda: (
                        tip in view.frames
                        and abs(view.frames[tip] - np.eye(4)).max() > 0.1
                        and len(view.trails.get("ur5e", ([],))[0]) > 2
                        and "wrist" in view.cameras
                        and "POLICY" in view.said
                    ),
                )
            finally:
                driver.kill()
    chain = build_chain(run.robots["ur5e"])
    assert chain is not None
    there = chain.pose(np.array(ANGLES))
    np.testing.assert_allclose(view.frames["ur5e/link5"][:3, 3], there.position_m, atol=1e-6)
    np.testing.assert_allclose(view.frames["ur5e/link5"][:3, :3], there.matrix, atol=1e-6)
    assert len(view.shapes) == 6
    assert view.boxes == ["ur5e"]
    points, modes = view.trails["ur5e"]
    np.testing.assert_allclose(points[-1], [-0.4, 0.0, 0.0], atol=1e-9)
    assert modes[-1] == "POLICY"
    np.testing.assert_allclose(view.cameras["wrist"][0][:3, 3], [-0.4, 0.0, 0.1], atol=1e-9)


def of_tf(*frames: tuple[str, str, np.ndarray]) -> Any:
    """What TF says, with the fields of tf2_msgs/TFMessage, which no wheel has."""
    from geometry_msgs.msg import TransformStamped

    said = []
    for parent, frame, pose in frames:
        stamped = TransformStamped(child_frame_id=frame)
        stamped.header.frame_id = parent
        shift, turn = stamped.transform.translation, stamped.transform.rotation
        shift.x, shift.y, shift.z = pose[:3, 3].tolist()
        turn.x, turn.y, turn.z, turn.w = Rotation.from_matrix(pose[:3, :3]).as_quat().tolist()
        said.append(stamped)
    return SimpleNamespace(transforms=said)


def test_links_are_where_tf_has_them_and_what_else_it_tells_is_shown_by_its_axes(tmp_path: Path) -> None:
    run, view = load_run("ur5e_table", [f"cell.dds_domain={DOMAIN}"]), Drawn()
    path = tmp_path / "arm.urdf"
    path.write_text(urdf_of_ur5e(run))
    joints, chain = [joint.name for joint in run.robots["ur5e"].joints], build_chain(run.robots["ur5e"])
    assert chain is not None
    frames = LinkTree(path.read_text(), source="arm").frames(dict(zip(joints, ANGLES)))
    tag = np.eye(4)
    tag[:3, 3] = [0.0, 0.0, 0.1]
    broken = of_tf(("base", "nowhere", np.eye(4)))
    broken.transforms[0].transform.rotation.w = 0.0
    with joined(run, tmp_path / "run"):
        from robot_stack.nodes.tools.listening import listening
        from robot_stack.nodes.tools.scene import SceneNode

        with listening(lambda: SceneNode(run, namespace_of(run), view, print)) as scene:  # type: ignore[arg-type]
            node = scene.node
            node._draw("ur5e", path.read_text(), "arm")
            told = [
                ("base_link", "/base", tag),
                *(("base", link, pose) for link, pose in frames.items() if link != "base"),
            ]
            node.take_tf(of_tf(*told), 100.0)
            node.take_tf(broken, 100.0)
            node.take_tf(of_tf(("link5", "tag_3", tag), ("base_link", "table", np.eye(4))), math.inf)
            node.step(round(100.5e9))
            at_tag, at_table = view.free["tag_3"], view.free["table"]
            assert set(view.free) == {"tag_3", "table", "base_link"}
            np.testing.assert_allclose(view.frames["ur5e/link5"], frames["link5"], atol=1e-9)
            node.step(round(102.0e9))
            assert set(view.free) == set(), "it no longer says where links are, and all else hangs on them"
            np.testing.assert_allclose(
                view.frames["ur5e/link5"][:3, 3], chain.pose(np.zeros(6)).position_m, atol=1e-6
            )  # as its joints would have it
    np.testing.assert_allclose(at_tag, frames["link5"] @ tag, atol=1e-9)
    np.testing.assert_allclose(at_table, np.linalg.inv(tag), atol=1e-9)


def test_a_simulated_cell_is_drawn_as_the_simulator_has_it(tmp_path: Path) -> None:
    from robot_stack.nodes import topics
    from robot_stack.nodes.conversion import vector_to_msg
    from robot_stack.workcell.build import build_world
    from sim.shapes import frames_of

    run, view = load_run("drawer", [f"cell.dds_domain={DOMAIN}"]), Drawn()
    world = build_world(run)
    world.data.qpos[:] += 0.01
    import mujoco

    mujoco.mj_kinematics(world.model, world.data)
    wanted = frames_of(world)
    with joined(run, tmp_path / "run"):
        import rclpy
        from rclpy.context import Context
        from sensor_msgs.msg import JointState

        from robot_stack.nodes.qos import NEWEST

        context = Context()
        rclpy.init(context=context)
        node = rclpy.create_node("robot", namespace=namespace_of(run), context=context)
        said = node.create_publisher(JointState, topics.SNAPSHOT, NEWEST)

        def there() -> bool:
            said.publish(vector_to_msg(np.zeros(3), time.monotonic_ns()))
            said.publish(vector_to_msg(world.snapshot(), time.monotonic_ns()))
            return bool(view.frames) and all(abs(view.frames[each] - wanted[each]).max() < 1e-6 for each in wanted)

        try:
            watched(run, view, there)
        finally:
            node.destroy_node()
            rclpy.shutdown(context=context)
    assert {shape.frame for shape in view.shapes} <= set(wanted)
    assert len(view.shapes) > 20
    assert view.boxes == list(run.arms)
