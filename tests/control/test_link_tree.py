"""The links of a URDF as a tree: where they are, what is drawn of them, and what is refused."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.control.kinematics.link_tree import GREY, LinkTree
from robot_stack.types.errors import ConfigError
from robot_stack.types.shape import ShapeKind
from robot_stack.workcell.build import build_world
from sim.description import urdf_of

HAND = """<robot name="hand">
  <material name="steel"><color rgba="0.5 0.5 0.6 1"/></material>
  <link name="palm">
    <visual><origin xyz="0 0 0.1" rpy="0 0 1.5707963267948966"/><geometry><box size="0.2 0.4 0.6"/></geometry>
      <material name="steel"/></visual>
    <visual><geometry><sphere radius="0.05"/></geometry><material><color rgba="1 0 0 0.5"/></material></visual>
    <collision><geometry><box size="9 9 9"/></geometry></collision>
  </link>
  <link name="left"><visual><geometry><mesh filename="package://hand/left.stl" scale="0.001 0.001 0.001"/></geometry></visual></link>
  <link name="right"><visual><geometry><cylinder radius="0.01" length="0.3"/></geometry></visual></link>
  <joint name="slide" type="prismatic"><parent link="palm"/><child link="left"/><origin xyz="0 0 0.2"/><axis xyz="0 2 0"/></joint>
  <joint name="follow" type="prismatic"><parent link="palm"/><child link="right"/><axis xyz="0 1 0"/>
    <mimic joint="slide" multiplier="-1" offset="0.01"/></joint>
</robot>"""  # noqa: E501


def test_what_is_drawn_has_its_place_size_and_colour() -> None:
    box, ball, left, right = LinkTree(HAND, source="hand.urdf").shapes
    assert (box.frame, box.kind, box.size, box.rgba) == ("palm", ShapeKind.BOX, (0.1, 0.2, 0.3), (0.5, 0.5, 0.6, 1.0))
    np.testing.assert_allclose(box.pose @ [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.1, 1.0], atol=1e-9)
    assert (ball.kind, ball.size, ball.rgba) == (ShapeKind.SPHERE, (0.05,), (1.0, 0.0, 0.0, 0.5))
    assert (left.kind, left.path, left.size) == (ShapeKind.FILE, "package://hand/left.stl", (0.001,) * 3)
    assert (right.kind, right.size, right.rgba) == (ShapeKind.CYLINDER, (0.01, 0.15), GREY)
    assert len({each.name for each in (box, ball, left, right)}) == 4


def test_fingers_slide_and_follow_each_other() -> None:
    frames = LinkTree(HAND, source="hand.urdf").frames({"slide": 0.03})
    np.testing.assert_allclose(frames["left"][:3, 3], [0.0, 0.03, 0.2], atol=1e-12)
    np.testing.assert_allclose(frames["right"][:3, 3], [0.0, -0.02, 0.0], atol=1e-12)
    np.testing.assert_allclose(frames["palm"], np.eye(4))


@pytest.mark.parametrize("name", ["peg_insert", "two_arm_insert"])
def test_every_link_is_where_mujoco_has_it(name: str) -> None:
    world = build_world(load_run(name))
    model, data = world.model, world.data
    rng = np.random.default_rng(0)
    hinges = [each for each in range(model.njnt) if model.jnt_type[each] == mujoco.mjtJoint.mjJNT_HINGE]
    tree = LinkTree(urdf_of(world, ()), source="cell")
    for joint in hinges:
        data.qpos[model.jnt_qposadr[joint]] = rng.uniform(*model.jnt_range[joint])
    mujoco.mj_kinematics(model, data)
    names = {model.joint(each).name: data.qpos[model.jnt_qposadr[each]] for each in hinges}
    prefixes = {f"{arm}_": "" if len(world.arms) == 1 else f"{arm}/" for arm in world.arms}
    angles = {}
    for arm, inside in prefixes.items():
        for joint, angle in names.items():
            if joint.startswith(f"{inside}arm/"):
                angles[arm + joint.removeprefix(f"{inside}arm/")] = float(angle)
    frames, compared = tree.frames(angles), 0
    for body in range(model.nbody):
        for arm, inside in prefixes.items():
            link = arm + model.body(body).name.removeprefix(f"{inside}arm/")
            if model.body(body).name.startswith(f"{inside}arm/") and link in frames:
                np.testing.assert_allclose(frames[link][:3, 3], data.xpos[body], atol=1e-6)
                np.testing.assert_allclose(frames[link][:3, :3].ravel(), data.xmat[body], atol=1e-6)
                compared += 1
    assert compared >= 8 * len(world.arms)


DRAWN = "<robot><link name='a'><visual><geometry>{}</geometry></visual></link></robot>"


@pytest.mark.parametrize("point", ["<box size='0 0 0'/>", "<sphere radius='0.0'/>"])
def test_a_point_where_a_link_has_no_body_is_no_shape(point: str) -> None:
    """As Kinova's and Rethink's files draw their roots, and Boston Dynamics' bounds the feet of Atlas."""
    tree = LinkTree(DRAWN.format(point), source="cell.urdf")
    assert (tree.shapes, tree.unread) == ([], [("a", f"{point.split()[0]}> has no size")])


def test_a_plate_or_a_line_is_a_tenth_of_a_millimetre_thick() -> None:
    (plate,) = LinkTree(DRAWN.format("<box size='0.2 0 0.4'/>"), source="cell.urdf").shapes
    (line,) = LinkTree(DRAWN.format("<cylinder radius='0' length='0.4'/>"), source="cell.urdf").shapes
    assert (plate.size, line.size) == ((0.1, 1e-4, 0.2), (1e-4, 0.2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<robot><link name='a'/><link name='b'/></robot>", "links that hang on none are"),
        (
            "<robot><link name='a'/><link name='b'/><link name='c'/>"
            "<joint name='x' type='fixed'><parent link='b'/><child link='c'/></joint>"
            "<joint name='y' type='fixed'><parent link='c'/><child link='b'/></joint></robot>",
            "hang on nothing, must lead to a",
        ),
        (
            "<robot><link name='a'><visual><geometry><box size='1 2'/></geometry></visual></link></robot>",
            "size of <box>",
        ),
        (DRAWN.format("<sphere radius='nan'/>"), "must be finite"),
        (DRAWN.format("<sphere radius='-1'/>"), "measures -1 m, must be within 0 and 100"),
        (DRAWN.format("<cylinder radius='1' length='1e9'/>"), "must be within 0 and 100"),
        (
            "<robot><link name='a'>"
            + "<visual><geometry><sphere radius='1'/></geometry></visual>" * 2001
            + "</link></robot>",
            "2000",
        ),
        ("<!DOCTYPE robot [<!ENTITY a 'b'>]><robot><link name='a'/></robot>", "DOCTYPE"),
        ("<robot>", "no XML"),
    ],
)
def test_what_is_no_tree_of_shapes_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"cell\.urdf:\d+: .*" + said):
        LinkTree(text, source="cell.urdf")
