"""The vectorised replay equals the obvious one, whatever is recorded and in whatever order it arrives."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.replay.sampling import Draw, gather
from robot_stack.types.batch import Batch
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import Step
from tests.examples import examples
from tests.replay.recorded import TASK, header_of
from tests.replay.slow_replay import (
    SlowEpisode,
    chunk,
    gripper_change,
    human,
    labels,
    mc_return,
    pools,
    proposed,
    transition,
    whole,
)
from tests.replay.synthetic_episodes import (
    FEATURES,
    Item,
    arrivals,
    begin_all,
    expert_share,
    keys,
    recordings,
    take,
    two_handed_spec,
)

pytestmark = pytest.mark.long

SPEC = two_handed_spec()
RULES = st.builds(
    RewardRule,
    success=st.just(1.0),
    failure=st.just(-0.5),
    step_penalty=st.just(0.125),
    shaping=st.sampled_from([0.0, 0.5, 1.0]),
)
GAMMAS = st.sampled_from([0.5, 0.97, 0.999])


def fill(recorded: dict[str, SlowEpisode], arriving: list[Item], rule: RewardRule, *, trunk: bool = False) -> Replay:
    replay = Replay(SPEC, rule, feature_size=FEATURES * trunk, keep_images=not trunk)
    begin_all(replay, recorded)
    for number, item in enumerate(arriving):
        if number == len(arriving) // 2:
            replay.activate_scores("new")
        take(replay, item)
    replay.activate_scores("new")
    return replay


def draw_chunks(
    replay: Replay, recorded: dict[str, SlowEpisode], seed: int, *, gamma: float, fraction: float, length: int
) -> Draw | None:
    """64 chunks of more than one tick; None, and refused, if no row that is drawn for them is whole."""
    rng = np.random.default_rng(seed)
    rows, expert = replay.pools.draw(rng, 64, fraction)
    kept = np.array([whole(recorded[episode_id], t, length) for episode_id, t in keys(replay, rows)])
    rng = np.random.default_rng(seed)
    if not kept.any():
        with pytest.raises(StoreError, match="whole chunks among the rows of a draw are 0, must be 1 or more"):
            replay.draw(rng, 64, gamma=gamma, expert_fraction=fraction, n_step=length, chunk=length)
        return None
    draw = replay.draw(rng, 64, gamma=gamma, expert_fraction=fraction, n_step=length, chunk=length)
    np.testing.assert_array_equal(draw.rows[kept], rows[kept])
    np.testing.assert_array_equal(draw.expert[kept], expert[kept])
    for pool in (expert, ~expert):
        stand_ins = pool & kept if (pool & kept).any() else kept
        assert set(draw.rows[pool & ~kept]) <= set(rows[stand_ins])
        assert set(draw.expert[pool & ~kept]) <= set(expert[stand_ins])
    return draw


def assert_row_equals_slow(
    batch: Batch,
    row: int,
    episode: SlowEpisode,
    t: int,
    *,
    rule: RewardRule,
    gamma: float,
    n_step: int,
    length: int,
    filler: np.ndarray,
) -> None:
    after, reward, discount = transition(episode, t, rule=rule, gamma=gamma, n_step=n_step, chunks=length > 1)
    now, then = episode.steps[t].observation, episode.steps[after].observation
    np.testing.assert_array_equal(batch.proprio[row], now.proprio)
    np.testing.assert_array_equal(batch.next_proprio[row], then.proprio)
    np.testing.assert_array_equal(batch.action[row], chunk(episode, t, length, filler))
    np.testing.assert_array_equal(batch.proposed[row], proposed(episode, t, length, SPEC, filler))
    np.testing.assert_array_equal(batch.gripper_change[row], gripper_change(episode, t, SPEC))
    np.testing.assert_allclose(batch.reward[row], reward, atol=1e-6)
    np.testing.assert_allclose(batch.discount[row], discount, rtol=1e-6)
    np.testing.assert_allclose(batch.mc_return[row], mc_return(episode, t, rule=rule, gamma=gamma), atol=1e-5)
    assert batch.human[row].tolist() == human(episode, t, length)
    assert batch.label[row].tolist() == labels(episode, t, length, SPEC)
    if batch.images is None or batch.next_images is None:
        assert batch.features[row].tolist() == [t] * FEATURES
        assert batch.next_features[row].tolist() == [after] * FEATURES
    else:
        np.testing.assert_array_equal(batch.images["front"][row], now.images["front"])
        np.testing.assert_array_equal(batch.next_images["front"][row], then.images["front"])


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_every_draw_equals_the_slow_reference(choose: st.DataObject) -> None:
    recorded, rule = choose.draw(recordings(SPEC)), choose.draw(RULES)
    gamma, n_step, trunk = choose.draw(GAMMAS), choose.draw(st.integers(1, 5)), choose.draw(st.booleans())
    length = choose.draw(st.sampled_from([1, n_step]))
    replay = fill(recorded, arrivals(choose, recorded, trunk=trunk), rule, trunk=trunk)
    expert, online = pools(recorded)
    assert keys(replay, replay.pools.expert) == expert
    assert keys(replay, replay.pools.online) == online
    if not expert and not online:
        return
    fraction, rng = expert_share(expert), np.random.default_rng(0)
    draw: Draw | None = replay.draw(rng, 64, gamma=gamma, expert_fraction=fraction, n_step=n_step)
    if length > 1:
        draw = draw_chunks(replay, recorded, 0, gamma=gamma, fraction=fraction, length=length)
    if draw is None:
        return
    batch = gather(replay.frames, draw)
    drawn = keys(replay, draw.rows)
    for row, (episode_id, t) in enumerate(drawn):
        assert (episode_id, t) in (expert if batch.expert[row] else online)
        before, at = drawn[row - 1]
        assert_row_equals_slow(
            batch,
            row,
            recorded[episode_id],
            t,
            rule=rule,
            gamma=gamma,
            n_step=n_step,
            length=length,
            filler=recorded[before].action(at).executed,
        )


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_no_transition_and_no_chunk_leaves_its_episode(choose: st.DataObject) -> None:
    recorded = choose.draw(recordings(SPEC))
    length = choose.draw(st.integers(2, 8))
    replay = fill(recorded, arrivals(choose, recorded), RewardRule())
    expert, online = pools(recorded)
    if not expert and not online:
        return
    draw = draw_chunks(replay, recorded, 1, gamma=0.9, fraction=expert_share(expert), length=length)
    if draw is None:
        return
    for (before, t), (after, reached), actions in zip(
        keys(replay, draw.rows), keys(replay, draw.next_rows), draw.action_rows
    ):
        assert before == after
        assert 1 <= reached - t <= length
        assert whole(recorded[before], t, length)
        made = actions[actions >= 0]
        assert keys(replay, made) == [(before, t + k) for k in range(reached - t)]
        assert (actions[len(made) :] == -1).all()


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_bootstrap_goes_on_exactly_where_the_task_has_not_ended(choose: st.DataObject) -> None:
    recorded = choose.draw(recordings(SPEC))
    replay = fill(recorded, arrivals(choose, recorded), RewardRule())
    expert, online = pools(recorded)
    if not expert and not online:
        return
    draw = replay.draw(np.random.default_rng(1), 64, gamma=0.9, expert_fraction=expert_share(expert))
    for (episode_id, t), discount in zip(keys(replay, draw.rows), draw.discount):
        episode = recorded[episode_id]
        over = t == len(episode.steps) - 2 and episode.success() is not None
        assert discount == (0.0 if over else np.float32(0.9))


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.integers(1, 300), st.floats(0, 1))
def test_the_mix_of_a_batch_is_exact(choose: st.DataObject, size: int, fraction: float) -> None:
    recorded = choose.draw(recordings(SPEC))
    replay = fill(recorded, arrivals(choose, recorded), RewardRule())
    expert, online = pools(recorded)
    wanted = round(size * fraction) if online else size
    if not (online or expert) or (wanted and not expert):
        return
    draw = replay.draw(np.random.default_rng(1), size, gamma=0.9, expert_fraction=fraction)
    assert draw.expert.sum() == wanted
    rows = keys(replay, draw.rows)
    assert set(rows[:wanted]) <= set(expert)
    assert set(rows[wanted:]) <= set(online)


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_the_order_of_arrival_leaves_no_trace_in_a_batch(choose: st.DataObject) -> None:
    recorded = choose.draw(recordings(SPEC))
    expert, online = pools(recorded)
    if not expert and not online:
        return
    drawn = []
    for _ in range(2):
        replay = fill(recorded, arrivals(choose, recorded), RewardRule(step_penalty=0.1))
        draw = draw_chunks(replay, recorded, 5, gamma=0.97, fraction=expert_share(expert), length=3)
        if draw is None:
            return
        drawn.append(gather(replay.frames, draw))
    assert_same_bytes(*drawn)


def assert_same_bytes(first: Batch, second: Batch) -> None:
    for name in Batch.__slots__:
        one, other = getattr(first, name), getattr(second, name)
        if isinstance(one, dict):
            assert {camera: images.tobytes() for camera, images in one.items()} == {
                camera: images.tobytes() for camera, images in other.items()
            }
        elif name != "episode":  # numbered in order of arrival
            assert one.tobytes() == other.tobytes(), name


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_return_is_the_sum_of_the_sampled_rewards(choose: st.DataObject) -> None:
    recorded, rule, gamma = choose.draw(recordings(SPEC, valid_scores=True)), choose.draw(RULES), choose.draw(GAMMAS)
    replay = fill(recorded, arrivals(choose, recorded), rule)
    expert, online = pools(recorded)
    if not expert and not online:
        return
    share = expert_share(expert)
    rewards: dict[tuple[str, int], float] = {}
    returns: dict[tuple[str, int], float] = {}
    for seed in range(8):
        draw = replay.draw(np.random.default_rng(seed), 128, gamma=gamma, expert_fraction=share)
        rewards |= dict(zip(keys(replay, draw.rows), draw.reward.tolist()))
        returns |= dict(zip(keys(replay, draw.rows), draw.mc_return.tolist()))
    for (episode_id, t), found in returns.items():
        episode = recorded[episode_id]
        behind = [(episode_id, k) for k in range(t, len(episode.steps) - 1)]
        if episode.success() is None:
            assert np.isnan(found)
        elif all(key in rewards for key in behind):
            assert found == pytest.approx(sum(gamma**k * rewards[key] for k, key in enumerate(behind)), abs=1e-5)


@settings(max_examples=examples(15), deadline=None)
@given(st.data())
def test_a_kill_at_any_point_leaves_no_trace_in_a_batch(choose: st.DataObject) -> None:
    recorded = choose.draw(recordings(SPEC))
    expert, online = pools(recorded)
    items = arrivals(choose, recorded)
    kill = choose.draw(st.integers(0, len(items)))
    resent = choose.draw(st.integers(0, kill))
    with tempfile.TemporaryDirectory() as folder:
        with EpisodeStore(Path(folder), SPEC, TASK) as store:
            for episode_id, episode in recorded.items():
                store.begin(header_of(episode_id, episode.kind))
            for item in items[:kill]:
                keep(store, item)
        with EpisodeStore(Path(folder), SPEC, TASK) as store:
            resumed = loaded(store)
            begin_all(resumed, recorded)
            for item in items[resent:]:
                take(resumed, item)
    if not expert and not online:
        return
    whole = fill(recorded, items, RewardRule())
    share = expert_share(expert)
    assert_same_bytes(
        *(r.sample(np.random.default_rng(3), 64, gamma=0.97, expert_fraction=share) for r in (whole, resumed))
    )


def keep(store: EpisodeStore, item: Item) -> None:
    if isinstance(item, Step):
        store.append(item)
    elif isinstance(item, Label):
        store.append_label(item)
    elif isinstance(item, EpisodeScores):
        store.append_scores(item)
    elif item.episode_id in store.unfinished:
        store.flush()
        store.close_unfinished(item.episode_id)


def loaded(store: EpisodeStore) -> Replay:
    """What a restarted learner makes of a store."""
    replay = Replay(SPEC)
    for episode_id in (*store.episodes, *store.unfinished):
        replay.add_episode(store.read(episode_id))
    for label in store.labels:
        replay.add_label(label)
    for version in ("old", "new"):
        for scores in store.scores(version):
            replay.add_scores(scores)
    replay.activate_scores("new")
    return replay
