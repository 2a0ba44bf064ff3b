"""The servos of an arm that this machine reads and drives itself; robots and leader arms have this alike."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.section import Section

Port = Annotated[str, Field(pattern=r"^/dev/", max_length=256)]
"""Serial port, best one below /dev/serial/by-id/."""
Bus = Literal["direct", "lerobot"]
"""What speaks on the port: this project, or the motors bus of the lerobot package."""


class ServoPort(Section):
    """The serial port of an arm's servos, and their calibration."""

    port: Port
    """Serial port, best one below /dev/serial/by-id/. Belongs to a cell."""
    calibration: Annotated[str, Field(min_length=1)]
    """The JSON that lerobot-calibrate writes; ~ is the home folder. Belongs to a cell."""
    bus: Bus = "direct"
    """What speaks on it: this project, or the motors bus of the lerobot package."""
    baud: Literal[1_000_000, 500_000, 115_200] = 1_000_000
    """Of the servos; with lerobot always 1000000."""
    reply_s: Annotated[float, Field(ge=0.002, le=0.1)] = 0.02
    """Within this a servo answers, or it counts as silent."""

    @field_validator("baud")
    @classmethod
    def _is_lerobots(cls, baud: int, info: ValidationInfo) -> int:
        if info.data.get("bus") == "lerobot" and baud != 1_000_000:
            raise ValueError(f"baud is {baud} with bus 'lerobot', must be 1000000; take bus: direct")
        return baud
