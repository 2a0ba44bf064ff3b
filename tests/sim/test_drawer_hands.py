"""The operator's hands at the drawer: which key at which moment, and on from any state they find."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from benchmarks.operator import OperatorTrial
from robot_stack.config.resolve import load_run
from robot_stack.config.teleop_parts import OperatorConfig
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.evaluate import NullSink
from robot_stack.types.observation import Observation
from robot_stack.types.stages import stage_starts
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import see
from sim.drawer_hands import DrawerHands
from sim.hands import Seen
from sim.operator import Role, ScriptedOperator
from sim.tasks.drawer import Drawer, Stage
from tests.rollout.fake_cell import ListSink

SCALE = np.array([[0.15, 0.15, 0.15, 0.9, 0.9, 0.9]])
TICK_NS = 20_000_000
HANDLE, BLOCK = np.array([0.48, 0.05, 0.028, 0.1]), np.array([0.5, -0.09, 0.023, 0.0])
PULLED, DROP = HANDLE + np.array([0.07, 0.007, 0, 0]), np.array([0.50, 0.05, 0.036, 0.1])
FRONT, CLOSED = np.array([0.54, 0.05, 0.028, 0.1]), np.array([0.48, 0.044, 0.028, 0.1])
UP = np.array([0.0, 0.0, 0.04, 0.0])
PARTS = {Stage.OPEN: (HANDLE, PULLED), Stage.FILL: (BLOCK, DROP), Stage.CLOSE: (FRONT, CLOSED)}
OPEN_KEY, NO_KEY, CLOSE_KEY = [1], [0], [-1]


def seen_at(tcp: np.ndarray, opening: float, stage: Stage, *, tick: int = 0, grasp: np.ndarray | None = None) -> Seen:
    part, goal = PARTS[stage]
    return Seen(
        stamp_ns=tick * TICK_NS, tcp=tcp[None], goal=goal[None], grasp=(part if grasp is None else grasp)[None],
        opening=np.array([opening]), force_n=0.0, done=False, lost=False, stage=stage,
    )  # fmt: skip


def steady_hands() -> DrawerHands:
    config = OperatorConfig(
        position_noise_m=0.0, yaw_noise_rad=0.0, far_position_noise_m=0.0, far_yaw_noise_rad=0.0, tremor=0.0
    )
    hands = DrawerHands(config, np.random.default_rng(0), SCALE)
    hands.begin()
    return hands


def driven(hands: DrawerHands, seen: Seen) -> np.ndarray:
    """The deflection in the frame of the base, shape (3,), of a tool whose yaw is 0."""
    return np.asarray(hands.drive(seen)[0, :3] * [1, -1, -1])


def test_the_handle_is_gripped_and_pulled_and_let_go_once_the_drawer_is_open() -> None:
    hands = steady_hands()
    assert hands.grip(seen_at(HANDLE + UP, 1.0, Stage.OPEN)) == NO_KEY
    assert hands.grip(seen_at(HANDLE, 1.0, Stage.OPEN)) == CLOSE_KEY
    assert hands.grip(seen_at(HANDLE, 0.6, Stage.OPEN)) == CLOSE_KEY
    np.testing.assert_array_equal(hands.drive(seen_at(HANDLE, 0.6, Stage.OPEN)), np.zeros((1, 6)))
    assert hands.grip(seen_at(HANDLE, 0.2, Stage.OPEN)) == NO_KEY
    assert hands.drive(seen_at(HANDLE, 0.2, Stage.OPEN))[0, 0] > 0.3  # along x of a tool that is turned like the drawer
    assert hands.grip(seen_at(PULLED, 0.2, Stage.FILL)) == OPEN_KEY
    assert hands.grip(seen_at(PULLED, 0.95, Stage.FILL)) == NO_KEY


def test_an_open_hand_goes_up_before_it_goes_to_the_block() -> None:
    hands, level = steady_hands(), np.array([0.55, 0.057, 0.028, 0.0])
    assert driven(hands, seen_at(level, 1.0, Stage.FILL))[2] > 0.3
    np.testing.assert_allclose(driven(hands, seen_at(level, 1.0, Stage.FILL))[:2], 0.0, atol=1e-9)
    assert driven(hands, seen_at(level + 0.9 * UP, 1.0, Stage.FILL))[1] < -0.3


def test_a_carried_block_is_let_go_over_the_drawer_and_nowhere_else() -> None:
    hands = steady_hands()
    assert hands.grip(seen_at(BLOCK, 1.0, Stage.FILL)) == CLOSE_KEY
    for tcp in (BLOCK, BLOCK + UP, DROP + UP, DROP + np.array([0.0, -0.03, 0.0, 0.0])):
        assert hands.grip(seen_at(tcp, 0.38, Stage.FILL, grasp=tcp)) == NO_KEY
    assert hands.grip(seen_at(DROP, 0.38, Stage.FILL, grasp=DROP)) == OPEN_KEY


def test_a_filled_drawer_is_pushed_closed_by_open_fingers() -> None:
    hands, ready = steady_hands(), np.array([0.552, 0.051, 0.029, 0.0])
    assert hands.grip(seen_at(DROP, 0.38, Stage.CLOSE)) == OPEN_KEY
    hands = steady_hands()
    assert driven(hands, seen_at(DROP, 1.0, Stage.CLOSE))[2] > 0.1
    assert driven(hands, seen_at(ready, 1.0, Stage.CLOSE))[0] < -0.3
    assert hands.grip(seen_at(ready, 1.0, Stage.CLOSE)) == NO_KEY
    assert hands.going_in(seen_at(ready, 1.0, Stage.CLOSE))
    assert not hands.going_in(seen_at(DROP + UP, 1.0, Stage.CLOSE))


def test_a_block_that_was_fetched_too_early_is_put_down_before_the_drawer_is_opened() -> None:
    hands, aloft = steady_hands(), np.array([0.5, -0.05, 0.09, 0.0])
    assert hands.grip(seen_at(aloft, 0.38, Stage.OPEN)) == NO_KEY
    assert driven(hands, seen_at(aloft, 0.38, Stage.OPEN))[2] < -0.3
    low = aloft - [0, 0, 0.06, 0]
    assert hands.grip(seen_at(low, 0.38, Stage.OPEN)) == OPEN_KEY


@pytest.mark.parametrize("stage", Stage)
def test_a_gripper_that_was_closed_on_nothing_is_opened(stage: Stage) -> None:
    hands, aloft = steady_hands(), np.array([0.52, -0.02, 0.09, 0.0])
    assert hands.grip(seen_at(aloft, 0.0, stage)) == OPEN_KEY
    assert hands.grip(seen_at(aloft, 0.6, stage)) == OPEN_KEY
    assert hands.grip(seen_at(aloft, 0.95, stage)) == NO_KEY


def test_fingers_that_close_on_something_else_are_opened_again_after_a_while() -> None:
    hands = steady_hands()
    assert hands.grip(seen_at(HANDLE, 1.0, Stage.OPEN)) == CLOSE_KEY
    assert hands.grip(seen_at(HANDLE, 0.5, Stage.OPEN, tick=40)) == CLOSE_KEY
    assert hands.grip(seen_at(HANDLE, 0.5, Stage.OPEN, tick=80)) == OPEN_KEY


def test_fingers_that_cannot_open_are_closed_a_little_while_the_hand_goes_up() -> None:
    hands, wedged = steady_hands(), np.array([0.496, 0.148, 0.023, -0.4])
    assert hands.grip(seen_at(wedged, 0.8, Stage.OPEN)) == OPEN_KEY
    assert hands.grip(seen_at(wedged, 0.88, Stage.OPEN, tick=70)) == OPEN_KEY
    assert hands.grip(seen_at(wedged, 0.88, Stage.OPEN, tick=80)) == CLOSE_KEY
    assert driven(hands, seen_at(wedged, 0.88, Stage.OPEN, tick=81))[2] > 0.3
    assert hands.grip(seen_at(wedged, 0.45, Stage.OPEN, tick=100)) == OPEN_KEY


@pytest.mark.parametrize("half_turns", [-1, 1])
def test_a_hand_that_is_turned_by_half_a_turn_takes_the_handle_as_it_is(
    trial: OperatorTrial, half_turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = trial.cell.world
    world.reset(3)
    straight = see(world)
    turned = world.task.start_poses(np.random.default_rng(0)) + np.array([0, 0, 0, half_turns * 3.0])
    monkeypatch.setattr(world.task, "start_poses", lambda rng: turned)
    world.reset(3)
    seen = see(world)
    turn = (seen.grasp - seen.tcp)[0, 3]
    assert abs((turn + np.pi) % (2 * np.pi) - np.pi) < 0.6
    assert abs((straight.grasp - straight.tcp)[0, 3]) < 0.4


def test_the_way_that_is_left_falls_from_motion_to_motion() -> None:
    hands = steady_hands()
    course = (
        seen_at(BLOCK + 3 * UP, 1.0, Stage.OPEN),
        seen_at(HANDLE, 1.0, Stage.OPEN),
        seen_at(HANDLE, 0.2, Stage.OPEN),
        seen_at(PULLED, 0.2, Stage.OPEN, grasp=PULLED),
        seen_at(PULLED, 1.0, Stage.FILL),
        seen_at(BLOCK, 1.0, Stage.FILL),
        seen_at(BLOCK, 0.38, Stage.FILL),
        seen_at(DROP, 0.38, Stage.FILL, grasp=DROP),
        seen_at(DROP, 1.0, Stage.CLOSE),
        seen_at(FRONT, 1.0, Stage.CLOSE),
        seen_at(CLOSED, 1.0, Stage.CLOSE, grasp=CLOSED),
    )
    left = [hands.distance(seen) for seen in course]
    assert (np.diff(left) < 0.0).all()
    assert left[-1] < 0.02


def test_every_motion_is_misjudged_anew_but_a_drawer_in_hand_shows_its_way() -> None:
    hands = DrawerHands(OperatorConfig(tremor=0.0), np.random.default_rng(4), SCALE)
    hands.begin()
    hands.look_again(seen_at(BLOCK + UP, 1.0, Stage.OPEN))
    assert np.abs(hands._far_bias).max() > 0.001
    first = hands._bias.copy()
    hands.look_again(seen_at(HANDLE, 0.2, Stage.OPEN))
    assert not hands._far_bias.any()
    assert (hands._bias != first)[[0, 1, 3]].all()
    hands.look_again(seen_at(PULLED, 1.0, Stage.FILL))
    assert np.abs(hands._far_bias).max() > 0.001


def test_in_a_correction_the_operator_lets_go_once_the_motion_is_done_that_they_took_over_for() -> None:
    config, rng = OperatorConfig(attention=1.0, stuck_s=1.0), np.random.default_rng(2)
    operator = ScriptedOperator(config, rng, {"drawer": DrawerHands(config, rng, SCALE)}, ["arm"])
    operator.begin(Role.ASSIST)
    lifted, held = BLOCK + UP, []
    for tick in range(200):
        seen = seen_at(BLOCK, 1.0, Stage.FILL, tick=tick)
        if tick >= 100:
            seen = seen_at(lifted, 0.38, Stage.FILL, grasp=lifted, tick=tick)
        operator.see(seen)
        held.append(operator.sample(tick * TICK_NS)["arm"].deadman)
    assert not held[40]
    assert held[99]
    assert not any(held[120:140])


@pytest.fixture(scope="module")
def trial() -> OperatorTrial:
    return OperatorTrial(load_run("drawer"))


class Still:
    """A policy that moves nothing."""

    version, age_s = 1, 0.0

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return np.zeros(5, np.float32)


@pytest.mark.slow
def test_help_alone_brings_an_episode_to_its_end_in_time() -> None:
    run = load_run("drawer")
    cell = build_local_cell(run, seed=1)
    header = EpisodeHeader(
        episode_id="e", kind=EpisodeKind.ONLINE, task="drawer", actor="a", started_unix_s=0.0, seed=1
    )
    loop = ControlLoop(cell, run.spec(), cell, LoopLimits(episode_steps=run.task.episode_steps))
    outcome = loop.run_episode(header, Still(), NullSink())
    cell.close()
    assert outcome.end is EndReason.SUCCESS
    assert outcome.truth is True
    assert 100 < outcome.human_steps < outcome.steps - 50


@pytest.mark.slow
def test_demonstrations_from_held_out_resets_succeed_in_time(trial: OperatorTrial) -> None:
    attempts = [trial.attempt("reset", number) for number in range(200, 203)]
    assert all(one.success for one in attempts)
    assert all(12.0 < one.duration_s < 22.0 for one in attempts)
    assert all(all(one.milestones.values()) and len(one.milestones) == 5 for one in attempts)


@pytest.mark.slow
@pytest.mark.parametrize("beginning", ["random", "disturbed"])
def test_the_operator_takes_over_from_where_a_random_policy_has_left_the_scene(
    trial: OperatorTrial, beginning: str
) -> None:
    attempts = [trial.attempt(beginning, number) for number in range(300, 303)]
    assert all(one.success for one in attempts)


def put(trial: OperatorTrial, *, open_m: float, block_m: tuple[float, float, float] | None) -> Drawer:
    """Slide the drawer and lay the block somewhere, given in the frame of the cabinet."""
    world = trial.cell.world
    model, data = world.model, world.data
    assert isinstance(world.task, Drawer)
    data.joint("drawer").qpos[0] = open_m
    if block_m is not None:
        cabinet = data.body("cabinet")
        place = cabinet.xpos + cabinet.xmat.reshape(3, 3) @ block_m
        data.joint("block").qpos[:] = [*place, np.cos(0.3), 0, 0, np.sin(0.3)]
    data.qvel[:] = 0.0
    mujoco.mj_forward(model, data)
    return world.task


@pytest.mark.long
@pytest.mark.parametrize(
    ("open_m", "block_m", "begins_with"),
    [
        pytest.param(0.03, None, Stage.OPEN, marks=pytest.mark.slow),
        pytest.param(0.062, (0.03, -0.09, 0.017), Stage.FILL, marks=pytest.mark.slow),  # beside the open drawer
        pytest.param(0.062, (-0.03, 0.0, 0.062), Stage.FILL, marks=pytest.mark.slow),  # on top of the cabinet
        (0.062, (0.028, 0.0, 0.02), Stage.CLOSE),
        pytest.param(0.0, (0.10, 0.0, 0.017), Stage.OPEN, marks=pytest.mark.slow),  # before the handle
    ],
)
def test_the_operator_goes_on_from_the_middle_of_the_task(
    trial: OperatorTrial, open_m: float, block_m: tuple[float, float, float] | None, begins_with: Stage
) -> None:
    trial.begin("reset", 400)
    task = put(trial, open_m=open_m, block_m=block_m)
    assert task.stage(trial.cell.world.data) == begins_with
    assert trial.finish().success


@pytest.mark.long
def test_a_scripted_operator_that_is_told_to_marks_both_stages_of_a_demonstration() -> None:
    run = load_run("drawer", ["teleop.operator.marks_stages=true"])
    cell, sink = build_local_cell(run, seed=1), ListSink()
    header = EpisodeHeader(episode_id="e", kind=EpisodeKind.DEMO, task="drawer", actor="a", started_unix_s=0.0, seed=3)
    limits = LoopLimits(episode_steps=run.task.episode_steps, stages=run.task.stages)
    outcome = ControlLoop(cell, run.spec(), cell, limits).run_episode(header, None, sink)
    cell.close()
    assert outcome.end is EndReason.SUCCESS
    assert [(mark.stage, mark.name) for mark in sink.marks] == [(1, "fill"), (2, "close")]
    starts = stage_starts(sink.marks, outcome.steps + 1, 3)
    assert min(np.diff([*starts, outcome.steps + 1])) > 20
    assert outcome.refused_marks == ()
