from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.batch import Batch
from robot_stack.types.command import Source
from robot_stack.types.errors import ResumeError, StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.replay.recorded import TASK, header_of, small_spec, steps_of

SPEC = small_spec()
P, H, IDLE, N = Source.POLICY, Source.HUMAN, Source.IDLE, Source.HOLD


def add(
    replay: Replay,
    episode_id: str,
    sources: Sequence[Source],
    end: EndReason | None = EndReason.TIMEOUT,
    kind: EpisodeKind = EpisodeKind.ONLINE,
    *,
    tag: int = 1,
    pressed: Sequence[bool] | None = None,
) -> None:
    replay.begin(header_of(episode_id, kind))
    for step in steps_of(SPEC, episode_id, sources, end, tag=tag, pressed=pressed):
        replay.add_step(step)


def sample(
    replay: Replay, size: int = 200, *, n_step: int = 1, gamma: float = 0.9, fraction: float | None = None, **more: int
) -> Batch:
    """Half of the rows expert ones, if there are any."""
    wanted = fraction if fraction is not None else 0.5 * bool(len(replay.pools.expert))
    rng = np.random.default_rng(0)
    return replay.sample(rng, size, gamma=gamma, expert_fraction=wanted, n_step=n_step, **more)


def frames_of(replay: Replay, rows: np.ndarray) -> list[int]:
    return replay.frames.column("frame")[rows].tolist()


def label(verdict: Verdict, source: LabelSource = LabelSource.OPERATOR, stamp: float = 1.0, of: str = "a") -> Label:
    return Label(episode_id=of, verdict=verdict, source=source, stamp_unix_s=stamp)


def scores(values: Sequence[float] | np.ndarray, version: str = "v1", of: str = "a") -> EpisodeScores:
    progress = np.array(values, np.float32)
    return EpisodeScores(episode_id=of, version=version, progress=progress, success=progress)


def test_fault_1_the_next_frame_is_the_next_frame_of_the_same_episode() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 5, tag=1)
    add(replay, "b", [H, P, P, H, P], tag=2)
    batch = sample(replay)
    np.testing.assert_array_equal(batch.next_proprio[:, 0], batch.proprio[:, 0])
    np.testing.assert_array_equal(batch.next_proprio[:, 1], batch.proprio[:, 1] + 1)
    assert {(int(t), int(n)) for t, n in zip(batch.proprio[batch.expert, 1], batch.next_proprio[batch.expert, 1])} == {
        (0, 1),
        (3, 4),
    }


def test_fault_1_interleaved_actors_do_not_stitch() -> None:
    replay = Replay(SPEC)
    pairs = zip(steps_of(SPEC, "a", [P] * 6, tag=1), steps_of(SPEC, "b", [P] * 6, tag=2))
    replay.begin(header_of("a"))
    replay.begin(header_of("b"))
    for pair in pairs:
        for step in pair:
            replay.add_step(step)
    batch = sample(replay, n_step=3)
    np.testing.assert_array_equal(batch.next_proprio[:, 0], batch.proprio[:, 0])
    np.testing.assert_array_equal(batch.next_proprio[:, 1], np.minimum(batch.proprio[:, 1] + 3, 6))


@pytest.mark.parametrize("end", list(EndReason))
def test_fault_2_only_success_and_failure_stop_the_bootstrap(end: EndReason) -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, P, P], end)
    batch = sample(replay)
    last = batch.frame == 2
    assert set(batch.discount[~last]) == {np.float32(0.9)}
    assert set(batch.discount[last]) == {np.float32(0.0 if end.terminal else 0.9)}
    assert set(batch.reward[last]) == {np.float32(end is EndReason.SUCCESS)}


def test_fault_3_two_cameras_of_128_pixels_cost_at_most_105_kb_a_transition() -> None:
    spec = small_spec(128)
    replay = Replay(spec, feature_size=512)
    for number in range(5):
        replay.begin(header_of(f"{number}"))
        for step in steps_of(spec, f"{number}", [P] * 100):
            replay.add_step(step)
    frames = replay.frames
    images = frames.nbytes - sum(frames._columns[name].nbytes for name in frames._columns)
    assert images == 2 * 505 * 128 * 128 * 3
    assert frames.bytes_per_transition <= 105_000


