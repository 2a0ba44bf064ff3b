"""Helpers of other folders that these tests use."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("reward_models", "report", "datasets")]
