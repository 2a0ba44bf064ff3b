"""What is drawn of a simulated scene, against MuJoCo's own model and camera."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.types.shape import ShapeKind
from robot_stack.workcell.build import build_world
from sim.cell import scene_camera
from sim.description import SHOWN_GROUP
from sim.shapes import bases_of, camera_of, frames_of, shapes_of
from sim.world import World


@pytest.fixture(params=["peg_insert", "drawer", "cable_plug", "two_arm_insert"])
def world(request: pytest.FixtureRequest) -> World:
    made = build_world(load_run(request.param))
    mujoco.mj_forward(made.model, made.data)
    return made


def test_every_visible_geom_stands_where_mujoco_has_it(world: World) -> None:
    model, data, frames = world.model, world.data, frames_of(world)
    shapes = {shape.name: shape for shape in shapes_of(world)}
    visible = [
        geom for geom in range(model.ngeom) if model.geom_group[geom] <= SHOWN_GROUP and model.geom_rgba[geom][3] > 0
    ]
    assert set(shapes) == {f"geom_{geom}" for geom in visible}
    for geom in visible:
        shape = shapes[f"geom_{geom}"]
        placed = frames[shape.frame] @ shape.pose
        np.testing.assert_allclose(placed[:3, 3], data.geom_xpos[geom], atol=1e-9)
        np.testing.assert_allclose(placed[:3, :3].ravel(), data.geom_xmat[geom], atol=1e-9)
        assert shape.kind is not ShapeKind.FILE
        if shape.kind is ShapeKind.MESH:
            assert shape.corners is not None
            assert shape.faces is not None
            assert shape.faces.max() < len(shape.corners)


def test_loose_parts_are_drawn_too() -> None:
    world = build_world(load_run("drawer"))
    loose = [
        str(world.model.jnt_bodyid[joint])
        for joint in range(world.model.njnt)
        if world.model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE
    ]
    assert loose
    assert set(loose) <= {shape.frame for shape in shapes_of(world)}


def test_what_is_in_the_middle_of_an_image_lies_straight_before_its_camera(world: World) -> None:
    for name in [world.model.camera(each).name for each in range(world.model.ncam)]:
        pose, fov_rad = camera_of(world, name)
        found = world.data.camera(scene_camera(name, world.model))
        np.testing.assert_allclose(pose[:3, 2], -found.xmat.reshape(3, 3)[:, 2], atol=1e-9)
        np.testing.assert_allclose(pose[:3, 1], -found.xmat.reshape(3, 3)[:, 1], atol=1e-9)
        assert np.linalg.det(pose[:3, :3]) == pytest.approx(1.0)
        assert 0.2 < fov_rad < 2.5


def test_each_arm_has_a_base(world: World) -> None:
    assert set(bases_of(world)) == set(world.arms)
