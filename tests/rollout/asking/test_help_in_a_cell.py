"""The policy's request in a cell in one process: who was asked comes, helps, and lets go; held, the arm stands."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.config.asking import AskingConfig
from robot_stack.config.resolve import load_run
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.types.command import Source
from robot_stack.types.help import HelpEnd
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EpisodeHeader, EpisodeKind
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import LocalCell
from tests.rollout.asking.test_help_in_the_loop import StuckScores
from tests.rollout.fake_cell import ListSink

pytestmark = pytest.mark.long


class Circles:
    """A policy that moves to and fro and gets nowhere."""

    version, age_s = 1, 0.0

    def __init__(self) -> None:
        self._tick = 0

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        self._tick += 1
        return np.array([0.5 * (-1) ** self._tick, 0, 0, 0], np.float32)


@pytest.fixture(scope="module")
def cell() -> LocalCell:
    return build_local_cell(load_run("peg_insert", ["cell.teleop=scripted_on_request", "run.asking={}"]), seed=0)


def run(cell: LocalCell, config: AskingConfig, steps: int) -> tuple[EpisodeOutcome, ListSink]:
    spec = load_run("peg_insert", []).spec()
    loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=steps), Asker(config, spec.period_s))
    header = EpisodeHeader(
        episode_id="000001-online-a", kind=EpisodeKind.ONLINE, task="peg_insert", actor="a", started_unix_s=0.0, seed=3
    )
    sink = ListSink()
    return loop.run_episode(header, Circles(), sink, scores=StuckScores()), sink


def test_who_is_asked_comes_and_who_is_not_does_not(cell: LocalCell) -> None:
    asked, _ = run(cell, AskingConfig(stall_s=1.0), 80)
    assert asked.help is not None
    first = asked.help.requests[0]
    assert first.end is HelpEnd.TAKEN
    assert first.asked_s < 1.5
    assert asked.help.missed == 0
    alone, _ = run(cell, AskingConfig(stall_s=100.0), 80)
    assert alone.help is not None
    assert (alone.human_steps, alone.help.requests) == (0, [])


def test_a_policy_that_keeps_the_arm_still_does_so_through_the_safety_filter_until_somebody_comes(
    cell: LocalCell,
) -> None:
    outcome, sink = run(cell, AskingConfig(stall_s=1.0, hold=True), 80)
    assert outcome.help is not None
    assert outcome.help.requests[0].end is HelpEnd.TAKEN
    rows = [step.action for step in sink.steps if step.action is not None]
    asked = round(outcome.help.requests[0].asked_s * 10)
    came = next(i for i, row in enumerate(rows) if row.source is Source.HUMAN)
    held = rows[asked + 2 : came]  # the filter brakes within its own limits first
    assert len(held) > 5
    assert all(row.source in (Source.POLICY, Source.IDLE) for row in held)
    assert max(float(np.abs(row.executed).max()) for row in held) < 0.02
    assert all(abs(row.proposed[0]) == pytest.approx(0.5) for row in held), "what the policy would have done is kept"
