"""The chain between two links of a URDF, and what is wrong with the text if there is none.

Read with expat alone: no DTD, so that no entity can grow or fetch anything; no recursion; a bound on the size. Only
what kinematics needs is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

import numpy as np

from robot_stack.control.kinematics.chain import Chain, ChainJoint, transform_of
from robot_stack.types.errors import ConfigError

LARGEST_BYTES = 20_000_000
TURNING = ("revolute", "continuous")
AXLESS = ("fixed", "floating")
"""Joints without an axis; exporters from CAD write "0 0 0" there."""


@dataclass(slots=True, kw_only=True)
class UrdfJoint:
    """A <joint> element, as the URDF has it."""

    name: str
    kind: str
    line: int
    parent: str = ""
    child: str = ""
    origin: np.ndarray = field(default_factory=lambda: np.eye(4))
    axis: tuple[float, ...] = (1.0, 0.0, 0.0)
    """URDF's default."""
    mimics: str = ""
    factor: float = 1.0
    """Of the angle of the joint that it follows."""
    offset: float = 0.0
    """Added to that."""


def chain_of_urdf(text: str, *, base_link: str, tcp_link: str, names: Sequence[str], source: str) -> Chain:
    """Read the chain from `base_link` to `tcp_link` out of a URDF.

    Args:
        text: Of the URDF.
        base_link: Link whose frame poses are given in.
        tcp_link: Link whose frame is the TCP.
        names: Of the joints that the driver moves, from base to flange: the moving ones on the way.
        source: File or topic, for messages.

    Raises:
        ConfigError: Naming the line, if the text is no URDF or has no such chain of revolute joints.
    """
    reader = UrdfReader(source)
    reader.read(text)
    way = reader.way(base_link, tcp_link)
    moving = [joint for joint in way if joint.kind != "fixed"]
    for joint in moving:
        if joint.kind not in TURNING or joint.mimics:
            what = f"follows {joint.mimics}" if joint.mimics else f"is {joint.kind}"
            raise reader.error(joint.line, f"joint {joint.name} {what}, must be revolute, continuous or fixed")
    found = [joint.name for joint in moving]
    if found != list(names):
        raise reader.error(
            moving[0].line if moving else 1,
            f"moving joints from {base_link} to {tcp_link} are {found}, must be {list(names)}; "
            "correct the links, or the joints in the robot file",
        )
    joints, before = [], np.eye(4)
    for joint in way:
        before = before @ joint.origin
        if joint.kind != "fixed":
            joints.append(ChainJoint(name=joint.name, origin=before, axis=np.array(joint.axis)))
            before = np.eye(4)
    return Chain(joints, before)


