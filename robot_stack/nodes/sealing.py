"""Seals on the messages of the safety path, which tell which process of this run sent them.

The seal stands in the header's frame_id behind the TF frame, "tcp@safety-3f2a91c0#1b...": a standard message has no
other room for it. What is sealed, and why, is told in `control.safety.seal`.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Header

from robot_stack.control.safety.seal import WireKey, frame_of
from robot_stack.nodes.conversion import ros_ns_of

MsgT = TypeVar("MsgT", TwistStamped, JointState, Joy, DiagnosticArray, Header)


class Sealer:
    """A process's means to seal the messages that it sends, and to tell who sealed those that it hears."""

    def __init__(self, key: WireKey, session: str) -> None:
        self._key = key
        self._session = session

    def seal(self, topic: str, msg: MsgT) -> MsgT:
        """Seal a message for a topic, relative to the cell; its header and numbers must not change after."""
        header = _header(msg)
        frame, stamp_ns = frame_of(header.frame_id), ros_ns_of(header)
        header.frame_id = self._key.sealed(topic, frame, self._session, stamp_ns, _body(msg))
        return msg

    def sender(self, topic: str, msg: Any) -> str | None:
        """Return the session of the process of this run that sealed a message for that topic, or None."""
        header = _header(msg)
        return self._key.sender(topic, header.frame_id, ros_ns_of(header), _body(msg))


def _header(msg: Any) -> Header:
    return msg if isinstance(msg, Header) else msg.header


def _body(msg: Any) -> bytes:
    """Return the numbers of a message as bytes: what its meaning depends on, header left out."""
    if isinstance(msg, TwistStamped):
        linear, angular = msg.twist.linear, msg.twist.angular
        return struct.pack("<6d", linear.x, linear.y, linear.z, angular.x, angular.y, angular.z)
    if isinstance(msg, JointState):
        return msg.position.tobytes() + b"\0" + msg.velocity.tobytes() + b"\0" + msg.effort.tobytes()
    if isinstance(msg, Joy):
        return msg.axes.tobytes() + b"\0" + msg.buttons.tobytes()
    if isinstance(msg, DiagnosticArray):
        return repr(
            [(bytes(s.level), s.name, s.message, [(v.key, v.value) for v in s.values]) for s in msg.status]
        ).encode()
    if isinstance(msg, Header):
        return b""
    raise TypeError(f"message is {type(msg).__name__}, must be of a kind that is sealed")
