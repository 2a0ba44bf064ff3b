"""Weights of imitation by progress against the formula written out, and as the replay hands them on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from robot_stack.replay.imitation import UsualRise, batch_weights, rises, worths
from robot_stack.replay.replay import Replay
from robot_stack.types.batch import Batch
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.replay.recorded import header_of, small_spec, steps_of

NAN = math.nan
SPEC = small_spec()
H, P = Source.HUMAN, Source.POLICY
curves = arrays(np.float64, st.integers(1, 40), elements=st.one_of(st.floats(0.0, 1.0), st.just(NAN)))


def rise(phi: Sequence[float], t: int, window: int) -> float:
    """By cases: a whole window ahead, else the episode's last whole one, else all of the episode."""
    last = len(phi) - 1
    if last == 0:
        return NAN
    if t + window <= last:
        return phi[t + window] - phi[t]
    return phi[last] - (phi[last - window] if window <= last else phi[0])


def worth(r: float, known: Sequence[float]) -> float:
    """Equations 8 and 9 of arXiv:2509.25358 with the mean as κ."""
    if math.isnan(r):
        return NAN
    mean = sum(known) / len(known)
    std = math.sqrt(sum((each - mean) ** 2 for each in known) / len(known))
    mean = max(mean, 0.0)
    if std < 1e-6:
        return 1.0
    if r < 0:
        return 0.0
    return 1.0 if r > mean else min(1.0, max(0.0, (r - (mean - 2 * std)) / (4 * std)))


@given(curves, st.integers(1, 50))
def test_a_rise_is_that_over_the_window_ahead_or_over_the_last_whole_one(phi: np.ndarray, window: int) -> None:
    found = rises(phi, window)
    assert (found.dtype, found.shape) == (np.float64, phi.shape)
    np.testing.assert_array_equal(found, [rise(phi.tolist(), t, window) for t in range(len(phi))])
    assert (np.abs(found[np.isfinite(found)]) <= 1.0).all()


@given(curves, st.integers(1, 12))
def test_a_worth_is_the_papers_with_the_mean_as_threshold(phi: np.ndarray, window: int) -> None:
    found = rises(phi, window)
    known = [each for each in found.tolist() if not math.isnan(each)]
    wanted = [worth(each, known) for each in found.tolist()]
    got = worths(found, UsualRise.of(found))
    clear = [
        i for i, each in enumerate(found.tolist()) if math.isnan(each) or abs(each - sum(known) / len(known)) > 1e-9
    ]
    np.testing.assert_allclose(got[clear], np.array(wanted)[clear], atol=1e-6)
    assert ((got[np.isfinite(got)] >= 0) & (got[np.isfinite(got)] <= 1)).all()


def test_steps_that_stand_or_go_back_are_worth_less_than_those_that_go_on() -> None:
    onward = np.linspace(0.0, 0.5, 21)
    phi = np.concatenate([onward, np.full(20, 0.5), np.linspace(0.5, 0.3, 20), np.linspace(0.3, 1.0, 21)])
    found = worths(rises(phi, 5), UsualRise.of(rises(phi, 5)))
    assert (found[:15] == 1.0).all()
    assert (found[66:] == 1.0).all()
    assert (found[21:35] > 0.0).all()
    assert (found[21:35] < 0.5).all()
    assert (found[42:55] == 0.0).all()


def test_the_end_of_an_episode_that_goes_on_evenly_is_worth_as_much_as_its_beginning() -> None:
    phi = np.linspace(0.0, 1.0, 30)
    np.testing.assert_allclose(rises(phi, 10), 10 / 29)


@pytest.mark.parametrize("level", [0.0, 0.1, 0.7])
def test_a_potential_that_stays_tells_no_step_from_another(level: float) -> None:
    found = rises(np.full(12, level), 4)
    assert (found == 0.0).all()
    assert (worths(found, UsualRise.of(found)) == 1.0).all()


def test_nothing_is_known_of_a_single_frame_or_without_a_valid_potential() -> None:
    assert np.isnan(rises(np.array([0.5]), 3)).all()
    assert rises(np.empty(0), 3).shape == (0,)
    nothing = rises(np.full(9, NAN), 3)
    assert np.isnan(nothing).all()
    assert UsualRise.of(nothing) == UsualRise(0.0, 0.0)
    assert np.isnan(worths(nothing, UsualRise.of(nothing))).all()


def test_an_episode_shorter_than_the_window_has_one_rise() -> None:
    np.testing.assert_allclose(rises(np.array([0.2, 0.1, 0.6]), 10), 0.4)


worth_and_pool = st.lists(
    st.tuples(st.one_of(st.floats(0.0, 1.0), st.just(NAN)), st.booleans()), min_size=1, max_size=64
)


@given(worth_and_pool)
def test_the_mean_weight_of_a_batchs_expert_rows_is_one(rows: list[tuple[float, bool]]) -> None:
    told, expert = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    found = batch_weights(told, expert)
    assert (found.dtype, found.shape) == (np.float32, told.shape)
    assert (found >= 0).all()
    assert (found[~expert | np.isnan(told)] == 1.0).all()
    if expert.any():
        assert found[expert].mean() == pytest.approx(1.0, rel=1e-4)


def test_weights_are_in_proportion_to_worth() -> None:
    found = batch_weights(np.array([1.0, 0.5, 0.0, NAN, 0.3]), np.array([True, True, True, True, False]))
    np.testing.assert_allclose(found, [2.0, 1.0, 0.0, 1.0, 1.0])


