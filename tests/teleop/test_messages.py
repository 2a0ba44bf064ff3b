"""Messages of foreign nodes: Joy by an axis map, poses and joints of a leader arm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.teleop.messages import Chain, Grip, JointPacket, JoyMessages, JoyPacket, LeaderMessages, Link, Pull
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import Pose


def joy(axes: tuple[float, ...] = (0, 0), buttons: tuple[int, ...] = ()) -> JoyPacket:
    return JoyPacket(axes=axes, buttons=buttons)


def decoder(full: float = 1.0) -> JoyMessages:
    return JoyMessages({"x": 1, "rz": 0}, {"deadman": 4, "stop": 5}, full)


def pose(x: float) -> Pose:
    return Pose(position_m=np.array([x, 0.0, 0.0]), quaternion_xyzw=np.array([0.0, 0.0, 0.0, 1.0]))


def leader(grip: Grip | None = None) -> LeaderMessages:
    return LeaderMessages(Chain([Link(name="a"), Link(name="b", a_m=0.2)]), 0.05, grip)


def joints(a: float = 0.0, b: float = 0.0, **more: float) -> JointPacket:
    named = {"b": b, "a": a, **more}
    return JointPacket(names=tuple(named), positions=tuple(named.values()))


def test_axes_and_buttons_are_taken_by_their_index():
    messages = decoder(full=0.5)
    messages.push(joy((0.25, -0.5), (0, 0, 0, 0, 1)))
    reading = messages.reading()
    np.testing.assert_allclose(reading.axes, [-1, 0, 0, 0, 0, 0.5])
    assert reading.held == {"deadman"}


def test_a_button_that_the_message_leaves_out_is_not_pressed():
    messages = decoder()
    for buttons in ((), (0, 0, 0, 0, 1, 1), ()):
        messages.push(joy(buttons=buttons))
    reading = messages.reading()
    assert (reading.held, reading.tapped) == (frozenset(), {"deadman", "stop"})


def test_a_button_that_is_down_in_the_first_message_is_held_but_no_press_unless_it_ends_motion():
    messages = decoder()
    messages.push(joy(buttons=(0, 0, 0, 0, 1, 1)))
    reading = messages.reading()
    assert (reading.held, reading.tapped) == ({"deadman", "stop"}, {"stop"})


@pytest.mark.parametrize(
    ("pull", "untouched", "released", "pulled"),
    [
        (Pull(axis=0, released=1.0, pulled=-1.0), 0.0, 1.0, -1.0),
        (Pull(axis=0, released=0.0, pulled=-1.0), 0.0, 0.0, -1.0),
        (Pull(axis=0, released=0.0, pulled=1.0), 0.0, 0.0, 1.0),
    ],
    ids=["joy_node", "game_controller_node", "quest"],
)
def test_a_trigger_is_pressed_when_it_is_pulled_whatever_its_sender_calls_that(
    pull: Pull, untouched: float, released: float, pulled: float
):
    """The first two as ros-drivers/joystick_drivers has them, 881f3a5, joy/src/joy.cpp and game_controller.cpp."""
    messages = JoyMessages({}, {}, triggers={"deadman": pull})
    told = []
    for reading in (untouched, released, pulled, released, pulled):
        messages.push(joy((reading,)))
        told.append("deadman" in messages.reading().held)
    assert told == [False, False, True, False, True]


@pytest.mark.parametrize("axes", [(), (0.0,), (np.nan, 0.0), (0.0, np.inf), (1e6, 0.0)])
def test_missing_or_impossible_axes_are_refused(axes: tuple[float, ...]):
    with pytest.raises(RobotError, match="must"):
        decoder().push(joy(axes))


def test_an_axis_that_nobody_asked_for_may_be_anything():
    decoder().push(joy((0.0, 0.0, np.nan)))


@given(st.lists(st.floats(), max_size=8), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8))
def test_any_message_is_decoded_or_refused(axes: list[float], buttons: list[int]):
    messages = decoder()
    try:
        messages.push(joy(tuple(axes), tuple(buttons)))
    except RobotError:
        return
    assert np.abs(messages.reading().axes).max() <= 2.0


def test_a_leader_that_jumps_is_a_broken_sensor():
    messages = leader()
    messages.push(pose(0.1))
    messages.push(pose(0.149))
    with pytest.raises(RobotError, match="jumped by 100 mm"):
        messages.push(pose(0.249))


def test_joints_are_found_by_name_and_become_a_pose():
    messages = leader()
    messages.push(joints(a=np.pi / 2))
    reading = messages.reading()
    assert reading.pose is not None
    np.testing.assert_allclose(reading.pose.position_m, [0, 0.2, 0], atol=1e-12)


@pytest.mark.parametrize("packet", [JointPacket(names=("a",), positions=(0.0,)), joints(b=np.nan)])
def test_a_joint_that_is_missing_or_not_finite_is_refused_by_name(packet: JointPacket):
    with pytest.raises(RobotError, match=r"\['b'\]"):
        leader().push(packet)


def test_joints_without_a_chain_are_refused():
    with pytest.raises(RobotError, match="follow: joints"):
        LeaderMessages(None, 0.05).push(joints())


def test_squeezing_and_letting_go_are_presses_and_the_first_state_is_none():
    messages = leader(Grip(joint="grip", closed_rad=1.0, open_rad=0.0))
    told = []
    for position in (0.9, 0.5, 0.1, 0.3, 0.5, 0.9, 1.0):
        messages.push(joints(grip=position))
        told.append(set(messages.reading().tapped))
    assert told == [set(), set(), {"gripper_open"}, set(), set(), {"gripper_close"}, set()]