def test_fault_4_the_action_is_the_executed_one() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, H, P, H])
    batch = sample(replay)
    np.testing.assert_array_equal(batch.action, np.repeat((batch.frame[:, None] / 10).astype(np.float32), 7, axis=1))


def test_fault_5_idle_and_hold_are_no_expert_data_but_stay_online() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, H, IDLE, N, H])
    assert frames_of(replay, replay.pools.expert) == [1, 4]
    assert frames_of(replay, replay.pools.online) == [0, 1, 2, 3, 4]


def test_the_idle_end_of_a_demo_is_online_data_once_there_is_any() -> None:
    replay = Replay(SPEC)
    add(replay, "demo", [H, H, IDLE, N], EndReason.SUCCESS, EpisodeKind.DEMO)
    assert frames_of(replay, replay.pools.expert) == [0, 1]
    assert not len(replay.pools.online)
    add(replay, "online", [P, P])
    assert frames_of(replay, replay.pools.online) == [2, 3, 0, 1]


def test_what_a_policy_did_in_a_demo_is_no_expert_data() -> None:
    """As in a dataset of another program, which says in which rows a person drove."""
    replay = Replay(SPEC)
    add(replay, "demo", [P, H, P, H], EndReason.SUCCESS, EpisodeKind.DEMO)
    add(replay, "online", [P])
    assert frames_of(replay, replay.pools.expert) == [1, 3]
    assert frames_of(replay, replay.pools.online) == [0, 2, 0]


def test_fault_6_in_a_correction_no_press_is_no_gripper_label() -> None:
    replay = Replay(SPEC, handover_s=0.0)
    add(replay, "a", [P, H, H, IDLE], pressed=[False, False, True, False])
    batch = sample(replay)
    assert (batch.label[:, :-1] == (batch.frame < 3)[:, None]).all()  # while the hand rests it shows no motion
    assert {(int(t), bool(ok)) for t, ok in zip(batch.frame, batch.label[:, -1])} == {
        (0, True),
        (1, False),
        (2, True),
        (3, True),
    }


def test_fault_7_a_penalty_in_the_same_step_does_not_hide_the_success() -> None:
    replay = Replay(SPEC, RewardRule(success=1.0, step_penalty=0.25))
    add(replay, "a", [P, P], EndReason.SUCCESS)
    batch = sample(replay)
    last = batch.frame == 1
    assert set(batch.reward[last]) == {np.float32(0.75)}
    assert set(batch.discount[last]) == {np.float32(0.0)}


def test_eval_and_discarded_episodes_are_not_drawn() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [H, P], tag=1)
    add(replay, "b", [H, P], kind=EpisodeKind.EVAL, tag=2)
    add(replay, "c", [H, P], tag=3)
    replay.add_label(label(Verdict.DISCARD, of="c"))
    assert set(sample(replay).proprio[:, 0]) == {1}
    assert len(replay.frames) == 6
    replay.add_label(label(Verdict.FAILURE, of="c", stamp=2.0))
    assert set(sample(replay).proprio[:, 0]) == {1, 3}


def test_a_late_label_flips_the_end_and_a_later_one_takes_it_back() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, P], EndReason.TIMEOUT)

    def last() -> tuple[float, float]:
        batch = sample(replay, gamma=0.5)
        (row, *_) = np.flatnonzero(batch.frame == 1)
        return float(batch.reward[row]), float(batch.discount[row])

    assert last() == (0.0, 0.5)
    replay.add_label(label(Verdict.SUCCESS, LabelSource.TRUTH))
    assert last() == (0.0, 0.5)
    replay.add_label(label(Verdict.SUCCESS, LabelSource.MODEL, 9.0))
    assert last() == (1.0, 0.0)
    replay.add_label(label(Verdict.FAILURE, stamp=3.0))
    assert last() == (0.0, 0.0)
    replay.add_label(label(Verdict.SUCCESS, stamp=2.0))
    assert last() == (0.0, 0.0)
    replay.add_label(label(Verdict.SUCCESS, stamp=4.0))
    assert last() == (1.0, 0.0)
    assert replay.outcome("a") is Outcome.SUCCESS


