"""The discount that grows with what is mastered: against a slow longest increasing subsequence, and known episodes."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.replay.discount import ALPHA, DiscountSchedule, rises_until
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EpisodeKind
from tests.replay.recorded import header_of, small_spec, steps_of

STEADY = np.linspace(0.0, 1.0, 41)
"""Φ of a demonstration of 40 ticks."""


def longest_rise(values: list[int]) -> int:
    """By trying all subsequences."""
    for size in range(len(values), 1, -1):
        for chosen in combinations(values, size):
            if all(a < b for a, b in pairwise(chosen)):
                return size
    return min(1, len(values))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_rises_are_the_longest_increasing_subsequences_of_all_beginnings(values: list[int]) -> None:
    found = rises_until(np.array(values, np.float64))
    assert found.tolist() == [longest_rise(values[: i + 1]) for i in range(len(values))]


def test_the_discount_grows_by_a_twentieth_of_the_demonstration_with_each_episode_that_follows_it() -> None:
    schedule = DiscountSchedule([STEADY], most=0.97)
    assert schedule.mastered == 2
    found = [schedule.gamma]
    while not schedule.complete:
        schedule.see(STEADY)
        found.append(schedule.gamma)
    assert found[:3] == pytest.approx([ALPHA ** (1 / 2), ALPHA ** (1 / 4), ALPHA ** (1 / 6)])
    assert found == sorted(found)
    assert len(found) == 20
    assert found[-1] == 0.97


def test_an_episode_that_stands_still_or_goes_astray_adds_nothing() -> None:
    schedule = DiscountSchedule([STEADY], most=0.97)
    for phi in (np.zeros(80), STEADY[::-1], np.concatenate([STEADY[:2], np.full(30, STEADY[1])]), np.empty(0)):
        schedule.see(phi)
        assert schedule.mastered == 2
    for _ in range(3):  # the policy was alone for 4 ticks: what came after says nothing of it, but for a tenth
        schedule.see(STEADY[:5])
    assert schedule.mastered == 5


def test_a_tenth_of_the_rises_may_be_missing() -> None:
    noisy = STEADY.copy()
    noisy[10:40:10] = 0.0
    schedule = DiscountSchedule([STEADY], most=0.97)
    for _ in range(40):
        schedule.see(noisy)
    assert schedule.complete


def test_the_configured_discount_is_never_exceeded() -> None:
    schedule = DiscountSchedule([STEADY], most=0.5)
    assert schedule.gamma == ALPHA**0.5
    schedule.see(STEADY)
    assert schedule.gamma == 0.5


def test_several_demonstrations_are_judged_by_their_median() -> None:
    long, short = np.linspace(0, 1, 61), np.linspace(0, 1, 21)
    assert DiscountSchedule([long, STEADY, short], most=0.97).mastered == 2
    assert DiscountSchedule([long], most=0.97).mastered == 3
    assert DiscountSchedule([np.linspace(0, 1, 3)], most=0.97).mastered == 1


def test_a_replay_tells_the_potentials_of_the_policys_own_frames() -> None:
    replay = Replay(small_spec())
    replay.activate_scores("v")
    kinds = {"000000-demo": EpisodeKind.DEMO, "000001-online": EpisodeKind.ONLINE, "000002-online": EpisodeKind.ONLINE}
    for name, kind in kinds.items():
        replay.begin(header_of(name, kind))
    unchanged = replay.changes
    for name in kinds:
        sources = [Source.HUMAN if "demo" in name else Source.POLICY] * 6
        if name == "000001-online":
            sources[3] = Source.HUMAN
        for step in steps_of(small_spec(), name, sources):
            replay.add_step(step)
    assert replay.changes == unchanged
    for name in kinds:
        phi = np.linspace(0, 0.5, 7).astype(np.float32)
        replay.add_scores(EpisodeScores(episode_id=name, version="v", progress=phi, success=phi))
    assert replay.changes != unchanged
    found = {header.episode_id: len(phi) for header, phi in replay.potentials()}
    assert found == {"000000-demo": 7, "000001-online": 4, "000002-online": 7}
    label = Label(episode_id="000002-online", verdict=Verdict.DISCARD, source=LabelSource.OPERATOR, stamp_unix_s=1.0)
    before = replay.changes
    replay.add_label(label)
    assert replay.changes != before
    assert [header.episode_id for header, _ in replay.potentials()] == ["000000-demo", "000001-online"]
    replay.activate_scores("other")
    assert list(replay.potentials()) == []
