"""A request by which the policy asks an operator for help: why it asks, how it was answered, and whether it was needed.

What the policy knows of itself at a tick is an `Insight`; what it asks with is a `HelpRequest`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from robot_stack.types.errors import SpecError
from robot_stack.types.reason import Reason


class HelpKind(StrEnum):
    """The signal for which the policy asks for help; its name is what is sent and what a run's file names."""

    STALL = "stall"
    """Progress Φ does not rise."""
    DISTANCE = "distance"
    """The features are unlike any of the demonstrations."""
    SAMPLES = "samples"
    """The policy's own samples disagree with each other."""
    CRITICS = "critics"
    """The critics disagree about the action that is executed."""


class HelpReason(Reason[HelpKind]):
    """A reason for which the policy asks for help."""

    __slots__ = ()


class HelpEnd(StrEnum):
    """The way in which a request for help ended."""

    TAKEN = "taken"
    """An operator took the arm and moved it."""
    DISMISSED = "dismissed"
    """An operator looked and let the policy go on."""
    WITHDRAWN = "withdrawn"
    """The situation mended itself before anybody came."""
    OVER = "over"
    """The episode ended first."""


class Meanwhile(StrEnum):
    """The one who leads the arm while a request is open; its name is what is sent."""

    POLICY = ""
    """The policy goes on."""
    NOBODY = "hold"
    """The policy keeps the arm still."""
    BASE = "base"
    """The run's base policy, since nobody has answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpRequest:
    """A request for help that is open.

    Attributes:
        reason: Why the policy asks.
        meanwhile: Who leads the arm until it is answered.
    """

    reason: HelpReason
    meanwhile: Meanwhile = Meanwhile.POLICY

    def to_text(self) -> str:
        """Write the request as it is sent on episode/help: `stall hold: no progress for 2.0 s ...`."""
        return f"{f'{self.reason.kind} {self.meanwhile}'.rstrip()}: {self.reason.text}"

    @classmethod
    def from_text(cls, text: str) -> HelpRequest | None:
        """Parse a request, the inverse of `to_text`; "" says that none is open.

        Raises:
            SpecError: If the text is no request.
        """
        if not text:
            return None
        head, separator, why = text.partition(": ")
        if not separator or not why:
            raise SpecError(f"help request is {text!r}, must say why after a colon; update the sender")
        signal, space, leads = head.partition(" ")
        try:
            kind, meanwhile = HelpKind(signal), Meanwhile(leads)
        except ValueError as error:
            legal, leaders = [kind.value for kind in HelpKind], [each.value for each in Meanwhile if each]
            raise SpecError(
                f"help request is {text!r}, must begin with one of {legal}, alone or with one of {leaders}; update the "
                "sender"
            ) from error
        if space and not leads:
            raise SpecError(f"help request is {text!r}, must have no space before its colon; update the sender")
        return cls(reason=HelpReason(kind=kind, text=why), meanwhile=meanwhile)


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """What a policy can say of its newest decision; NaN or None where it cannot.

    Attributes:
        distance: Of the features from the demonstrations; 1 is as far as these are from each other.
        samples: Actions that it could have taken as well, float32, shape (K, C * A), unitless in [-1, 1].
        q: Value of the action that it took, by each critic, float32, shape (E,).
    """

    distance: float = float("nan")
    samples: np.ndarray | None = None
    q: np.ndarray | None = None