def test_a_running_episode_is_drawn_up_to_its_newest_frame() -> None:
    replay = Replay(SPEC)
    replay.begin(header_of("a"))
    steps = list(steps_of(SPEC, "a", [P] * 3))
    replay.add_step(steps[0])
    with pytest.raises(StoreError, match="replay size is 0"):
        sample(replay)
    replay.add_step(steps[1])
    assert set(sample(replay).frame) == {0}
    replay.add_step(steps[2])
    assert set(sample(replay).frame) == {0, 1}


def test_chunks_that_a_running_episode_cannot_fill_yet_are_not_drawn() -> None:
    replay = Replay(SPEC)
    replay.begin(header_of("a"))
    for step in list(steps_of(SPEC, "a", [P] * 6, None))[:5]:
        replay.add_step(step)
    assert set(sample(replay, n_step=3, chunk=3).frame) == {0, 1}
    replay.end_episode("a", EndReason.SUCCESS)
    assert set(sample(replay, n_step=3, chunk=3).frame) == {0, 1, 2, 3}


@pytest.mark.parametrize("end", [EndReason.TIMEOUT, EndReason.OPERATOR, EndReason.FAULT])
def test_chunks_that_an_episode_cut_short_has_not_filled_are_not_drawn(end: EndReason) -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 4, end)
    batch = sample(replay, n_step=3, chunk=3)
    assert set(batch.frame) == {0, 1}
    assert (batch.discount > 0).all()  # what lies behind them counts, so what was played decides
    assert set(replay.frames.column("frame")[replay.transitions("a", 9, gamma=0.9, n_step=3, chunk=3).rows]) == {0, 1}
    replay.add_label(label(Verdict.FAILURE))
    assert set(sample(replay, n_step=3, chunk=3).frame) == {0, 1, 2, 3}


def test_expert_chunks_stand_in_while_no_online_one_is_whole() -> None:
    replay = Replay(SPEC)
    add(replay, "running", [P] * 2, None)
    with pytest.raises(StoreError, match="whole chunks among the rows of a draw are 0, must be 1 or more; record long"):
        sample(replay, n_step=3, chunk=3)
    add(replay, "demo", [H] * 4, EndReason.SUCCESS, EpisodeKind.DEMO)
    assert sample(replay, n_step=3, chunk=3).expert.all()


def test_ticks_that_a_person_executed_are_told_apart_in_a_chunk() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [H, P, H, IDLE, H], EndReason.SUCCESS)
    batch = sample(replay, n_step=3, chunk=3)
    assert {(int(t), tuple(map(bool, ticks))) for t, ticks in zip(batch.frame, batch.human)} == {
        (0, (True, False, True)),
        (1, (False, True, False)),
        (2, (True, False, True)),
        (3, (False, True, False)),
        (4, (True, False, False)),
    }


def test_with_a_frozen_trunk_a_transition_counts_once_both_frames_have_features() -> None:
    replay = Replay(SPEC, feature_size=2, keep_images=False)
    add(replay, "a", [P] * 4, EndReason.SUCCESS)
    assert not len(replay.pools.online)
    features = np.arange(10, dtype=np.float16).reshape(5, 2)
    replay.set_features("a", features[:3])
    batch = sample(replay, n_step=3, gamma=0.5)
    assert set(zip(batch.frame.tolist(), batch.discount.tolist())) == {(0, 0.25), (1, 0.5)}
    replay.set_features("a", features[2:], start=2)
    batch = sample(replay)
    np.testing.assert_array_equal(batch.features, features[batch.frame])
    np.testing.assert_array_equal(batch.next_features, features[batch.frame + 1])
    assert set(batch.frame) == {0, 1, 2, 3}
    assert batch.images is None
    assert batch.next_images is None


def test_half_of_a_batch_is_expert_once_anything_was_recorded_online() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, P])
    assert not sample(replay, 10, fraction=0.0).expert.any()
    add(replay, "b", [H, P])
    assert sample(replay, 10, fraction=0.5).expert.sum() == 5
    assert sample(replay, 10, fraction=0.25).expert.sum() == 2
    demos = Replay(SPEC)
    add(demos, "d", [H, H], EndReason.SUCCESS, EpisodeKind.DEMO)
    assert sample(demos, 10).expert.all()


