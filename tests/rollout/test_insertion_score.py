"""The score of an insertion, by hand-computed cases of the rules, and what has no score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.rollout import evaluate as module
from robot_stack.rollout.evaluate import evaluate_in
from robot_stack.rollout.insertion_score import (
    MOST,
    InsertionScore,
    insertion_points,
    mean_jerk,
    score_insertion,
    seconds_above,
    summary_of,
)
from robot_stack.types.errors import SpecError
from robot_stack.types.insertion import InsertionRecord
from robot_stack.workcell.build import build_local_cell
from tests.rollout.test_milestones import Still

DEPTH_M, START_M = 0.02, 0.08
DT_S, STEP_S = 0.01, 0.002


def straight(duration_s: float = 5.0, *, inserted: bool = True) -> InsertionRecord:
    """A plug that goes 8 cm straight down in so long, at an even speed."""
    times = np.arange(0.0, duration_s + DT_S / 2, DT_S)
    height = START_M * (1 - times / times[-1])
    plug = np.column_stack([np.zeros((len(times), 2)), height])
    return InsertionRecord(
        times_s=times,
        tcp_m=plug + np.array([0.5, 0.0, 0.1]),
        velocity_m_s=np.tile([0.0, 0.0, -START_M / times[-1]], (round(times[-1] / STEP_S), 1)),
        velocity_step_s=STEP_S,
        plug_m=plug,
        force_n=np.zeros(len(times)),
        forbidden=np.zeros(len(times), np.bool_),
        depth_m=DEPTH_M,
        inserted=inserted,
    )


def ending_at(x: float, y: float, z: float) -> InsertionRecord:
    record = straight(inserted=False)
    plug = record.plug_m.copy()
    plug[-1] = [x, y, z]
    return replace(record, plug_m=plug)


def test_a_straight_even_way_in_five_seconds_has_all_points() -> None:
    score = score_insertion(straight())
    assert score.insertion == 75.0
    assert score.duration == pytest.approx(12.0)
    assert score.jerk == pytest.approx(6.0, abs=1e-6)
    assert score.path == pytest.approx(6.0)
    assert score.total == pytest.approx(MOST) == pytest.approx(99.0)


@pytest.mark.parametrize(("duration_s", "points"), [(4.0, 12.0), (16.0, 9.6), (32.5, 6.0), (60.0, 0.0), (70.0, 0.0)])
def test_time_counts_from_five_to_sixty_seconds(duration_s: float, points: float) -> None:
    assert score_insertion(straight(duration_s)).duration == pytest.approx(points, abs=1e-9)  # 12 (60 - t) / 55


def test_a_detour_costs_six_points_a_metre() -> None:
    record = straight()
    there_and_back = record.tcp_m.copy()
    there_and_back[200, 0] += 0.125  # one instant aside and back: 0.25 m, a hair less since both ways are slanted
    there_and_back[:, 2] = 0.1
    score = score_insertion(replace(record, tcp_m=there_and_back))
    assert score.path == pytest.approx(6.0 * (1.0 - (0.25 - START_M)), abs=1e-9)


@pytest.mark.parametrize(
    ("plug_m", "points"),
    [
        ((0.0, 0.0, 0.0), 50.0),  # as deep as it goes, though nothing called it inserted
        ((0.004, -0.004, 0.01), 44.0),  # half way in: 38 + 12 / 2
        ((0.0, 0.0, 0.0199), 38.06),
        ((0.0, 0.0, 0.02), 25.0),  # at the rim
        ((0.0, 0.0, 0.04), 12.5),  # 2 cm over it, of half of the 8 cm at the start
        ((0.03, 0.04, 0.0), 6.25),  # beside the socket: 5 cm away, 3 beyond the depth
        ((0.0, 0.0, 0.06), 0.0),
        ((0.2, 0.0, 0.0), 0.0),
    ],
)
def test_what_is_not_in_counts_by_depth_or_distance(plug_m: tuple[float, float, float], points: float) -> None:
    assert insertion_points(ending_at(*plug_m)) == pytest.approx(points)


def test_a_plug_that_ends_far_away_has_no_points_for_motion_and_keeps_the_penalties() -> None:
    record = replace(ending_at(0.2, 0.0, 0.0), forbidden=np.eye(1, 501, 7, dtype=np.bool_)[0])
    score = score_insertion(record)
    assert (score.insertion, score.duration, score.jerk, score.path) == (0.0, 0.0, 0.0, 0.0)
    assert score.total == -24.0


@pytest.mark.parametrize(("instants", "force_n", "points"), [(100, 20.1, 0.0), (101, 20.1, -12.0), (400, 20.0, 0.0)])
def test_more_than_twenty_newton_for_more_than_a_second_in_all_costs_twelve(
    instants: int, force_n: float, points: float
) -> None:
    record = straight()
    force = np.zeros(len(record.times_s))
    force[np.linspace(1, len(force) - 1, instants).astype(int)] = force_n  # not at a stretch
    record = replace(record, force_n=force)
    if force_n > 20.0:
        assert seconds_above(record, 20.0) == pytest.approx(instants * DT_S)
    assert score_insertion(record).force == points


def moving_by(speed_m_s: np.ndarray) -> InsertionRecord:
    return replace(straight(), velocity_m_s=np.column_stack([speed_m_s, np.zeros((len(speed_m_s), 2))]))


def test_jerk_is_that_of_a_known_motion() -> None:
    times = np.arange(2500) * STEP_S
    record = moving_by(5.0 * (times + 0.5) ** 2)  # its second derivative is 10
    assert mean_jerk(record) == pytest.approx(10.0, rel=1e-6)
    assert score_insertion(record).jerk == pytest.approx(6.0 * 40 / 50, rel=1e-6)


def test_jerk_of_a_swing_is_not_smoothed_away() -> None:
    """A window of 30 ms, as in the rules, takes 6 % of a swing at 10 Hz; one of 0.15 s takes most of it."""
    omega = 2 * np.pi * 10.0
    swing = 0.1 + 0.01 * np.sin(omega * np.arange(2500) * STEP_S)
    assert mean_jerk(moving_by(swing)) == pytest.approx(0.01 * omega**2 * 2 / np.pi, rel=0.1)


def test_jerk_counts_only_while_the_tool_moves() -> None:
    times = np.arange(2500) * STEP_S
    assert mean_jerk(moving_by(5.0 * np.maximum(times - 2.5, 0.0) ** 2)) == pytest.approx(10.0, rel=0.02)
    assert mean_jerk(moving_by(np.full(2500, 0.01))) is None


def test_an_episode_of_a_few_instants_has_a_score_without_jerk() -> None:
    assert mean_jerk(straight(0.02)) is None
    assert score_insertion(straight(0.02)).total == pytest.approx(93.0)


def test_a_summary_has_means_and_counts_penalties() -> None:
    good = InsertionScore(insertion=75.0, duration=12.0, jerk=6.0, path=6.0, force=0.0, contact=0.0)
    bad = InsertionScore(insertion=0.0, duration=0.0, jerk=0.0, path=0.0, force=-12.0, contact=-24.0)
    told = summary_of([good, bad])
    assert told["mean"] == 31.5
    assert told["most"] == 99.0
    assert told["parts"] == {
        "insertion": 37.5, "duration": 6.0, "jerk": 3.0, "path": 3.0, "force": -6.0, "contact": -12.0,
    }  # fmt: skip
    assert (told["forced"], told["touched"]) == (1, 1)


NOTHING = {name: np.zeros((0, 3) if name.endswith("_m") else 0) for name in ("times_s", "tcp_m", "plug_m", "force_n")}


def _with(name: str, value: float) -> dict[str, np.ndarray]:
    array = getattr(straight(), name).copy()
    array[3] = value
    return {name: array}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (NOTHING | {"forbidden": np.zeros(0, np.bool_)}, "is empty, must have an instant at least"),
        (_with("force_n", np.nan), "force_n is not finite at instant 3, must be finite"),
        (_with("plug_m", np.inf), "plug_m is not finite at instant 3"),
        (_with("times_s", 0.02), "times_s does not rise at instant 3"),
        ({"tcp_m": np.zeros((4, 3))}, r"tcp_m has shape \(4, 3\), must be \(501, 3\)"),
        (_with("velocity_m_s", np.nan), "velocity_m_s is not finite at instant 3"),
        ({"velocity_m_s": np.zeros((4, 2))}, r"velocity_m_s has shape \(4, 2\), must be \(4, 3\)"),
        ({"velocity_step_s": 0.0}, "velocity_step_s is 0.0, must be above 0"),
        ({"depth_m": 0.0}, "depth_m is 0.0, must be above 0"),
        ({"depth_m": float("nan")}, "depth_m is nan, must be above 0"),
    ],
)
def test_a_record_that_cannot_be_scored_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        replace(straight(), **changes)  # type: ignore[arg-type]


@pytest.mark.long
def test_an_evaluation_of_the_cable_plug_is_scored_and_of_the_peg_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "policy_of", lambda resolved, params, seed: Still(resolved.spec().action_size))
    for run, scored in (("cable_plug", True), ("peg_insert", False)):
        resolved = load_run(run, ["task.episode_steps=4"])
        cell = build_local_cell(resolved, seed=0)
        summary = evaluate_in(cell, resolved, None, 2).summary()
        cell.close()
        assert ("score" in summary) is scored
        if scored:
            assert summary["score"]["mean"] == 0.0  # it stays where it began, farther than half the way
            assert cell.insertion().times_s[-1] - cell.insertion().times_s[0] == pytest.approx(0.4)
