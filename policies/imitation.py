"""The imitation term that behaviour cloning consists of and that reinforcement learning may add."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from policies.action_layout import CHOICES, ActionLayout
from policies.distributed import Ranks
from policies.learner import LearnerSpec, TensorBatch

MOST_WEIGHT = 10.0
"""Largest weight of a rare choice of a gripper; the most frequent one weighs 1."""


def imitation_loss(mean: Tensor, executed: Tensor, labelled: Tensor, rows: Tensor, ranks: Ranks) -> Tensor:
    """Compute the Huber distance of the deterministic action to an operator's, over what they demonstrated.

    Args:
        mean: Squashed mean, shape (B, A).
        executed: Executed action, shape (B, A).
        labelled: Which entries are an operator's, bool, or the weight of each; shape (B, A), or (B, 1) for whole
            rows.
        rows: Weight of each row, `Batch.imitation`, shape (B,).
        ranks: The processes over all of whose rows the mean goes.

    Returns:
        Sum over entries, weighted mean over the rows with any label; 0 without one.
    """
    distance = functional.smooth_l1_loss(mean, executed, reduction="none", beta=0.2)
    return (distance * labelled * rows[:, None]).sum() / ranks.mean_count(labelled.any(dim=1))


def labelled_ticks(batch: TensorBatch) -> Tensor:
    """Mark the ticks of a chunk that an expert showed, bool (B, C).

    These are the first tick of an expert row, and those behind it that an operator drove.
    """
    labelled = batch.human & batch.expert[:, None]
    labelled[:, 0] = batch.expert  # of a demonstration too, whoever drove
    return labelled


def labelled_entries(batch: TensorBatch, spec: LearnerSpec) -> Tensor:
    """Mark the entries of the first tick that an operator has shown, bool (B, A), see `Batch.label`."""
    return batch.expert[:, None] & batch.label[:, : spec.actions]


def balance(choices: Tensor, labelled: Tensor, ranks: Ranks) -> Tensor:
    """Weigh the choices of discrete grippers so that rare ones, the presses, count as much as frequent ones.

    Args:
        choices: int64 (B, G), as `ActionLayout.choices` has them.
        labelled: Which of them are labels, bool (B, G).
        ranks: The processes over all of whose rows the choices are counted.

    Returns:
        float32 (B, G): the most frequent choice of each gripper weighs 1, rarer ones up to `MOST_WEIGHT`, and what is
        no label 0.
    """
    weight = torch.zeros(choices.shape, device=choices.device)
    for gripper in range(choices.shape[1]):
        marked = [labelled[:, gripper] & (choices[:, gripper] == choice) for choice in range(len(CHOICES))]
        counts = torch.stack([ranks.mean_count(each) for each in marked])
        by_choice = (counts.max() / counts).clamp_max(MOST_WEIGHT)
        weight[:, gripper] = by_choice[choices[:, gripper]] * labelled[:, gripper]
    return weight


def balanced_entries(batch: TensorBatch, labelled: Tensor, layout: ActionLayout, ranks: Ranks) -> Tensor:
    """Turn labelled entries of one tick, bool (B, A), into weights, float32: 1, but of discrete grippers balanced."""
    weight = labelled.float()
    if layout.grippers:
        columns = list(layout.grippers)
        weight[:, columns] = balance(layout.choices(batch.action), labelled[:, columns], ranks)
    return weight


def chunk_weight(batch: TensorBatch, spec: LearnerSpec, ranks: Ranks) -> Tensor:
    """Weigh the entries of whole chunks for imitation, float32 (B, C * A): 0 where an operator has shown nothing.

    Rare choices of discrete grippers weigh more, see `balance`, counted over all ticks of the batch.
    """
    labelled = labelled_ticks(batch).repeat_interleave(spec.actions, dim=1) & batch.label
    weight = labelled.float()
    if spec.grippers:
        layout = ActionLayout(actions=spec.actions, grippers=spec.grippers)
        ticks = weight.unflatten(1, (-1, spec.actions)).flatten(0, 1)
        choices = layout.choices(batch.action.unflatten(1, (-1, spec.actions)).flatten(0, 1))
        marked = torch.stack([ticks[:, column] for column in spec.grippers], dim=1) > 0
        balanced = balance(choices, marked, ranks)
        for gripper, column in enumerate(spec.grippers):  # a list of columns would be sent to a GPU at each update
            ticks[:, column] = balanced[:, gripper]
        weight = ticks.unflatten(0, (len(weight), -1)).flatten(1)
    return weight
