"""Capsules are made of the collision geometry of a URDF, and leave nothing of it out."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robot_stack.config.shapes.capsules import Hull, hull_of_box, hull_of_cylinder, hull_of_points
from robot_stack.control.kinematics.chain import Chain, ChainJoint
from robot_stack.control.kinematics.urdf_capsules import capsules_of_urdf, read_vertices
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.capsules import in_links, main

URDF = """<robot name="two">
  <link name="base"><collision><origin xyz="0 0 0.1"/><geometry><sphere radius="0.1"/></geometry></collision></link>
  <link name="one"><collision><origin xyz="0 0 0.2"/><geometry><cylinder radius="0.05" length="0.4"/></geometry>
  </collision></link>
  <link name="two"><collision><geometry><box size="0.02 0.3 0.04"/></geometry></collision>
    <collision><geometry><mesh filename="{mesh}" scale="0.001 0.001 0.001"/></geometry></collision></link>
  <link name="tool"><collision><geometry><mesh filename="package://hand/tool.dae"/></geometry></collision></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="one"/><origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
  </joint>
  <joint name="b" type="revolute"><parent link="one"/><child link="two"/><origin xyz="0 0 0.4" rpy="0 0 1"/>
    <axis xyz="1 0 0"/></joint>
  <joint name="c" type="fixed"><parent link="two"/><child link="tool"/><origin xyz="0 0 0.1"/></joint>
