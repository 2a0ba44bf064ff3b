"""A bus of six servos and the calibration that it has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servos.sts_emulator import NAMES, StsBus


@pytest.fixture
def bus() -> Iterator[StsBus]:
    left = [thread.name for thread in threading.enumerate() if thread.name == "servo-bus"]
    assert not left, "an arm that was not closed would speak on this bus, whose port has the name of its own"
    made = StsBus()
    yield made
    made.close()


@pytest.fixture
def calibration(tmp_path: Path) -> Path:
    """As lerobot-calibrate writes it."""
    path = tmp_path / "my_arm.json"
    servos = {
        name: {"id": place + 1, "drive_mode": 0, "homing_offset": 0, "range_min": 800, "range_max": 3200}
        for place, name in enumerate(NAMES)
    }
    path.write_text(json.dumps(servos, indent=4))
    return path
