"""Goals that are relabelled: what a batch holds then, against the definition, row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.replay.hindsight import Hindsight
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.types.batch import Batch
from robot_stack.types.command import Source
from robot_stack.types.spec import ProprioField
from robot_stack.types.transition import EndReason
from tests.replay.recorded import header_of, small_spec, steps_of

GOAL, PLACE = slice(0, 2), slice(2, 4)
SPEC = replace(small_spec(), proprio=(ProprioField(name="goal", size=2), ProprioField(name="place", size=2)))
WITHIN, GAMMA = 0.25, 0.9
ENDS = [None, EndReason.SUCCESS, EndReason.FAILURE, EndReason.TIMEOUT]
Path = list[tuple[float, float]]


def recorded(paths: list[Path], ends: list[EndReason | None], share: float) -> Replay:
    """Two or more episodes whose frames arrive in turn; of number n the goal is (-1 - n, -1 - n), out of reach."""
    hindsight = Hindsight(share=share, desired=GOAL, achieved=PLACE, within=WITHIN)
    replay = Replay(SPEC, RewardRule(shaping=0.0), keep_images=False, hindsight=hindsight)
    turns = []
    for number, (path, end) in enumerate(zip(paths, ends, strict=True)):
        replay.begin(header_of(str(number)))
        count = len(path) - (end is not None)
        for step in steps_of(small_spec(), str(number), [Source.POLICY] * count, end):
            told = np.array([-1 - number, -1 - number, *path[step.index]], np.float32)
            turns.append(replace(step, observation=replace(step.observation, proprio=told)))
    for step in sorted(turns, key=lambda step: step.index):
        replay.add_step(step)
    return replay


def drawn(replay: Replay, size: int = 400, **options: int) -> Batch:
    return replay.sample(np.random.default_rng(0), size, gamma=GAMMA, expert_fraction=0.0, **options)


places = st.tuples(st.floats(0, 1, width=32), st.floats(0, 1, width=32))
episodes = st.lists(st.tuples(st.lists(places, min_size=2, max_size=9), st.sampled_from(ENDS)), min_size=1, max_size=3)


@pytest.mark.long
@settings(deadline=None)
@given(episodes, st.integers(1, 4))
def test_each_row_is_a_way_to_its_goal_as_defined(told: list[tuple[Path, EndReason | None]], n_step: int) -> None:
    paths, ends = [path for path, _ in told], [end for _, end in told]
    batch = drawn(recorded(paths, ends, 0.7), 60, n_step=n_step)
    for row in range(60):
        number, t = int(batch.episode[row]), int(batch.frame[row])
        path, goal = np.array(paths[number], np.float32), batch.proprio[row, GOAL]
        np.testing.assert_array_equal(batch.next_proprio[row, GOAL], goal)
        np.testing.assert_array_equal(batch.proprio[row, PLACE], path[t])
        later = path[t + 1 :]
        relabelled = not (goal == -1 - number).all()
        if relabelled:
            assert (later == goal).all(axis=1).any(), "a goal that was reached later"
            assert np.isnan(batch.mc_return[row])
        near = np.linalg.norm(later - goal, axis=1) <= WITHIN
        there = 1 + int(near.argmax()) if relabelled and near.any() else len(path)
        made = min(n_step, len(later), there)
        np.testing.assert_array_equal(batch.next_proprio[row, PLACE], path[t + made])
        last = t + made == len(path) - 1
        failed = last and ends[number] is EndReason.FAILURE
        won = not failed and (made == there if relabelled else last and ends[number] is EndReason.SUCCESS)
        assert batch.reward[row] == pytest.approx(GAMMA ** (made - 1) if won else 0.0)
        assert batch.discount[row] == pytest.approx(0.0 if won or failed else GAMMA**made)


def test_goals_come_from_all_later_frames_alike_and_as_often_as_asked() -> None:
    path = [(float(t), 0.0) for t in range(6)]
    batch = drawn(recorded([path], [EndReason.TIMEOUT], 0.8), 20_000)
    relabelled = batch.proprio[:, 0] >= 0.0
    first = batch.proprio[:, 2] == 0.0
    goals = batch.proprio[first & relabelled, 0]
    assert relabelled.mean() == pytest.approx(0.8, abs=0.02)
    counts = [np.mean(goals == t) for t in range(1, 6)]
    assert counts == pytest.approx([1 / 5] * 5, abs=0.03)


def test_a_chunk_ends_where_the_new_goal_is_reached() -> None:
    path = [(float(t), 0.0) for t in range(8)]
    batch = drawn(recorded([path], [EndReason.TIMEOUT], 0.9), n_step=3, chunk=3)
    goal, at = batch.proprio[:, 0], batch.proprio[:, 2]
    made = np.minimum(3, np.where(goal >= 0, goal - at, 3))
    made = np.minimum(made, 7 - at)
    np.testing.assert_array_equal(batch.next_proprio[:, 2], at + made)
    assert set(made[goal >= 0]) == {1, 2, 3}
    np.testing.assert_array_equal(batch.label.reshape(len(at), 3, -1).any(axis=2).sum(axis=1), made)


def test_without_it_a_draw_is_what_it_was() -> None:
    path = [(float(t), 0.0) for t in range(6)]
    plain = Replay(SPEC, RewardRule(shaping=0.0), keep_images=False)
    plain.begin(header_of("0"))
    for step in steps_of(small_spec(), "0", [Source.POLICY] * 5):
        told = np.array([-1.0, -1.0, *path[step.index]], np.float32)
        plain.add_step(replace(step, observation=replace(step.observation, proprio=told)))
    relabelled = drawn(recorded([path], [EndReason.TIMEOUT], 0.5))
    rows = [
        replay.draw(np.random.default_rng(0), 50, gamma=GAMMA, expert_fraction=0.0).rows
        for replay in (plain, recorded([path], [EndReason.TIMEOUT], 0.5))
    ]
    np.testing.assert_array_equal(*rows)
    assert drawn(plain).proprio[:, 0].max() == -1.0 < relabelled.proprio[:, 0].max()
