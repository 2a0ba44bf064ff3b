"""The Protocol of a driver's face, and the face of a driver that says nothing of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from robot_stack.control.drivers.core import DriverCommand
from robot_stack.types.reason import Fault


class Driver(Protocol):
    """Tells one driver what to do, and hears what it says of itself."""

    @property
    def speed_share(self) -> float:
        """Of the wanted speed that the driver lets happen, in [0, 1]."""
        ...

    def send(self, wish: DriverCommand) -> None:
        """The command of one tick."""
        ...

    def fault(self) -> Fault | None:
        """What the driver reports now that an operator must clear."""
        ...

    def waiting(self) -> Fault | None:
        """What must come first and needs no recovery."""
        ...

    def recover(self) -> bool:
        """An operator asks for recovery; True if the driver was told to recover and will report when it has."""
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

    def fault(self) -> Fault | None:
        """None is ever said."""
        return None

    def waiting(self) -> Fault | None:
        """None is ever said."""
        return None

    def recover(self) -> bool:
        """There is nothing to tell the driver."""
        return False

    def values(self) -> Mapping[str, object]:
        """None."""
        return {}
