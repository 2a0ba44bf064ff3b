"""The view of an operator at the simulated cell, as a vector on the wire."""

from __future__ import annotations

import numpy as np

from robot_stack.types.errors import SpecError
from sim.hands import Seen

OF_POSES, OF_ARM, OF_ALL = 12, 13, 4
"""Entries: TCP 4, goal 4, grasp 4 and opening of each arm; force, done, lost and stage of all."""


def seen_to_vector(seen: Seen) -> np.ndarray:
    """Pack what an operator sees of N arms, float64, shape (13 N + 4,).

    In this order: TCPs 4 N, goals 4 N, grasps 4 N, openings N, force, done, lost, stage.
    """
    poses = (seen.tcp.ravel(), seen.goal.ravel(), seen.grasp.ravel())
    return np.concatenate([*poses, seen.opening, [seen.force_n, float(seen.done), float(seen.lost), float(seen.stage)]])


def seen_from_vector(values: np.ndarray, stamp_ns: int) -> Seen:
    """Unpack what an operator sees, the inverse of `seen_to_vector`.

    Raises:
        SpecError: If the length is wrong.
    """
    arms, odd = divmod(len(values) - OF_ALL, OF_ARM)
    if arms < 1 or odd:
        raise SpecError(
            f"what is seen has {len(values)} entries, must have {OF_ALL} and {OF_ARM} for each arm; "
            "start all processes alike"
        )
    tcp, goal, grasp = values[: arms * OF_POSES].reshape(3, arms, 4)
    return Seen(
        stamp_ns=stamp_ns,
        tcp=tcp,
        goal=goal,
        grasp=grasp,
        opening=values[arms * OF_POSES : arms * OF_ARM],
        force_n=float(values[-4]),
        done=bool(values[-3] > 0.5),
        lost=bool(values[-2] > 0.5),
        stage=int(values[-1]),
    )
