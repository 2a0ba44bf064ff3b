"""A batch sampled from replay, as numpy arrays.

B rows, A action entries, C actions in a chunk, G discrete grippers, P proprio entries, F feature entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of B transitions (o, a, r, o'), each from inside one episode.

    Attributes:
        features: Frozen-trunk features of o, float16, shape (B, F); images do not travel when the trunk is frozen.
        proprio: Of o, float32, shape (B, P).
        action: Executed at t, t+1, ..., t+C-1, one after the other, float32, shape (B, C*A); past the end of the
            episode, where nothing that is played matters any more, an action of another row.
        proposed: `action`, but with what the policy had proposed where an operator corrected it, float32, same shape.
        reward: Sparse plus shaping, float32, shape (B,).
        discount: γⁿ, or 0 where the task ended, float32, shape (B,).
        mc_return: Discounted reward of all that was executed from o to the end, float32, shape (B,); NaN where the
            task has not ended.
        next_features: Of o', float16, shape (B, F).
        next_proprio: Of o', float32, shape (B, P).
        expert: True for rows drawn from the expert pool (demos and human steps), bool, shape (B,).
        imitation: Weight of each row in a mean over what is imitated, float32, shape (B,), 0 or more: 1, or, in a run
            that weighs by progress, with a mean of 1 over the expert rows; 1 for rows that are none.
        human: True for ticks of the chunk that an operator executed, bool, shape (B, C); False past the end.
        label: False where a human step shows nothing about an entry of the action, for imitation: of an arm that was
            not in a hand, or, in a correction, of a discrete gripper that was not touched, or of a motion that the
            handover blended; bool, shape (B, C*A), False past the end of the episode.
        gripper_change: True where the action executed at t changes a discrete gripper, i.e. closes it while it was
            open or opens it while it was closed, bool, shape (B, G), in the order of the arms.
        images: Of o, camera name -> uint8, shape (B, H, W, 3); None where features replace them.
        next_images: Of o', same.
        episode: Index of the episode each row came from, int64, shape (B,).
        frame: Frame t of each row, int64, shape (B,).
    """

    features: np.ndarray
    proprio: np.ndarray
    action: np.ndarray
    proposed: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    mc_return: np.ndarray
    next_features: np.ndarray
    next_proprio: np.ndarray
    expert: np.ndarray
    imitation: np.ndarray
    human: np.ndarray
    label: np.ndarray
    gripper_change: np.ndarray
    images: dict[str, np.ndarray] | None
    next_images: dict[str, np.ndarray] | None
    episode: np.ndarray
    frame: np.ndarray
