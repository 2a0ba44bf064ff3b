"""The links of a URDF as a tree: what is drawn of each, and where all of them are at given joint angles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from robot_stack.control.kinematics.chain import transform_of
from robot_stack.control.kinematics.urdf import TURNING, UrdfJoint, UrdfReader
from robot_stack.types.shape import Shape, ShapeKind

GREY = (0.7, 0.7, 0.72, 1.0)
"""Colour of what has none."""
MOST_SHAPES = 2000
LARGEST_M = 100.0
VISUAL = ["robot", "link", "visual"]


class LinkTree:
    """The tree of links that a URDF describes.

    Attributes:
        root: Link that hangs on none.
        shapes: Everything that is drawn, fixed to links.
    """

    def __init__(self, text: str, *, source: str) -> None:
        """Read a URDF.

        Raises:
            ConfigError: Naming the line, if the text is no URDF, or its links are no tree.
        """
        reader = _SceneReader(source)
        reader.read(text)
        roots = sorted(reader.links - reader.joints.keys())
        if len(roots) != 1:
            raise reader.error(1, f"links that hang on none are {roots}, must be one; correct the joints")
        self.root = roots[0]
        self.shapes = reader.coloured()
        self._order: list[UrdfJoint] = []
        above = {self.root}
        left = list(reader.joints.values())
        while left:
            hanging = [joint for joint in left if joint.parent in above]
            if not hanging:
                names = sorted(joint.name for joint in left)
                raise reader.error(left[0].line, f"joints {names[:5]} hang on nothing, must lead to {self.root}")
            self._order += hanging
            above |= {joint.child for joint in hanging}
            left = [joint for joint in left if joint.child not in above]

    def frames(self, angles: Mapping[str, float]) -> dict[str, np.ndarray]:
        """Return link -> pose in the frame of the root, shape (4, 4).

        Args:
            angles: Joint -> rad, or m of one that slides; a joint without one stands at zero.
        """
        found = {self.root: np.eye(4)}
        for joint in self._order:
            followed = angles.get(joint.mimics or joint.name, 0.0)
            value = joint.factor * followed + joint.offset if joint.mimics else followed
            found[joint.child] = found[joint.parent] @ joint.origin @ _motion(joint, value)
        return found


def _motion(joint: UrdfJoint, value: float) -> np.ndarray:
    motion = np.eye(4)
    axis = np.array(joint.axis) / np.linalg.norm(joint.axis)
    if joint.kind in TURNING:
        across = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
        motion[:3, :3] += np.sin(value) * across + (1.0 - np.cos(value)) * across @ across
    elif joint.kind == "prismatic":
        motion[:3, 3] = value * axis
    return motion


class _SceneReader(UrdfReader):
    """A reader that also gathers what is drawn."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._link = ""
        self._shape: Shape | None = None
        self._origin = np.eye(4)
        self._material = ""
        self._colours: dict[str, tuple[float, ...]] = {}
        self._shapes: list[tuple[Shape, str]] = []

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
        elif self.inside == VISUAL:
            self._shape, self._origin, self._material = None, np.eye(4), ""
        elif self.inside[:3] == VISUAL:
            self._inside_visual(tag, attributes)
        elif self.inside == ["robot", "material"]:
            self._material = attributes.get("name", "")
        elif self.inside == ["robot", "material", "color"]:
            self._colours[self._material] = self.numbers(attributes, tag, "rgba", GREY)

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        if self.inside == VISUAL and self._shape is not None:
            if len(self._shapes) >= MOST_SHAPES:
                raise self.error(1, f"more than {MOST_SHAPES} shapes are drawn, must be fewer; simplify the URDF")
            self._shapes.append((replace(self._shape, pose=self._origin), self._material))
        super().end(tag)

    def _inside_visual(self, tag: str, attributes: dict[str, str]) -> None:
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
            lengths = self.numbers(attributes, tag, "size", (1.0, 1.0, 1.0))
            self._add(ShapeKind.BOX, tuple(self._length(length) / 2 for length in lengths))
        elif tag == "sphere":
            self._add(ShapeKind.SPHERE, (self._length(self.numbers(attributes, tag, "radius", (1.0,))[0]),))
        elif tag == "cylinder":
            radius = self._length(self.numbers(attributes, tag, "radius", (1.0,))[0])
            length = self._length(self.numbers(attributes, tag, "length", (1.0,))[0])
            self._add(ShapeKind.CYLINDER, (radius, length / 2))
        elif tag == "mesh":
            scale = self.numbers(attributes, tag, "scale", (1.0, 1.0, 1.0))
            self._add(ShapeKind.FILE, scale, path=attributes.get("filename", ""))

    def _length(self, length_m: float) -> float:
        if not 0.0 < length_m <= LARGEST_M:
            line = self._parser.CurrentLineNumber
            raise self.error(
                line, f"a shape measures {length_m:g} m, must be above 0 and at most {LARGEST_M:g}; correct it"
            )
        return length_m

    def _add(self, kind: ShapeKind, size: tuple[float, ...], path: str = "") -> None:
        self._shape = Shape(
            name=f"visual_{len(self._shapes)}",
            frame=self._link,
            kind=kind,
            size=size,
            pose=np.eye(4),
            rgba=GREY,
            path=path,
        )
