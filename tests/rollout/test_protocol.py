"""Help comes by need: where it fails, where it nearly succeeds, and by demonstration only where it never does."""

from __future__ import annotations

import json

import numpy as np
import pytest

from robot_stack.config.run import ProtocolConfig
from robot_stack.rollout.curriculum import InterventionCurriculum
from robot_stack.rollout.episode_runner import Plan
from robot_stack.types.transition import EpisodeKind, ResetType

CONFIG = ProtocolConfig(max_level=3, window=4, below=0.5, demos=2, return_share=0.4, tries=3)


def protocol(**changes: object) -> InterventionCurriculum:
    return InterventionCurriculum(CONFIG.model_copy(update=changes), np.random.default_rng(0))


def train_online(help_: InterventionCurriculum, results: list[bool], first_seed: int) -> None:
    """Episodes from usual starts, whatever was planned."""
    for i, alone in enumerate(results):
        help_.ended(Plan(kind=EpisodeKind.ONLINE, seed=None, level=help_.level), first_seed + i, alone=alone)


def test_a_policy_that_succeeds_is_left_alone() -> None:
    help_ = protocol()
    train_online(help_, [True, False, True, True] * 10, 0)
    assert help_.level == 0
    plan = help_.next()
    assert (plan.kind, plan.seed, plan.reset) == (EpisodeKind.ONLINE, None, ResetType.NOMINAL)


def test_failing_asks_for_demonstrations_where_it_failed_last() -> None:
    help_ = protocol()
    train_online(help_, [True, False, False, False], 10)
    assert help_.level == 1
    plan = help_.next()
    assert (plan.kind, plan.seed, plan.level, plan.reset) == (EpisodeKind.DEMO, 12, 1, ResetType.RETURN)
    help_.ended(plan, 12, alone=True)
    assert help_.next().seed == 13
    help_.ended(help_.next(), 13, alone=True)
    assert help_.next().kind is EpisodeKind.ONLINE


def test_a_demonstration_that_fails_is_asked_for_again_after_the_others() -> None:
    help_ = protocol()
    train_online(help_, [True, False, False, False], 10)
    help_.ended(help_.next(), 12, alone=False)
    assert [help_.next().seed, help_.level] == [13, 1]
    help_.ended(help_.next(), 13, alone=True)
    assert help_.next().seed == 12


def at_level(level: int) -> InterventionCurriculum:
    help_ = protocol()
    for round_ in range(level):
        train_online(help_, [True, False, False, False], 100 * round_)
        while help_.next().kind is EpisodeKind.DEMO:
            help_.ended(help_.next(), -1, alone=True)
    assert help_.level == level
    return help_


def test_return_and_explore_takes_starts_that_are_neither_too_hard_nor_too_easy() -> None:
    help_ = at_level(2)
    back = Plan(kind=EpisodeKind.ONLINE, seed=7, level=2)
    for alone in (False, True, False):
        help_.ended(back, 7, alone=alone)
    for alone in (False, False, False):
        help_.ended(back, 8, alone=alone)
    plans = [help_.next() for _ in range(400)]
    returns = {plan.seed for plan in plans if plan.seed is not None}
    assert 7 in returns
    assert 8 not in returns, "never succeeded in three tries: too hard at this level"
    assert 0 not in returns, "succeeded always: too easy"
    assert 0.3 < np.mean([plan.seed is not None for plan in plans]) < 0.5


def test_a_start_where_it_never_succeeds_is_demonstrated_at_the_last_level_only() -> None:
    for level, asked in ((2, False), (3, True)):
        help_ = at_level(level)
        back = Plan(kind=EpisodeKind.ONLINE, seed=50, level=level)
        for _ in range(CONFIG.tries):
            help_.ended(back, 50, alone=False)
        plan = help_.next()
        assert (plan.kind is EpisodeKind.DEMO and plan.seed == 50) is asked


def test_the_level_stays_within_what_is_allowed() -> None:
    help_ = protocol(max_level=1)
    for round_ in range(5):
        train_online(help_, [False] * 4, 10 * round_)
        while help_.next().kind is EpisodeKind.DEMO:
            help_.ended(help_.next(), -1, alone=True)
    assert help_.level == 1
    assert protocol(max_level=0).level == 0


def test_a_restart_goes_on_with_the_same_plans() -> None:
    help_ = at_level(3)
    state = json.loads(json.dumps(help_.state_dict()))
    again = protocol()
    again.load_state_dict(state)
    assert [again.next() for _ in range(50)] == [help_.next() for _ in range(50)]


@pytest.mark.parametrize("wrong", [{"max_level": 4}, {"below": 0.0}, {"return_share": 0.9}, {"tries": 1}])
def test_rules_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ProtocolConfig(**wrong)  # type: ignore[arg-type]
