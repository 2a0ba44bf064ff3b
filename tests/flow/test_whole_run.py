"""A run from the first demonstration to the saved policy: learner process, gRPC, actor, simulated cell."""

from __future__ import annotations

import numpy as np

from policies.acting import ActingPolicy
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import EndRow, EpisodeRow, FitRow, of_kind
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell
from tests.flow.flow_rig import DEMOS, EPISODES, PRETRAIN, Finished, actions, stored


def test_run_reaches_its_end_and_both_sides_leave_in_peace(finished: Finished) -> None:
    assert finished.status.phase == "done"
    assert finished.actor_left == [""]
    assert finished.exit_code == 0
    assert finished.status.counters["demos"] >= DEMOS
    assert finished.status.counters["episodes"] >= EPISODES  # the actor may end one more before it hears of it
    assert finished.status.counters["updates"] > PRETRAIN


def test_saved_policy_acts(finished: Finished) -> None:
    params = load_params(finished.folder / "policy.safetensors")
    policy = ActingPolicy(finished.resolved.spec(), params, seed=0)
    cell = build_local_cell(finished.resolved, seed=0)
    cell.reset(5)
    observation = cell.observe()
    assert observation is not None
    action = policy.act(observation, deterministic=True)
    finished.resolved.spec().check_action(action)
    assert policy.version >= 1
    np.testing.assert_array_equal(action, policy.act(observation, deterministic=True))


def test_every_episode_has_one_complete_row(finished: Finished) -> None:
    rows = of_kind(read_rows(finished.folder / "metrics.jsonl").rows, EpisodeRow)
    on_disk = stored(finished.folder)
    names = [row.episode_id for row in rows]
    assert names == sorted(on_disk)[: len(names)]  # one more may be running when it is enough
    assert sum("online" in name for name in names) >= EPISODES
    whole = names[: DEMOS + EPISODES]  # the learner waits for what is said of these
    for row in rows:
        episode = on_disk[row.episode_id]
        assert (row.steps, row.end, row.seed) == (episode.length, episode.end, episode.header.seed)
        if row.episode_id in whole:
            assert isinstance(row.truth, bool)
        if row.episode_kind == EpisodeKind.ONLINE:
            assert row.params_version >= 1
            assert row.progress_max is not None
            assert 0.0 <= row.progress_max <= 1.0


def test_rows_tell_of_every_phase(finished: Finished) -> None:
    rows = read_rows(finished.folder / "metrics.jsonl").rows
    kinds = [row.kind for row in rows]
    for kind in ("fit", "end"):
        assert kinds.count(kind) == 1, kind
    assert "reward_fit" in kinds  # more than one where a model of so few steps fails its canaries
    (fit,) = of_kind(rows, FitRow)
    assert len(fit.demo_ids) == DEMOS


def test_replay_holds_what_is_on_disk(finished: Finished) -> None:
    (end,) = of_kind(read_rows(finished.folder / "metrics.jsonl").rows, EndRow)
    on_disk = stored(finished.folder)
    online = [e for name, e in sorted(on_disk.items()) if "online" in name]
    demos = [e for name, e in on_disk.items() if "demo" in name]
    assert actions(online[:EPISODES]) <= end.env_steps <= actions(online)
    assert end.env_steps - 1 <= end.replay_transitions - actions(demos) <= end.env_steps
    assert end.replay_bytes_per_transition < 105_000


def test_store_is_whole(finished: Finished) -> None:
    spec, task = finished.resolved.spec(), finished.resolved.task.name
    with EpisodeStore(finished.folder / "store", spec, task) as store:
        assert store.quarantined == {}
        assert len(store.episodes) == sum(episode.end is not None for episode in stored(finished.folder).values())


def test_demonstrations_are_the_persons_steps(finished: Finished) -> None:
    for name, episode in stored(finished.folder).items():
        if "demo" in name:
            assert not episode.arrays["proposed"].any()
            assert episode.arrays["human"].any()
