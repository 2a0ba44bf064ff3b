"""The next two moments to be compared: unsure ones, of other episodes, never twice, and not where all begin alike."""

from __future__ import annotations

import numpy as np

from robot_stack.datasets.pairs import choose_pair
from robot_stack.types.preferences import Moment


def test_the_pair_is_one_of_whose_order_progress_is_least_sure() -> None:
    progress = {"a": np.linspace(0, 1, 50), "b": np.linspace(0, 1, 30), "c": np.linspace(0, 1, 40)}
    for seed in range(20):
        pair = choose_pair(progress, set(), np.random.default_rng(seed))
        assert pair is not None
        one, other = pair
        assert one.episode_id != other.episode_id
        assert abs(progress[one.episode_id][one.frame] - progress[other.episode_id][other.frame]) < 0.02
        assert all(moment.frame >= 0.1 * (len(progress[moment.episode_id]) - 1) for moment in pair)


def test_no_pair_is_asked_twice_and_other_episodes_come_first() -> None:
    rng, asked = np.random.default_rng(0), set()
    progress = {name: np.full(3, np.nan) for name in "abcd"}
    names = set()
    for number in range(40):
        pair = choose_pair(progress, asked, rng)
        if pair is None:
            break
        assert frozenset(pair) not in asked
        asked.add(frozenset(pair))
        if number < 2:
            names |= {moment.episode_id for moment in pair}
    assert names == set("abcd")
    assert len(asked) == 6 * 4, "two frames each of four episodes, the first of each is never asked about"


def test_frames_of_a_single_episode_are_apart_and_without_any_there_is_no_pair() -> None:
    pair = choose_pair({"a": np.full(20, np.nan)}, set(), np.random.default_rng(0))
    assert pair is not None
    assert abs(pair[0].frame - pair[1].frame) >= 4
    assert choose_pair({}, set(), np.random.default_rng(0)) is None
    assert choose_pair({"a": np.zeros(1)}, set(), np.random.default_rng(0)) is None
    both = frozenset((Moment(episode_id="a", frame=1), Moment(episode_id="b", frame=1)))
    assert choose_pair({"a": np.zeros(2), "b": np.zeros(2)}, {both}, np.random.default_rng(0)) is None
