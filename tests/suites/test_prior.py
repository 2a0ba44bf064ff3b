"""Recorded trajectories as prior data: cut at successes, rewarded like a run, half of each batch."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from policies.learner import TensorBatch
from policies.rlpd.learner import RLPDLearner
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.suites.gymnasium_cell import GymnasiumCell, spec_of
from robot_stack.suites.prior import prior_replay
from robot_stack.suites.training import Budget, LockstepTraining
from robot_stack.types.errors import SpecError
from tests.suites.point_mass import LONGEST
from tests.suites.test_training import CONFIG

GAMMA = 0.9
RULE = RewardRule(success=1.0, step_penalty=1.0, shaping=0.0)
SPEC = spec_of(spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Box(-1.0, 1.0, (3,), np.float32))
LENGTHS = (12, 9, 1, 15)
DONE = (3, 4, 17, 35)
"""Rows whose action was the task's last: two in a row, one in the middle, and one just before the end."""


def recorded(lengths=LENGTHS, done=DONE) -> dict[str, np.ndarray]:
    """Trajectories whose observation tells its row."""
    count = sum(lengths)
    arrays: dict[str, np.ndarray] = {
        "observations": np.stack([np.arange(count), np.zeros(count)], axis=1).astype(np.float64),
        "actions": np.linspace(-1.0, 1.0, count * 3).reshape(count, 3).astype(np.float32),
        "masks": np.ones(count, np.float32),
        "terminals": np.zeros(count, np.float32),
    }
    arrays["masks"][list(done)] = 0.0
    arrays["terminals"][np.cumsum(lengths) - 1] = 1.0
    return arrays


def by_hand(arrays: dict[str, np.ndarray], n_step: int) -> dict[int, tuple[float, float, int]]:
    """Row -> reward, discount and row after it, by the definition."""
    found = {}
    for row in range(len(arrays["masks"])):
        reward, discount, at = 0.0, 1.0, row
        for _ in range(n_step):
            if arrays["terminals"][at]:
                break
            over = arrays["masks"][at] == 0.0
            reward += discount * (0.0 if over else -1.0)
            discount *= GAMMA
            at += 1
            if over:
                discount = 0.0
                break
        if at > row:
            found[row] = (reward, discount, at)
    return found


@pytest.mark.parametrize("n_step", [1, 4])
def test_every_recorded_transition_is_drawn_with_the_reward_that_its_definition_gives(n_step: int) -> None:
    arrays = recorded()
    batch = prior_replay(SPEC, RULE, arrays).sample(
        np.random.default_rng(0), 3000, gamma=GAMMA, expert_fraction=0.0, n_step=n_step
    )
    wanted = by_hand(arrays, n_step)
    rows = batch.proprio[:, 0].astype(int)
    assert set(rows) == set(wanted)
    for index, row in enumerate(rows):
        reward, discount, at = wanted[row]
        assert batch.reward[index] == pytest.approx(reward, abs=1e-5)
        assert batch.discount[index] == pytest.approx(discount, abs=1e-6)
        assert batch.next_proprio[index, 0] == at
        assert np.array_equal(batch.action[index], arrays["actions"][row])


