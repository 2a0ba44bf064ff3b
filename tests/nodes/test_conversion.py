"""What goes into a message comes out of it."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rclpy", reason="no ROS on this machine")

from diagnostic_msgs.msg import KeyValue
from geometry_msgs.msg import PoseStamped
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import conversion as c
from robot_stack.nodes.sealing import Sealer
from robot_stack.teleop.page import page_packet
from robot_stack.types.command import Command, Decision, Mode, Source
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind, Refusal, RefusalKind
from robot_stack.types.robot import EVENTS, RobotState, TeleopSample

STOPPED = Fault(kind=FaultKind.PROTECTIVE_STOP, text="protective stop")

stamps = st.integers(1, 2**31 * 10**9 - 1)
twists = st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6).map(np.array)


def a_state(stamp_ns: int = 5) -> RobotState:
    return RobotState(
        arm="arm",
        stamp_ns=stamp_ns,
        T_base_tcp=Pose(position_m=np.array([0.1, 0.2, 0.3]), quaternion_xyzw=np.array([0.0, 1.0, 0.0, 0.0])),
        twist=np.arange(6.0),
        wrench=np.arange(6.0) + 10,
        joints_rad=np.arange(7.0),
        joint_speeds_rad_s=np.arange(7.0) + 20,
        gripper=0.25,
    )


@given(stamps)
def test_stamps_keep_every_nanosecond(stamp_ns):
    assert c.stamp_ns_of(c.header_of(stamp_ns)) == stamp_ns


@given(twists, stamps)
def test_twists_are_exact(twist, stamp_ns):
    msg = c.twist_to_msg(twist, stamp_ns, "tcp")
    assert np.array_equal(c.twist_from_msg(msg), twist)
    assert (msg.header.frame_id, c.stamp_ns_of(msg.header)) == ("tcp", stamp_ns)


def test_states_are_exact_and_carry_the_fault_of_their_own_topic():
    state = c.state_from_msg(c.state_to_msg(a_state()), "arm", STOPPED)
    wanted = a_state()
    for field in ("twist", "wrench", "joints_rad", "joint_speeds_rad_s"):
        assert np.array_equal(getattr(state, field), getattr(wanted, field))
    assert np.array_equal(state.T_base_tcp.position_m, wanted.T_base_tcp.position_m)
    assert (state.gripper, state.stamp_ns, state.fault) == (0.25, 5, STOPPED)


@pytest.mark.parametrize("size", [0, 19, 21])
def test_a_state_of_another_length_is_refused(size):
    with pytest.raises(SpecError, match="entries"):
        c.state_from_msg(c.vector_to_msg(np.zeros(size), 1), "arm")


def test_images_are_exact_copies():
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    msg = c.image_to_msg(image, 9, "wrist_optical_frame")
    back = c.image_from_msg(msg)
    assert np.array_equal(back, image)
    msg.data[0] ^= 255
    assert np.array_equal(back, image)


def test_pixels_of_any_driver_are_a_view_of_the_message():
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    rows = np.zeros((5, 24), np.uint8)
    rows[:, :21] = image.reshape(5, 21)
    msg = c.image_to_msg(image, 9, "wrist_optical_frame")
    msg.encoding, msg.step, msg.data = "bgr8", 24, array("B", rows.tobytes())
    found = c.pixels_of(msg)
    assert np.array_equal(found, image)
    msg.data[0] ^= 255
    assert found[0, 0, 0] == image[0, 0, 0] ^ 255
    msg.step = 20
    with pytest.raises(SpecError, match="20 bytes per row, must have at least 21"):
        c.pixels_of(msg)


def test_a_compressed_file_is_a_view_of_the_message():
    msg = CompressedImage(format="jpeg", data=array("B", b"abc"))
    assert c.file_of(msg).tobytes() == b"abc"


def test_an_image_of_another_encoding_or_size_is_refused():
    msg = c.image_to_msg(np.zeros((2, 2, 3), np.uint8), 1, "x")
    msg.encoding = "bgr8"
    with pytest.raises(SpecError, match="bgr8"):
        c.image_from_msg(msg)
    msg.encoding, msg.data = "rgb8", array("B", bytes(11))
    with pytest.raises(SpecError, match="11 bytes"):
        c.image_from_msg(msg)
    msg.height, msg.data = 0, array("B")
    with pytest.raises(SpecError, match="0 bytes"):
        c.image_from_msg(msg)


@given(twists, st.booleans(), st.integers(-1, 1), st.booleans())
def test_teleop_samples_keep_twist_deadman_press_and_loss(twist, deadman, gripper, lost):
    sample = TeleopSample(stamp_ns=3, twist=twist, deadman=deadman, gripper=gripper, lost=lost)
    back = c.teleop_from_msg(c.teleop_to_msg(sample))
    assert np.array_equal(back.twist, twist)
    assert (back.deadman, back.gripper, back.lost, back.stamp_ns) == (deadman, gripper, lost, 3)


def test_a_teleop_command_that_says_nothing_of_loss_is_refused():
    msg = c.teleop_to_msg(TeleopSample(stamp_ns=3, twist=np.zeros(6)))
    msg.buttons = msg.buttons[:2]
    with pytest.raises(SpecError, match="2 buttons, must have 3"):
        c.teleop_from_msg(msg)


def test_a_pose_of_a_foreign_node_is_checked():
    msg = PoseStamped()
    msg.pose.position.x, msg.pose.orientation.w = 0.5, 1.0
    assert c.pose_from_msg(msg).position_m.tolist() == [0.5, 0.0, 0.0]
    msg.pose.orientation.w = 0.0
    with pytest.raises(SpecError, match="unit quaternion"):
        c.pose_from_msg(msg)


@given(st.lists(st.sampled_from(EVENTS), max_size=4).map(tuple))
def test_events_keep_their_order(events):
    assert c.events_from_msg(c.events_to_msg(events, 1, "keyboard")) == events


def test_an_unknown_event_means_nothing():
    msg = c.events_to_msg(("stop",), 1, "keyboard")
    msg.buttons = array("i", [99, -1, *msg.buttons])
    assert c.events_from_msg(msg) == ("stop",)


@given(
    twists, twists, st.sampled_from(Source), st.sampled_from(Mode), st.none() | st.floats(0, 1, width=32),
    st.lists(st.sampled_from(c.CLAMPS), unique=True),
)  # fmt: skip
def test_labels_carry_the_whole_decision(requested, executed, source, mode, gripper, cut):
    command = Command(arm="arm", twist=executed, gripper=gripper, stamp_ns=4, source=source)
    decision = Decision(command=command, mode=mode, source=source, requested=requested, clamped=tuple(cut))
    back = c.decision_from_msg(c.decision_to_msg(decision), "arm")
    assert np.array_equal(back.requested, requested)
    assert np.array_equal(back.command.twist, executed)
    assert (back.source, back.mode, back.command.gripper, set(back.clamped)) == (source, mode, gripper, set(cut))
    assert (back.command.stamp_ns, back.command.frame) == (4, "tcp")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("reason", [None, *(Refusal(kind=kind, text="late: (check) it") for kind in RefusalKind)])
def test_the_banner_is_mode_and_reason(mode, reason):
    assert c.mode_from_text(c.mode_to_text(mode, reason)) == (mode, reason)


@pytest.mark.parametrize("text", ["", "SLEEPING", "HOLD (because): x", "HOLD (key: x"])
def test_a_text_that_is_no_banner_is_refused(text):
    with pytest.raises(SpecError, match="must be one of"):
        c.mode_from_text(text)


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_fault_keeps_its_kind_and_text_and_its_end_is_none(kind):
    fault = Fault(kind=kind, text="look after it")
    assert c.fault_from_msg(c.fault_to_msg(fault, "arm", 3)) == fault
    assert c.fault_from_msg(c.fault_to_msg(None, "arm", 3)) is None


@pytest.mark.parametrize("broken", ["no status", "two", "no kind", "odd kind"])
def test_a_message_that_is_no_fault_is_refused(broken):
    msg = c.fault_to_msg(STOPPED, "arm", 3)
    if broken == "no status":
        msg.status = []
    elif broken == "two":
        msg.status = [*msg.status, *msg.status]
    else:
        msg.status[0].values = [] if broken == "no kind" else [KeyValue(key="kind", value="SLEEPY")]
    with pytest.raises(SpecError, match="must"):
        c.fault_from_msg(msg)


@given(twists, st.sampled_from(Mode))
def test_a_command_names_the_state_of_control_sealed_or_not(twist, mode):
    sealer, other = (Sealer(WireKey.random(), "safety-1") for _ in range(2))
    msg = c.twist_to_msg(twist, 7, c.frame_of_mode("tcp", mode))
    assert c.mode_of_frame(msg.header.frame_id) is mode
    sealed = sealer.seal("arm/safety/cmd", msg)
    assert c.mode_of_frame(sealed.header.frame_id) is mode
    assert sealer.sender("arm/safety/cmd", sealed) == "safety-1"
    assert other.sender("arm/safety/cmd", sealed) is None
    sealed.twist.linear.x += 1.0
    assert sealer.sender("arm/safety/cmd", sealed) is None


@pytest.mark.parametrize("frame", ["", "tcp", "tcp:", "tcp:SLEEPING", "tcp@POLICY"])
def test_a_command_that_names_no_state_of_control_counts_as_disarmed(frame):
    assert c.mode_of_frame(frame) is Mode.DISARMED


def test_what_is_changed_in_a_sealed_message_of_any_kind_breaks_its_seal():
    sealer = Sealer(WireKey.random(), "x")
    for make, change in (
        (lambda: c.state_to_msg(a_state()), lambda m: m.position.__setitem__(0, 9.0)),
        (lambda: c.events_to_msg(("arm",), 3, "keyboard"), lambda m: m.buttons.__setitem__(0, 4)),
        (lambda: c.teleop_to_msg(TeleopSample(stamp_ns=3, twist=np.zeros(6))), lambda m: m.axes.__setitem__(0, 1.0)),
        (lambda: c.fault_to_msg(STOPPED, "arm", 3), lambda m: setattr(m.status[0], "level", b"\0")),
        (lambda: c.header_of(3), lambda m: setattr(m.stamp, "sec", 1)),
    ):
        msg = sealer.seal("t", make())
        assert sealer.sender("t", msg) == "x"
        assert sealer.sender("u", msg) is None
        change(msg)
        assert sealer.sender("t", msg) is None


def test_a_pages_hand_survives_the_wire():
    packet = page_packet([0.5, -0.25, 0.0, 0.0, 0.0, 1.0], ("deadman", "gripper_open"))
    msg = c.page_to_msg(packet, 7)
    assert list(msg.axes) == list(packet.axes)
    assert list(msg.buttons) == list(packet.buttons)
    assert c.stamp_ns_of(msg.header) == 7


@given(st.integers(0, 2**62), st.text(max_size=20))
def test_the_stamp_of_an_image_is_read_without_unpacking_it(stamp_ns, frame):
    last_ns = 2**31 * 1_000_000_000 - c.OFFSET.now_ns()  # seconds of a ROS time have 31 bits
    msg = c.image_to_msg(np.zeros((2, 3, 3), np.uint8), stamp_ns % last_ns, frame.replace("\0", ""))
    assert c.raw_stamp_ns(serialize_message(msg)) == c.stamp_ns_of(msg.header)


def test_what_is_too_short_for_a_stamp_is_refused():
    with pytest.raises(SpecError, match="must have at least 12"):
        c.raw_stamp_ns(b"\x00\x01\x00\x00")
