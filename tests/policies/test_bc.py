"""Behaviour cloning learns from expert rows alone, and resumes exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.learner import TensorBatch, published_tensors
from tests.policies.small_task import SPEC, flat, random_batch, through_a_file

CONFIG = BCConfig(hidden=(16,), head=8, learning_rate=3e-3)


def learner(seed: int = 0) -> BCLearner:
    return BCLearner(SPEC, CONFIG, seed=seed)


@pytest.mark.long
def test_loss_falls_on_the_demonstrations() -> None:
    made, batch = learner(), random_batch(0)
    losses = [float(made.update(batch)["actor_loss"]) for _ in range(150)]
    assert losses[-1] < 0.3 * losses[0]


def test_rows_that_are_not_a_persons_change_nothing() -> None:
    moved = []
    for shift in (0.0, 0.7):
        made, batch = learner(), random_batch(0, expert_rows=8)
        batch.action[8:] += shift
        made.update(batch)
        moved.append(flat(made.policy))
    assert torch.equal(*moved)


def test_entries_that_a_person_has_not_shown_change_nothing() -> None:
    moved = []
    for shift in (0.0, 0.7):
        made, batch = learner(), random_batch(0)
        batch.label[:, 1] = False
        batch.action[:, 1] += shift
        made.update(batch)
        moved.append(flat(made.policy))
    assert torch.equal(*moved)


def test_of_a_chunk_the_first_tick_is_imitated() -> None:
    moved = []
    for later in (-0.5, 0.5):
        made, batch = learner(), random_batch(0)
        made.update(replace(batch, action=torch.cat([batch.action, batch.action + later], dim=1)))
        moved.append(flat(made.policy))
    made = learner()
    made.update(random_batch(0))
    assert all(torch.equal(flat(made.policy), other) for other in moved)


def test_restored_learner_goes_on_with_identical_losses() -> None:
    first, other = learner(), learner(seed=9)
    for number in range(3):
        first.update(random_batch(number))
    other.load_state_dict(through_a_file(first.state_dict()))
    assert other.updates == 3
    for number in range(3, 6):
        batch = random_batch(number)
        assert torch.equal(first.update(batch)["actor_loss"], other.update(batch)["actor_loss"])


def test_imitation_batch_is_all_expert_rows() -> None:
    whole = random_batch(0)
    label = np.random.default_rng(0).random(tuple(whole.action.shape)) < 0.5
    batch = TensorBatch.for_imitation(whole.features.half().numpy(), whole.proprio.numpy(), whole.action.numpy(), label)
    assert batch.expert.all()
    assert batch.label.tolist() == label.tolist()
    assert batch.features.dtype is torch.float32
    assert torch.equal(batch.action, whole.action)


def test_what_acts_is_a_running_average_of_the_trained_policy() -> None:
    slow = BCLearner(SPEC, CONFIG.model_copy(update={"actor_tau": 0.25}), seed=0)
    before = flat(slow.policy)
    slow.update(random_batch(0))
    torch.testing.assert_close(flat(slow.published), before + 0.25 * (flat(slow.policy) - before))
    acting = np.concatenate([value.ravel() for value in slow.actor_tensors().values()])
    trained = np.concatenate([value.ravel() for value in published_tensors(slow.policy).values()])
    assert not np.array_equal(acting, trained)
    other = learner(seed=9)
    other.load_state_dict(through_a_file(slow.state_dict()))
    assert torch.equal(flat(other.published), flat(slow.published))


def test_without_an_average_the_trained_policy_acts() -> None:
    made = learner()
    made.update(random_batch(0))
    assert torch.equal(flat(made.published), flat(made.policy))
