"""A served base is steered by its noise: what it made of which noise is taken from what was recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from policies.dsrl.on_base import DSRLOnBaseLearner
from policies.learner import ChoosesNoise, TensorBatch
from policies.registry import ALGORITHMS
from robot_stack.types.errors import ConfigError
from tests.policies.small_task import FEATURES, PROPRIO, SPEC, flat
from tests.policies.test_all_algorithms import NOISE, batch, make, sized

SIZES = sized("dsrl_on_base", SPEC)
TICKS = PROPRIO + NOISE
"""Place of the ticks for which a chunk has been playing."""
BEST = 0.5


def learner_of(**settings: Any) -> DSRLOnBaseLearner:
    learner = make("dsrl_on_base", **{"chunk": 2} | settings)
    assert isinstance(learner, DSRLOnBaseLearner)
    return learner


def rows_of(chunk: int, number: int = 0) -> TensorBatch:
    return batch(number, SIZES, chunk)


def acted(rows: TensorBatch, after: float, *, at: float = 0.0) -> TensorBatch:
    """The rows as if the policy had acted, with counts of ticks at o and o', and none of them at the end of a task."""
    seen, then = rows.proprio.clone(), rows.next_proprio.clone()
    seen[:, TICKS], then[:, TICKS] = at, after
    goes_on = torch.full_like(rows.discount, 0.9)
    acting = torch.zeros_like(rows.human)
    return replace(rows, human=acting, proposed=rows.action, proprio=seen, next_proprio=then, discount=goes_on)


@pytest.mark.parametrize(
    ("at", "after", "known"),
    [
        (0, 3, True),  # one chunk, that goes on
        (2, 5, True),
        (0, -3, True),  # one chunk, that was played to its end
        (2, -5, True),
        (-4, 3, True),  # that has just taken over
        (-4, -3, True),
        (2, -3, False),  # two took over since
        (0, -2, False),
        (0, 1, False),  # one took over in between
        (2, 2, False),
        (1, 0, False),
    ],
)
def test_a_row_tells_of_noise_if_one_chunk_was_played_all_along(at: int, after: int, known: bool) -> None:
    learner = learner_of(chunk=3)
    assert learner._known(acted(rows_of(3), after, at=at)).tolist() == [known] * 16


def test_a_correction_tells_what_was_proposed_a_demonstration_tells_nothing() -> None:
    learner, rows = learner_of(chunk=2), acted(rows_of(2), 2)
    driven = replace(rows, human=torch.ones_like(rows.human))
    assert not learner._known(driven).any()  # recorded as proposed is what the operator did
    assert learner._known(replace(driven, proposed=-rows.action)).all()
    half = torch.cat([rows.action[:, : SPEC.actions], -rows.action[:, SPEC.actions :]], dim=1)
    assert not learner._known(replace(driven, proposed=half)).any()  # its first tick is not known
    taken = torch.tensor([[False, True]]).expand(16, 2)
    assert learner._known(replace(rows, human=taken, proposed=half)).all()  # by the policy, then corrected


def test_an_entry_that_is_not_what_was_proposed_makes_a_row_unknown() -> None:
    learner, rows = learner_of(chunk=2), acted(rows_of(2), 2)
    label = rows.label.clone()
    label[3, :2] = False  # at rest in a hand: the gripper alone has a label
    label[5, 1] = False  # a gripper that was not pressed while the arm was corrected
    human = rows.human.clone()
    human[5] = True
    known = learner._known(replace(rows, label=label, human=human, proposed=-rows.action)).tolist()
    assert known == [row not in (3, 5) for row in range(16)]


def test_ticks_past_the_end_of_a_task_ask_for_nothing_those_of_an_episode_cut_short_are_not_known() -> None:
    learner, rows = learner_of(chunk=2), acted(rows_of(2), 1, at=0)  # the second tick is past the end
    label = rows.label.clone()
    label[:, SPEC.actions :] = False
    ends = torch.zeros_like(rows.discount)
    assert learner._known(replace(rows, label=label, discount=ends)).all()
    assert not learner._known(replace(rows, label=label)).any()  # it stood still in the second tick
    later = rows.next_proprio.clone()
    later[:, TICKS] = 2
    assert not learner._known(replace(rows, label=label, discount=ends, next_proprio=later)).any()