def regular(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As OGBench's `load_dataset` returns them: no last row, but what followed beside each row."""
    kept = arrays["terminals"] == 0
    told = {name: each[kept] for name, each in arrays.items()}
    told["next_observations"] = arrays["observations"][np.flatnonzero(kept) + 1]
    told["terminals"] = arrays["terminals"][np.flatnonzero(kept) + 1]
    return told


def compact(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """As it returns them with `compact_dataset=True`."""
    ends = arrays["terminals"]
    return {**arrays, "valids": 1.0 - ends, "terminals": np.minimum(ends + np.append(ends[1:], 1.0), 1.0)}


@pytest.mark.parametrize("layout", [regular, compact])
def test_each_layout_of_ogbench_has_the_same_transitions(layout) -> None:
    arrays = recorded()
    drawn = [
        prior_replay(SPEC, RULE, each).sample(np.random.default_rng(0), 500, gamma=GAMMA, expert_fraction=0.0, n_step=4)
        for each in (arrays, layout(arrays))
    ]
    for name in ("proprio", "action", "reward", "discount", "next_proprio"):
        assert np.array_equal(getattr(drawn[0], name), getattr(drawn[1], name)), name


def test_a_chunk_ends_at_a_success_and_never_runs_into_the_next_trajectory() -> None:
    arrays = recorded()
    batch = prior_replay(SPEC, RULE, arrays).sample(
        np.random.default_rng(0), 2000, gamma=GAMMA, expert_fraction=0.0, n_step=4, chunk=4
    )
    before = np.roll(batch.action.reshape(-1, 4, 3)[:, 0], 1, axis=0)
    rows = zip(batch.proprio[:, 0], batch.action, batch.next_proprio[:, 0], before, strict=True)
    for row, actions, at, filler in rows:
        made = int(at - row)
        inside = arrays["actions"][int(row) : int(at)]
        assert np.array_equal(actions.reshape(4, 3)[:made], inside)
        assert (actions.reshape(4, 3)[made:] == filler).all()
        assert not arrays["terminals"][int(row) : int(at)].any()
        assert arrays["masks"][int(row) : int(at) - 1].all()


def spoilt(**changes: np.ndarray) -> dict[str, np.ndarray]:
    return recorded() | changes


NOT_FINITE = recorded()["observations"].copy()
NOT_FINITE[7, 1] = np.nan
UNFINISHED = recorded()["terminals"].copy()
UNFINISHED[-1] = 0.0


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({name: part for name, part in recorded().items() if name != "masks"}, r"must have \['masks'\] too"),
        (spoilt(observations=np.zeros((37, 3))), r"shape of observations is \(37, 3\), must be \(37, 2\)"),
        (spoilt(actions=np.zeros((37, 2))), r"shape of actions is \(37, 2\), must be \(37, 3\)"),
        (spoilt(observations=NOT_FINITE), "observations of row 7 are .* must be finite"),
        (spoilt(actions=recorded()["actions"] * 3), "largest action is 3.0, must be at most 1"),
        (spoilt(terminals=UNFINISHED), "cut the unfinished trajectory off"),
        ({name: part[:0] for name, part in recorded().items()}, "terminals do not end with true"),
        (spoilt(timeouts=np.zeros(37)), "arrays have 'timeouts', as D4RL's do"),
        (spoilt(timeouts=np.zeros(37), next_observations=np.zeros((37, 2))), "arrays have 'timeouts', as D4RL's do"),
        (spoilt(valids=np.zeros(36)), "lengths of the prior data are .*'valids': 36}, must be the same"),
        (spoilt(masks=1.0 - recorded()["terminals"]), "repeat the last observation behind each success"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arrays: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        prior_replay(SPEC, RULE, arrays)


MARK = 77.0


def marked_play(cell: GymnasiumCell) -> Replay:
    """Play whose first number is one that the environment never shows."""
    rng, count = np.random.default_rng(0), 400
    arrays = {
        "observations": rng.uniform(-1, 1, (count, cell.spec.proprio_size)),
        "actions": rng.uniform(-1, 1, (count, cell.spec.action_size)),
        "masks": np.ones(count),
        "terminals": np.arange(count) % 20 == 19,
    }
    arrays["observations"][:, 0] = MARK
    return prior_replay(cell.spec, RewardRule(shaping=0.0), arrays)


@pytest.mark.parametrize("change", [{"demos": 1}, {"random_steps": 9}, {"pretrain_updates": 3}, {}])
def test_a_budget_that_leaves_nothing_for_the_other_half_is_refused(change: dict[str, int]) -> None:
    cell = GymnasiumCell(gymnasium.make("tests/PointMass-v0"))
    wanted = {"demos": 0, "random_steps": 10, "pretrain_updates": 0} | change
    budget = Budget(
        demos=wanted["demos"], online_steps=90, random_steps=wanted["random_steps"], episode_steps=LONGEST,
        eval_every=1000, eval_episodes=1,
    )  # fmt: skip
    config = CONFIG.model_copy(update={"chunk": 5, "pretrain_updates": wanted["pretrain_updates"]})
    if change:
        with pytest.raises(SpecError, match="must be 0, 0 and at least 10 with prior data"):
            LockstepTraining(cell, config, budget, seed=0, prior=marked_play(cell))
    else:
        LockstepTraining(cell, config, budget, seed=0, prior=marked_play(cell)).run()


def test_half_of_each_batch_is_prior_data_and_nothing_is_updated_in_random_steps(monkeypatch) -> None:
    cell = GymnasiumCell(gymnasium.make("tests/PointMass-v0"))
    budget = Budget(demos=0, online_steps=90, random_steps=60, episode_steps=LONGEST, eval_every=1000, eval_episodes=1)
    config = CONFIG.model_copy(update={"batch_size": 16, "expert_fraction": 0.0})
    training = LockstepTraining(cell, config, budget, seed=0, prior=marked_play(cell))
    at, shares = [], []
    update = RLPDLearner.update

    def watched(learner: RLPDLearner, batch: TensorBatch) -> dict[str, torch.Tensor]:
        at.append(training.online_steps)
        shares.append(float((batch.proprio[:, 0] == MARK).float().mean()))
        return update(learner, batch)

    monkeypatch.setattr(RLPDLearner, "update", watched)
    training.run()
    assert at == list(range(61, 91))
    assert set(shares) == {0.5}