def test_each_pool_is_drawn_uniformly() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 3)
    add(replay, "b", [P] * 17)
    batch = sample(replay, 20_000)
    counts = np.bincount(batch.episode * 20 + batch.frame)
    assert counts[counts > 0].min() > 850
    assert (counts > 0).sum() == 20
    assert counts.max() < 1150


def test_shaping_telescopes_to_minus_the_first_potential() -> None:
    gamma, phi = 0.9, [0.2, 0.4, 0.1, 0.9]
    replay = Replay(SPEC)
    add(replay, "a", [P] * 3, EndReason.SUCCESS)
    replay.add_scores(scores(phi))
    replay.activate_scores("v1")
    batch = sample(replay, gamma=gamma)
    reward = [float(batch.reward[batch.frame == t][0]) for t in range(3)]
    assert sum(gamma**t * r for t, r in enumerate(reward)) == pytest.approx(gamma**2 - 0.2, abs=1e-6)


def test_a_time_limit_keeps_the_potential_behind_it() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P], EndReason.TIMEOUT)
    replay.add_scores(scores([0.5, 0.75]))
    replay.activate_scores("v1")
    assert set(sample(replay, gamma=0.5).reward) == {np.float32(0.5 * 0.75 - 0.5)}


def test_episodes_without_enough_valid_scores_of_the_active_version_are_sparse_only() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 3)
    replay.add_scores(scores([0.1, np.nan, 0.3, 0.4], "v1"))
    replay.add_scores(scores([0.1, 0.2, 0.3, 0.4], "v2"))
    replay.activate_scores("v1")
    assert set(sample(replay).reward) == {0.0}
    replay.activate_scores("v2")
    assert len(set(sample(replay).reward)) == 3
    replay.activate_scores(None)
    assert set(sample(replay).reward) == {0.0}


@pytest.mark.parametrize("invalid", [[], [0], [10], [10, 11], [38], [39], [0, 38]])
@pytest.mark.parametrize("end", [EndReason.SUCCESS, EndReason.FAILURE, EndReason.TIMEOUT])
def test_shaping_telescopes_over_invalid_scores(invalid: list[int], end: EndReason) -> None:
    replay, gamma = Replay(SPEC), 0.97
    add(replay, "a", [P] * 39, end)
    phi = np.linspace(0.1, 0.9, 40, dtype=np.float32)
    phi[invalid] = np.nan
    replay.add_scores(scores(phi))
    replay.activate_scores("v1")
    batch = sample(replay, 4000, gamma=gamma)
    reward = {int(t): float(r) for t, r in zip(batch.frame, batch.reward)}
    assert sorted(reward) == list(range(39))
    sparse = gamma**38 if end is EndReason.SUCCESS else 0.0
    at_end = gamma**39 * 0.9 if end is EndReason.TIMEOUT else 0.0
    paid = sum(gamma**t * reward[t] for t in range(39))
    assert paid == pytest.approx(sparse + at_end - 0.1, abs=0.03)
    assert batch.mc_return[batch.frame == 0][0] == pytest.approx(paid, abs=1e-4) or end is EndReason.TIMEOUT


def test_an_invalid_score_in_the_middle_is_interpolated() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 29)
    phi = np.linspace(0.1, 0.9, 30, dtype=np.float32)
    phi[10] = np.nan
    replay.add_scores(scores(phi))
    replay.activate_scores("v1")
    found = replay._potential.at(np.arange(30))
    np.testing.assert_allclose(found, np.linspace(0.1, 0.9, 30), atol=1e-6)


def test_scores_of_another_length_are_dropped_and_counted() -> None:
    replay = Replay(SPEC)
    replay.activate_scores("v1")
    replay.add_scores(scores([0.1, 0.2]))
    add(replay, "a", [P] * 3)
    assert replay.refused["scores"] == 1
    assert set(sample(replay).reward) == {0.0}


def test_images_are_those_of_the_frames_drawn() -> None:
    replay = Replay(SPEC)
    for tag in range(12):
        add(replay, f"{tag:02d}", [P] * 40, tag=tag)
    batch = sample(replay, 64, n_step=2)
    now, after = batch.images, batch.next_images
    assert now is not None
    assert after is not None
    tags = batch.proprio[:, 0].astype(int)
    for camera in ("front", "wrist"):
        np.testing.assert_array_equal(now[camera][:, 3, 3, 1], (batch.frame + 17 * tags) % 256)
        np.testing.assert_array_equal(after[camera][:, 0, 0, 0], (np.minimum(batch.frame + 2, 40) + 17 * tags) % 256)


