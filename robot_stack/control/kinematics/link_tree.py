"""The links of a URDF as a tree: the shapes of each, and where all of them are at given joint angles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.kinematics.chain import transform_of
from robot_stack.control.kinematics.urdf import TURNING, UrdfJoint, UrdfReader
from robot_stack.types.shape import Shape, ShapeKind

GREY = (0.7, 0.7, 0.72, 1.0)
"""Colour of what has none."""
MOST_SHAPES = 2000
LARGEST_M = 100.0
THINNEST_M = 1e-4
"""Of a plate or a line, whose thickness a file gives as 0."""
Part = Literal["visual", "collision"]
"""What shapes of a link are for: to be drawn, or to bound it."""


class LinkTree:
    """The tree of links that a URDF describes.

    Attributes:
        root: Link that hangs on none.
        joints: Each after those that it hangs on.
        shapes: Everything that is drawn, or bounds links, fixed to them.
        unread: Link, and why a shape of it is left out.
    """

    def __init__(self, text: str, *, source: str, part: Part = "visual") -> None:
        """Read a URDF, of the shapes of its links only those for one purpose.

        Raises:
            ConfigError: Naming the line, if the text is no URDF, or its links are no tree.
        """
        reader = _ShapeReader(source, part)
        reader.read(text)
        roots = sorted(reader.links - reader.joints.keys())
        if len(roots) != 1:
            raise reader.error(1, f"links that hang on none are {roots}, must be one; correct the joints")
        self.root = roots[0]
        self.shapes, self.unread = reader.coloured(), reader.unread
        self.joints: list[UrdfJoint] = []
        above = {self.root}
        left = list(reader.joints.values())
        while left:
            hanging = [joint for joint in left if joint.parent in above]
            if not hanging:
                names = sorted(joint.name for joint in left)
                raise reader.error(left[0].line, f"joints {names[:5]} hang on nothing, must lead to {self.root}")
            self.joints += hanging
            above |= {joint.child for joint in hanging}
            left = [joint for joint in left if joint.child not in above]

    def frames(self, angles: Mapping[str, float]) -> dict[str, np.ndarray]:
        """Return link -> pose in the frame of the root, shape (4, 4).

        Args:
            angles: Joint -> rad, or m of one that slides; a joint without one stands at zero.
        """
        found = {self.root: np.eye(4)}
        for joint in self.joints:
            followed = angles.get(joint.mimics or joint.name, 0.0)
            value = joint.factor * followed + joint.offset if joint.mimics else followed
            found[joint.child] = found[joint.parent] @ joint.origin @ _motion(joint, value)
        return found


def _motion(joint: UrdfJoint, value: float) -> np.ndarray:
    motion = np.eye(4)
    axis = np.array(joint.axis) / np.linalg.norm(joint.axis)
    if joint.kind in TURNING:
        motion[:3, :3] = Rotation.from_rotvec(value * axis).as_matrix()
    elif joint.kind == "prismatic":
        motion[:3, 3] = value * axis
    return motion


class _ShapeReader(UrdfReader):
    """A reader that also gathers shapes."""

    def __init__(self, source: str, part: Part) -> None:
        super().__init__(source)
        self._part = ["robot", "link", part]
        self._link = ""
        self._shape: Shape | None = None
        self._origin = np.eye(4)
        self._material = ""
        self._colours: dict[str, tuple[float, ...]] = {}
        self._shapes: list[tuple[Shape, str]] = []
        self.unread: list[tuple[str, str]] = []

    def coloured(self) -> list[Shape]:
        """Return the shapes, each in the colour of its material."""
        found = []
        for shape, material in self._shapes:
            red, green, blue, opaque = (float(np.clip(each, 0.0, 1.0)) for each in self._colours.get(material, GREY))
            found.append(replace(shape, rgba=(red, green, blue, opaque)))
        return found

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element."""
        super().start(tag, attributes)
        if self.inside == ["robot", "link"]:
            self._link = attributes["name"]
        elif self.inside == self._part:
            self._shape, self._origin, self._material = None, np.eye(4), ""
        elif self.inside[:3] == self._part:
            self._inside_part(tag, attributes)
        elif self.inside == ["robot", "material"]:
            self._material = attributes.get("name", "")
        elif self.inside == ["robot", "material", "color"]:
            self._colours[self._material] = self.numbers(attributes, tag, "rgba", GREY)

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        if self.inside == self._part and self._shape is not None:
            if len(self._shapes) >= MOST_SHAPES:
                raise self.error(1, f"more than {MOST_SHAPES} shapes are given, must be fewer; simplify the URDF")
            self._shapes.append((replace(self._shape, pose=self._origin), self._material))
        super().end(tag)

    def _inside_part(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "origin":
            zero = (0.0, 0.0, 0.0)
            self._origin = transform_of(
                self.numbers(attributes, tag, "xyz", zero), self.numbers(attributes, tag, "rpy", zero)
            )
        elif tag == "material":
            self._material = attributes.get("name", "") or f"{self._link} {len(self._shapes)}"
        elif tag == "color":
            self._colours[self._material] = self.numbers(attributes, tag, "rgba", GREY)
        elif tag == "box":
            self._add(ShapeKind.BOX, tuple(length / 2 for length in self._lengths(attributes, tag, "size", 3)))
        elif tag == "sphere":
            self._add(ShapeKind.SPHERE, self._lengths(attributes, tag, "radius"))
        elif tag in ("cylinder", "capsule"):
            radius, length = (self._lengths(attributes, tag, key)[0] for key in ("radius", "length"))
            self._add(ShapeKind(tag), (radius, length / 2))
        elif tag == "mesh":
            scale = self.numbers(attributes, tag, "scale", (1.0, 1.0, 1.0))
            self._add(ShapeKind.FILE, scale, path=attributes.get("filename", ""))
        elif self.inside[3:-1] == ["geometry"]:
            self.unread.append((self._link, f"it is <{tag}>, must be box, cylinder, capsule, sphere or mesh"))

    def _lengths(self, attributes: dict[str, str], tag: str, key: str, count: int = 1) -> tuple[float, ...]:
        self._attribute(attributes, tag, key)
        lengths = self.numbers(attributes, tag, key, (1.0,) * count)
        for length_m in lengths:
            if not 0.0 <= length_m <= LARGEST_M:
                raise self.error(
                    self._parser.CurrentLineNumber,
                    f"a shape measures {length_m:g} m, must be within 0 and {LARGEST_M:g}; correct it",
                )
        return lengths

    def _add(self, kind: ShapeKind, size: tuple[float, ...], path: str = "") -> None:
        if kind is not ShapeKind.FILE:
            if not any(size):
                self.unread.append((self._link, f"<{kind.value}> has no size"))  # of a link without a body
                return
            size = tuple(max(length, THINNEST_M) for length in size)
        self._shape = Shape(
            name=f"visual_{len(self._shapes)}",
            frame=self._link,
            kind=kind,
            size=size,
            pose=np.eye(4),
            rgba=GREY,
            path=path,
        )
