"""Serial ports of this machine, and the calibration files that LeRobot has written here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SERIAL = Path("/dev/serial/by-id")
LEROBOT = Path(".cache/huggingface/lerobot")


def serial_ports(by_id: Path = SERIAL) -> list[str]:
    """List the serial ports that are plugged in, by the names that stay."""
    return [str(each) for each in sorted(by_id.iterdir())] if by_id.is_dir() else []


def calibration_files(home: Path | None = None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """List the calibration files of LeRobot on this machine, robots' before teleoperators'.

    Args:
        home: Folder of the operator; None for this one's.
        environment: LeRobot looks for its folder in HF_LEROBOT_CALIBRATION and HF_LEROBOT_HOME first.
    """
    home = Path.home() if home is None else home
    base = Path(environment.get("HF_LEROBOT_HOME") or home / LEROBOT)
    folder = Path(environment.get("HF_LEROBOT_CALIBRATION") or base / "calibration")
    return [str(path) for path in sorted(folder.glob("*/*/*.json"))]
