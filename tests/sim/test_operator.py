"""The scripted operator sees late, helps when needed, and in a watched episode keeps the hands off."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from robot_stack.config import teleop
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.command import Mode
from robot_stack.types.robot import TeleopSample
from robot_stack.workcell.build import build_operator
from robot_stack.workcell.local_cell import see
from sim.hands import Seen
from sim.operator import Role, ScriptedOperator
from sim.peg_hands import PegHands
from sim.world import World

TICK_NS = 20_000_000
GOAL = np.array([0.5, 0.0, 0.053, 0.0])
SCALE = np.array([0.1, 0.1, 0.1, 0.6, 0.6, 0.6])


def _operator(seed: int = 0, **config: float) -> ScriptedOperator:
    rng = np.random.default_rng(seed)
    operator = teleop.OperatorConfig(**config)
    return ScriptedOperator(operator, rng, {"peg_insert": PegHands(operator, rng, SCALE[None])}, ["arm"])


def _seen(tick: int, above_m: float = 0.08, *, force_n: float = 0.0, done: bool = False, x_m: float = 0.0) -> Seen:
    tcp = GOAL + np.array([x_m, 0, above_m, 0])
    return Seen(
        stamp_ns=tick * TICK_NS, tcp=tcp[None], goal=GOAL[None], grasp=tcp[None], opening=np.zeros(1), force_n=force_n,
        done=done, lost=False,
    )  # fmt: skip


def _watch(operator: ScriptedOperator, scene: list[Seen], mode: Mode = Mode.POLICY) -> list[TeleopSample]:
    samples = []
    for tick, seen in enumerate(scene):
        operator.see(seen)
        samples.append(operator.sample(tick * TICK_NS, mode)["arm"])
    return samples


def test_nothing_is_seen_before_the_reaction_time() -> None:
    calm = [_seen(t) for t in range(60)]
    hit = [_seen(t, force_n=30.0 if t >= 30 else 0.0) for t in range(60)]
    samples = []
    for scene in (calm, hit):
        operator = _operator(5, reaction_s=0.3, attention=1.0, stuck_s=10.0)
        operator.begin(Role.ASSIST)
        samples.append([s.deadman for s in _watch(operator, scene)])
    first = next(t for t in range(60) if samples[0][t] != samples[1][t])
    assert first == 30 + round(0.3 * 1e9) // TICK_NS


def test_same_generator_same_hand() -> None:
    def drive(seed: int) -> np.ndarray:
        operator = _operator(seed)
        operator.begin(Role.DEMO)
        return np.array([s.twist for s in _watch(operator, [_seen(t, x_m=0.02) for t in range(80)])])

    np.testing.assert_array_equal(drive(3), drive(3))
    assert not np.array_equal(drive(3), drive(4))
    assert drive(3).any()


def test_hand_stays_within_full_deflection() -> None:
    operator = _operator(1, tremor=0.5)
    operator.begin(Role.DEMO)
    twists = np.array([s.twist for s in _watch(operator, [_seen(t, x_m=0.3) for t in range(200)])])
    assert np.abs(twists).max() <= 1.0


def test_watching_person_never_touches_the_device() -> None:
    operator = _operator(attention=1.0)
    operator.begin(Role.WATCH)
    scene = [_seen(t, force_n=40.0, x_m=0.001 * t, done=t > 100) for t in range(200)]
    for sample in _watch(operator, scene):
        assert (sample.deadman, sample.gripper, sample.events) == (False, 0, ())
        assert not sample.twist.any()


@pytest.mark.parametrize(
    ("why", "scene"),
    [
        ("stuck", [_seen(t) for t in range(250)]),
        ("off course", [_seen(t, x_m=0.0 if t < 40 else 0.06) for t in range(100)]),
        ("force", [_seen(t, force_n=30.0 if t > 40 else 0.0) for t in range(100)]),
    ],
)
def test_person_takes_over_when_needed(why: str, scene: list[Seen]) -> None:
    operator = _operator(2, attention=1.0)
    operator.begin(Role.ASSIST)
    samples = _watch(operator, scene)
    assert not samples[40].deadman, why
    assert any(s.deadman for s in samples), why


def test_policy_that_makes_progress_is_left_alone() -> None:
    operator = _operator(2, attention=1.0, patience_s=5.0)
    operator.begin(Role.ASSIST)
    samples = _watch(operator, [_seen(t, above_m=0.12 - 0.0005 * t) for t in range(200)])
    assert not any(s.deadman for s in samples)


def test_patience_ends_even_if_there_is_progress() -> None:
    operator = _operator(2, attention=1.0, patience_s=2.0)
    operator.begin(Role.ASSIST)
    samples = _watch(operator, [_seen(t, above_m=0.12 - 0.0005 * t) for t in range(200)])
    taken = [t for t, s in enumerate(samples) if s.deadman]
    assert taken
    assert taken[0] * 0.02 > 2.0


def test_an_arm_whose_tip_is_going_in_is_left_to_finish() -> None:
    operator = _operator(2, attention=1.0, patience_s=2.0)
    operator.begin(Role.ASSIST)
    scene = [_seen(t, above_m=0.012 - 0.00006 * t) for t in range(150)]
    assert not any(s.deadman for s in _watch(operator, scene))


def test_person_lets_go_once_the_tip_is_in_the_hole() -> None:
    operator = _operator(2, attention=1.0)
    operator.begin(Role.ASSIST)
    scene = [_seen(t, above_m=0.08 if t < 150 else 0.002) for t in range(200)]
    held = [s.deadman for s in _watch(operator, scene)]
    assert held[149]
    assert not held[-1]


def test_person_does_not_take_over_from_a_hold() -> None:
    operator = _operator(2, attention=1.0)
    operator.begin(Role.ASSIST)
    assert not any(s.deadman for s in _watch(operator, [_seen(t) for t in range(250)], Mode.HOLD))


def test_inattentive_person_helps_later_than_an_attentive_one() -> None:
    def first(attention: float) -> int:
        operator = _operator(9, attention=attention)
        operator.begin(Role.ASSIST)
        held = [s.deadman for s in _watch(operator, [_seen(t) for t in range(3000)])]
        return held.index(True)

    assert first(0.05) > first(1.0)


@pytest.mark.parametrize(("done", "word"), [(True, "success"), (False, "failure")])
def test_claim_is_judged_by_what_is_seen(done: bool, word: str) -> None:
    operator = _operator(attention=1.0)
    operator.begin(Role.ASSIST)
    scene = [_seen(t, done=done, above_m=0.1 - 0.001 * t) for t in range(20)]
    _watch(operator, scene)
    operator.audit(20 * TICK_NS)
    events = [e for t in range(20, 45) for e in operator.sample(t * TICK_NS, Mode.HOLD)["arm"].events]
    assert events == [word]


def test_success_is_said_once_and_only_after_it_has_lasted() -> None:
    operator = _operator(attention=1.0, verdict_s=0.6, reaction_s=0.3)
    operator.begin(Role.DEMO)
    samples = _watch(operator, [_seen(t, done=t >= 50) for t in range(150)])
    said = [(t, s.events) for t, s in enumerate(samples) if s.events]
    assert said == [(50 + 15 + 30, ("success",))]


def test_demonstrations_succeed_from_most_starts(resolved: ResolvedRun, world: World) -> None:
    inserted = 0
    for seed in range(6):
        operator = build_operator(resolved, seed)
        world.reset(100 + seed)
        operator.begin(Role.DEMO)
        for _ in range(round(12.0 / 0.02)):
            operator.see(see(world))
            world.command(operator.sample(world.time_ns)["fr3"].twist * SCALE)
            world.advance(0.02)
            if world.task.succeeded(world.data):
                inserted += 1
                break
    assert inserted >= 5


def test_an_operator_who_slips_lets_go_before_the_peg_is_in() -> None:
    scene = [_seen(t) for t in range(400)]

    def longest(slip_per_s: float) -> int:
        operator = _operator(2, attention=1.0, slip_per_s=slip_per_s)
        operator.begin(Role.ASSIST)
        held = [s.deadman for s in _watch(operator, scene)]
        return max(len(list(group)) for engaged, group in groupby(held) if engaged)

    assert longest(1.0) * 0.02 == pytest.approx(1.0, abs=0.04)
    assert longest(0.0) * 0.02 > 4.0


def test_an_operator_who_strays_moves_as_fast_in_another_direction() -> None:
    def sideways(direction_noise_rad: float) -> np.ndarray:
        operator = _operator(3, tremor=0.0, direction_noise_rad=direction_noise_rad)
        operator.begin(Role.DEMO)
        return _watch(operator, [_seen(t, x_m=0.03) for t in range(30)])[-1].twist[:2]

    straight, strayed = sideways(0.0), sideways(2.0)
    assert np.linalg.norm(straight) > 0.2
    assert np.linalg.norm(strayed) == pytest.approx(np.linalg.norm(straight), rel=1e-6)
    turned = straight @ strayed / np.linalg.norm(straight) / np.linalg.norm(strayed)
    assert turned < 0.98


@pytest.mark.long
def test_operators_of_less_skill_demonstrate_slower(world: World) -> None:
    def seconds(teleop_file: str, starts: int = 5, most_s: float = 8.0) -> float:
        resolved, spent_s = load_run("peg_insert", [f"cell.teleop={teleop_file}"]), 0.0
        for seed in range(starts):
            operator = build_operator(resolved, seed)
            world.reset(100 + seed)
            operator.begin(Role.DEMO)
            for _ in range(round(most_s / 0.02)):
                operator.see(see(world))
                world.command(operator.sample(world.time_ns)["fr3"].twist * SCALE)
                world.advance(0.02)
                spent_s += 0.02
                if world.task.succeeded(world.data):
                    break
        return spent_s / starts

    assert seconds("scripted_half_skilled") > 1.5 * seconds("scripted")


def test_an_inattentive_operator_steps_in_later_and_misses_more_claims() -> None:
    files = ("scripted", "scripted_inattentive")
    skilled, away = (load_run("peg_insert", [f"cell.teleop={name}"]).teleop for name in files)
    assert isinstance(skilled, teleop.ScriptedTeleop)
    assert isinstance(away, teleop.ScriptedTeleop)

    def mean_first(config: teleop.OperatorConfig) -> float:
        firsts = []
        for seed in range(20):
            operator = _operator(seed, **config.model_dump())
            operator.begin(Role.ASSIST)
            firsts.append([s.deadman for s in _watch(operator, [_seen(t) for t in range(1500)])].index(True))
        return float(np.mean(firsts)) * 0.02

    assert mean_first(away.operator) > mean_first(skilled.operator) + 1.0
    assert away.operator.attention < 0.5 * skilled.operator.attention
    hands = {"attention", "reaction_s", "verdict_s"}
    assert away.operator.model_dump(exclude=hands) == skilled.operator.model_dump(exclude=hands)
