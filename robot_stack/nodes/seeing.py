"""What a person at the simulated cell sees, as a vector on the wire."""

from __future__ import annotations

import numpy as np

from robot_stack.types.errors import SpecError
from sim.operator import Seen

SIZE = 11


def seen_to_vector(seen: Seen) -> np.ndarray:
    """TCP 4, goal 4, force, done, lost: float64, shape (11,)."""
    return np.concatenate([seen.tcp, seen.goal, [seen.force_n, float(seen.done), float(seen.lost)]])


def seen_from_vector(values: np.ndarray, stamp_ns: int) -> Seen:
    """Inverse of `seen_to_vector`.

    Raises:
        SpecError: If the length is wrong.
    """
    if values.shape != (SIZE,):
        raise SpecError(f"what is seen has {len(values)} entries, must have {SIZE}; start all processes alike")
    return Seen(
        stamp_ns=stamp_ns,
        tcp=values[:4],
        goal=values[4:8],
        force_n=float(values[8]),
        done=bool(values[9] > 0.5),
        lost=bool(values[10] > 0.5),
    )
