"""The imitation term against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from policies.action_layout import ActionLayout
from policies.distributed import ALONE
from policies.imitation import balance, balanced_entries, imitation_loss, labelled_entries, labelled_ticks
from tests.policies.small_task import SPEC, random_batch


def test_imitation_loss_is_huber_over_expert_rows_only() -> None:
    mean = torch.tensor([[0.1, 0.5], [0.0, 0.0], [-1.0, 1.0]])
    action = torch.tensor([[0.0, 0.0], [0.0, 0.3], [9.0, 9.0]])
    expert = torch.tensor([True, True, False])
    first = 0.5 * 0.1**2 / 0.2 + (0.5 - 0.1)  # quadratic up to 0.2, linear beyond
    second = 0.3 - 0.1
    loss = imitation_loss(mean, action, expert[:, None], torch.ones(3), ALONE)
    assert float(loss) == pytest.approx((first + second) / 2)


def test_imitation_loss_without_expert_rows_is_zero() -> None:
    nobody = torch.zeros(4, dtype=torch.bool)
    loss = imitation_loss(torch.ones(4, 2), torch.zeros(4, 2), nobody[:, None], torch.ones(4), ALONE)
    assert float(loss) == 0.0


def test_imitation_loss_is_a_weighted_mean_over_rows() -> None:
    mean, action = torch.tensor([[0.3, 0.0], [0.5, 0.0], [9.0, 9.0]]), torch.zeros(3, 2)
    expert = torch.tensor([True, True, True])
    loss = imitation_loss(mean, action, expert[:, None], torch.tensor([0.6, 2.4, 0.0]), ALONE)
    assert float(loss) == pytest.approx((0.6 * (0.3 - 0.1) + 2.4 * (0.5 - 0.1)) / 3)


def test_entries_without_a_label_do_not_count() -> None:
    mean, action = torch.tensor([[0.0, 9.0], [0.3, 0.0]]), torch.zeros(2, 2)
    labelled = torch.tensor([[True, False], [True, True]])
    assert float(imitation_loss(mean, action, labelled, torch.ones(2), ALONE)) == pytest.approx((0.3 - 0.1) / 2)


def test_an_expert_row_without_any_label_does_not_make_the_others_count_less() -> None:
    mean, action = torch.tensor([[0.3, 0.0], [9.0, 9.0]]), torch.zeros(2, 2)
    labelled = torch.tensor([[True, True], [False, False]])
    assert float(imitation_loss(mean, action, labelled, torch.ones(2), ALONE)) == pytest.approx(0.3 - 0.1)


def test_rare_choices_of_a_gripper_weigh_as_much_as_frequent_ones_up_to_a_limit() -> None:
    choices = torch.tensor([[1]] * 40 + [[0]] * 8 + [[2]] * 1 + [[0]] * 9)
    labelled = (torch.arange(58) < 49)[:, None]
    weight = balance(choices, labelled, ALONE)
    assert weight[:, 0].tolist() == [1.0] * 40 + [5.0] * 8 + [10.0] + [0.0] * 9


def test_the_arms_entries_are_not_weighed() -> None:
    batch = random_batch(0, rows=4, expert_rows=3)
    batch.action[:, 2] = torch.tensor([0.0, 0.0, -1.0, -1.0])
    layout = ActionLayout(actions=3, grippers=(2,))
    weight = balanced_entries(batch, labelled_entries(batch, SPEC), layout, ALONE)
    assert weight.tolist() == [[1, 1, 1], [1, 1, 1], [1, 1, 2], [0, 0, 0]]


def test_an_entry_that_was_not_shown_is_no_label() -> None:
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
