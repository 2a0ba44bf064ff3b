"""Capsules around the collision geometry of a URDF, in the frame of the base, for the joints of an arm.

Boxes, cylinders and balls are bounded as they are; meshes by their vertices, if they are STL or OBJ files that can be
read. What cannot be read is said, never passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from robot_stack.config.shapes.capsules import Hull, hull_of_box, hull_of_cylinder, hull_of_points
from robot_stack.control.kinematics.link_tree import LinkTree
from robot_stack.types.errors import ConfigError
from robot_stack.types.shape import Shape, ShapeKind

STL_HEADER, STL_FACET = 84, 50


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
    tree = LinkTree(path.read_text(encoding="utf-8"), source=str(path), part="collision")
    unknown = set(joints) - {joint.name for joint in tree.joints}
    if unknown:
        raise ConfigError(
            f"{path} lacks the joints {sorted(unknown)}, must have all of {list(joints)}; correct the names"
        )
    numbers = {tree.root: 0}
    for joint in tree.joints:
        moved = joint.name in joints
        numbers[joint.child] = list(joints).index(joint.name) + 1 if moved else numbers[joint.parent]
    frames = tree.frames(dict(zip(joints, angles, strict=True)))
    if base_link not in frames:
        raise ConfigError(f"base link is {base_link!r}, must be one of {sorted(frames)}")
    T_base_root = np.linalg.inv(frames[base_link])
    missing = [f"a shape of link {link} is left out: {why}" for link, why in tree.unread]
    found: list[tuple[str, int, Hull]] = []
    counts: dict[str, int] = {}
    for shape in tree.shapes:
        name = shape.frame
        counts[name] = counts.get(name, 0) + 1
        try:
            hull = _hull(shape, path, packages)
        except (OSError, ValueError, struct.error) as error:
            missing.append(f"shape {counts[name]} of link {name} is left out: {error}")
            continue
        placed = hull.moved(T_base_root @ frames[name] @ shape.pose)
        found.append((f"{name.lower()}_{counts[name]}", numbers[name], placed))
    return found, missing


def _hull(shape: Shape, path: Path, packages: Path) -> Hull:
    size = np.array(shape.size)
    if shape.kind is ShapeKind.BOX:
        return hull_of_box(size)
    if shape.kind is ShapeKind.CYLINDER:
        return hull_of_cylinder(size[0], size[1])
    if shape.kind is ShapeKind.FILE:
        return hull_of_points(read_vertices(_mesh_path(shape.path, path, packages)) * size)
    ends = np.array([0.0, 0.0, size[1] if shape.kind is ShapeKind.CAPSULE else 0.0])
    return Hull(start_m=-ends, end_m=ends, radius_m=float(size[0]))


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
