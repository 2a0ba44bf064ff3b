"""The discount that grows with what is mastered: against a slow longest increasing subsequence, and known episodes."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.replay.discount import ALPHA, DiscountSchedule, rises_until
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule, monte_carlo, returns
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.replay.recorded import header_of, small_spec, steps_of

STEADY = np.linspace(0.0, 1.0, 41)
"""Φ of a demonstration of 40 ticks."""
FINAL = 0.97


def longest_rise(values: list[int]) -> int:
    """By trying all subsequences."""
    for size in range(len(values), 1, -1):
        for chosen in combinations(values, size):
            if all(a < b for a, b in pairwise(chosen)):
                return size
    return min(1, len(values))


@pytest.mark.long
@given(st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_rises_are_the_longest_increasing_subsequences_of_all_beginnings(values: list[int]) -> None:
    assert rises_until(np.array(values)).tolist() == [longest_rise(values[: i + 1]) for i in range(len(values))]


def schedule(*demonstrations: np.ndarray) -> DiscountSchedule:
    return DiscountSchedule(demonstrations or [STEADY], FINAL)


def test_the_discount_grows_by_a_twentieth_of_the_demonstration_with_each_episode_that_follows_it() -> None:
    made = schedule()
    assert made.mastered == 2
    found = [made.gamma]
    while not made.complete:
        made.add_episode(STEADY, done_alone=False)
        found.append(made.gamma)
    assert found[:3] == pytest.approx([ALPHA ** (1 / 2), ALPHA ** (1 / 4), ALPHA ** (1 / 6)])
    assert found == sorted(found)
    assert len(found) == 20
    assert found[-1] == FINAL
    made.add_episode(STEADY, done_alone=True)
    assert made.mastered == 40


@pytest.mark.parametrize(
    "phi",
    [
        np.zeros(80),
        np.linspace(0.0, 1e-3, 80),  # the arm stands still, and Φ drifts
        np.random.default_rng(0).normal(0.0, 0.01, 80),  # or trembles
        STEADY[::-1],
        np.concatenate([STEADY[:2], np.full(30, STEADY[1])]),
    ],
)
def test_an_episode_that_stands_still_or_goes_astray_adds_nothing(phi: np.ndarray) -> None:
    made = schedule()
    for _ in range(5):
        made.add_episode(phi, done_alone=False)
    assert made.mastered <= 3


def test_ticks_behind_a_take_over_are_not_mastered() -> None:
    made = schedule()
    for _ in range(5):
        made.add_episode(STEADY[:5], done_alone=False)
    assert made.mastered == 4


def test_a_policy_that_is_quicker_than_its_demonstrations_masters_all_of_them() -> None:
    quick = np.linspace(0.0, 1.0, 21)
    helped, alone = schedule(), schedule()
    for _ in range(25):
        helped.add_episode(quick, done_alone=False)
        alone.add_episode(quick, done_alone=True)
    assert not helped.complete
    assert alone.complete


def test_a_tenth_of_the_rises_may_be_missing() -> None:
    noisy = STEADY.copy()
    noisy[10:40:10] = 0.0
    made = schedule()
    for _ in range(40):
        made.add_episode(noisy, done_alone=False)
    assert made.complete


def test_the_final_discount_is_never_exceeded() -> None:
    made = DiscountSchedule([STEADY], 0.5)
    assert made.gamma == ALPHA**0.5
    made.add_episode(STEADY, done_alone=False)
    assert made.gamma == 0.5


def test_several_demonstrations_are_judged_by_their_median() -> None:
    long, short = np.linspace(0, 1, 61), np.linspace(0, 1, 21)
    assert schedule(long, STEADY, short).mastered == 2
    assert schedule(long).mastered == 3
    assert schedule(np.linspace(0, 1, 3)).mastered == 1


def worth_of_the_beginning(rule: RewardRule, gamma: float) -> np.ndarray:
    """Q(go on) - Q(stay) along a chain of 40 ticks whose Φ rises evenly, by value iteration."""
    phi = np.append(STEADY[:-1], np.nan)
    here = np.arange(40)
    values = np.zeros(41)
    for _ in range(500):
        q = []
        for there in (here + 1, here):
            outcome = np.where(there == 40, Outcome.SUCCESS, Outcome.OPEN)
            reward, discount = returns(
                rule, gamma, steps=np.ones(40, np.int64), outcome=outcome, phi=phi[here], next_phi=phi[there]
            )
            q.append(reward.astype(np.float64) + discount * values[there])
        values[:40] = np.maximum(*q)
    return np.asarray(q[0] - q[1])


@pytest.mark.long
@pytest.mark.parametrize("mastered", [2, 10])
def test_at_a_low_discount_the_beginning_pays_only_if_shaping_keeps_the_final_one(mastered: int) -> None:
    gamma = ALPHA ** (1 / mastered)
    kept, lowered = RewardRule(shaping_discount=FINAL), RewardRule()
    assert worth_of_the_beginning(kept, gamma)[:10].min() > 0.01
    assert worth_of_the_beginning(lowered, gamma)[0] < 0.002
    np.testing.assert_allclose(worth_of_the_beginning(kept, FINAL), worth_of_the_beginning(lowered, FINAL), atol=1e-6)


def test_what_was_paid_in_the_end_is_not_told_before_the_discounts_are_one() -> None:
    told = {"steps": np.array([4]), "outcome": np.array([Outcome.SUCCESS]), "phi": np.array([0.25])}
    rule = RewardRule(shaping_discount=FINAL)
    assert np.isnan(monte_carlo(rule, 0.5, **told)).all()
    np.testing.assert_array_equal(monte_carlo(rule, FINAL, **told), monte_carlo(RewardRule(), FINAL, **told))


def test_a_replay_tells_the_potentials_of_the_policys_own_frames() -> None:
    replay = Replay(small_spec())
    replay.activate_scores("v")
    names = ("000000-demo", "000001-online", "000002-online")
    for name in names:
        replay.begin(header_of(name, EpisodeKind.DEMO if "demo" in name else EpisodeKind.ONLINE))
        sources = [Source.HUMAN if "demo" in name else Source.POLICY] * 6
        if name == "000001-online":
            sources[3] = Source.HUMAN
        for step in steps_of(small_spec(), name, sources, EndReason.SUCCESS):
            replay.add_step(step)
    phi = np.linspace(0, 0.5, 7).astype(np.float32)
    before = replay.revision
    for name in names:
        replay.add_scores(EpisodeScores(episode_id=name, version="in waiting", progress=phi, success=phi))
    assert replay.revision == before
    for name in names:
        replay.add_scores(EpisodeScores(episode_id=name, version="v", progress=phi, success=phi))
    assert replay.revision > before
    found = {each.header.episode_id: (len(each.phi), each.alone) for each in replay.potentials()}
    assert found == {names[0]: (7, False), names[1]: (4, False), names[2]: (7, True)}
    assert {each.outcome for each in replay.potentials()} == {Outcome.SUCCESS}
    before = replay.revision
    replay.add_label(Label(episode_id=names[2], verdict=Verdict.DISCARD, source=LabelSource.OPERATOR, stamp_unix_s=1.0))
    assert replay.revision > before
    assert [each.header.episode_id for each in replay.potentials()] == list(names[:2])
    replay.activate_scores("other")
    assert replay.potentials() == []
