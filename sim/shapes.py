"""Everything that is drawn of a simulated scene, as shapes with their frames, for a view in three dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import mujoco
import numpy as np

from robot_stack.types.shape import Shape, ShapeKind
from sim.cell import scene_camera
from sim.description import SHOWN_GROUP, TO_OPTICAL
from sim.scene import prefix_of
from sim.world import World

PLANE_M = 2.0
"""Half the side of a plane that has none."""
KINDS = {
    mujoco.mjtGeom.mjGEOM_BOX: (ShapeKind.BOX, 3),
    mujoco.mjtGeom.mjGEOM_SPHERE: (ShapeKind.SPHERE, 1),
    mujoco.mjtGeom.mjGEOM_CYLINDER: (ShapeKind.CYLINDER, 2),
    mujoco.mjtGeom.mjGEOM_CAPSULE: (ShapeKind.CAPSULE, 2),
}


def shapes_of(world: World) -> list[Shape]:
    """Return all that is drawn of a scene, loose parts too; each is fixed to the frame of its body, by its number."""
    return list(_shapes(world.model))


def frames_of(world: World) -> dict[str, np.ndarray]:
    """Return frame -> pose of each body in the world as it is now, shape (4, 4)."""
    data = world.data
    return {str(body): _pose(data.xpos[body], data.xmat[body]) for body in range(world.model.nbody)}


def bases_of(world: World) -> Mapping[str, np.ndarray]:
    """Return arm -> pose of its base in the world, shape (4, 4)."""
    bodies = {arm: world.model.body(f"{prefix_of(arm, world.arms)}arm/link0").id for arm in world.arms}
    return {arm: _pose(world.data.xpos[body], world.data.xmat[body]) for arm, body in bodies.items()}


def _shapes(model: mujoco.MjModel) -> Iterator[Shape]:
    for geom in range(model.ngeom):
        kind, size = mujoco.mjtGeom(model.geom_type[geom]), model.geom_size[geom]
        red, green, blue, opaque = (float(entry) for entry in model.geom_rgba[geom])
        if model.geom_group[geom] > SHOWN_GROUP or opaque == 0.0:
            continue
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        shape = Shape(
            name=f"geom_{geom}",
            frame=str(model.geom_bodyid[geom]),
            kind=ShapeKind.MESH,
            size=(),
            pose=_pose(model.geom_pos[geom], turn),
            rgba=(red, green, blue, opaque),
        )
        if kind in KINDS:
            known, entries = KINDS[kind]
            yield replace(shape, kind=known, size=tuple(float(entry) for entry in size[:entries]))
        elif kind == mujoco.mjtGeom.mjGEOM_PLANE:
            sides = [float(side) or PLANE_M for side in size[:2]]
            yield replace(shape, kind=ShapeKind.BOX, size=(*sides, 0.001))
        elif kind == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.mesh(int(model.geom_dataid[geom]))
            first, count = int(mesh.vertadr[0]), int(mesh.vertnum[0])
            begun, faces = int(mesh.faceadr[0]), int(mesh.facenum[0])
            corners = np.array(model.mesh_vert[first : first + count], np.float32)
            yield replace(shape, corners=corners, faces=np.array(model.mesh_face[begun : begun + faces]))


def _pose(position: np.ndarray, turn: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3] = np.reshape(turn, (3, 3))
    pose[:3, 3] = position
    return pose


def camera_of(world: World, name: str) -> tuple[np.ndarray, float]:
    """Return the pose of a cell's camera in the world, z forward and y down, and its vertical angle of view in rad."""
    found = world.model.camera(scene_camera(name, world.model))
    turn = np.array(world.data.cam_xmat[found.id]).reshape(3, 3) @ TO_OPTICAL.as_matrix()
    return _pose(world.data.cam_xpos[found.id], turn), float(np.deg2rad(found.fovy[0]))
