"""The imitation term against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_task import SPEC, random_batch

from policies.distributed import ALONE
from policies.imitation import imitation_loss, labelled_entries, labelled_ticks


def test_imitation_loss_is_huber_over_expert_rows_only() -> None:
    mean = torch.tensor([[0.1, 0.5], [0.0, 0.0], [-1.0, 1.0]])
    action = torch.tensor([[0.0, 0.0], [0.0, 0.3], [9.0, 9.0]])
    expert = torch.tensor([True, True, False])
    first = 0.5 * 0.1**2 / 0.2 + (0.5 - 0.1)  # quadratic up to 0.2, linear beyond
    second = 0.3 - 0.1
    assert float(imitation_loss(mean, action, expert[:, None], expert.sum())) == pytest.approx((first + second) / 2)


def test_imitation_loss_without_expert_rows_is_zero() -> None:
    nobody = torch.zeros(4, dtype=torch.bool)
    loss = imitation_loss(torch.ones(4, 2), torch.zeros(4, 2), nobody[:, None], ALONE.mean_count(nobody))
    assert float(loss) == 0.0


def test_entries_without_a_label_do_not_count() -> None:
    mean, action = torch.tensor([[0.0, 9.0], [0.3, 0.0]]), torch.zeros(2, 2)
    labelled = torch.tensor([[True, False], [True, True]])
    assert float(imitation_loss(mean, action, labelled, torch.tensor(2))) == pytest.approx((0.3 - 0.1) / 2)


def test_a_person_who_left_the_gripper_alone_has_not_shown_what_it_should_do() -> None:
    spec = replace(SPEC, grippers=(2,))
    batch = random_batch(0, expert_rows=2)
    batch.label[1, 2] = False
    labelled = labelled_entries(batch, spec)
    assert labelled[:3].tolist() == [[True, True, True], [True, True, False], [False, False, False]]


def test_of_a_chunk_the_first_tick_of_an_expert_and_a_persons_later_ticks_are_labelled() -> None:
    human = torch.tensor([[True, False, True], [False, True, False], [True, True, True]])
    batch = replace(random_batch(0, rows=3, expert_rows=2), human=human)
    assert labelled_ticks(batch).tolist() == [[True, False, True], [True, True, False], [False, False, False]]


def test_without_chunks_expert_rows_are_labelled_whoever_drove() -> None:
    batch = replace(random_batch(0, rows=4, expert_rows=2), human=torch.tensor([[True], [False], [True], [False]]))
    assert labelled_ticks(batch).tolist() == [[True], [True], [False], [False]]
