"""Draws of transitions as row numbers, and how they become batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.replay.frames import NO_ROW, FrameTable
from robot_stack.replay.hindsight import Relabelled
from robot_stack.types.batch import Batch
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A draw of B transitions as row numbers, before anything is gathered.

    Attributes:
        rows: Rows of o, int64, shape (B,).
        next_rows: Rows of o', int64, shape (B,).
        action_rows: Rows of the C actions of a chunk, int64, shape (B, C); `NO_ROW` past the end of the episode.
        reward: float32, shape (B,).
        discount: float32, shape (B,).
        mc_return: float32, shape (B,), NaN where the task has not ended.
        expert: Drawn from the expert pool, bool, shape (B,).
        imitation: Weight of each row in imitation, float32, shape (B,), see `Batch.imitation`.
        shifts: Camera name -> how far images of o and o' are moved, int64, shape (2, B, 2); None for not at all.
        relabelled: The rows whose goal is relabelled; None without hindsight.
    """

    rows: np.ndarray
    next_rows: np.ndarray
    action_rows: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    mc_return: np.ndarray
    expert: np.ndarray
    imitation: np.ndarray
    shifts: dict[str, np.ndarray] | None
    relabelled: Relabelled | None = None

    @property
    def played_rows(self) -> np.ndarray:
        """Return `action_rows`, past the end of an episode with the first action of the row before in the draw.

        What is played once the task is over decides nothing. Filled with any action, a critic of chunks learns so;
        filled with zeros it would learn that an episode ends well where the arm rests.
        """
        return np.where(self.action_rows == NO_ROW, np.roll(self.rows, 1)[:, None], self.action_rows)


def check_draw(batch_size: int, *, gamma: float, expert_fraction: float, n_step: int, chunk: int) -> None:
    """Raise StoreError naming the first argument of a draw that is out of range."""
    for name, value, fits, rule in (
        ("batch_size", batch_size, batch_size >= 1, "1 or more"),
        ("gamma", gamma, 0.0 < gamma < 1.0, "in (0, 1)"),
        ("expert_fraction", expert_fraction, 0.0 <= expert_fraction <= 1.0, "in [0, 1]"),
        ("n_step", n_step, n_step >= 1, "1 or more"),
        ("chunk", chunk, chunk == 1 or chunk == n_step, f"1 or n_step ({n_step})"),
    ):
        if not fits:
            raise StoreError(f"{name} of a draw is {value}, must be {rule}; change it in the run's algorithm settings")


def refill(rng: np.random.Generator, kept: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """Choose the rows of a draw anew: those not kept give way to kept ones, drawn uniformly.

    Args:
        rng: Draws the rows that stand in.
        kept: Whether a row stays, bool, shape (B,).
        expert: Whether it is of the expert pool, bool, shape (B,); each pool stands in for itself as far as it can.

    Returns:
        Positions in the draw, int64, shape (B,).

    Raises:
        StoreError: If no row is kept.
    """
    if not kept.any():
        raise StoreError(
            "whole chunks among the rows of a draw are 0, must be 1 or more; record longer episodes, or lower chunk"
        )
    positions = np.arange(len(kept))
    for of_pool in (expert, ~expert):
        lost, stay = of_pool & ~kept, of_pool & kept
        positions[lost] = rng.choice(np.flatnonzero(stay if stay.any() else kept), size=lost.sum())
    return positions


def gather(frames: FrameTable, draw: Draw) -> Batch:
    """Gather what a draw points at into a batch; rows once written stay as they are, so this needs no lock."""
    column, rows, next_rows = frames.column, draw.rows, draw.next_rows
    features = column("features")
    proprio, next_proprio = column("proprio")[rows], column("proprio")[next_rows]
    if draw.relabelled is not None:
        proprio[draw.relabelled.rows, draw.relabelled.desired] = draw.relabelled.goals
        next_proprio[draw.relabelled.rows, draw.relabelled.desired] = draw.relabelled.goals
    now, after = (None, None) if draw.shifts is None else ({n: s[i] for n, s in draw.shifts.items()} for i in (0, 1))
    return Batch(
        features=features[rows],
        proprio=proprio,
        action=column("executed")[draw.played_rows].reshape(len(rows), -1),
        proposed=_proposed(frames, draw),
        reward=draw.reward,
        discount=draw.discount,
        mc_return=draw.mc_return,
        next_features=features[next_rows],
        next_proprio=next_proprio,
        expert=draw.expert,
        imitation=draw.imitation,
        human=(column("source")[draw.action_rows] == Source.HUMAN) & (draw.action_rows != NO_ROW),
        label=(column("label")[draw.action_rows] & (draw.action_rows != NO_ROW)[..., None]).reshape(len(rows), -1),
        gripper_change=column("gripper_change")[rows],
        images=frames.images.gather(rows, now) if frames.images else None,
        next_images=frames.images.gather(next_rows, after) if frames.images else None,
        episode=column("episode")[rows].astype(np.int64),
        frame=column("frame")[rows].astype(np.int64),
    )


def corrected(frames: FrameTable, rows: np.ndarray) -> np.ndarray:
    """Mark the entries of the actions in `rows` (B, C) by which an operator corrected the policy, bool (B, C, A).

    A correction is an entry that an operator showed (`Batch.label`) while a policy was there that proposed something.
    """
    by_hand = (frames.column("source")[rows] == Source.HUMAN) & (rows != NO_ROW)
    asked = frames.column("proposed")[rows].any(axis=2)
    return np.asarray((by_hand & asked)[..., None] & frames.column("label")[rows])


def _proposed(frames: FrameTable, draw: Draw) -> np.ndarray:
    rows = draw.action_rows
    executed, proposed = frames.column("executed")[draw.played_rows], frames.column("proposed")[rows]
    return np.asarray(np.where(corrected(frames, rows), proposed, executed).reshape(len(rows), -1))
