"""The console's page as a teleop device: what it sends on its topic, and how that is read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from robot_stack.config.teleop_parts import PageHand
from robot_stack.teleop.messages import JoyMessages, JoyPacket
from robot_stack.teleop.readers import MessageReader
from robot_stack.teleop.reading import Reading
from robot_stack.teleop.selection import NEXT
from robot_stack.types.errors import RobotError
from robot_stack.types.spec import AXES

TOPIC = "_wire/teleop/page"
"""Where the console repeats what the page that drives says."""
PRESSED = ("deadman", "gripper_close", "gripper_open", NEXT)
"""What a page may hold or tap; buttons of the message, in this order. The last button says that the page is gone."""


def page_packet(axes: Sequence[float], pressed: Collection[str], *, gone: bool = False) -> JoyPacket:
    """Build the message that is sent for the axes and keys of a page.

    Args:
        axes: x, y, z, rx, ry, rz, in [-1, 1]: forward, left, up, and the turns about them.
        pressed: Out of `PRESSED`.
        gone: The page has closed, fallen silent or lost the operator's eyes while it drove.
    """
    return JoyPacket(axes=list(axes), buttons=[*(int(name in pressed) for name in PRESSED), int(gone)])


class PageMessages:
    """A decoder of the messages that `page_packet` makes."""

    def __init__(self) -> None:
        self._joy = JoyMessages({axis: index for index, axis in enumerate(AXES)}, dict(zip(PRESSED, range(99))))

    def push(self, packet: JoyPacket) -> None:
        """Take the next message of the page.

        Raises:
            RobotError: If the page is gone, or the message is of another version.
        """
        if len(packet.buttons) != len(PRESSED) + 1:
            raise RobotError(
                f"page message has {len(packet.buttons)} buttons, must have {len(PRESSED) + 1}; start all anew"
            )
        if packet.buttons[-1]:
            raise RobotError("the page is gone while it drove; open it again, press arm, press the deadman anew")
        self._joy.push(packet)

    def reading(self) -> Reading:
        """Return the axes and buttons now."""
        return self._joy.reading()


def page_reader(hand: PageHand) -> MessageReader[JoyPacket]:
    """Build the reader of the page, which is absent until a page says something."""
    return MessageReader("page", PageMessages, hand.timeout_s)
