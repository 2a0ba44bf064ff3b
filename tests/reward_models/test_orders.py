"""Orders of frames: their loss, the take-overs among them, and what Φ learns from them where labels say nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from reward_models.progress.fit import fit
from reward_models.progress.network import preference_loss
from reward_models.progress.orders import Order, order_accuracy, pairs_of, take_overs
from robot_stack.types.command import Source
from robot_stack.types.errors import RewardError
from tests.reward_models.misled import accuracy, answers, misled
from tests.reward_models.synthetic import QUICK, TEXT

P, H, STILL, N = Source.POLICY, Source.HUMAN, Source.IDLE, Source.HOLD


def test_the_loss_is_that_of_the_paper() -> None:
    first, second, share = [0.2, 0.9, 0.5], [0.6, 0.1, 0.5], [1.0, 1.0, 0.5]
    wanted = 0.0
    for a, b, mu in zip(first, second, share, strict=True):
        p = 0.9 * math.exp(b / 0.1) / (math.exp(a / 0.1) + math.exp(b / 0.1)) + 0.1 * 0.5
        wanted -= (mu * math.log(p) + (1 - mu) * math.log(1 - p)) / 3
    found = preference_loss(*(torch.tensor(values, dtype=torch.float64) for values in (first, second, share)))
    assert float(found) == pytest.approx(wanted, rel=1e-9)


def test_a_wrong_answer_costs_a_bounded_loss_and_the_same_pulls_together() -> None:
    far = torch.tensor([0.0]), torch.tensor([1.0])
    assert float(preference_loss(*far, torch.tensor([0.0]))) == pytest.approx(-math.log(0.05), abs=1e-3)
    first = torch.tensor([0.4], requires_grad=True)
    preference_loss(first, torch.tensor([0.6]), torch.tensor([0.5])).backward()
    assert first.grad is not None
    assert float(first.grad) < 0, "a step against the gradient brings it nearer"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ([P, P, P, P, H, H, STILL, P], [(1, 7)]),
        ([P, H, P, H, P], [(0, 2), (2, 4)]),
        ([P, P, P, P, N, H, H], [(2, 7)]),
        ([H, H, P, P], []),
        ([P, P], []),
        ([H, N, H, P], []),
        ([], []),
    ],
)
def test_take_overs_are_from_the_policy_and_last_to_the_end_of_the_correction(
    source: list[Source], found: list[tuple[int, int]]
) -> None:
    assert take_overs(np.array(source, np.uint8), 3) == found


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (Order(9, "b", 1, 1.0), "is of frame 9 of a, must be within 0 and 3"),
        (Order(1, "b", -1, 1.0), "is of frame -1 of b"),
        (Order(1, "a", 1, 1.0), "must be of two frames"),
        (Order(1, "b", 1, 1.5), r"with a share in \[0, 1\]"),
        (Order(1, "b", 1, float("nan")), r"with a share in \[0, 1\]"),
    ],
)
def test_an_order_that_cannot_be_is_refused(order: Order, words: str) -> None:
    frames = {"a": np.zeros((4, 2), np.float32), "b": np.zeros((4, 2), np.float32)}
    with pytest.raises(RewardError, match=words):
        pairs_of(frames, {"a": [order]})
    assert pairs_of({"a": frames["a"]}, {"a": [Order(1, "b", 1, 1.0)]}) == []


def test_accuracy_counts_the_pairs_with_a_further_one() -> None:
    first, second = np.array([0.1, 0.5, 0.5]), np.array([0.3, 0.2, 0.5])
    assert order_accuracy(first, second, np.array([1.0, 1.0, 0.5])) == 0.5
    assert math.isnan(order_accuracy(first, second, np.full(3, 0.5)))


@pytest.mark.slow
def test_preferences_order_frames_of_which_labels_say_nothing() -> None:
    made = [misled(seed) for seed in range(8)]
    orders = answers(made, 100, seed=1)
    plain = [shown for shown, _ in made]
    told = [replace(shown, orders=orders[number]) for number, shown in enumerate(plain)]
    without, report = fit(plain, QUICK, text=TEXT, seed=0)
    assert (report.orders, math.isnan(report.order_accuracy)) == (0, True)
    ignored, _ = fit(told, QUICK.model_copy(update={"preference_weight": 0.0}), text=TEXT, seed=0)
    assert ignored.version == without.version, "to the bit, but for what is not asked for"
    model, report = fit(told, QUICK, text=TEXT, seed=0)
    assert 30 < report.orders < 100, "those with a held-out episode are not trained on"
    assert report.order_accuracy > 0.75
    found = accuracy(without), accuracy(model)
    assert found[0] < 0.75, found
    assert found[1] > 0.9, found


def test_two_episodes_of_a_name_are_refused() -> None:
    shown, _ = misled(1)
    with pytest.raises(RewardError, match="have a name twice"):
        fit([replace(shown) for _ in range(4)], QUICK, text=TEXT, seed=0)
