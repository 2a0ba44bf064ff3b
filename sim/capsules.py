"""Capsules around the geometry of an MJCF model, one per geom, in the frames of an arm's kinematics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import mujoco
import numpy as np

from robot_stack.config.shapes.capsules import Hull, hull_of_box, hull_of_cylinder, hull_of_points
from robot_stack.types.errors import ConfigError


def read_model(path: Path) -> mujoco.MjModel:
    """Load a MuJoCo model from an MJCF file.

    Raises:
        ConfigError: If it cannot be used.
    """
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ConfigError(f"{path} cannot be loaded ({str(error).strip()}), must be an MJCF with its meshes") from error


VISUAL_GROUP = 2
"""Of geoms that are only looked at, in MuJoCo Menagerie; left out where a body has others."""


def capsules_of_mjcf(
    model: mujoco.MjModel, joints: Sequence[str], angles: np.ndarray
) -> Iterator[tuple[str, int, Hull]]:
    """Bound every geom that hangs on the arm.

    Args:
        model: With the base of the arm at its origin.
        joints: Names of the arm's joints, from base to flange.
        angles: At which the capsules are placed, shape (J,).

    Yields:
        Name, link (0 base, i moved by joint i) and capsule in the frame of the base at these angles.

    Raises:
        ConfigError: If the model lacks a joint, or has a geom that has no bounds.
    """
    data = mujoco.MjData(model)
    number_of = {}
    have = {model.joint(index).name.rpartition("/")[2]: index for index in range(model.njnt)}
    for number, (name, angle) in enumerate(zip(joints, angles, strict=True), start=1):
        index = have.get(name, -1)
        if index < 0:
            raise ConfigError(f"joint is {name!r}, must be one of the model's, {list(have)}; correct the names")
        data.qpos[model.jnt_qposadr[index]] = angle
        number_of[int(model.jnt_bodyid[index])] = number
    mujoco.mj_kinematics(model, data)
    counts: dict[str, int] = {}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        link = _link_of(model, body, number_of)
        if link is None or _only_looks(model, geom, body):
            continue
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = data.geom_xmat[geom].reshape(3, 3), data.geom_xpos[geom]
        name = model.body(body).name.rpartition("/")[2].lower() or f"body{body}"
        counts[name] = counts.get(name, 0) + 1
        yield f"{name}_{counts[name]}", link, _hull(model, geom).moved(pose)


def _link_of(model: mujoco.MjModel, body: int, number_of: dict[int, int]) -> int | None:
    """Return the number of the last of the arm's joints before a body, 0 without one; None for the world."""
    if body == 0:
        return None
    while body:
        if body in number_of:
            return number_of[body]
        body = int(model.body_parentid[body])
    return 0


def _only_looks(model: mujoco.MjModel, geom: int, body: int) -> bool:
    groups = model.geom_group[model.geom_bodyid == body]
    return bool(model.geom_group[geom] == VISUAL_GROUP and (groups != VISUAL_GROUP).any())


def _hull(model: mujoco.MjModel, geom: int) -> Hull:
    size = model.geom_size[geom]
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    along = np.array([0.0, 0.0, float(size[1])])
    bounds: dict[mujoco.mjtGeom, Callable[[], Hull]] = {
        mujoco.mjtGeom.mjGEOM_SPHERE: lambda: Hull(start_m=np.zeros(3), end_m=np.zeros(3), radius_m=float(size[0])),
        mujoco.mjtGeom.mjGEOM_CAPSULE: lambda: Hull(start_m=-along, end_m=along, radius_m=float(size[0])),
        mujoco.mjtGeom.mjGEOM_CYLINDER: lambda: hull_of_cylinder(float(size[0]), float(size[1])),
        mujoco.mjtGeom.mjGEOM_BOX: lambda: hull_of_box(size),
        mujoco.mjtGeom.mjGEOM_ELLIPSOID: lambda: hull_of_box(size),
        mujoco.mjtGeom.mjGEOM_MESH: lambda: hull_of_points(_vertices(model, geom)),
    }
    if kind not in bounds:
        raise ConfigError(f"geom {model.geom(geom).name} is {kind.name}, must be a solid shape; leave it out")
    return bounds[kind]()


def _vertices(model: mujoco.MjModel, geom: int) -> np.ndarray:
    mesh = int(model.geom_dataid[geom])
    first = int(model.mesh_vertadr[mesh])
    return np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=np.float64)
