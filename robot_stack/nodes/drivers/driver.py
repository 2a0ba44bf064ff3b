"""The Protocols of an arm's parts: its driver's face, its sense and its gripper; and what another package brings.

No ROS is loaded here, so that a package may name its robot on a machine without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from robot_stack.config.drivers import DriverRobot
from robot_stack.control.drivers.arm_sense import ArmSense
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.control.drivers.driver_health import DriverHealth
from robot_stack.control.drivers.handshake import Pace
from robot_stack.control.kinematics.chain import Chain
from robot_stack.plugins import Part
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import Fault

if TYPE_CHECKING:
    from robot_stack.nodes.drivers.wires import Wires

RobotT = TypeVar("RobotT", bound=DriverRobot)


class Driver(Protocol):
    """The face of one driver, which tells it what to do and hears what it says of itself."""

    @property
    def speed_share(self) -> float:
        """Return the share of the wanted speed that the driver lets happen, in [0, 1]."""
        ...

    def send(self, command: DriverCommand) -> None:
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


class Senses(Protocol):
    """The keeper of an arm's state, which it brings up to date once per tick."""

    arm: ArmSense
    pace: Pace

    @property
    def lag_s(self) -> float:
        """Return how far the stamps of the state are behind this machine's clock, in s."""
        ...

    def poll(self, now_ns: int) -> None:
        """Take in what has come since the last tick; never blocks."""
        ...


class Grips(Protocol):
    """The face of a gripper, which is told once per tick what it shall do."""

    def follow(self, opening: float) -> None:
        """Send the newest wanted opening, in [0, 1]; one that was sent already may be kept back."""
        ...

    def halt(self, moving_at: float | None) -> None:
        """Stop a gripper that is still on its way, and forget what was sent; what it holds, it goes on holding.

        Args:
            moving_at: Measured opening while it moves, in [0, 1]; None while it stands.
        """
        ...


class OwnArm(Protocol):
    """An arm that this process drives by itself, over a port and without a topic of a driver."""

    @property
    def sense(self) -> Senses:
        """Return the keeper of its state."""
        ...

    @property
    def driver(self) -> Driver:
        """Return what takes its commands."""
        ...

    @property
    def gripper(self) -> Grips | None:
        """Return its gripper; None where there is none."""
        ...

    def close(self) -> None:
        """Give its port back; the arm comes to rest or holds."""
        ...


@dataclass(frozen=True, kw_only=True)
class RobotPart(Part[RobotT]):
    """A robot of another package: how its arm is driven, over the topics of a driver or by this process itself.

    Attributes:
        config: Model of its robot files; with `over_topics` False where this process drives the arm itself.
        driver: Builds the face of its driver, from kinematics too, which are None until they have come over a topic;
            answers None while it needs them. For an arm over topics.
        arm: Builds the arm, from its name too. For an arm without.

    Raises:
        ConfigError: If it brings not exactly the one that its settings ask for.
    """

    driver: Callable[[Wires, RobotT, Chain | None], Driver | None] | None = None
    arm: Callable[[DriverHealth, str, RobotT], OwnArm] | None = None

    def __post_init__(self) -> None:
        over_topics = self.config.over_topics
        if (self.driver is not None) is not over_topics or (self.arm is None) is not over_topics:
            wanted = "driver alone" if over_topics else "arm alone"
            raise ConfigError(f"parts of {self.config.__name__} with over_topics {over_topics} must be its {wanted}")


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