def test_an_episode_ended_from_outside_bootstraps_from_its_newest_frame() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 3, None)
    replay.end_episode("a", EndReason.FAULT)
    replay.end_episode("a", EndReason.SUCCESS)
    batch = sample(replay)
    assert set(batch.frame) == {0, 1}
    assert set(batch.discount) == {np.float32(0.9)}


def test_steps_are_idempotent_and_gaps_and_strangers_refused() -> None:
    replay = Replay(SPEC)
    steps = list(steps_of(SPEC, "a", [P] * 3))
    with pytest.raises(StoreError, match="call begin first"):
        replay.add_step(steps[0])
    replay.begin(header_of("a"))
    assert replay.add_step(steps[0])
    assert not replay.add_step(steps[0])
    with pytest.raises(StoreError, match="is 2, must be 1"):
        replay.add_step(steps[2])
    assert len(replay.frames) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_step": 0}, "n_step of a draw is 0, must be 1 or more"),
        ({"gamma": 1.0}, r"gamma of a draw is 1.0, must be in \(0, 1\)"),
        ({"gamma": 0.0}, r"gamma of a draw is 0.0, must be in \(0, 1\)"),
        ({"gamma": float("nan")}, r"gamma of a draw is nan, must be in \(0, 1\)"),
        ({"fraction": -0.1}, r"expert_fraction of a draw is -0.1, must be in \[0, 1\]"),
        ({"size": 0}, "batch_size of a draw is 0, must be 1 or more"),
        ({"chunk": 3, "n_step": 2}, r"chunk of a draw is 3, must be 1 or n_step \(2\)"),
        ({"shift": 8}, r"shift of a draw is 8 pixels, must be in \[0, 8\)"),
        ({"shift": -1}, "shift of a draw is -1 pixels"),
    ],
)
def test_draws_out_of_range_are_refused(wrong: dict[str, float], message: str) -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P])
    with pytest.raises(StoreError, match=message):
        sample(replay, **wrong)  # type: ignore[arg-type]
    assert replay.state_dict()["batches"] == 0


def test_a_resumed_replay_draws_the_same_batches_and_refuses_what_is_missing(tmp_path: Path) -> None:
    replay, ids = Replay(SPEC), ("a", "b", "c")
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        arriving = [list(steps_of(SPEC, i, [P, H, P, N] * 3, EndReason.SUCCESS, tag=n)) for n, i in enumerate(ids)]
        for episode_id in reversed(ids):
            replay.begin(header_of(episode_id))
            store.begin(header_of(episode_id))
        for together in zip(*arriving):
            for step in together:
                replay.add_step(step)
                store.append(step)
        said, scored = label(Verdict.FAILURE, of="b"), scores(np.linspace(0, 1, 13), of="c")
        replay.add_label(said)
        store.append_label(said)
        replay.add_scores(scored)
        store.append_scores(scored)
        replay.activate_scores("v1")
        replay.sample(np.random.default_rng(0), 4, gamma=0.9)
    state = replay.state_dict()

    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        resumed = Replay(SPEC)
        for episode_id in store.episodes[:2]:
            resumed.add_episode(store.read(episode_id))
        with pytest.raises(ResumeError, match="episode c has 0 frames, must have 13"):
            resumed.load_state_dict(state)
        resumed.add_episode(store.read("c"))
        with pytest.raises(ResumeError, match="number of labels is 0"):
            resumed.load_state_dict(state)
        for one in store.labels:
            resumed.add_label(one)
        with pytest.raises(ResumeError, match=r"without scores by v1 are \['c'\], must be none"):
            resumed.load_state_dict(state)
        for found in store.scores("v1"):
            resumed.add_scores(found)
        resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    for n_step in (1, 3):
        a, b = sample(replay, n_step=n_step), sample(resumed, n_step=n_step)
        for name in Batch.__slots__:
            if name in ("images", "next_images"):
                for camera, images in getattr(a, name).items():
                    np.testing.assert_array_equal(images, getattr(b, name)[camera])
            elif name != "episode":
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.long
def test_one_writer_and_one_sampler_do_not_disturb_each_other() -> None:
    replay = Replay(SPEC, keep_images=False)
    add(replay, "000", [P, H], tag=0)
    done = threading.Event()

    def write() -> None:
        for tag in range(1, 60):
            add(replay, f"{tag:03d}", [P, H, P] * 10, EndReason.SUCCESS, tag=tag)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    rng = np.random.default_rng(0)
    while not done.is_set():
        batch = replay.sample(rng, 64, gamma=0.9, n_step=3)
        np.testing.assert_array_equal(batch.next_proprio[:, 0], batch.proprio[:, 0])
        np.testing.assert_array_equal(batch.proprio[:, 1], batch.frame)
    writer.join()
    assert len(replay.frames) == 3 + 59 * 31


