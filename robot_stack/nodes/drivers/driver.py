"""The Protocol of a driver's face, and the face of a driver that says nothing of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from robot_stack.control.drivers.core import Wish


class Driver(Protocol):
    """Tells one driver what to do, and hears what it says of itself."""

    @property
    def speed_share(self) -> float:
        """Of the wanted speed that the driver lets happen, in [0, 1]."""
        ...

    def send(self, wish: Wish) -> None:
        """The command of one tick."""
        ...

    def fault(self) -> str:
        """What the driver reports now that a person must clear, or ""."""
        ...

    def waiting(self) -> str:
        """What must come first and needs no recovery, or ""."""
        ...

    def recover(self) -> bool:
        """A person asks for recovery; True if the driver was told to recover and will report when it has."""
        ...

    def values(self) -> Mapping[str, object]:
        """For diagnostics."""
        ...


class QuietDriver:
    """All of `Driver` but `send`."""

    @property
    def speed_share(self) -> float:
        """All of it."""
        return 1.0

    def fault(self) -> str:
        """None is ever said."""
        return ""

    def waiting(self) -> str:
        """None is ever said."""
        return ""

    def recover(self) -> bool:
        """There is nothing to tell the driver."""
        return False

    def values(self) -> Mapping[str, object]:
        """None."""
        return {}
