"""The cable plug: the cable stays on, pulls and hangs; the plug fits; what must not be touched is noticed."""

from __future__ import annotations

import copy

import mujoco
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.spatial.transform import Rotation

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.insertion_score import MOST, score_insertion
from robot_stack.types.errors import RobotError
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from robot_stack.workcell.build import build_local_cell, build_world
from sim.tasks.cable import hanging_links, joint_turns
from sim.tasks.cable_plug import CABLE, CablePlug, CablePlugConfig
from sim.world import World
from tests.sim.test_pick_insert import Steps

DOWN = np.array([0, 0, 0.05, 0, 0, 0.0])
WEIGHT_N = CABLE.kg_m * CABLE.length_m * 9.81


@pytest.fixture(scope="module")
def run() -> ResolvedRun:
    return load_run("cable_plug")


@pytest.fixture
def world(run: ResolvedRun) -> World:
    return build_world(run)


def task_of(world: World) -> CablePlug:
    assert isinstance(world.task, CablePlug)
    return world.task


def gap_m(world: World) -> float:
    return float(np.linalg.norm(world.data.site("cable_end").xpos - world.data.body("hook").xpos))


def tilt_rad(world: World) -> float:
    return float(np.arccos(min(1.0, -world.data.body("peg").xmat.reshape(3, 3)[2, 2])))


def pull_n(world: World) -> float:
    """Force with which the cable pulls on the plug."""
    mujoco.mj_rnePostConstraint(world.model, world.data)
    return float(np.linalg.norm(world.data.cfrc_int[world.model.body("cable0").id][3:]))


def start_beside_goal(world: World, beside_m: tuple[float, float], above_m: float = 0.045) -> None:
    def start(rng: np.random.Generator) -> np.ndarray:
        mujoco.mj_kinematics(world.model, world.data)
        return world.task.goal_poses(world.data) + np.array([*beside_m, above_m, 0.0])

    world.task.start_poses = start  # type: ignore[method-assign]
    world.reset(0)


def press(world: World, duration_s: float) -> bool:
    """Go down for so long; return whether something forbidden was touched meanwhile."""
    touched = False
    world.command(DOWN)
    for _ in range(round(duration_s / 0.01)):
        world.advance(0.01)
        touched |= task_of(world).touches_forbidden(world.data)
    return touched


# The cable -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", [(0.2, 0.1, 0.2), (-0.05, 0.0, -0.3), (0.0, 0.0, 0.3), (0.4, -0.2, 0.0)])
def test_a_hanging_cable_spans_the_way_and_its_slope_rises_evenly(way: tuple[float, float, float]) -> None:
    links = hanging_links(np.array(way), CABLE)
    np.testing.assert_allclose(np.linalg.norm(links, axis=1), 1.0)
    if way[0] or way[1]:
        np.testing.assert_allclose(CABLE.link_m * links.sum(axis=0), way, atol=1e-6)
        slopes = links[:, 2] / np.linalg.norm(links[:, :2], axis=1)
        steps = np.diff(slopes)
        np.testing.assert_allclose(steps, steps.mean(), atol=1e-6)
        assert steps.mean() > 0.0
    else:
        np.testing.assert_allclose(
            CABLE.link_m * links.sum(axis=0), way, atol=1.01 * CABLE.link_m
        )  # no narrower than a link


def test_a_cable_that_does_not_reach_is_refused() -> None:
    with pytest.raises(RobotError, match=r"cable is 0.5 m long, must be longer than the 0.520 m"):
        hanging_links(np.array([0.52, 0.0, 0.0]), CABLE)


