"""The Protocol of a driver's face, and the face of a driver that says nothing of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from robot_stack.control.drivers.core import DriverCommand
from robot_stack.types.reason import Fault


class Driver(Protocol):
    """The face of one driver, which tells it what to do and hears what it says of itself."""

    @property
    def speed_share(self) -> float:
        """Return the share of the wanted speed that the driver lets happen, in [0, 1]."""
        ...

    def send(self, wish: DriverCommand) -> None:
        """Send the command of one tick to the driver."""
        ...

    def fault(self) -> Fault | None:
        """Return what the driver reports now that an operator must clear."""
        ...

    def waiting(self) -> Fault | None:
        """Return what the driver waits for before the arm may move, and that needs no recovery."""
        ...

    def recover(self) -> bool:
        """Recover for an operator; return True if the driver was told to and will report when it has."""
        ...

    def values(self) -> Mapping[str, object]:
        """Return the driver's values for the diagnostics."""
        ...


class QuietDriver:
    """The base of a driver that says nothing of itself: all of `Driver` but `send`."""

    @property
    def speed_share(self) -> float:
        """Return 1: all of the wanted speed."""
        return 1.0

    def fault(self) -> Fault | None:
        """Return None: this driver reports no fault."""
        return None

    def waiting(self) -> Fault | None:
        """Return None: this driver waits for nothing."""
        return None

    def recover(self) -> bool:
        """Return False: there is nothing to tell the driver."""
        return False

    def values(self) -> Mapping[str, object]:
        """Return no values for the diagnostics."""
        return {}