</robot>"""
POINTS = arrays(np.float64, st.tuples(st.integers(4, 20), st.just(3)), elements=st.floats(-1, 1))


def outside_m(hull: Hull, points: np.ndarray) -> float:
    """How far the furthest point is from inside the capsule."""
    along = hull.end_m - hull.start_m
    share = np.clip((points - hull.start_m) @ along / max(float(along @ along), 1e-12), 0.0, 1.0)
    return float((np.linalg.norm(points - hull.start_m - share[:, None] * along, axis=1) - hull.radius_m).max())


@given(points=POINTS)
def test_a_capsule_around_points_leaves_none_out(points: np.ndarray):
    assert outside_m(hull_of_points(points), points) < 1e-6


@given(half=arrays(np.float64, 3, elements=st.floats(0.01, 1)))
def test_a_capsule_around_a_box_leaves_no_corner_out(half: np.ndarray):
    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T * half
    assert outside_m(hull_of_box(half), corners) < 1e-9


@given(radius=st.floats(0.01, 0.5), half=st.floats(0.001, 0.5))
def test_a_capsule_around_a_cylinder_leaves_no_rim_out(radius: float, half: float):
    angles = np.linspace(0.0, 6.3, 100)
    rim = np.stack([radius * np.cos(angles), radius * np.sin(angles), np.full(100, half)], axis=1)
    hull = hull_of_cylinder(radius, half)
    assert outside_m(hull, np.concatenate([rim, rim * [1, 1, -1]])) < 1e-9
    assert hull.radius_m <= 1.5 * np.hypot(radius, half)


def write_stl(path: Path, triangles: np.ndarray) -> None:
    body = b"".join(struct.pack("<12fH", 0, 0, 0, *triangle.reshape(-1), 0) for triangle in triangles)
    path.write_bytes(bytes(80) + struct.pack("<I", len(triangles)) + body)


@pytest.fixture
def urdf(tmp_path: Path) -> Path:
    triangles = np.array([[[0, 0, 0], [100, 0, 0], [0, 20, 400]], [[0, 0, 0], [0, 20, 0], [0, 0, 400]]], float)
    write_stl(tmp_path / "part.stl", triangles)
    path = tmp_path / "two.urdf"
    path.write_text(URDF.format(mesh="part.stl"))
    return path


def test_each_shape_is_bounded_in_the_frame_of_its_link_whatever_the_pose(urdf: Path):
    joints = [
        ChainJoint(name="a", origin=moved(z=0.3), axis=np.array([0.0, 1.0, 0.0])),
        ChainJoint(name="b", origin=moved(z=0.4, turn=1.0), axis=np.array([1.0, 0.0, 0.0])),
    ]
    chain, seen = Chain(joints, np.eye(4)), []
    for angles in (np.zeros(2), np.array([0.7, -1.1])):
        placed, missing = capsules_of_urdf(
            urdf, base_link="base", joints=["a", "b"], angles=angles, packages=urdf.parent
        )
        seen.append(in_links(chain, angles, placed))
        assert len(missing) == 1
        assert "link tool is left out: tool.dae is a .dae file" in missing[0]
    assert [(each.name, each.link) for each in seen[0]] == [("base_1", 0), ("one_1", 1), ("two_1", 2), ("two_2", 2)]
    for one, other in zip(*seen):
        np.testing.assert_allclose([one.from_m, one.to_m], [other.from_m, other.to_m], atol=1.1e-4)
    upright = seen[0][1]
    np.testing.assert_allclose(sorted([upright.from_m, upright.to_m]), [[0, 0, 0.0], [0, 0, 0.4]], atol=1e-9)
    assert 0.05 <= upright.radius_m <= 0.051


def test_a_capsule_is_taken_as_it_is_and_an_unknown_shape_is_said(urdf: Path):
    text = urdf.read_text()
    urdf.write_text(text.replace("<sphere", "<capsule length='0.2'").replace('<box size="0.02 0.3 0.04"/>', "<torus/>"))
    placed, missing = capsules_of_urdf(
        urdf, base_link="base", joints=["a", "b"], angles=np.zeros(2), packages=urdf.parent
    )
    name, link, hull = placed[0]
    assert (name, link, hull.radius_m) == ("base_1", 0, 0.1)
    np.testing.assert_allclose([hull.start_m, hull.end_m], [[0, 0, 0], [0, 0, 0.2]], atol=1e-12)
    assert any("link two is left out: it is <torus>" in sentence for sentence in missing)


def test_vertices_of_text_and_binary_files_are_the_same(tmp_path: Path):
    triangle = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 3.0]]])
    write_stl(tmp_path / "binary.stl", triangle)
    lines = [f"vertex {x} {y} {z}" for x, y, z in triangle[0]]
    (tmp_path / "text.stl").write_text("solid a\nfacet normal 0 0 0\nouter loop\n" + "\n".join(lines) + "\nendsolid")
    (tmp_path / "text.obj").write_text("\n".join(f"v {x} {y} {z}" for x, y, z in triangle[0]) + "\nvn 0 0 1\nf 1 2 3\n")
    for name in ("binary.stl", "text.stl", "text.obj"):
        np.testing.assert_allclose(read_vertices(tmp_path / name), triangle[0])


@pytest.mark.parametrize(
    ("text", "joints", "word"),
    [
        ("<robot", ["a"], "no XML"),
        ("<!DOCTYPE x><robot/>", ["a"], "DOCTYPE"),
        (URDF, ["a", "z"], "lacks the joints"),
        (URDF.replace('"base"', '"foot"'), ["a", "b"], "base link"),
        (URDF.replace('name="base"', 'name="foot"', 1), ["a", "b"], "hang on nothing"),
        (URDF.replace('<sphere radius="0.1"/>', "<sphere/>"), ["a", "b"], "<sphere> has no radius"),
    ],
)
def test_a_text_that_does_not_fit_is_refused_in_words(tmp_path: Path, text: str, joints: list[str], word: str):
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(ConfigError, match=word):
        capsules_of_urdf(path, base_link="base", joints=joints, angles=np.zeros(len(joints)), packages=tmp_path)


def test_the_command_prints_a_section_for_a_model_that_fits_and_refuses_one_that_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    fr3 = Path(__file__).parents[2] / "sim" / "models" / "fr3.xml"
    assert main(["fr3", "--mjcf", str(fr3)]) == 0
    assert "{name: link4_2, link: 4, from_m: [" in capsys.readouterr().out
    longer = tmp_path / "longer.xml"
    longer.write_text(fr3.read_text().replace('pos="0 -0.316 0"', 'pos="0 -0.416 0"'))
    assert main(["fr3", "--mjcf", str(longer)]) == 1
    assert "kinematics of robot fr3 and the model differ" in capsys.readouterr().err


def moved(z: float, turn: float = 0.0) -> np.ndarray:
    transform = np.eye(4)
    transform[:2, :2] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
    transform[2, 3] = z
    return transform