def test_turns_of_the_joints_give_the_links_their_directions() -> None:
    rng = np.random.default_rng(0)
    parent = Rotation.random(random_state=1)
    directions = rng.normal(size=(6, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    turned = parent
    for (w, x, y, z), direction in zip(joint_turns(parent.as_matrix(), directions), directions, strict=True):
        turned = turned * Rotation.from_quat([x, y, z, w])
        np.testing.assert_allclose(turned.apply([-1, 0, 0]), direction, atol=1e-9)


def test_the_cable_stays_on_hook_and_plug_whatever_the_arm_does(world: World) -> None:
    world.reset(3)
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(30):
        world.command(rng.uniform(-1, 1, 6) * [0.1, 0.1, 0.03, 0, 0, 0.6])
        world.advance(0.2)
        worst = max(worst, gap_m(world))
        assert not world.task.failed(world.data)
        assert tilt_rad(world) < 0.2
    assert worst < 0.004


def test_the_cable_pulls_and_differently_where_the_hand_is_elsewhere(world: World) -> None:
    world.reset(0)
    world.advance(2.0)
    near = pull_n(world)
    world.command(np.array([0.04, 0.05, 0.03, 0, 0, 0]))
    world.advance(1.5)
    world.command(np.zeros(6))
    world.advance(2.0)
    assert 0.1 < near < 4 * WEIGHT_N
    assert abs(pull_n(world) - near) > 0.05


# The scene -----------------------------------------------------------------------------------------------------------
def test_same_seed_is_the_same_start(world: World) -> None:
    world.reset(7)
    first = world.snapshot()
    world.advance(0.3)
    world.reset(8)
    assert not np.array_equal(world.snapshot(), first)
    world.reset(7)
    np.testing.assert_array_equal(world.snapshot(), first)


def test_a_copied_world_goes_on_exactly_as_the_first(world: World) -> None:
    world.reset(5)
    world.command(np.array([0.03, 0.02, 0.05, 0, 0, 0.3]))
    world.advance(0.3)
    other = copy.deepcopy(world)
    for each in (world, other):
        each.command(np.array([0.0, -0.04, 0.06, 0, 0, -0.2]))
        each.advance(1.0)
    np.testing.assert_array_equal(world.data.qpos, other.data.qpos)
    np.testing.assert_array_equal(world.data.qvel, other.data.qvel)
    np.testing.assert_array_equal(world.state().wrench, other.state().wrench)


def test_board_hook_and_start_vary_over_their_whole_range(run: ResolvedRun, world: World) -> None:
    boards, hooks, starts = [], [], []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        world.task.place(world.model, world.data, rng)
        boards.append(world.data.mocap_pos[world.model.body("socket").mocapid[0]][:2].copy())
        hooks.append(world.data.mocap_pos[world.model.body("hook").mocapid[0]].copy())
        starts.append(world.task.start_poses(rng)[0])
    config = run.section("task.sim", CablePlugConfig)
    start_range = [*config.start_range_m, 2 * config.start_yaw_rad]
    for values, ranges in ((boards, config.socket_range_m), (hooks, config.hook_range_m), (starts, start_range)):
        spread = np.ptp(values, axis=0)
        assert (spread > 0.9 * np.array(ranges)).all()
        assert (spread <= np.array(ranges)).all()


def test_a_reset_ends_with_the_plug_upright_in_the_hand_and_the_cable_off_the_board(world: World) -> None:
    for seed in range(12):
        world.reset(seed)
        assert tilt_rad(world) < 0.1
        assert gap_m(world) < 0.002
        assert min(world.data.geom(f"cable{number}").xpos[2] for number in range(CABLE.links)) > 0.03
        assert not world.task.succeeded(world.data)
        assert not task_of(world).touches_forbidden(world.data)


def test_the_plug_fits_and_touches_nothing_that_it_must_not(world: World) -> None:
    start_beside_goal(world, (0.0, 0.0))
    assert not press(world, 1.6)
    assert world.task.succeeded(world.data)
    assert world.task.insertion(world.data).plug_m[2] < 0.0  # type: ignore[union-attr]


def test_a_plug_on_the_board_beside_the_socket_is_noticed_and_one_on_the_rim_is_not(world: World) -> None:
    start_beside_goal(world, (0.045, 0.0), above_m=0.02)
    assert press(world, 1.0)
    assert not world.task.succeeded(world.data)
    start_beside_goal(world, (0.014, 0.0))
    assert not press(world, 1.0)
    assert not world.task.succeeded(world.data)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"hook_m": (0.2, 0.4, 0.4)}, "hook_m is .* must be nearer than 0.5 m"),
        ({"peg_side_m": 0.05}, "less than or equal to 0.03"),
        ({"hook_rnage_m": (0.1, 0.1, 0.1)}, "Extra inputs"),
    ],
)
def test_a_scene_that_cannot_be_is_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CablePlugConfig(**settings)  # type: ignore[arg-type]


def test_a_heavier_part_has_a_heavier_cable() -> None:
    plain = build_world(load_run("cable_plug"))
    heavy = build_world(load_run("cable_plug", ["task.sim.randomise.mass.train=[2, 2]"]))
    heavy.reset(0)
    for body in ("peg", "cable0", "cable12"):
        number = plain.model.body(body).id
        assert heavy.model.body_mass[number] == pytest.approx(2 * plain.model.body_mass[number])
    arm = plain.model.body("hand/hand").id
    assert heavy.model.body_mass[arm] == plain.model.body_mass[arm]


def test_a_tighter_fit_makes_both_sides_of_the_connector_wider() -> None:
    plain = build_world(load_run("cable_plug"))
    tight = build_world(load_run("cable_plug", ["task.sim.randomise.tighter_m.train=[0.001, 0.001]"]))
    tight.reset(0)
    change = tight.model.geom("peg").size - plain.model.geom("peg").size
    np.testing.assert_allclose(change, [0.0005, 0.0005, 0.0], atol=1e-12)


# The operator --------------------------------------------------------------------------------------------------------
@pytest.mark.long
def test_demonstrations_succeed_and_have_a_good_score(run: ResolvedRun) -> None:
    cell, spec = build_local_cell(run, seed=1), run.spec()
    loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=run.task.episode_steps))
    for seed in range(100, 103):
        header = EpisodeHeader(
            episode_id="e", kind=EpisodeKind.DEMO, task="cable_plug", actor="a", started_unix_s=0.0, seed=seed
        )
        outcome = loop.run_episode(header, None, Steps())
        assert outcome.end is EndReason.SUCCESS
        assert outcome.truth is True
        record = cell.insertion()
        assert record is not None
        assert record.inserted
        way_m = record.velocity_m_s.sum(axis=0) * record.velocity_step_s
        np.testing.assert_allclose(way_m, record.tcp_m[-1] - record.tcp_m[0], atol=1e-3)
        assert len(record.velocity_m_s) == 5 * (len(record.times_s) - 1)
        score = score_insertion(record)
        assert 75.0 < score.total <= MOST
        assert score.force == score.contact == 0.0
    cell.close()
