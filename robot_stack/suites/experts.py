"""Scripted experts of environments that are given as examples."""

from __future__ import annotations

import numpy as np


def swing_up(seen: np.ndarray) -> np.ndarray:
    """Push the car of MountainCarContinuous the way that it moves; seen is its position and speed."""
    return np.where(seen[1:] >= 0.0, 1.0, -1.0)
