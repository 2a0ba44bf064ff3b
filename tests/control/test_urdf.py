"""The chain between two links of a URDF, and what is said of texts that have none."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.kinematics.urdf import chain_of_urdf
from robot_stack.types.errors import ConfigError

JOINTS = """\
  <joint name="{name}" type="{kind}">
    <origin xyz="0.1 0.2 0.3" rpy="0.4 -0.5 0.6"/>
    <parent link="{parent}"/><child link="{child}"/>
    <axis xyz="0 0.6 0.8"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>"""


def urdf(*joints: str, links: str = "base a b tcp") -> str:
    bodies = "\n".join(
        f'  <link name="{link}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        "</inertial></link>"
        for link in links.split()
    )
    return "\n".join(["<robot name='r'>", bodies, *joints, "</robot>"])


def joint(name: str, parent: str, child: str, kind: str = "revolute") -> str:
    return JOINTS.format(name=name, parent=parent, child=child, kind=kind)


PLAIN = urdf(joint("j1", "base", "a"), joint("j2", "a", "b", "continuous"), joint("hand", "b", "tcp", "fixed"))


def read(text: str, names=("j1", "j2"), base: str = "base", tcp: str = "tcp"):
    return chain_of_urdf(text, base_link=base, tcp_link=tcp, names=names, source="arm.urdf")


def refusal(text: str, **more) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, **more)
    return str(caught.value)


def test_the_chain_stands_where_mujoco_puts_it() -> None:
    with_tip = PLAIN.replace("<robot name='r'>", "<robot name='r'><mujoco><compiler fusestatic='false'/></mujoco>")
    model = mujoco.MjModel.from_xml_string(with_tip)
    data = mujoco.MjData(model)
    chain = read(PLAIN)
    for angles in ([0.0, 0.0], [0.3, -1.2], [1.0, 2.0]):
        data.qpos[:] = angles
        mujoco.mj_kinematics(model, data)
        pose = chain.pose(np.array(angles))
        np.testing.assert_allclose(pose.position_m, data.body("tcp").xpos, atol=1e-6)
        wanted = Rotation.from_matrix(data.body("tcp").xmat.reshape(3, 3))
        assert (pose.rotation * wanted.inv()).magnitude() < 1e-6


def test_what_does_not_move_may_have_a_zero_axis_as_exports_from_cad_have() -> None:
    zero = joint("hand", "b", "tcp", "fixed").replace("0 0.6 0.8", "0 0 0")
    text = PLAIN.replace(joint("hand", "b", "tcp", "fixed"), zero)
    assert text != PLAIN
    angles = np.array([0.3, -1.2])
    np.testing.assert_array_equal(read(text).jacobian(angles)[1], read(PLAIN).jacobian(angles)[1])


def test_a_part_of_the_chain_may_be_asked_for() -> None:
    assert read(PLAIN, names=("j2",), base="a", tcp="b").names == ("j2",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "arm.urdf:1: this is no XML (no element found)"),
        ("<robot", "arm.urdf:1: this is no XML"),
        ("<robot>\n<link name='base'>\n</robot>", "arm.urdf:3: this is no XML (mismatched tag)"),
        ("<mujoco/>", "arm.urdf:1: outermost element is <mujoco>, must be <robot>"),
        ("<robot>\n<link/></robot>", "arm.urdf:2: <link> has no name, must have one"),
        ("<robot>\n<joint name='j'/></robot>", "arm.urdf:2: <joint> has no type, must have one"),
        ("<robot>\n<joint name='j' type='fixed'/></robot>", "arm.urdf:2: joint j lacks parent or child"),
        (
            PLAIN.replace('xyz="0.1 0.2 0.3"', 'xyz="${x} 0 0"', 1),
            "xyz of <origin> is '${x} 0 0', must be three finite",
        ),
        (PLAIN.replace('xyz="0 0.6 0.8"', 'xyz="0 nan 1"', 1), "xyz of <axis> is '0 nan 1', must be three finite"),
        (PLAIN.replace('xyz="0 0.6 0.8"', 'xyz="0 0 0"', 1), "axis of joint j1 is zero, must not be"),
        (PLAIN.replace("continuous", "prismatic"), "joint j2 is prismatic, must be revolute"),
        (
            PLAIN.replace('<limit lower="-1"', '<mimic joint="j2"/><limit lower="-1"', 1),
            "joint j1 follows j2, must be revolute",
        ),
        (
            PLAIN.replace('name="j2"', 'name="j3"'),
            "moving joints from base to tcp are ['j1', 'j3'], must be ['j1', 'j2']",
        ),
        (PLAIN.replace('name="tcp"', 'name="tip"'), "link is 'tcp', must be one of ['a', 'b', 'base', 'tip']"),
        (urdf(joint("j1", "base", "a"), links="base a tcp"), "way from tcp down ends at tcp, must lead to base"),
        (
            urdf(joint("j1", "b", "a"), joint("j2", "a", "b"), joint("h", "b", "tcp")),
            "way from tcp down runs in a circle, must lead to base",
        ),
        (
            urdf(joint("j1", "base", "tcp"), joint("j2", "a", "tcp")),
            "link tcp hangs on j1 and j2, must hang on one",
        ),
    ],
)
def test_a_text_without_such_a_chain_is_refused_with_its_line(text: str, words: str) -> None:
    assert words in refusal(text)


def test_entities_that_would_grow_without_end_are_refused_unread() -> None:
    bomb = '<!DOCTYPE r [<!ENTITY a "' + "x" * 1000 + '"><!ENTITY b "' + "&a;" * 1000 + '">]><robot>&b;</robot>'
    assert refusal(bomb) == "arm.urdf:1: DOCTYPE is given, must not be in a URDF; remove it"


def test_a_text_beyond_all_measure_is_refused_unread() -> None:
    assert "must have at most 20000000" in refusal(" " * 20_000_001)


@settings(deadline=None)
@given(st.text(alphabet="<>/robtlinkjame='\" \ud800\n&;", max_size=80))
def test_any_text_gives_a_chain_or_a_refusal_and_never_another_error(text: str) -> None:
    refusal(text)
