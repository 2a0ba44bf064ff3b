"""Capsules around the collision geometry of a URDF, in the frame of the base, for the joints of an arm.

Boxes, cylinders and balls are bounded as they are; meshes by their vertices, if they are STL or OBJ files that can be
read. What cannot be read is said, never passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from robot_stack.config.bounding import Hull, hull_of_box, hull_of_cylinder, hull_of_points
from robot_stack.control.kinematics.chain import transform_of
from robot_stack.types.errors import ConfigError

STL_HEADER, STL_FACET = 84, 50
TURNING = ("revolute", "continuous")


def capsules_of_urdf(
    path: Path, *, base_link: str, joints: Sequence[str], angles: np.ndarray, packages: Path
) -> tuple[list[tuple[str, int, Hull]], list[str]]:
    """Bound the collision geometry of every link that hangs on the arm; other joints stand at zero.

    Args:
        path: Of the URDF, with xacro expanded.
        base_link: Link in whose frame the capsules are placed.
        joints: Names of the arm's joints, from base to flange.
        angles: Of these, shape (J,).
        packages: Folder of the packages that package:// names.

    Returns:
        Name, link (0 base, i moved by joint i) and capsule of each; and a sentence for each shape that is missing.

    Raises:
        ConfigError: If the text is no URDF, or lacks a joint or link.
    """
    text = path.read_text(encoding="utf-8")
    if "<!DOCTYPE" in text:
        raise ConfigError(f"{path} has a DOCTYPE, must not; remove it")
    try:
        robot = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ConfigError(f"{path} is no XML ({error}); give the URDF with xacro expanded") from None
    poses = _poses(robot, path, dict(zip(joints, angles, strict=True)), list(joints))
    if base_link not in poses:
        raise ConfigError(f"base link is {base_link!r}, must be one of {sorted(poses)}")
    T_base_root = np.linalg.inv(poses[base_link][0])
    found, missing = [], []
    for link in robot.iter("link"):
        name = link.get("name", "")
        pose, number = poses[name]
        for index, collision in enumerate(link.iter("collision"), start=1):
            shape = collision.find("geometry/*")
            if shape is None:
                continue
            try:
                hull = _hull(shape, path, packages)
            except (OSError, ValueError, struct.error) as error:
                missing.append(f"shape {index} of link {name} is left out: {error}")
                continue
            found.append((f"{name.lower()}_{index}", number, hull.moved(T_base_root @ pose @ _origin(collision))))
    return found, missing


def _poses(
    robot: ElementTree.Element, path: Path, angles: dict[str, float], order: list[str]
) -> dict[str, tuple[np.ndarray, int]]:
    """Return for each link its pose in the root, and the number of the last of the arm's joints on the way to it."""
    hanging = {_named(joint, "child"): joint for joint in robot.iter("joint") if joint.find("child") is not None}
    unknown = set(order) - {joint.get("name") for joint in hanging.values()}
    if unknown:
        raise ConfigError(f"{path} lacks the joints {sorted(unknown)}, must have all of {order}; correct the names")

    def pose_of(link: str, depth: int = 0) -> tuple[np.ndarray, int]:
        joint = hanging.get(link)
        if joint is None:
            return np.eye(4), 0
        if depth > len(hanging):
            raise ConfigError(f"{path}: way to link {link} runs in a circle, must lead to the root; correct the joints")
        pose, number = pose_of(_named(joint, "parent"), depth + 1)
        pose, name = pose @ _origin(joint), joint.get("name", "")
        if name not in angles:
            return pose, number
        axis = joint.find("axis")
        direction = np.array(_floats("1 0 0" if axis is None else axis.get("xyz", "1 0 0")))
        turned = np.eye(4)
        turned[:3, :3] = _turn(direction / np.linalg.norm(direction), angles[name])
        return pose @ turned, order.index(name) + 1

    return {name: pose_of(name) for name in (link.get("name", "") for link in robot.iter("link"))}


def _hull(shape: ElementTree.Element, path: Path, packages: Path) -> Hull:
    if shape.tag == "sphere":
        return Hull(start_m=np.zeros(3), end_m=np.zeros(3), radius_m=float(shape.attrib["radius"]))
    if shape.tag == "box":
        return hull_of_box(np.array(_floats(shape.attrib["size"])) / 2.0)
    if shape.tag in ("cylinder", "capsule"):
        radius_m, half_m = float(shape.attrib["radius"]), float(shape.attrib["length"]) / 2.0
        ends = np.array([0.0, 0.0, half_m])
        if shape.tag == "capsule":
            return Hull(start_m=-ends, end_m=ends, radius_m=radius_m)
        return hull_of_cylinder(radius_m, half_m)
    if shape.tag == "mesh":
        scale = np.array(_floats(shape.get("scale", "1 1 1")))
        return hull_of_points(read_vertices(_mesh_path(shape.attrib["filename"], path, packages)) * scale)
    raise ValueError(f"shape is <{shape.tag}>, must be box, cylinder, capsule, sphere or mesh")


def _mesh_path(name: str, path: Path, packages: Path) -> Path:
    if name.startswith("package://"):
        return packages / name.removeprefix("package://")
    return path.parent / name.removeprefix("file://")


def read_vertices(path: Path) -> np.ndarray:
    """Read the vertices of an STL or OBJ file, shape (N, 3).

    Raises:
        ValueError: If it is another kind of file, or holds no triangle.
        OSError: If it cannot be read.
    """
    kind = path.suffix.lower()
    if kind not in (".stl", ".obj"):
        raise ValueError(f"{path.name} is a {kind or 'nameless'} file, must be .stl or .obj; convert it")
    content = path.read_bytes()
    facets = (
        struct.unpack_from("<I", content, STL_HEADER - 4)[0] if kind == ".stl" and len(content) >= STL_HEADER else -1
    )
    if facets >= 0 and len(content) == STL_HEADER + STL_FACET * facets:
        kinds = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
        vertices = np.frombuffer(content, kinds, facets, STL_HEADER)["corners"].reshape(-1, 3).astype(np.float64)
    else:
        word = b"vertex" if kind == ".stl" else b"v"
        lines = (line.split() for line in content.splitlines())
        vertices = np.array([[float(x) for x in line[1:4]] for line in lines if line[:1] == [word]]).reshape(-1, 3)
    if len(vertices) < 3:
        raise ValueError(f"{path.name} holds {len(vertices)} vertices, must hold a triangle at least")
    return vertices


def _origin(element: ElementTree.Element) -> np.ndarray:
    origin = element.find("origin")
    if origin is None:
        return np.eye(4)
    return transform_of(_floats(origin.get("xyz", "0 0 0")), _floats(origin.get("rpy", "0 0 0")))


def _named(joint: ElementTree.Element, tag: str) -> str:
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def _floats(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def _turn(axis: np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * skew + (1.0 - np.cos(angle)) * skew @ skew)
