"""The fake devices live beside the tests of the package they stand in for."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "teleop"))
