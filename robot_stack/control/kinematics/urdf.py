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


@dataclass(slots=True, kw_only=True)
class _Joint:
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
    reader = _Reader(source)
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


class _Reader:
    """A reader that gathers the links and joints of one URDF."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._parser = expat.ParserCreate()
        self._open: list[str] = []
        self._joint: _Joint | None = None
        self._links: set[str] = set()
        self._joints: dict[str, _Joint] = {}
        """By child link."""

    def error(self, line: int, text: str) -> ConfigError:
        return ConfigError(f"{self._source}:{line}: {text}")

    def read(self, text: str) -> None:
        if len(text) > LARGEST_BYTES:
            raise self.error(1, f"URDF has {len(text)} characters, must have at most {LARGEST_BYTES}")
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as problem:
            reason = expat.ErrorString(problem.code)
            raise self.error(problem.lineno, f"this is no XML ({reason}); give the URDF with xacro expanded") from None
        except UnicodeEncodeError:
            raise self.error(1, "URDF holds a character that is no text, must be UTF-8; write it again") from None

    def way(self, base_link: str, tcp_link: str) -> list[_Joint]:
        """Return the joints from base to tip, found by going from the tip to the base."""
        for link in (base_link, tcp_link):
            if link not in self._links:
                raise self.error(1, f"link is {link!r}, must be one of {sorted(self._links)}; correct the robot file")
        way: list[_Joint] = []
        link = tcp_link
        while link != base_link:
            joint = self._joints.get(link)
            if joint is None or joint in way:
                end = "runs in a circle" if joint is not None else f"ends at {link}"
                raise self.error(1, f"way from {tcp_link} down {end}, must lead to {base_link}; correct the links")
            way.append(joint)
            link = joint.parent
        return way[::-1]

    def _refuse_doctype(self, *_: object) -> None:
        raise self.error(self._parser.CurrentLineNumber, "DOCTYPE is given, must not be in a URDF; remove it")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line, depth = self._parser.CurrentLineNumber, len(self._open)
        if depth == 0 and tag != "robot":
            raise self.error(line, f"outermost element is <{tag}>, must be <robot>; give a URDF")
        self._open.append(tag)
        if depth == 1 and tag == "link":
            self._links.add(self._attribute(attributes, tag, "name"))
        elif depth == 1 and tag == "joint":
            name = self._attribute(attributes, tag, "name")
            self._joint = _Joint(name=name, kind=self._attribute(attributes, tag, "type"), line=line)
        elif depth == 2 and self._joint is not None:
            self._inside_joint(self._joint, tag, attributes)

    def _inside_joint(self, joint: _Joint, tag: str, attributes: dict[str, str]) -> None:
        if tag == "parent":
            joint.parent = self._attribute(attributes, tag, "link")
        elif tag == "child":
            joint.child = self._attribute(attributes, tag, "link")
        elif tag == "mimic":
            joint.mimics = self._attribute(attributes, tag, "joint")
        elif tag == "axis":
            joint.axis = self._three(attributes, tag, "xyz", joint.axis)
            if not any(joint.axis):
                raise self.error(self._parser.CurrentLineNumber, f"axis of joint {joint.name} is zero, must not be")
        elif tag == "origin":
            joint.origin = transform_of(
                self._three(attributes, tag, "xyz", (0.0, 0.0, 0.0)),
                self._three(attributes, tag, "rpy", (0.0, 0.0, 0.0)),
            )

    def _end(self, tag: str) -> None:
        self._open.pop()
        joint = self._joint
        if len(self._open) != 1 or tag != "joint" or joint is None:
            return
        self._joint = None
        if not joint.parent or not joint.child:
            raise self.error(joint.line, f"joint {joint.name} lacks parent or child, must have both; add it")
        if joint.child in self._joints:
            other = self._joints[joint.child].name
            raise self.error(joint.line, f"link {joint.child} hangs on {other} and {joint.name}, must hang on one")
        self._joints[joint.child] = joint

    def _attribute(self, attributes: dict[str, str], tag: str, key: str) -> str:
        value = attributes.get(key, "")
        if not value:
            raise self.error(self._parser.CurrentLineNumber, f"<{tag}> has no {key}, must have one; add it")
        return value

    def _three(self, attributes: dict[str, str], tag: str, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        text = attributes.get(key)
        if text is None:
            return default
        try:
            values = tuple(float(word) for word in text.split())
        except ValueError:
            values = ()
        if len(values) != 3 or not all(math.isfinite(value) for value in values):
            line = self._parser.CurrentLineNumber
            raise self.error(line, f"{key} of <{tag}> is {text!r}, must be three finite numbers; correct it")
        return values
