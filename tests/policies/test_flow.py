"""A flow over chunks against formulas written out by hand, and against distributions that are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from policies.distributed import ALONE
from policies.flow import MOST_GUIDANCE, FlowField, carry, carry_towards, flow_loss, on_line
from policies.flow_bc.config import FlowBCConfig
from policies.flow_bc.learner import FlowBCLearner
from policies.imitation import chunk_weight
from tests.policies.small_task import SPEC, random_batch
from tests.policies.test_all_algorithms import TWO_ARMS, batch, make

ONE_ACTION = replace(SPEC, actions=1)


class Towards(nn.Module):
    """The exact field of one known chunk: from any point straight to it."""

    def __init__(self, chunk: Tensor) -> None:
        super().__init__()
        self.chunk = chunk

    def forward(self, state: Tensor, point: Tensor, time: Tensor) -> Tensor:
        return (self.chunk - point) / (1 - time)


class Linear(nn.Module):
    """A field that depends on the point, so that guidance has something to differentiate."""

    def forward(self, state: Tensor, point: Tensor, time: Tensor) -> Tensor:
        return 0.3 * point.sin() - time


@pytest.mark.parametrize("rows", [[1.0, 1.0, 1.0], [0.5, 1.5, 1.0], [0.0, 2.0, 1.0]])
def test_loss_is_the_weighted_square_to_the_straight_line(rows: list[float]) -> None:
    rng = np.random.default_rng(0)
    velocity, noise, chunk = (rng.normal(size=(3, 4)) for _ in range(3))
    weight = np.array([[1.0, 1, 0, 0], [2.0, 1, 1, 0], [0.0, 0, 0, 0]])
    by_hand = 0.0
    for row in range(2):  # the last shows nothing
        errors = [(velocity[row, j] - (chunk[row, j] - noise[row, j])) ** 2 * weight[row, j] for j in range(4)]
        by_hand += rows[row] * sum(errors) / sum(weight[row]) / 2
    tensors = (torch.from_numpy(each) for each in (velocity, noise, chunk, weight))
    assert float(flow_loss(*tensors, torch.tensor(rows), torch.tensor(2.0))) == pytest.approx(by_hand)


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_exact_field_carries_any_noise_to_its_chunk(steps: int) -> None:
    chunk = torch.tensor([[0.3, -0.9, 0.0]])
    noise = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    carried = carry(Towards(chunk), torch.zeros(5, 1), noise, steps)  # type: ignore[arg-type]
    torch.testing.assert_close(carried, chunk.expand(5, -1))


def test_chunks_stay_within_the_range_of_actions() -> None:
    field = Towards(torch.tensor([[7.0, -7.0]]))
    noise, state = torch.zeros(1, 2), torch.zeros(1, 1)
    assert carry(field, state, noise, 4).tolist() == [[1.0, -1.0]]  # type: ignore[arg-type]
    going_out, hold = torch.zeros(1, 2), torch.zeros(2)
    guided = carry_towards(field, state, noise, 4, going_out=going_out, hold=hold)  # type: ignore[arg-type]
    assert guided.tolist() == [[1.0, -1.0]]


def test_points_lie_on_the_line_from_noise_to_chunk() -> None:
    noise, chunk = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    assert on_line(noise, chunk, torch.tensor([[0.25]])).tolist() == [[1.5, 0.25]]


def test_guidance_is_the_formula_of_real_time_chunking() -> None:
    steps, hold = 5, torch.tensor([1.0, 0.5, 0.0])
    noise, going_out = torch.tensor([[0.4, -0.2, 0.9]]), torch.tensor([[0.1, 0.5, -0.3]])
    a = noise.double().numpy()[0].copy()
    y, w = going_out.double().numpy()[0], hold.double().numpy()
    for step in range(steps):
        tau = step / steps
        velocity = 0.3 * np.sin(a) - tau
        end = a + (1 - tau) * velocity
        slope = 1 + (1 - tau) * 0.3 * np.cos(a)  # of the end in the point; entries do not mix
        r2 = (1 - tau) ** 2 / (tau**2 + (1 - tau) ** 2)
        strength = MOST_GUIDANCE if tau == 0 else min(MOST_GUIDANCE, (1 - tau) / (tau * r2))
        a = a + (velocity + strength * (y - end) * w * slope) / steps
    got = carry_towards(Linear(), torch.zeros(1, 1), noise, steps, going_out=going_out, hold=hold)  # type: ignore[arg-type]
    np.testing.assert_allclose(got[0], np.clip(a, -1, 1), rtol=1e-4)
    assert not got.requires_grad


def test_guidance_without_a_hold_is_none() -> None:
    noise = torch.randn(3, 2, generator=torch.Generator().manual_seed(1))
    going_out = torch.ones(3, 2)
    free = carry(Linear(), torch.zeros(3, 1), noise, 6)  # type: ignore[arg-type]
    guided = carry_towards(Linear(), torch.zeros(3, 1), noise, 6, going_out=going_out, hold=torch.zeros(2))  # type: ignore[arg-type]
    torch.testing.assert_close(guided, free)


def test_field_knows_the_time() -> None:
    torch.manual_seed(0)
    field = FlowField(2, 3, hidden=(16,))
    state, point = torch.zeros(1, 2), torch.zeros(1, 3)
    early, late = (field(state, point, torch.tensor([[t]])) for t in (0.0, 1.0))
    assert (early - late).abs().max() > 1e-3


@pytest.mark.long
def test_a_flow_keeps_both_ways_where_regression_takes_their_mean() -> None:
    config = FlowBCConfig(head=8, hidden=(64, 64), chunk=2, replan=2, learning_rate=3e-3, actor_tau=0.02)
    learner, rng = FlowBCLearner(ONE_ACTION, config, seed=0), np.random.default_rng(0)
    made = random_batch(0, rows=128)
    for _ in range(500):
        side = rng.choice([-0.7, 0.7], size=(len(made.reward), 1)).astype(np.float32)
        action = torch.from_numpy(np.repeat(side, 2, axis=1))
        ones = torch.ones(len(made.reward), dtype=torch.bool)
        shown = ones[:, None].repeat(1, 2)
        learner.update(replace(made, action=action, expert=ones, human=shown, label=shown))
    rows = made.features[:1].repeat(500, 1), made.proprio[:1].repeat(500, 1)
    with torch.no_grad():
        drawn = learner.published.act(*rows, tick=0, rng=torch.Generator().manual_seed(0), deterministic=False)
    assert ((drawn.abs() - 0.7).abs() < 0.2).float().mean() > 0.9
    assert 0.3 < (drawn[:, 0] > 0).float().mean() < 0.7
    assert (drawn[:, 0] * drawn[:, 1] > 0).float().mean() > 0.95, "both ticks of a chunk go the same way"


# --------------------------------------------------------------------------------------------- what a chunk teaches


def test_what_no_operator_showed_has_no_weight_in_a_chunk() -> None:
    made = batch(3, SPEC, 3)
    weight = chunk_weight(made, SPEC, ALONE)
    assert weight.shape == made.action.shape
    assert (weight[~made.expert] == 0).all()
    assert (weight[made.expert, : SPEC.actions] == 1).all()
    later = made.human[:, 1:].repeat_interleave(SPEC.actions, dim=1)
    assert torch.equal(weight[made.expert, SPEC.actions :] > 0, later[made.expert])
    past_the_end = replace(made, label=torch.zeros_like(made.label))
    assert (chunk_weight(past_the_end, SPEC, ALONE) == 0).all()


def test_rare_presses_count_as_much_as_frequent_ones_over_all_ticks() -> None:
    made = batch(4, TWO_ARMS, 3)
    action = torch.zeros_like(made.action)
    action[0, TWO_ARMS.grippers[0]] = 1.0  # one press in all
    everyone = torch.ones(len(action), dtype=torch.bool)
    shown = replace(made, action=action, expert=everyone, human=everyone[:, None].repeat(1, 3))
    weight = chunk_weight(shown, TWO_ARMS, ALONE)
    assert weight[0, TWO_ARMS.grippers[0]] == 10.0  # 47 to 1, but never more than ten times
    assert weight[0, TWO_ARMS.grippers[1]] == weight[1, TWO_ARMS.grippers[0]] == 1.0
    arms = [i for i in range(TWO_ARMS.actions) if i not in TWO_ARMS.grippers]
    assert (weight.unflatten(1, (3, -1))[:, :, arms] == 1.0).all()


def test_entries_without_weight_add_nothing_to_the_loss() -> None:
    made = batch(0, SPEC, 3)
    weight, zero, eight = chunk_weight(made, SPEC, ALONE), torch.zeros_like(made.action), torch.tensor(8.0)
    losses = [
        float(flow_loss(zero, zero, torch.where(weight > 0, made.action, zero + tail), weight, torch.ones(16), eight))
        for tail in (0.0, 5.0)
    ]
    assert losses[0] == losses[1] > 0


@pytest.mark.long
def test_a_regressed_chunk_is_the_mean_of_two_ways_and_played_as_an_ensemble() -> None:
    made = replace(batch(0, SPEC, 2), expert=torch.ones(16, dtype=torch.bool))
    made = replace(made, human=torch.ones(16, 2, dtype=torch.bool), label=torch.ones_like(made.label))
    # no further from their mean than .2, within which the loss is a square: beyond, all between two ways costs the same
    way = torch.where(torch.arange(16) % 2 == 0, 0.5, 0.3)[:, None].expand_as(made.action).contiguous()
    same = replace(made, action=way, features=made.features[:1].expand(16, -1), proprio=made.proprio[:1].expand(16, -1))
    learner = make("act", SPEC, chunk=2, learning_rate=1e-2, actor_tau=0.5)
    for _ in range(200):
        learner.update(same)
    played = learner.published.act(same.features, same.proprio, tick=0, rng=torch.Generator(), deterministic=True)
    assert (played - 0.4).abs().max() < 0.03  # a flow draws one of the two
    assert learner.published.playback.join == "ensemble"


def test_replan_beyond_the_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match=r"replan is 4, must be at most chunk \(3\); lower it"):
        FlowBCConfig(chunk=3, replan=4)
