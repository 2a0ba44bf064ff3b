"""Pick and insert: the peg stands anywhere, friction lifts it, and the operator's hands need the gripper only twice."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from pydantic import ValidationError

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.teleop_parts import OperatorConfig
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.types.event import Label
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from robot_stack.workcell.build import build_local_cell, build_world
from robot_stack.workcell.local_cell import LocalCell, see
from sim.hands import Seen
from sim.operator import Role, ScriptedOperator
from sim.pick_hands import PickHands, in_hand
from sim.tasks.pick_insert import PickInsertConfig
from sim.world import World

SCALE = np.array([[0.1, 0.1, 0.1, 0.6, 0.6, 0.6]])
TICK_NS = 20_000_000
UP = np.array([0, 0, -0.08, 0, 0, 0])


@pytest.fixture(scope="module")
def pick() -> ResolvedRun:
    return load_run("pick_insert")


@pytest.fixture
def world(pick: ResolvedRun) -> World:
    return build_world(pick)


def config_of(pick: ResolvedRun) -> PickInsertConfig:
    return pick.section("task.sim", PickInsertConfig)


def stand_at_grasp(world: World, *, beside_m: tuple[float, float] = (0.0, 0.0), turned_rad: float = 0.0) -> None:
    """Reset with the open hand around the peg, or beside it along x and y of the base."""

    def start(rng: np.random.Generator) -> np.ndarray:
        mujoco.mj_kinematics(world.model, world.data)
        peg = world.data.body("peg")
        yaw = np.arctan2(peg.xmat[3], peg.xmat[0]) + turned_rad
        return np.array([[*(peg.xpos[:2] + np.array(beside_m)), peg.xpos[2], yaw]])

    world.task.start_poses = start  # type: ignore[method-assign]
    world.reset(3)


def close_and_lift(world: World) -> float:
    """Close the gripper, go up for a second, and return how far the peg has risen [m]."""
    before = world.data.body("peg").xpos[2]
    world.command(np.zeros(6), gripper=0.0)
    world.advance(0.7)
    world.command(UP)
    world.advance(1.0)
    world.command(np.zeros(6))
    world.advance(0.2)
    return float(world.data.body("peg").xpos[2] - before)


class Steps:
    """A sink that keeps the steps of one episode."""

    def begin(self, header: EpisodeHeader) -> None:
        self.steps: list[Step] = []

    def push(self, step: Step) -> None:
        self.steps.append(step)

    def label(self, label: Label) -> None:
        pass


def run_episode(
    pick: ResolvedRun, cell: LocalCell, seed: int, kind: EpisodeKind = EpisodeKind.DEMO, policy: object = None
) -> tuple[EpisodeOutcome, list[Step]]:
    header = EpisodeHeader(episode_id="e", kind=kind, task="pick_insert", actor="a", started_unix_s=0.0, seed=seed)
    loop, sink = ControlLoop(cell, pick.spec(), cell, LoopLimits(episode_steps=pick.task.episode_steps)), Steps()
    return loop.run_episode(header, policy, sink), sink.steps  # type: ignore[arg-type]


def test_same_seed_is_the_same_start(world: World) -> None:
    world.reset(7)
    first = world.snapshot()
    world.command(np.zeros(6), gripper=0.0)
    world.advance(0.5)
    world.reset(8)
    assert not np.array_equal(world.snapshot(), first)
    world.reset(7)
    np.testing.assert_array_equal(world.snapshot(), first)
    before = world.state().gripper
    world.advance(0.5)
    assert world.state().gripper == pytest.approx(before, abs=1e-3)  # what was told before the reset is forgotten


def test_peg_socket_and_hand_vary_over_their_whole_range(pick: ResolvedRun, world: World) -> None:
    pegs, sockets, starts = [], [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        world.task.place(world.model, world.data, rng)
        mujoco.mj_kinematics(world.model, world.data)
        turn = world.data.body("peg").xmat.reshape(3, 3)
        pegs.append([*world.data.body("peg").xpos[:2], np.arctan2(turn[1, 0], turn[0, 0])])
        sockets.append(world.data.body("socket").xpos[:2].copy())
        starts.append(world.task.start_poses(rng)[0])
    config = config_of(pick)
    for values, ranges in (
        (pegs, [*config.peg_range_m, 2 * config.peg_yaw_rad]),
        (sockets, list(config.socket_range_m)),
        (starts, [*config.start_range_m, 2 * config.start_yaw_rad]),
    ):
        spread = np.ptp(values, axis=0)
        assert (spread > 0.9 * np.array(ranges)).all()
        assert (spread <= np.array(ranges)).all()


def test_a_reset_ends_with_an_open_hand_over_a_peg_that_stands(pick: ResolvedRun, world: World) -> None:
    for seed in range(6):
        world.reset(seed)
        assert world.state().gripper == pytest.approx(1.0, abs=0.02)
        peg = world.data.body("peg")
        assert peg.xmat.reshape(3, 3)[2, 2] < -0.9999
        assert world.task.tip_in_socket(world.data)[2] == pytest.approx(0.001, abs=0.0005)  # type: ignore[attr-defined]
        assert world.state().T_base_tcp.position_m[2] - peg.xpos[2] > 0.05
        assert not world.task.failed(world.data)
        assert not world.task.succeeded(world.data)


def test_nothing_but_contact_holds_the_peg(world: World) -> None:
    model = world.model
    assert model.joint("peg").type[0] == mujoco.mjtJoint.mjJNT_FREE
    assert (model.eq_type == mujoco.mjtEq.mjEQ_JOINT).all()
    assert model.neq == 1  # the two fingers
    assert model.ntendon == 0


@pytest.mark.parametrize(
    ("beside_m", "turned_rad"), [((0.0, 0.0), 0.0), ((0.005, 0.005), 0.0), ((-0.004, 0.012), 0.1), ((0.0, 0.0), -0.3)]
)
def test_a_hand_that_closes_around_the_peg_lifts_and_carries_it(
    world: World, beside_m: tuple[float, float], turned_rad: float
) -> None:
    stand_at_grasp(world, beside_m=beside_m, turned_rad=turned_rad)
    assert close_and_lift(world) > 0.06
    assert in_hand(see(world))
    rng = np.random.default_rng(1)
    for _ in range(12):
        world.command(rng.uniform(-1, 1, 6) * [0.1, 0.1, 0.05, 0, 0, 0.6])
        world.advance(0.2)
        assert in_hand(see(world))
        assert not world.task.failed(world.data)
    world.command(np.zeros(6), gripper=1.0)
    world.advance(0.6)
    assert not in_hand(see(world))


@pytest.mark.parametrize("beside_m", [(0.035, 0.0), (-0.035, 0.0), (0.0, 0.055), (0.0, -0.055)])
def test_a_hand_that_closes_beside_the_peg_does_not_lift_it(world: World, beside_m: tuple[float, float]) -> None:
    stand_at_grasp(world, beside_m=beside_m)
    assert close_and_lift(world) < 0.005
    assert world.state().gripper < 0.1
    assert not in_hand(see(world))


def test_the_fingers_take_their_time(world: World) -> None:
    world.reset(1)
    world.command(np.zeros(6), gripper=0.0)
    world.advance(0.2)
    assert 0.4 < world.state().gripper < 0.7
    world.advance(0.4)
    assert world.state().gripper < 0.02
    world.command(np.zeros(6), gripper=1.0)
    world.advance(0.2)
    assert 0.3 < world.state().gripper < 0.6
    world.command(np.zeros(6))
    world.advance(0.4)
    assert world.state().gripper > 0.98


def test_a_peg_that_is_knocked_over_or_out_of_reach_is_a_failure(world: World) -> None:
    world.reset(2)
    address = world.model.joint("peg").qposadr[0]
    world.data.qpos[address + 3 : address + 7] = [np.sqrt(0.5), np.sqrt(0.5), 0, 0]  # on its side
    mujoco.mj_forward(world.model, world.data)
    assert world.task.failed(world.data)
    world.reset(2)
    world.data.qpos[address] += 0.14
    mujoco.mj_forward(world.model, world.data)
    assert world.task.failed(world.data)


def test_a_peg_that_is_let_go_over_the_table_can_be_picked_again(world: World) -> None:
    stand_at_grasp(world)
    world.command(np.zeros(6), gripper=0.0)
    world.advance(0.7)
    world.command(0.1 * UP)
    world.advance(0.5)
    world.command(np.zeros(6), gripper=1.0)
    world.advance(0.8)
    assert not world.task.failed(world.data)
    assert not in_hand(see(world))


def test_the_goal_is_where_the_peg_is_in_however_it_is_held(pick: ResolvedRun, world: World) -> None:
    stand_at_grasp(world, beside_m=(0.004, 0.0), turned_rad=0.05)
    close_and_lift(world)
    goal, tcp = world.task.goal_poses(world.data)[0], see(world).tcp[0]
    assert abs(goal[3] - tcp[3]) <= np.pi / 4 + 1e-6
    turn, moved = goal[3] - tcp[3], world.data.body("peg").xpos - tcp[:3]
    cos, sin = np.cos(turn), np.sin(turn)
    peg = goal[:3] + np.array([cos * moved[0] - sin * moved[1], sin * moved[0] + cos * moved[1], moved[2]])
    np.testing.assert_allclose(peg[:2], world.data.body("socket").xpos[:2], atol=0.002)
    assert peg[2] - config_of(pick).peg_below_tcp_m == pytest.approx(0.003, abs=0.002)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"peg_centre_m": (0.5, 0.03)}, "must be at least .* m further from centre_m"),
        ({"peg_range_m": (0.06, -0.01)}, "greater than or equal to 0"),
        ({"peg_yaw_rad": 1.0}, "less than or equal to 0.7854"),
        ({"peg_rnage_m": (0.1, 0.1)}, "Extra inputs"),
    ],
)
def test_a_scene_that_cannot_be_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        PickInsertConfig(**settings)  # type: ignore[arg-type]


# The operator's hands ------------------------------------------------------------------------------------------------
PEG, HOLE = np.array([0.5, -0.05, 0.051, 0.0]), np.array([0.5, 0.065, 0.053, 0.0])


def seen_at(tcp: np.ndarray, opening: float, *, peg: np.ndarray = PEG, tick: int = 0) -> Seen:
    return Seen(
        stamp_ns=tick * TICK_NS, tcp=tcp[None], goal=HOLE[None], grasp=peg[None], opening=np.array([opening]),
        force_n=0.0, done=False, lost=False,
    )  # fmt: skip


def steady_hands() -> PickHands:
    config = OperatorConfig(
        position_noise_m=0.0, yaw_noise_rad=0.0, far_position_noise_m=0.0, far_yaw_noise_rad=0.0, tremor=0.0
    )
    hands = PickHands(config, np.random.default_rng(0), SCALE)
    hands.begin()
    return hands


def up_of(hands: PickHands, seen: Seen) -> float:
    return -float(hands.drive(seen)[0, 2])  # z of the tool points down


def test_the_hand_goes_down_only_over_the_peg_and_up_before_it_goes_across() -> None:
    hands = steady_hands()
    over = PEG + np.array([0, 0, 0.04, 0])
    assert up_of(hands, seen_at(over, 1.0)) < -0.1
    assert up_of(hands, seen_at(over + np.array([0.02, 0, -0.02, 0]), 1.0)) > 0.0
    assert up_of(hands, seen_at(over + np.array([0, 0, -0.013, 0.3]), 1.0)) > 0.0
    held = seen_at(PEG, 0.3)
    assert up_of(hands, held) > 0.3
    assert abs(hands.drive(held)[0, 1]) < 1e-6
    lifted = PEG + np.array([0, 0, 0.035, 0])
    assert abs(hands.drive(seen_at(lifted, 0.3, peg=lifted))[0, 1]) > 0.3


def test_keys_are_pressed_at_the_peg_and_where_nothing_was_caught_and_nowhere_else() -> None:
    hands = steady_hands()
    assert hands.grip(seen_at(PEG + np.array([0, 0, 0.03, 0]), 1.0)) == [0]
    assert hands.grip(seen_at(PEG, 1.0)) == [-1]
    assert hands.grip(seen_at(PEG, 0.6)) == [-1]
    assert hands.grip(seen_at(PEG, 0.3)) == [0]
    assert hands.grip(seen_at(PEG, 0.3)) == [0]
    missed = PEG + np.array([0.03, 0, 0, 0])
    hands = steady_hands()
    assert hands.grip(seen_at(PEG, 1.0)) == [-1]
    assert hands.grip(seen_at(missed, 0.0)) == [1]
    assert hands.grip(seen_at(missed, 0.5)) == [1]
    assert hands.grip(seen_at(missed, 0.95)) == [0]
    assert steady_hands().grip(seen_at(PEG + np.array([0, 0, 0.05, 0]), 0.0)) == [1]  # a policy closed it on the way


def test_a_hand_that_misjudges_aims_again_when_it_is_near_and_anew_for_the_hole() -> None:
    hands = PickHands(OperatorConfig(tremor=0.0), np.random.default_rng(4), SCALE)
    hands.begin()
    far = hands._far_bias.copy()
    assert np.abs(far).max() > 0.001
    hands.drive(seen_at(PEG + far + hands._bias + np.array([0, 0, 0.03, 0]), 1.0))
    assert not hands._far_bias.any()
    for tick, opening in enumerate((1.0, 0.3)):
        hands.look_again(seen_at(PEG, opening, tick=tick))
    assert np.abs(hands._far_bias).max() > 0.001


def test_in_a_correction_the_operator_lets_go_once_the_peg_is_lifted() -> None:
    config = OperatorConfig(attention=1.0, stuck_s=1.0)
    rng = np.random.default_rng(2)
    operator = ScriptedOperator(config, rng, {"pick_insert": PickHands(config, rng, SCALE)}, ["arm"])
    operator.begin(Role.ASSIST)
    lifted = PEG + np.array([0, 0, 0.04, 0])
    held = []
    for tick in range(200):
        seen = seen_at(PEG, 1.0, tick=tick) if tick < 100 else seen_at(lifted, 0.3, peg=lifted, tick=tick)
        operator.see(seen)
        held.append(operator.sample(tick * TICK_NS)["arm"].deadman)
    assert not held[40]
    assert held[99]
    assert not any(held[120:140])


class ClosesTooEarly:
    """A policy that closes the gripper over the peg and stays there."""

    version, age_s = 1, 0.0

    def begin_episode(self) -> None:
        pass

    def act(self, observation: object, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return np.array([0, 0, 0, 0, -1], np.float32)


def test_a_gripper_that_was_closed_too_early_is_opened_and_closed_again() -> None:
    pick = load_run("pick_insert", ["task.episode_steps=300"])
    outcome, steps = run_episode(pick, build_local_cell(pick, seed=0), 1, EpisodeKind.ONLINE, ClosesTooEarly())
    openings = [float(step.observation.proprio[-1]) for step in steps]
    human = [step.action.human[-1] for step in steps if step.action is not None]
    assert openings[12] < 0.05
    assert 1.0 in human
    assert -1.0 in human
    assert outcome.human_steps > 20
    assert outcome.end is EndReason.SUCCESS


@pytest.mark.long
@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_demonstrations_succeed_and_press_one_key_once(pick: ResolvedRun, count: int) -> None:
    cell, done = build_local_cell(pick, seed=1), 0
    for seed in range(100, 100 + count):
        outcome, steps = run_episode(pick, cell, seed)
        keys = np.array([step.action.executed[-1] for step in steps if step.action is not None])
        changes = np.flatnonzero(np.diff(keys < -0.5, prepend=False))
        done += outcome.end is EndReason.SUCCESS and outcome.truth is True and len(changes) == 2
        assert (keys <= 0.5).all()
        assert not outcome.ticks.holds
    assert done >= count - count // 20