class UrdfReader:
    """A reader that gathers the links and joints of one URDF."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._parser = expat.ParserCreate()
        self.inside: list[str] = []
        self._joint: UrdfJoint | None = None
        self.links: set[str] = set()
        self.joints: dict[str, UrdfJoint] = {}
        """By child link."""

    def error(self, line: int, text: str) -> ConfigError:
        """Return an error that names source and line."""
        return ConfigError(f"{self._source}:{line}: {text}")

    def read(self, text: str) -> None:
        """Read a whole URDF.

        Raises:
            ConfigError: Naming the line of what is wrong.
        """
        if len(text) > LARGEST_BYTES:
            raise self.error(1, f"URDF has {len(text)} characters, must have at most {LARGEST_BYTES}")
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self.start
        self._parser.EndElementHandler = self.end
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as problem:
            reason = expat.ErrorString(problem.code)
            raise self.error(problem.lineno, f"this is no XML ({reason}); give the URDF with xacro expanded") from None
        except UnicodeEncodeError:
            raise self.error(1, "URDF holds a character that is no text, must be UTF-8; write it again") from None

    def way(self, base_link: str, tcp_link: str) -> list[UrdfJoint]:
        """Return the joints from base to tip, found by going from the tip to the base."""
        for link in (base_link, tcp_link):
            if link not in self.links:
                raise self.error(1, f"link is {link!r}, must be one of {sorted(self.links)}; correct the robot file")
        way: list[UrdfJoint] = []
        link = tcp_link
        while link != base_link:
            joint = self.joints.get(link)
            if joint is None or joint in way:
                end = "runs in a circle" if joint is not None else f"ends at {link}"
                raise self.error(1, f"way from {tcp_link} down {end}, must lead to {base_link}; correct the links")
            way.append(joint)
            link = joint.parent
        return way[::-1]

    def _refuse_doctype(self, *_: object) -> None:
        raise self.error(self._parser.CurrentLineNumber, "DOCTYPE is given, must not be in a URDF; remove it")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element."""
        line, depth = self._parser.CurrentLineNumber, len(self.inside)
        if depth == 0 and tag != "robot":
            raise self.error(line, f"outermost element is <{tag}>, must be <robot>; give a URDF")
        self.inside.append(tag)
        if depth == 1 and tag == "link":
            self.links.add(self._attribute(attributes, tag, "name"))
        elif depth == 1 and tag == "joint":
            name = self._attribute(attributes, tag, "name")
            self._joint = UrdfJoint(name=name, kind=self._attribute(attributes, tag, "type"), line=line)
        elif depth == 2 and self._joint is not None:
            self._inside_joint(self._joint, tag, attributes)

    def _inside_joint(self, joint: UrdfJoint, tag: str, attributes: dict[str, str]) -> None:
        if tag == "parent":
            joint.parent = self._attribute(attributes, tag, "link")
        elif tag == "child":
            joint.child = self._attribute(attributes, tag, "link")
        elif tag == "mimic":
            joint.mimics = self._attribute(attributes, tag, "joint")
            joint.factor = self.numbers(attributes, tag, "multiplier", (1.0,))[0]
            joint.offset = self.numbers(attributes, tag, "offset", (0.0,))[0]
        elif tag == "axis" and joint.kind not in AXLESS:
            joint.axis = self.numbers(attributes, tag, "xyz", joint.axis)
            if not any(joint.axis):
                raise self.error(self._parser.CurrentLineNumber, f"axis of joint {joint.name} is zero, must not be")
        elif tag == "origin":
            joint.origin = transform_of(
                self.numbers(attributes, tag, "xyz", (0.0, 0.0, 0.0)),
                self.numbers(attributes, tag, "rpy", (0.0, 0.0, 0.0)),
            )

    def end(self, tag: str) -> None:
        """Take the end of an element."""
        self.inside.pop()
        joint = self._joint
        if len(self.inside) != 1 or tag != "joint" or joint is None:
            return
        self._joint = None
        if not joint.parent or not joint.child:
            raise self.error(joint.line, f"joint {joint.name} lacks parent or child, must have both; add it")
        if joint.child in self.joints:
            other = self.joints[joint.child].name
            raise self.error(joint.line, f"link {joint.child} hangs on {other} and {joint.name}, must hang on one")
        self.joints[joint.child] = joint

    def _attribute(self, attributes: dict[str, str], tag: str, key: str) -> str:
        value = attributes.get(key, "")
        if not value:
            raise self.error(self._parser.CurrentLineNumber, f"<{tag}> has no {key}, must have one; add it")
        return value

    def numbers(self, attributes: dict[str, str], tag: str, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """Return the finite numbers of an attribute, as many as its default has, or the default."""
        text = attributes.get(key)
        if text is None:
            return default
        try:
            values = tuple(float(word) for word in text.split())
        except ValueError:
            values = ()
        if len(values) != len(default) or not all(math.isfinite(value) for value in values):
            line, count = self._parser.CurrentLineNumber, "three finite numbers" if len(default) == 3 else "finite"
            raise self.error(line, f"{key} of <{tag}> is {text!r}, must be {count}; correct it")
        return values
