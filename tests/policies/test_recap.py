"""Advantage-conditioned cloning: what did better than expected is found again, and without the condition it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from policies.flow import flow_loss, on_line
from policies.learner import TensorBatch
from policies.precision import FAST_BF16, fast
from policies.recap.learner import THRESHOLD_STEP
from policies.recap.policy import BETTER, NOT_TOLD, WORSE
from policies.registry import ALGORITHMS
from tests.policies.small_task import SPEC
from tests.policies.test_all_algorithms import batch, make
from tests.policies.test_chunk_learners import CHUNK, ONE_ACTION, decisions, distance


def own(rows: TensorBatch, *, expert: bool = False) -> TensorBatch:
    """The same rows, as the policy's own or as an operator's."""
    marked = torch.full_like(rows.expert, expert)
    return replace(rows, expert=marked, human=marked[:, None].expand_as(rows.human).clone())


def trained(updates: int = 600, **settings: Any) -> Any:
    common = {"hidden": (64, 64), "head": 8, "chunk": CHUNK, "replan": CHUNK, "learning_rate": 2e-3, "actor_tau": 0.02}
    algorithm = ALGORITHMS["recap"]
    learner = algorithm.builders().learner(ONE_ACTION, algorithm.config(**{**common, **settings}), seed=0)
    rng = np.random.default_rng(0)
    for _ in range(updates):
        learner.update(own(decisions(rng)))
    return learner


@pytest.mark.slow
def test_better_than_expected_is_played_and_without_the_condition_anything_is() -> None:
    told, not_told = trained(positive_share=0.1), trained(condition_dropout=1.0)
    assert distance(told) < 0.4
    assert distance(not_told) > 0.6  # uniform data: .76
    rows = own(decisions(np.random.default_rng(9), rows=2000))
    assert float(told.value(rows.features, rows.proprio).mean()) == pytest.approx(float(rows.reward.mean()), abs=0.3)
    above = (rows.reward - told.value(rows.features, rows.proprio)) > told.threshold
    assert float(above.float().mean()) == pytest.approx(0.1, abs=0.06)


def test_an_advantage_is_the_td_error_of_the_value_function() -> None:
    learner = make("recap", SPEC, chunk=3)
    rows = batch(5, SPEC, 3)
    with torch.no_grad(), fast("cpu"):
        wanted = rows.reward + rows.discount * learner.target(rows.next_features, rows.next_proprio)
        wanted = wanted - learner.value(rows.features, rows.proprio)
        loss = float(wanted.square().mean())
    advantage, metrics = learner._update_value(rows, learner.vision.see(rows))
    torch.testing.assert_close(advantage, wanted)
    assert float(metrics["value_loss"]) == pytest.approx(loss, rel=1e-5)


def test_an_operators_step_is_always_good_and_the_threshold_follows_the_policys_own() -> None:
    learner = make("recap", SPEC, chunk=3, positive_share=0.25)
    rows = batch(1, SPEC, 3)
    low = torch.full((len(rows.reward),), -5.0)
    shown = own(rows, expert=True)
    corrections_of_the_online_pool = replace(shown, expert=torch.zeros_like(shown.expert), proposed=-shown.action)
    for by_hand in (shown, corrections_of_the_online_pool):
        assert learner._judge(by_hand, low).all()
        assert float(learner.threshold) == 0.0  # nothing of its own was judged
    assert not learner._judge(own(rows), low).any()
    assert float(learner.threshold) == pytest.approx(-0.25 * THRESHOLD_STEP)
    assert learner._judge(own(rows), -low).all()
    assert float(learner.threshold) == pytest.approx(-0.25 * THRESHOLD_STEP + 0.75 * THRESHOLD_STEP)


def test_a_demonstration_that_failed_is_judged_like_the_policys_own_steps() -> None:
    learner = make("recap", SPEC, chunk=3, positive_share=0.25)
    rows = batch(1, SPEC, 3)
    failed = replace(own(rows, expert=True), expert=torch.zeros_like(rows.expert), proposed=rows.action)
    assert not learner._judge(failed, torch.full((len(rows.reward),), -5.0)).any()
    assert learner._judge(failed, torch.full((len(rows.reward),), 5.0)).all()
    assert float(learner.threshold) == pytest.approx((0.75 - 0.25) * THRESHOLD_STEP)


def test_the_flow_is_told_what_was_judged_and_clones_what_was_done() -> None:
    learner = make("recap", SPEC, chunk=3, condition_dropout=0.0)
    for number in range(3):
        learner.update(batch(number, SPEC, 3))
    rows = own(batch(7, SPEC, 3))
    twin = make("recap", SPEC, chunk=3, condition_dropout=0.0)
    twin.load_state_dict(learner.state_dict())
    advantage, _ = twin._update_value(rows, twin.vision.see(rows))
    worth = torch.where(twin._judge(rows, advantage), BETTER, WORSE)[:, None]
    assert worth.unique().tolist() == [WORSE, BETTER]
    twin._draw(torch.rand, len(worth), 1)  # the dropout's
    noise, time = twin.noise(len(worth)), twin._draw(torch.rand, len(worth), 1)
    with torch.no_grad(), fast("cpu"):
        state = twin.policy.told(rows.features, rows.proprio, worth)
        velocity = twin.policy.field(state, on_line(noise, rows.action, time), time)
        count = torch.tensor(float(len(worth)))
        wanted = flow_loss(velocity, noise, rows.action, rows.label.float(), torch.ones(len(worth)), count)
    assert float(learner.update(rows)["actor_loss"]) == pytest.approx(float(wanted), rel=1e-5)


def test_it_acts_as_one_that_does_better() -> None:
    policy = make("recap", SPEC, chunk=3).published
    rows = batch(2, SPEC, 3)
    state = policy.state(rows.features, rows.proprio)
    assert torch.equal(state[:, -1], torch.full((len(state),), BETTER))
    assert state.shape[1] == policy.encoder.size + 1


def test_one_that_is_never_told_acts_on_what_it_has_learned() -> None:
    policy = make("recap", SPEC, chunk=3, condition_dropout=1.0).published
    rows = batch(2, SPEC, 3)
    assert torch.equal(policy.state(rows.features, rows.proprio)[:, -1], torch.full((len(rows.reward),), NOT_TOLD))


def test_values_are_of_whole_precision_also_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAST_BF16, "cpu", True)
    value, rows = make("recap", SPEC, chunk=3).value, batch(2, SPEC, 3)
    with fast("cpu"):
        found = value(rows.features, rows.proprio)
    assert found.dtype == torch.float32
    assert not torch.equal(found, found.bfloat16().float())