@pytest.mark.parametrize("end", list(EndReason))
def test_only_a_demonstration_that_succeeded_is_an_experts(end: EndReason) -> None:
    replay = Replay(SPEC)
    add(replay, "a", [H, H, IDLE, H], end, EpisodeKind.DEMO)
    expert = [0, 1, 3] if end is EndReason.SUCCESS else []
    assert frames_of(replay, replay.pools.expert) == expert
    add(replay, "b", [P, P])
    assert len(replay.pools.online) == 2 + 4 - len(expert)  # what failed is data all the same


def test_a_verdict_puts_a_demonstration_into_the_expert_pool_and_takes_it_out_again() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [H, H], EndReason.TIMEOUT, EpisodeKind.DEMO)
    counted = [len(replay.pools.expert)]
    for stamp, verdict in enumerate((Verdict.SUCCESS, Verdict.FAILURE, Verdict.SUCCESS)):
        replay.add_label(label(verdict, stamp=float(stamp)))
        counted.append(len(replay.pools.expert))
    assert counted == [0, 2, 0, 2]


@pytest.mark.parametrize("end", list(EndReason))
@pytest.mark.parametrize("claim", [None, Verdict.SUCCESS, Verdict.FAILURE])
def test_a_claim_of_success_that_the_operator_refuses_cuts_short(end: EndReason, claim: Verdict | None) -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P] * 3, end)
    if claim is not None:
        replay.add_label(label(claim, LabelSource.MODEL, stamp=1.0))
    replay.add_label(label(Verdict.FAILURE, stamp=2.0))
    refused = end is EndReason.SUCCESS and claim is Verdict.SUCCESS
    assert replay.outcome("a") is (Outcome.OPEN if refused else Outcome.FAILURE)
    batch = sample(replay)
    assert (batch.discount[batch.frame == 2] > 0).all() == refused
    replay.add_label(label(Verdict.SUCCESS, stamp=3.0))  # the refusal is taken back
    assert replay.outcome("a") is Outcome.SUCCESS


def test_returns_over_several_steps_stop_at_take_overs() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, P, P, H, IDLE, H, P, P], EndReason.SUCCESS)
    draw = replay.draw(np.random.default_rng(0), 400, gamma=0.5, expert_fraction=0.0, n_step=3)
    reached = {t: n for t, n in zip(frames_of(replay, draw.rows), frames_of(replay, draw.next_rows))}
    assert reached == {0: 3, 1: 3, 2: 3, 3: 6, 4: 6, 5: 6, 6: 8, 7: 8}
    assert {float(d) for d in draw.discount[draw.next_rows == 3]} == {0.5, 0.25, 0.125}


def test_chunks_are_what_was_executed_whoever_did_it() -> None:
    replay = Replay(SPEC)
    add(replay, "a", [P, P, H, H, P], EndReason.SUCCESS)
    draw = replay.draw(np.random.default_rng(0), 200, gamma=0.5, expert_fraction=0.0, n_step=3, chunk=3)
    reached = {t: n for t, n in zip(frames_of(replay, draw.rows), frames_of(replay, draw.next_rows))}
    assert reached == {0: 3, 1: 4, 2: 5, 3: 5, 4: 5}