def test_the_target_is_the_least_value_of_the_noise_that_the_actor_asks_for_at_the_next_frame() -> None:
    learner, rows = learner_of(), rows_of(2)
    asked: list[tuple[Tensor, ...]] = []

    def answer(critic: nn.Module, inputs: tuple[Tensor, ...], found: Tensor) -> Tensor:
        asked.append(inputs)
        return torch.tensor([[3.0], [-2.0]]).expand(2, len(inputs[2]))

    learner.target.register_forward_hook(answer)
    found = learner.update(rows)
    wanted = rows.reward + rows.discount * -2.0
    assert float(found["target_q"]) == pytest.approx(float(wanted.mean()), rel=1e-5)
    ((features, proprio, noise),) = asked
    torch.testing.assert_close(features, rows.next_features)
    torch.testing.assert_close(proprio, rows.next_proprio[:, :PROPRIO])  # of what is sensed alone
    assert noise.shape == (16, NOISE)
    assert noise.abs().max() <= learner.config.noise_bound


def test_noise_is_valued_by_what_the_base_made_of_it_and_by_nothing_else() -> None:
    first, other = learner_of(), learner_of()
    rows = acted(rows_of(2), 2)
    unknown = torch.arange(16) % 2 == 0
    after = torch.where(
        unknown[:, None], rows.next_proprio.index_fill(1, torch.tensor([TICKS]), 1.0), rows.next_proprio
    )
    rows = replace(rows, next_proprio=after)
    elsewhere = rows.proprio.clone()
    elsewhere[unknown, PROPRIO : PROPRIO + NOISE] = 9.0
    a, b = first.update(rows), other.update(replace(rows, proprio=elsewhere))
    assert a["distil_loss"] == b["distil_loss"]
    assert torch.equal(flat(first.noise_critic), flat(other.noise_critic))
    assert float(a["noise_known"]) == 0.5
    elsewhere[~unknown, PROPRIO : PROPRIO + NOISE] = 9.0
    third = learner_of()
    assert third.update(replace(rows, proprio=elsewhere))["distil_loss"] != a["distil_loss"]


def test_the_distilled_loss_is_the_mean_square_over_known_rows_and_judges() -> None:
    learner, rows = learner_of(learning_rate=1e-9), acted(rows_of(2), 2)  # so that one step changes nothing
    after = rows.next_proprio.clone()
    after[10:, TICKS] = 1
    rows = replace(rows, next_proprio=after)
    sensed, noise = rows.proprio[:, :PROPRIO], rows.proprio[:, PROPRIO : PROPRIO + NOISE]
    with torch.no_grad():
        wanted = learner.critic(rows.features, sensed, rows.action).numpy()
        got = learner.noise_critic(rows.features, sensed, noise).numpy()
    assert wanted.shape == got.shape == (2, 16)
    expected = np.mean((got - wanted)[:, :10] ** 2)
    assert float(learner.update(rows)["distil_loss"]) == pytest.approx(expected, rel=2e-2)  # bf16 where it is fast


def test_what_acts_is_the_proposal_and_the_noise_beside_it_keeps_its_bound() -> None:
    learner, rows = learner_of(noise_bound=0.3), rows_of(1)
    policy = learner.published
    assert isinstance(policy, ChoosesNoise)
    rng = torch.Generator().manual_seed(0)
    for deterministic in (True, False):
        acts = policy.act(rows.features, rows.proprio, tick=3, rng=rng, deterministic=deterministic)
        torch.testing.assert_close(acts, rows.proprio[:, -SPEC.actions :])
    chosen = policy.noise(rows.features, rows.proprio, rng=rng, deterministic=False)
    assert chosen.shape == (16, NOISE)
    assert chosen.abs().max() <= 0.3
    assert not torch.equal(chosen, policy.noise(rows.features, rows.proprio, rng=rng, deterministic=False))
    blind = torch.cat([rows.proprio[:, :PROPRIO], torch.zeros_like(rows.proprio[:, PROPRIO:])], dim=1)
    torch.testing.assert_close(
        policy.noise(rows.features, blind, rng=rng, deterministic=True),
        policy.noise(rows.features, rows.proprio, rng=rng, deterministic=True),
    )  # by what is sensed alone


