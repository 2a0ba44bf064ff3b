"""The quality of service of the two ends of a topic, and whether one hears the other. No ROS in here."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """The quality of service that a publisher offers or a subscription asks for, as far as the two must agree.

    Attributes:
        reliable: RELIABLE, else BEST_EFFORT; None where discovery does not say.
        latched: TRANSIENT_LOCAL, else VOLATILE; None where discovery does not say.
        deadline_s: Longest time between two messages; infinite if there is none.
        lease_s: Longest time without a sign of life; infinite if there is none.
        asserted: Whether the publisher itself asserts that it lives (MANUAL_BY_TOPIC).
    """

    reliable: bool | None
    latched: bool | None
    deadline_s: float = inf
    lease_s: float = inf
    asserted: bool = False

    def __str__(self) -> str:
        """Describe it in the words of ROS: "RELIABLE VOLATILE, deadline 0.1 s"."""
        reliability = {True: "RELIABLE", False: "BEST_EFFORT", None: "UNKNOWN"}[self.reliable]
        durability = {True: "TRANSIENT_LOCAL", False: "VOLATILE", None: "UNKNOWN"}[self.latched]
        limits = {"deadline": self.deadline_s, "lease": self.lease_s}
        return ", ".join([f"{reliability} {durability}", *(f"{k} {v:g} s" for k, v in limits.items() if v < inf)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One end of a topic, as discovery tells.

    Attributes:
        node: Full name of the node it belongs to.
        kind: Message type, "sensor_msgs/msg/Image".
        qos: What it offers or asks for.
    """

    node: str
    kind: str
    qos: Qos


def fits(offered: Qos, asked: Qos) -> bool:
    """Return whether a subscription that asks for one quality of service hears a publisher that offers the other."""
    return not (
        (asked.reliable is True and offered.reliable is False)
        or (asked.latched is True and offered.latched is False)
        or asked.deadline_s < offered.deadline_s
        or asked.lease_s < offered.lease_s
        or (asked.asserted and not offered.asserted)
    )
