"""Describes a simulated cell as a URDF, so that RViz, Foxglove and every ROS tool can draw it and know its frames.

Links and joints of an arm begin with its name: `fr3_link3`, `fr3_joint3`, `fr3_base`, `fr3_tcp`; a camera is
`<camera>_optical_frame`. Fingers stand as they are now, and what can lie anywhere (a body on a free joint) is left out:
a URDF has no joint for it that a tool would follow.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from sim.cell import scene_camera
from sim.scene import prefix_of
from sim.world import World

ROOT = "world"
SHOWN_GROUP = 2
"""Geoms of this group and below are drawn."""
TO_OPTICAL = Rotation.from_euler("x", np.pi)
"""MuJoCo's cameras look along -z with y up, optical frames along z with y down."""


def urdf_of(world: World, cameras: Sequence[str]) -> str:
    """Return the URDF of a simulated cell, with the fingers as they are now."""
    model, data = world.model, world.data
    names = _LinkNames(world)
    robot = Element("robot", name="cell")
    shown = [body for body in range(model.nbody) if not _is_loose(model, body)]
    for body in shown:
        link = SubElement(robot, "link", name=names.of(model.body(body).name))
        for geom in range(model.ngeom):
            if model.geom_bodyid[geom] == body and model.geom_group[geom] <= SHOWN_GROUP:
                _draw(link, model, geom)
        if body:
            _join(robot, model, data, body, names)
    for arm in world.arms:
        prefix = prefix_of(arm, world.arms)
        _attach(robot, f"{arm}_base", names.of(f"{prefix}arm/link0"), np.zeros(3), Rotation.identity())
        site = model.site(f"{prefix}hand/tcp")
        turn = Rotation.from_quat(site.quat, scalar_first=True)
        _attach(robot, f"{arm}_tcp", names.of(model.body(int(site.bodyid[0])).name), site.pos, turn)
    for camera in cameras:
        found = model.camera(scene_camera(camera, model))
        turn = Rotation.from_quat(found.quat, scalar_first=True) * TO_OPTICAL
        _attach(robot, f"{camera}_optical_frame", names.of(model.body(int(found.bodyid[0])).name), found.pos, turn)
    ElementTree.indent(robot)
    return ElementTree.tostring(robot, encoding="unicode")


def focal_length_px(model: mujoco.MjModel, camera: str, height_px: int) -> float:
    """Return the focal length of a cell's camera in pixels of an image of that height."""
    fovy_rad = float(np.deg2rad(model.camera(scene_camera(camera, model)).fovy[0]))
    return float(height_px / 2 / np.tan(fovy_rad / 2))


class _LinkNames:
    """Turns names of the scene into those of links and joints: "left/arm/link3" is "left_link3"."""

    def __init__(self, world: World) -> None:
        self._parts: Mapping[str, str] = {
            f"{prefix_of(arm, world.arms)}{part}/": f"{arm}_" for arm in world.arms for part in ("arm", "hand")
        }

    def of(self, name: str) -> str:
        for inside, outside in self._parts.items():
            if name.startswith(inside):
                return outside + name.removeprefix(inside)
        return name


def _is_loose(model: mujoco.MjModel, body: int) -> bool:
    """Return whether a body, or one that carries it, may lie anywhere."""
    while body:
        first, count = model.body_jntadr[body], model.body_jntnum[body]
        if any(model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE for joint in range(first, first + count)):
            return True
        body = int(model.body_parentid[body])
    return False


def _join(robot: Element, model: mujoco.MjModel, data: mujoco.MjData, body: int, names: _LinkNames) -> None:
    parent, first = int(model.body_parentid[body]), int(model.body_jntadr[body])
    child, above = names.of(model.body(body).name), names.of(model.body(parent).name)
    hinged = model.body_jntnum[body] == 1 and model.jnt_type[first] == mujoco.mjtJoint.mjJNT_HINGE
    if not hinged:
        to_parent = Rotation.from_quat(data.xquat[parent], scalar_first=True).inv()
        point = to_parent.apply(data.xpos[body] - data.xpos[parent])
        turn = to_parent * Rotation.from_quat(data.xquat[body], scalar_first=True)
        _attach(robot, child, above, point, turn, new_link=False)
        return
    joint = SubElement(robot, "joint", name=names.of(model.joint(first).name), type="revolute")
    turn = Rotation.from_quat(model.body_quat[body], scalar_first=True)
    _place(joint, above, child, model.body_pos[body], turn)
    SubElement(joint, "axis", xyz=_text(model.jnt_axis[first]))
    low, high = model.jnt_range[first]
    SubElement(joint, "limit", lower=f"{low:.6g}", upper=f"{high:.6g}", effort="0", velocity="0")


def _attach(
    robot: Element, child: str, parent: str, point: np.ndarray, turn: Rotation, *, new_link: bool = True
) -> None:
    """Fix a link to another one, at a point in m and a rotation in the other's frame."""
    if new_link:
        SubElement(robot, "link", name=child)
    _place(SubElement(robot, "joint", name=f"{child}_mount", type="fixed"), parent, child, point, turn)


def _place(joint: Element, parent: str, child: str, point: np.ndarray, turn: Rotation) -> None:
    SubElement(joint, "parent", link=parent)
    SubElement(joint, "child", link=child)
    SubElement(joint, "origin", xyz=_text(point), rpy=_text(_rpy(turn)))


def _draw(link: Element, model: mujoco.MjModel, geom: int) -> None:
    shape = _shape(mujoco.mjtGeom(model.geom_type[geom]), model.geom_size[geom])
    if shape is None:
        return
    kind, sizes = shape
    visual = SubElement(link, "visual")
    turn = Rotation.from_quat(model.geom_quat[geom], scalar_first=True)
    SubElement(visual, "origin", xyz=_text(model.geom_pos[geom]), rpy=_text(_rpy(turn)))
    SubElement(SubElement(visual, "geometry"), kind, sizes)
    SubElement(SubElement(visual, "material", name=f"colour_{geom}"), "color", rgba=_text(model.geom_rgba[geom]))


def _rpy(turn: Rotation) -> np.ndarray:
    """Return roll, pitch and yaw in rad; where they are not unique, one of the many."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gimbal lock")
        return np.asarray(turn.as_euler("xyz"))


def _shape(kind: mujoco.mjtGeom, size: np.ndarray) -> tuple[str, dict[str, str]] | None:
    """Return a URDF's element for a geom, a capsule as a cylinder; None for what it has none for."""
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return "box", {"size": _text(2 * size)}
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return "sphere", {"radius": _text(size[:1])}
    if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE):
        return "cylinder", {"radius": _text(size[:1]), "length": _text(2 * size[1:2])}
    return None


def _text(values: np.ndarray) -> str:
    return " ".join(f"{value:.9g}" for value in values)