def base_made(noise: np.ndarray) -> np.ndarray:
    """A base whose every step, of one action, is a bent sum of its noise."""
    return np.tanh(noise.sum(axis=1, keepdims=True)).repeat(2, axis=1).astype(np.float32)


def asked(rng: np.random.Generator, playing: float, rows: int = 64) -> TensorBatch:
    """Chunks of two that the base made of noise from all over, from one state that ends at once.

    Args:
        rng: Draws the noise.
        playing: Ticks for which the chunk at the next frame has been playing.
        rows: How many.
    """
    noise = rng.normal(size=(rows, NOISE)).astype(np.float32)
    action = base_made(noise)
    said = np.concatenate([np.zeros((rows, PROPRIO)), noise, np.zeros((rows, 1)), action[:, :1]], axis=1)
    proprio = torch.from_numpy(said.astype(np.float32))
    after = proprio.clone()
    after[:, TICKS] = playing
    plain = torch.from_numpy(action)
    nothing = torch.zeros(rows, dtype=torch.bool)
    return TensorBatch(
        features=torch.ones(rows, FEATURES),
        proprio=proprio,
        action=plain,
        proposed=plain,
        reward=torch.from_numpy(-2 * np.square(action - BEST).sum(axis=1)),
        discount=torch.zeros(rows),
        next_features=torch.ones(rows, FEATURES),
        next_proprio=after,
        expert=nothing,
        imitation=torch.ones(rows),
        human=torch.zeros(rows, 2, dtype=torch.bool),
        label=torch.ones(rows, 2, dtype=torch.bool),
        gripper_change=torch.zeros(rows, 0, dtype=torch.bool),
        mc_return=torch.full((rows,), torch.nan),
    )


def missed_after(updates: int, playing: float) -> float:
    """How far from the best the base's chunks are, rms, after training on chunks that have been playing so long."""
    algorithm = ALGORITHMS["dsrl_on_base"]
    quick = {"hidden": (64, 64), "head": 8, "learning_rate": 2e-3, "actor_tau": 0.02}
    config = algorithm.config(**quick, target_entropy_per_action=-3.0)
    learner = algorithm.builders().learner(sized("dsrl_on_base", replace(SPEC, actions=1)), config, seed=0)
    assert isinstance(learner, DSRLOnBaseLearner)
    rng = np.random.default_rng(0)
    for _ in range(updates):
        learner.update(asked(rng, playing))
    rows = asked(np.random.default_rng(1), playing)
    with torch.no_grad():
        noise = learner.published.noise(rows.features, rows.proprio, rng=torch.Generator(), deterministic=False)
    return float(np.sqrt(np.square(base_made(noise.numpy()) - BEST).mean()))


@pytest.mark.slow
def test_reward_finds_the_noise_of_which_the_base_makes_the_best_chunk_where_it_is_known_what_was_made_of_it() -> None:
    assert missed_after(0, 2.0) > 0.4
    assert missed_after(800, 2.0) < 0.15
    assert missed_after(800, 1.0) > 0.4  # of chunks that gave way half through nothing is known


def test_a_base_that_draws_its_own_noise_and_a_trained_encoder_are_refused() -> None:
    algorithm = ALGORITHMS["dsrl_on_base"]
    with pytest.raises(ConfigError, match="base draws its own noise, must let it be chosen to be steered"):
        algorithm.builders().learner(SPEC, algorithm.config(), seed=0)
    with pytest.raises(ConfigError, match="encoder is trained end to end, must be frozen beside a base"):
        algorithm.builders().learner(replace(SIZES, trunk=nn.Identity()), algorithm.config(), seed=0)