def test_the_monte_carlo_return_counts_missed_ticks() -> None:
    live, restored = Replay(SPEC), Replay(SPEC)
    steps, period_ns = list(steps_of(SPEC, "a", [P] * 4, EndReason.SUCCESS)), 100_000_000
    stamps = [0, 1, 4, 5, 6]  # two ticks missed
    steps = [
        replace(step, observation=replace(step.observation, stamp_ns=tick * period_ns))
        for step, tick in zip(steps, stamps, strict=True)
    ]
    live.begin(header_of("a"))
    for step in steps:
        live.add_step(step)
    arrays = {
        "proprio": np.stack([step.observation.proprio for step in steps]),
        "stamp_ns": np.array([step.observation.stamp_ns for step in steps]),
        "executed": np.zeros((4, SPEC.action_size), np.float32),
        "proposed": np.zeros((4, SPEC.action_size), np.float32),
        "source": np.full(4, P, np.uint8),
        "gripper_pressed": np.zeros(4, np.bool_),
        **{f"image_{camera.name}": np.zeros((5, *camera.shape), np.uint8) for camera in SPEC.cameras},
    }
    restored.add_episode(StoredEpisode(header=header_of("a"), spec=SPEC, end=EndReason.SUCCESS, arrays=arrays))
    for replay in (live, restored):
        batch = sample(replay, gamma=0.5)
        found = {int(t): float(value) for t, value in zip(batch.frame, batch.mc_return)}
        assert found == {0: 0.5**5, 2: 0.5, 3: 1.0}


def test_the_step_into_the_end_of_a_task_counts_however_late_its_frame_came() -> None:
    replay, period_ns = Replay(SPEC), 100_000_000
    replay.begin(header_of("a"))
    for step in steps_of(SPEC, "a", [P] * 4, EndReason.SUCCESS):
        late_ns = 60_000_000 * (step.end is not None)
        stamp_ns = step.index * period_ns + late_ns
        replay.add_step(replace(step, observation=replace(step.observation, stamp_ns=stamp_ns)))

    def paid() -> dict[int, tuple[float, float]]:
        batch = sample(replay)
        return {int(t): (float(r), float(d)) for t, r, d in zip(batch.frame, batch.reward, batch.discount)}

    assert paid()[3] == (pytest.approx(0.9), 0.0)  # two ticks later
    replay.add_label(label(Verdict.FAILURE, stamp=2.0))
    assert paid()[3] == (0.0, 0.0)
    replay.add_label(label(Verdict.SUCCESS, LabelSource.MODEL))  # a claim, which the operator has refused: cut short
    assert 3 not in paid()
    assert len(replay.pools.online) == 3
    replay.add_label(label(Verdict.SUCCESS, stamp=3.0))
    assert paid()[3] == (pytest.approx(0.9), 0.0)  # two ticks later


def test_of_several_tasks_each_gives_as_many_expert_and_as_many_online_rows() -> None:
    replay = Replay(SPEC, task_ids=("a", "b", "c"))
    lengths = {"a": 3, "b": 40}  # of c there is nothing yet
    for number, (task_id, length) in enumerate(lengths.items()):
        for kind, source in ((EpisodeKind.DEMO, H), (EpisodeKind.ONLINE, P)):
            name = f"{number}-{kind.value}"
            replay.begin(replace(header_of(name, kind), task_id=task_id))
            for step in steps_of(SPEC, name, [source] * length, EndReason.SUCCESS):
                replay.add_step(step)
    draw = replay.draw(np.random.default_rng(0), 40, gamma=0.9)
    of_task = np.array([int(replay.frames.episode_ids[at][0]) for at in replay.frames.column("episode")[draw.rows]])
    for of_pool in (draw.expert, ~draw.expert):
        assert np.bincount(of_task[of_pool]).tolist() == [10, 10]


def test_of_one_task_the_rows_drawn_are_what_they_were() -> None:
    plain, told = Replay(SPEC), Replay(SPEC, task_ids=(TASK,))
    for replay in (plain, told):
        add(replay, "a", [H] * 9, kind=EpisodeKind.DEMO, end=EndReason.SUCCESS)
        add(replay, "b", [P] * 9)
    first, second = (replay.draw(np.random.default_rng(3), 64, gamma=0.9).rows for replay in (plain, told))
    np.testing.assert_array_equal(first, second)
