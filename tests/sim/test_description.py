"""The URDF of a simulated cell, judged by MuJoCo's own reader of URDF: where its links are, they are in the scene."""

from __future__ import annotations

from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.config.resolve import load_run
from robot_stack.workcell.build import build_world
from robot_stack.workcell.sim_camera import SimCamera
from sim.cell import scene_camera
from sim.description import urdf_of
from sim.scene import prefix_of

COMPILER = '<mujoco><compiler fusestatic="false" boundmass="1" boundinertia="1" discardvisual="false"/></mujoco>'


@pytest.mark.parametrize("name", ["peg_insert", "two_arm_insert"])
def test_links_of_the_urdf_are_where_the_scene_has_them(name: str) -> None:
    run = load_run(name)
    world = build_world(run)
    world.reset(3)
    text = urdf_of(world, list(run.cameras))
    urdf = mujoco.MjModel.from_xml_string(text.replace('<robot name="cell">', f'<robot name="cell">{COMPILER}'))
    drawn = mujoco.MjData(urdf)
    rng = np.random.default_rng(0)
    for _ in range(5):
        for arm, placed in world.arms.items():
            prefix = prefix_of(arm, world.arms)
            for joint in run.robots[arm].joints:
                angle = rng.uniform(joint.min_rad, joint.max_rad)
                drawn.joint(f"{arm}_{joint.name}").qpos[0] = angle
                world.data.joint(f"{prefix}arm/{joint.name}").qpos[0] = angle
            assert placed is not None
        mujoco.mj_kinematics(urdf, drawn)
        mujoco.mj_kinematics(world.model, world.data)
        mujoco.mj_camlight(world.model, world.data)
        for arm in world.arms:
            site = world.data.site(f"{prefix_of(arm, world.arms)}hand/tcp")
            tcp = drawn.body(f"{arm}_tcp")
            np.testing.assert_allclose(tcp.xpos, site.xpos, atol=1e-6)
            np.testing.assert_allclose(tcp.xmat, site.xmat, atol=1e-6)
            reported = world.state(arm).T_base_tcp
            base = drawn.body(f"{arm}_base")
            turn = Rotation.from_matrix(base.xmat.reshape(3, 3)).inv()
            np.testing.assert_allclose(turn.apply(tcp.xpos - base.xpos), reported.position_m, atol=1e-6)
        for camera in run.cameras:
            seen = world.data.camera(scene_camera(camera, world.model))
            frame = drawn.body(f"{camera}_optical_frame")
            np.testing.assert_allclose(frame.xpos, seen.xpos, atol=1e-6)
            forward, down = frame.xmat.reshape(3, 3)[:, 2], frame.xmat.reshape(3, 3)[:, 1]
            np.testing.assert_allclose(forward, -seen.xmat.reshape(3, 3)[:, 2], atol=1e-6)
            np.testing.assert_allclose(down, -seen.xmat.reshape(3, 3)[:, 1], atol=1e-6)


def test_it_is_drawn_and_what_may_lie_anywhere_is_left_out() -> None:
    run = load_run("peg_insert")
    world = build_world(run)
    world.reset(0)
    tree = ElementTree.fromstring(urdf_of(world, list(run.cameras)))
    links = {link.get("name") for link in tree.iter("link")}
    assert {"world", "socket", "fr3_link7", "fr3_tcp", "wrist_optical_frame"} <= links
    assert "peg" not in links
    assert len(list(tree.iter("visual"))) > 15
    children = [joint.find("child").get("link") for joint in tree.iter("joint")]  # type: ignore[union-attr]
    assert len(children) == len(set(children)) == len(links) - 1, "a tree with one root"


@pytest.mark.parametrize("camera", ["wrist", "front"])
def test_what_is_drawn_in_a_colour_of_its_own_is_where_the_pinhole_says(camera: str) -> None:
    run = load_run("peg_insert")
    world = build_world(run)
    world.reset(0)
    seen = SimCamera(world, camera, run.cameras[camera])
    image = seen.see().astype(int)
    lens = seen.lens()
    seen.close()
    width, height = lens.width_px, lens.height_px
    assert image.shape == (height, width, 3)
    blue = (image[..., 2] > image[..., 0] + 40) & (image[..., 2] > image[..., 1] + 20)  # the socket
    rows, columns = np.nonzero(blue)
    there = world.data.camera(scene_camera(camera, world.model))
    turn = there.xmat.reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
    points = np.array([
        turn.T @ (world.data.geom(geom).xpos - there.xpos)
        for geom in range(world.model.ngeom) if world.model.geom(geom).name.startswith("socket_")
    ])  # fmt: skip
    u, v = lens.project(points).T
    inside = (u > 2) & (u < width - 3) & (v > 2) & (v < height - 3)
    assert inside.sum() >= 3
    assert len(rows) > 50
    nearest = [np.hypot(columns - a, rows - b).min() for a, b in zip(u[inside], v[inside])]
    assert np.median(nearest) < 3.0, nearest
    off_centre = np.hypot(columns.mean() - u[inside].mean(), rows.mean() - v[inside].mean())
    assert off_centre < 0.12 * width, off_centre
