"""Subscriptions of the safety path: a message is unpacked only if honest ones are as large and as frequent.

Why, and what is counted, is told in `control.safety.admission`. A topic on which somebody floods is not listened to
for a second: to turn away ten thousand messages a second takes the time that the arm's own ticks need.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState, Joy
from std_msgs.msg import Bool, Header

from robot_stack.control.safety.admission import Doorkeeper
from robot_stack.types.errors import SpecError
from robot_stack.types.reason import Refusal, RefusalKind

LARGEST_BYTES = {TwistStamped: 512, JointState: 4096, Joy: 1024, Header: 512, Bool: 16, DiagnosticArray: 16384}
"""As serialised; a sealed header takes about 120, a state of 16 joints 600."""
MOST_HZ = 250.0
"""Three times as many pass: more than the highest rate that a file may set, with keys and a deadman between."""
DEAF_NS = 1_000_000_000
"""After a flood."""


class GuardedTopic:
    """A subscription that receives messages as bytes and unpacks only those that the door lets in.

    Args:
        node: Subscribes.
        kind: Type of the messages, one of `LARGEST_BYTES`.
        topic: Relative to the cell.
        take: Called with each message; what it raises as SpecError is a refusal.
        profile: Asked for.
        refused: Called for what is turned away or cannot be read.
        events: Of the subscription; None for rclpy's own.
    """

    def __init__(
        self,
        node: Node,
        kind: type,
        topic: str,
        take: Callable[[Any], None],
        profile: QoSProfile,
        refused: Callable[[Refusal], None],
        *,
        events: SubscriptionEventCallbacks | None = None,
    ) -> None:
        self._node, self._kind, self._topic, self._profile, self._events = node, kind, topic, profile, events
        self._take, self._refused = take, refused
        self._door = Doorkeeper(topic, largest_bytes=LARGEST_BYTES[kind], rate_hz=MOST_HZ)
        self._subscription: Subscription | None = None
        self._deaf_until_ns = 0
        self._listen()

    def tend(self, now_ns: int) -> None:
        """Close the door on a flood, or open it again; called at each tick, outside of the topic's own callback."""
        if self._subscription is not None and self._door.flooded:
            self._node.destroy_subscription(self._subscription)
            self._subscription, self._deaf_until_ns = None, now_ns + DEAF_NS
        elif self._subscription is None and now_ns >= self._deaf_until_ns:
            self._door.forget()
            self._listen()

    def _listen(self) -> None:
        self._subscription = self._node.create_subscription(
            self._kind, self._topic, self._receive, self._profile, event_callbacks=self._events, raw=True
        )

    def _receive(self, raw: bytes) -> None:
        if not self._door.lets_in(len(raw), time.monotonic_ns()):
            if self._door.complaint is not None:
                self._refused(self._door.complaint)
            return
        try:
            msg = deserialize_message(raw, self._kind)
        except Exception as error:  # a stranger's bytes: whatever the middleware makes of them, this process goes on
            self._refuse_unread(error)
            return
        try:
            self._take(msg)
        except SpecError as error:
            self._refuse_unread(error)

    def _refuse_unread(self, error: Exception) -> None:
        text = f"message on {self._topic} cannot be read: {error}"
        self._refused(Refusal(kind=RefusalKind.MALFORMED, text=text))
