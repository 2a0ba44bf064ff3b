"""The imitation term that behaviour cloning consists of and that reinforcement learning may add."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from policies.learner import LearnerSpec, TensorBatch


def imitation_loss(mean: Tensor, executed: Tensor, labelled: Tensor, count: Tensor) -> Tensor:
    """Compute the Huber distance of the deterministic action to an operator's, over what they demonstrated.

    Args:
        mean: Squashed mean, shape (B, A).
        executed: Executed action, shape (B, A).
        labelled: Which entries are an operator's word, bool, shape (B, A), or (B, 1) for whole rows.
        count: Rows with any label, to divide by, as `Ranks.mean_count` has them.

    Returns:
        Sum over entries, mean over the rows with any label; 0 without one.
    """
    distance = functional.smooth_l1_loss(mean, executed, reduction="none", beta=0.2)
    return (distance * labelled).sum() / count


def labelled_ticks(batch: TensorBatch) -> Tensor:
    """Mark the ticks of a chunk that an expert showed, bool (B, C).

    These are the first tick of an expert row, and those behind it that an operator drove.
    """
    labelled = batch.human & batch.expert[:, None]
    labelled[:, 0] = batch.expert  # of a demonstration too, whoever drove
    return labelled


def labelled_entries(batch: TensorBatch, spec: LearnerSpec) -> Tensor:
    """Mark the entries of the first tick that an operator demonstrated, bool (B, A).

    An untouched gripper is not labelled: it does not mean "stay".
    """
    return batch.expert[:, None] & batch.label[:, : spec.actions]