def test_where_no_expert_row_is_worth_anything_all_weigh_the_same() -> None:
    assert batch_weights(np.zeros(4), np.ones(4, bool)).tolist() == [1.0] * 4


# --- in the replay ----------------------------------------------------------------------------------------------------

UNEVEN = np.array([0.0, 0.2, 0.4, 0.4, 0.4, 0.2, 0.4, 0.6, 0.8, 1.0], np.float32)


def filled(window: int, phi: np.ndarray | None = UNEVEN) -> Replay:
    """A demonstration that goes on, stands, goes back and goes on, and an episode with two corrections."""
    replay = Replay(SPEC, imitation_window=window)
    for name, kind, sources in (
        ("demo", EpisodeKind.DEMO, [H] * 9),
        ("online", EpisodeKind.ONLINE, [P, P, P, H, H, P, P, P, P]),
    ):
        replay.begin(header_of(name, kind))
        for step in steps_of(SPEC, name, sources, EndReason.SUCCESS):
            replay.add_step(step)
        if phi is not None:
            replay.add_scores(EpisodeScores(episode_id=name, version="v1", progress=phi, success=phi))
    replay.activate_scores("v1")
    return replay


def sample(replay: Replay, seed: int = 0, fraction: float = 0.5, **options: int) -> Batch:
    return replay.sample(np.random.default_rng(seed), 64, gamma=0.9, expert_fraction=fraction, **options)


@pytest.mark.parametrize("chunk", [1, 2])
def test_a_batch_has_the_weights_of_its_expert_rows(chunk: int) -> None:
    replay = filled(window=2)
    batch = sample(replay, n_step=chunk, chunk=chunk)
    ids = replay.frames.episode_ids
    pool = [("demo", t) for t in range(9)] + [("online", t) for t in (3, 4)]
    of_frame = {t: rise(UNEVEN.tolist(), t, 2) for t in range(10)}
    told = np.array([worth(of_frame[t], [of_frame[t] for _, t in pool]) for t in batch.frame.tolist()])
    assert {(ids[e], t) for e, t in zip(batch.episode[batch.expert], batch.frame[batch.expert].tolist())} <= set(pool)
    np.testing.assert_allclose(batch.imitation[batch.expert], told[batch.expert] / told[batch.expert].mean(), rtol=1e-4)
    assert (batch.imitation[~batch.expert] == 1.0).all()
    assert len(set(batch.imitation[batch.expert].tolist())) > 2


def test_only_the_weights_differ_from_a_run_that_weighs_all_the_same() -> None:
    weighed, equal = filled(window=2), filled(window=0)
    first, other = np.random.default_rng(3), np.random.default_rng(3)
    for _ in range(5):
        one, two = (r.sample(rng, 32, gamma=0.9) for r, rng in ((weighed, first), (equal, other)))
        assert (two.imitation == 1.0).all()
        assert (one.imitation != 1.0).any()
        for name in Batch.__slots__:
            if name not in ("imitation", "images", "next_images"):
                assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), name
    assert first.bit_generator.state == other.bit_generator.state


@pytest.mark.parametrize(
    "phi",
    [None, np.full(10, np.nan, np.float32), np.linspace(0, 1, 7, dtype=np.float32)],
    ids=["not scored", "not valid", "of another length"],
)
def test_rows_whose_potential_is_not_known_weigh_one(phi: np.ndarray | None) -> None:
    assert (sample(filled(window=2, phi=phi)).imitation == 1.0).all()


def test_weights_follow_the_scores_that_are_active() -> None:
    replay = filled(window=2)
    before = sample(replay).imitation
    for name in ("demo", "online"):
        falling = UNEVEN[::-1].copy()
        replay.add_scores(EpisodeScores(episode_id=name, version="v2", progress=falling, success=falling))
    assert (sample(replay).imitation == before).all()
    replay.activate_scores("v2")
    assert (sample(replay).imitation != before).any()
    replay.activate_scores(None)
    assert (sample(replay).imitation == 1.0).all()
    replay.activate_scores("v1")
    assert (sample(replay).imitation == before).all()


def test_scores_that_come_late_and_steps_that_come_on_change_what_is_usual() -> None:
    replay = filled(window=2)
    before = sample(replay, fraction=1.0).imitation
    replay.begin(header_of("late", EpisodeKind.DEMO))
    for step in steps_of(SPEC, "late", [H] * 9, EndReason.SUCCESS):
        replay.add_step(step)
    frames = replay.frames
    late = sample(replay, fraction=1.0)
    of_late = late.episode == frames.episode("late").number
    assert of_late.any()
    assert (late.imitation[of_late] == 1.0).all()
    assert late.imitation.mean() == pytest.approx(1.0, rel=1e-4)
    steep = np.minimum(1.0, np.arange(10) / 2).astype(np.float32)
    replay.add_scores(EpisodeScores(episode_id="late", version="v1", progress=steep, success=steep))
    assert (sample(replay, fraction=1.0).imitation[of_late] != 1.0).any()
    assert before.mean() == pytest.approx(1.0, rel=1e-4)


def test_a_replay_without_demonstrations_and_transitions_of_one_episode_weigh_one() -> None:
    replay = filled(window=2)
    assert (replay.transitions("demo", 20, gamma=0.9).imitation == 1.0).all()
    empty = Replay(SPEC, imitation_window=2)
    with pytest.raises(StoreError, match="replay size is 0"):
        sample(empty)
