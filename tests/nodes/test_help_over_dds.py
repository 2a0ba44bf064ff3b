"""The policy's request reaches the operator over DDS, who comes, helps and lets go; nobody else has looked."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.config.asking import AskingConfig
from robot_stack.config.resolve import load_run
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.clock import SteadyClock
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.types.help import HelpEnd, HelpKind
from robot_stack.types.observation import Observation
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from tests.nodes.cell_rig import running_cell
from tests.rollout.fake_cell import ListSink

DOMAIN = 63
LONGEST_S = 20.0
ATTEMPTS = 3  # a busy machine may stop the safety process for longer than an episode bears


class StandsStill:
    """A policy that does nothing."""

    version, age_s = 1, 0.0

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return np.zeros(4, np.float32)


class SeesNoProgress:
    """A reward model that never lags behind and never sees any progress."""

    def newest(self, episode_id: str) -> LiveScore:
        return LiveScore(episode_id=episode_id, index=10_000, progress=0.3, success=0.0, declared=False, version="v")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> EpisodeOutcome:
    run = load_run("peg_insert", ["cell.teleop=scripted_on_request", "run.asking={}", f"cell.dds_domain={DOMAIN}"])
    with running_cell(run, tmp_path_factory.mktemp("cell")) as (cell, _):
        limits = LoopLimits(episode_steps=round(LONGEST_S * run.run.rate_hz))
        asker = Asker(AskingConfig(stall_s=2.0), run.spec().period_s)
        loop = ControlLoop(cell, run.spec(), SteadyClock(), limits, asker)
        for attempt in range(ATTEMPTS):
            header = EpisodeHeader(
                episode_id=f"{attempt + 1:06d}-online-a", kind=EpisodeKind.ONLINE, task=run.task.name, actor="a",
                started_unix_s=0.0, seed=3,
            )  # fmt: skip
            outcome = loop.run_episode(header, StandsStill(), ListSink(), scores=SeesNoProgress())
            if outcome.end is not EndReason.FAULT:
                break
        return outcome


@pytest.mark.long
def test_who_was_asked_came_and_nobody_came_unasked(outcome: EpisodeOutcome) -> None:
    assert outcome.end is not EndReason.FAULT, outcome.ticks.hold_reasons
    assert outcome.help is not None, outcome.ticks.hold_reasons
    assert outcome.help.requests, outcome.ticks.hold_reasons
    first = outcome.help.requests[0]
    assert (first.kind, first.end, first.needed) == (HelpKind.STALL, HelpEnd.TAKEN, True)
    assert outcome.help.missed == 0
    assert outcome.human_steps > 0
