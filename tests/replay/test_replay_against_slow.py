"""The vectorised replay equals the obvious one, whatever is recorded and in whatever order it arrives."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import header_of, small_spec, steps_of
from slow_replay import SlowEpisode, pools, transition

from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.replay.sampling import gather
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind, Step

SPEC = small_spec(cameras=("front",))


@st.composite
def episodes(draw: st.DrawFn) -> dict[str, SlowEpisode]:
    found = {}
    for tag in range(draw(st.integers(1, 4))):
        episode_id = f"{tag:03d}"
        sources = draw(st.lists(st.sampled_from(Source), min_size=1, max_size=24))
        end = draw(st.sampled_from([None, *EndReason]))
        steps = list(steps_of(SPEC, episode_id, sources, end, tag=tag))
        stamps = draw(st.lists(st.integers(1, 9), unique=True, max_size=3))
        labels = [
            Label(
                episode_id=episode_id,
                verdict=draw(st.sampled_from(Verdict)),
                source=draw(st.sampled_from(LabelSource)),
                stamp_unix_s=float(stamp),
            )
            for stamp in stamps
        ]
        phi = None
        if draw(st.booleans()):
            values = draw(st.lists(st.floats(0, 1, width=32), min_size=len(steps), max_size=len(steps)))
            phi = np.array(values, np.float32)
            if draw(st.booleans()):
                phi[draw(st.integers(0, len(phi) - 1))] = np.nan
        found[episode_id] = SlowEpisode(kind=draw(st.sampled_from(EpisodeKind)), steps=steps, labels=labels, phi=phi)
    return found


def arrivals(choose: st.DataObject, recorded: dict[str, SlowEpisode]) -> list[Step | Label | EpisodeScores]:
    """Steps in order within an episode; everything else anywhere, some of it twice."""
    queues: list[list] = [list(e.steps) for e in recorded.values()]
    for episode_id, episode in recorded.items():
        queues += [[label] for label in episode.labels for _ in range(choose.draw(st.integers(1, 2)))]
        if episode.phi is not None:
            for version, phi in (("old", 1 - episode.phi), ("new", episode.phi), ("new", episode.phi)):
                queues.append([EpisodeScores(episode_id=episode_id, version=version, progress=phi, success=phi)])
    rng = np.random.default_rng(choose.draw(st.integers(0, 2**32)))
    turns = rng.permutation(np.repeat(np.arange(len(queues)), [len(q) for q in queues]))
    return [queues[turn].pop(0) for turn in turns]


def fill(recorded: dict[str, SlowEpisode], arriving: list[Step | Label | EpisodeScores], rule: RewardRule) -> Replay:
    replay = Replay(SPEC, rule)
    for episode_id, episode in recorded.items():
        replay.begin(header_of(episode_id, episode.kind))
    for number, item in enumerate(arriving):
        if number == len(arriving) // 2:
            replay.activate_scores("new")
        if isinstance(item, Step):
            replay.add_step(item)
        elif isinstance(item, Label):
            replay.add_label(item)
        else:
            replay.add_scores(item)
    return replay


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_draw_equals_the_slow_reference(choose: st.DataObject) -> None:
    recorded = choose.draw(episodes())
    rule = RewardRule(success=1.0, failure=-0.5, step_penalty=0.125, shaping=choose.draw(st.sampled_from([0.0, 0.5])))
    gamma, n_step = choose.draw(st.sampled_from([0.5, 0.97, 0.999])), choose.draw(st.integers(1, 5))
    replay = fill(recorded, arrivals(choose, recorded), rule)
    expert, online = pools(recorded)
    ids, column = replay.frames.episode_ids, replay.frames.column

    def keys(rows: np.ndarray) -> list[tuple[str, int]]:
        return [(ids[e], int(t)) for e, t in zip(column("episode")[rows], column("frame")[rows])]

    assert keys(replay.pools.expert) == expert
    assert keys(replay.pools.online) == online
    if not expert and not online:
        return
    rng, share = np.random.default_rng(0), 0.5 * bool(expert)
    draw = replay.draw(rng, 64, gamma=gamma, expert_fraction=share, n_step=n_step)
    batch = gather(replay.frames, draw)
    for row, (episode_id, t) in enumerate(keys(draw.rows)):
        assert (episode_id, t) in (expert if batch.expert[row] else online)
        episode = recorded[episode_id]
        after, reward, discount = transition(episode, t, rule=rule, gamma=gamma, n_step=n_step)
        np.testing.assert_array_equal(batch.proprio[row], episode.steps[t].observation.proprio)
        np.testing.assert_array_equal(batch.next_proprio[row], episode.steps[after].observation.proprio)
        action = episode.steps[t].action
        assert action is not None
        np.testing.assert_array_equal(batch.action[row], action.executed)
        np.testing.assert_allclose(batch.reward[row], reward, atol=1e-6)
        np.testing.assert_allclose(batch.discount[row], discount, rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_order_of_arrival_leaves_no_trace_in_a_batch(choose: st.DataObject) -> None:
    recorded = choose.draw(episodes())
    rule = RewardRule(step_penalty=0.1)
    expert, online = pools(recorded)
    if not expert and not online:
        return
    drawn = []
    for _ in range(2):
        replay = fill(recorded, arrivals(choose, recorded), rule)
        rng, share = np.random.default_rng(5), 0.5 * bool(expert)
        drawn.append(replay.sample(rng, 64, gamma=0.97, expert_fraction=share, n_step=3))
    for name in ("reward", "discount", "proprio", "next_proprio", "action", "expert", "gripper_label", "frame"):
        assert getattr(drawn[0], name).tobytes() == getattr(drawn[1], name).tobytes()
