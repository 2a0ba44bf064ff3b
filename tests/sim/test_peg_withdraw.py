"""In and out of the socket in turn: what one leaves is where the other begins."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.evaluate import NullSink
from robot_stack.types.errors import SpecError
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, ResetType
from robot_stack.workcell.build import build_local_cell, build_world
from robot_stack.workcell.local_cell import LocalCell

EASY = ("task.sim.clearance_m=0.006", "task.episode_steps=150")


@pytest.fixture(scope="module")
def resolved():
    return load_run("peg_in_and_out", EASY)


def demonstrate(
    resolved, cell: LocalCell, start: ResetType, task_id: str = "peg_insert", seed: int = 4
) -> EpisodeOutcome:
    header = EpisodeHeader(
        episode_id="e", kind=EpisodeKind.DEMO, task="peg_insert", task_id=task_id, actor="a", started_unix_s=0.0,
        seed=seed, reset=start,
    )  # fmt: skip
    loop = ControlLoop(cell, resolved.spec(), cell, LoopLimits(episode_steps=resolved.task.episode_steps))
    return loop.run_episode(header, None, NullSink())


def test_a_person_does_both_in_turn_and_nobody_resets_the_scene(resolved) -> None:
    cell = build_local_cell(resolved, seed=0)
    socket = cell.world.data.mocap_pos
    assert demonstrate(resolved, cell, ResetType.NOMINAL).end is EndReason.SUCCESS
    stands = socket.copy()
    for task_id in ("peg_insert_back", "peg_insert", "peg_insert_back"):
        before = cell.world.state().T_base_tcp.position_m
        told = demonstrate(resolved, cell, ResetType.CARRIED, task_id)
        assert (told.end, told.truth) == (EndReason.SUCCESS, True), task_id
        rose_m = cell.world.state().T_base_tcp.position_m[2] - before[2]
        assert bool(rose_m > 0.05) is (task_id == "peg_insert_back")
        np.testing.assert_array_equal(socket, stands)
    assert demonstrate(resolved, cell, ResetType.NOMINAL, seed=5).end is EndReason.SUCCESS
    assert np.abs(socket - stands).max() > 0.001


def test_what_is_recorded_says_which_way_it_goes(resolved) -> None:
    cell = build_local_cell(resolved, seed=0)
    at = resolved.spec().part("direction").start
    cell.reset(1)
    assert cell.observe().proprio[at] == 1.0
    cell.reset(1, task_id="peg_insert_back", scene=False)
    observation = cell.observe()
    assert observation.proprio[at] == -1.0
    np.testing.assert_allclose(observation.proprio[resolved.spec().part("tcp_pose")], 0.0, atol=1e-12)


def test_a_start_of_an_insertion_is_the_end_of_a_way_back_and_an_inserted_peg_is_not(resolved) -> None:
    world = build_world(resolved)
    for seed in range(5):
        world.reset(seed)
        assert not world.task.succeeded(world.data)
        world.turn("peg_insert_back")
        assert world.task.succeeded(world.data), seed
        world.data.body("peg").xpos[2] -= 0.03
        assert not world.task.succeeded(world.data)
        world.reset(seed)
        assert world.task.name == "peg_insert"


def test_a_scene_without_a_way_back_says_so() -> None:
    world = build_world(load_run("two_arm_insert"))
    with pytest.raises(SpecError, match="simulated task is 'two_arm_insert_back', must be one of two_arm_insert"):
        world.turn("two_arm_insert_back")
