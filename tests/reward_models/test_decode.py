"""Recursions, anchors and fusion of pair scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reward_models.decode import (
    SURE_UP_TO,
    backward_anchor,
    decode,
    forward_anchor,
    fuse,
    gaps,
    gated,
    hold_back,
    hop_between,
    remaining_between,
    step_remaining,
    trust,
)

curves = arrays(np.float64, st.integers(1, 30), elements=st.floats(0.0, 1.0))
scores = arrays(np.float64, st.integers(0, 30), elements=st.floats(-1.0, 1.0))
some_missing = arrays(np.float64, st.integers(0, 30), elements=st.one_of(st.floats(-1.0, 1.0), st.just(float("nan"))))


@given(curves)
def test_hops_of_any_curve_decode_to_that_curve(phi: np.ndarray) -> None:
    hops = np.array([hop_between(a, b) for a, b in itertools.pairwise(phi)])
    assert decode(hops, start=phi[0], semantics="hop") == pytest.approx(phi, abs=1e-9)


@given(st.integers(2, 60))
def test_scores_of_a_steady_video_decode_to_its_clock(frames: int) -> None:
    phi = np.linspace(0, 1, frames)
    steps = np.array([remaining_between(a, b) for a, b in itertools.pairwise(phi)])
    assert decode(steps, start=0.0, semantics="remaining") == pytest.approx(phi, abs=1e-9)


@given(st.floats(0.5, SURE_UP_TO, exclude_min=True), st.floats(0.0, 0.9))
def test_a_negative_score_undoes_the_positive_one(phi: float, score: float) -> None:
    ahead = step_remaining(phi, score)
    back = step_remaining(ahead, -score)
    assert back == pytest.approx(phi, abs=1e-9) or ahead > SURE_UP_TO


@pytest.mark.parametrize(
    ("answers", "curve"),
    [
        ([0.5, 0.5, -0.5], [0.0, 0.5, 0.75, 0.5]),
        ([-0.5], [0.0, 0.0]),
        ([1.0, 0.0], [0.0, 1.0, 1.0]),
        ([1.0, -1.0], [0.0, 1.0, 0.1]),
        ([0.75, -0.99], [0.0, 0.75, 0.1]),
        ([], [0.0]),
    ],
)
def test_the_recursion_at_its_edges(answers: list[float], curve: list[float]) -> None:
    assert decode(np.array(answers), start=0.0, semantics="remaining") == pytest.approx(np.array(curve))


@given(scores, st.floats(0.0, 1.0), st.sampled_from(["remaining", "hop"]))
def test_progress_never_leaves_its_range(answers: np.ndarray, start: float, semantics: str) -> None:
    phi = decode(answers, start=start, semantics=semantics)  # type: ignore[arg-type]
    assert len(phi) == len(answers) + 1
    assert ((phi >= 0) & (phi <= 1)).all()


@given(some_missing, st.sampled_from(["remaining", "hop"]))
def test_nothing_is_known_behind_an_unreadable_answer(answers: np.ndarray, semantics: str) -> None:
    phi = decode(answers, start=0.2, semantics=semantics)  # type: ignore[arg-type]
    read = int(np.isnan([*answers, np.nan]).argmax())
    assert np.isfinite(phi[: read + 1]).all()
    assert np.isnan(phi[read + 1 :]).all()


def test_an_answer_over_a_gap_takes_up_what_happened_in_it() -> None:
    steps = np.array([0.5, np.nan, np.nan, 0.5])
    phi = decode(steps, start=0.0, semantics="hop", over={3: (1, -0.8)})
    assert phi == pytest.approx([0.0, 0.5, np.nan, 0.1, 0.55], nan_ok=True)
    assert np.isnan(decode(steps, start=0.0, semantics="hop", over={3: (1, np.nan)})[2:]).all()


@pytest.mark.parametrize(
    ("unread", "over"),
    [((), {}), ((1, 2), {3: 1}), ((1,), {3: 1}), ((1, 3), {3: 1, 5: 3}), ((4,), {}), ((3, 4), {5: 3}), ((0,), {2: 0})],
)
def test_a_gap_is_led_over_from_the_last_frame_before_it_to_the_first_behind(
    unread: tuple[int, ...], over: dict[int, int]
) -> None:
    steps = np.zeros(5)
    steps[list(unread)] = np.nan
    assert gaps(steps) == over


@pytest.mark.parametrize("bad", [1.01, -2.0, float("inf")])
def test_a_score_out_of_range_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=r"must be in \[-1, 1\] or NaN"):
        decode(np.array([0.1, bad]), start=0.0, semantics="hop")


def test_a_start_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"start is 1\.5"):
        decode(np.zeros(1), start=1.5, semantics="hop")


@given(curves)
def test_perfect_anchors_give_the_true_curve(phi: np.ndarray) -> None:
    forward = forward_anchor(np.array([hop_between(0.0, p) for p in phi]))
    backward = backward_anchor(np.array([hop_between(1.0, p) if p < 1 else 0.0 for p in phi]))
    hops = np.array([hop_between(a, b) for a, b in itertools.pairwise(phi)])
    assert forward == pytest.approx(phi)
    assert backward == pytest.approx(phi)
    for mode in ("mean", "gated"):
        assert fuse(hops, forward, backward, mode=mode) == pytest.approx(phi, abs=1e-9)  # type: ignore[arg-type]


def test_at_full_trust_the_gate_weighs_a_quarter_a_quarter_a_half() -> None:
    forward, backward = np.array([0.4, 0.6]), np.array([0.4, 0.6])
    phi = fuse(np.array([0.0]), forward, backward, mode="gated")
    assert phi[1] == pytest.approx(0.25 * 0.6 + 0.25 * 0.6 + 0.5 * 0.4)


def test_without_the_gate_each_anchor_weighs_a_third() -> None:
    phi = fuse(np.array([0.5]), np.array([0.4, 0.9]), np.array([0.4, 0.6]), mode="mean")
    assert phi[1] == pytest.approx((0.7 + 0.9 + 0.6) / 3)


def test_anchors_that_contradict_each_other_freeze_progress() -> None:
    forward, backward = np.array([0.5, 1.0]), np.array([0.5, 0.0])
    assert trust(forward, backward, alpha=20.0)[1] < 1e-9
    assert fuse(np.array([1.0]), forward, backward, mode="gated")[1] == pytest.approx(0.5)


def test_a_frame_with_an_unreadable_anchor_is_unknown() -> None:
    nan = float("nan")
    phi = fuse(np.array([0.5, 0.0]), np.array([0.0, nan, 0.5]), np.array([0.0, 0.5, 0.5]), mode="mean")
    assert np.isnan(phi).tolist() == [False, True, False]
    assert phi[2] == pytest.approx(1 / 3)


def test_anchors_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one more than the 3 hops"):
        fuse(np.zeros(3), np.zeros(3), np.zeros(4), mode="mean")


@given(curves)
def test_held_back_progress_follows_where_it_is_trusted_and_stands_where_it_is_not(phi: np.ndarray) -> None:
    assert hold_back(phi, np.ones(len(phi))) == pytest.approx(phi, abs=1e-12)
    assert hold_back(phi, np.zeros(len(phi))).tolist() == [phi[0]] * len(phi)


def test_the_gate_trusts_two_members_by_how_far_they_are_apart_of_their_mean() -> None:
    members = np.array([[0.4, 0.7], [0.4, 0.9]])
    held = gated(members.mean(axis=0), members.std(axis=0), alpha=20.0)
    assert held == pytest.approx([0.4, 0.4 + np.exp(-20 * (0.2 / 0.8) ** 2) * 0.4])


def test_members_that_differ_little_hold_nothing_back_where_little_is_done() -> None:
    phi = np.array([0.8, 0.8, 0.02, 0.02, 0.02])
    assert gated(phi, np.full(5, 0.02), alpha=20.0)[-1] == pytest.approx(0.02, abs=0.01)


@given(curves)
def test_the_gate_freezes_progress_while_members_contradict_each_other(phi: np.ndarray) -> None:
    half = len(phi) // 2
    spread = np.where(np.arange(len(phi)) < half, 0.0, 2.0)
    held = gated(phi, spread, alpha=20.0)
    assert held[:half] == pytest.approx(phi[:half], abs=1e-12)
    assert held[half:] == pytest.approx(np.full(len(phi) - half, held[max(0, half - 1)]), abs=1e-6)
    assert ((held >= 0) & (held <= 1)).all()
