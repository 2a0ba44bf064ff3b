"""A stray message on a topic of the cell ends neither `doctor` nor `calibrate`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from robot_stack.config.resolved import ResolvedRun

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from sensor_msgs.msg import Image, JointState, Joy  # noqa: E402

from robot_stack.nodes import topics  # noqa: E402
from robot_stack.nodes.conversion import image_to_msg, state_to_msg, teleop_to_msg  # noqa: E402
from robot_stack.nodes.tools.doctor import DoctorNode  # noqa: E402
from robot_stack.nodes.tools.onlooker import Onlooker  # noqa: E402
from robot_stack.types.pose import Pose  # noqa: E402
from robot_stack.types.robot import RobotState, TeleopSample  # noqa: E402

DOMAIN, ARM = 99, "fr3"


@pytest.fixture
def ros(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    rclpy.init()
    yield
    rclpy.try_shutdown()


def test_the_doctor_notes_a_sample_of_another_length_and_goes_on(run: ResolvedRun, ros: None) -> None:
    node = DoctorNode(run, "cell", [])
    node._on_teleop(ARM, Joy(axes=[0.5, 0.5], buttons=[1, 0, 0]))
    assert "has 2 axes, must have 6" in node.refused[topics.teleop(ARM)]
    assert not node.arms[ARM].deadman
    sample = TeleopSample(stamp_ns=1, twist=np.full(6, 0.1), deadman=True, gripper=0, lost=False)
    node._on_teleop(ARM, teleop_to_msg(sample))
    assert node.arms[ARM].deadman
    assert len(node.arms[ARM].twists) == 1
    node.destroy_node()


def test_who_looks_on_passes_over_what_cannot_be_read(run: ResolvedRun, ros: None) -> None:
    node = Onlooker(run, "cell", ARM)
    node._on_image("wrist")(Image(encoding="mono8", height=1, width=1, step=1, data=[0]))
    node._on_state(JointState(position=[0.0] * 20))
    node._on_state(JointState(position=[0.0] * 21))
    assert (node.images["wrist"], node.state, node.positions_m) == ([], None, [])
    node._on_image("wrist")(image_to_msg(np.zeros((4, 5, 3), np.uint8), 1, "wrist"))
    state = RobotState(
        arm=ARM,
        stamp_ns=1,
        T_base_tcp=Pose.identity(),
        twist=np.zeros(6),
        wrench=np.zeros(6),
        gripper=0.0,
        joints_rad=np.zeros(7),
        joint_speeds_rad_s=np.zeros(7),
    )
    node._on_state(state_to_msg(state))
    assert (len(node.images["wrist"]), len(node.positions_m)) == (1, 1)
    node.destroy_node()
