"""The control loop asks for help after its action is on its way, keeps the arm still if told to, and says who came."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robot_stack.config.asking import AskingConfig
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.types.command import Source
from robot_stack.types.errors import RobotError
from robot_stack.types.help import HelpEnd, Insight
from robot_stack.types.observation import Observation
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.learner.bench import SPEC, header_of
from tests.rollout.fake_cell import GRIPPING, FakeCell, FakePolicy, FakeScores, GrippingCell, ListSink, motion

CONFIG = AskingConfig(stall_s=0.5, sustain_s=0.0)


class StuckScores:
    """A reward model that always sees the same progress, of the newest frame."""

    def __init__(self, progress: float = 0.4) -> None:
        self.progress, self.index = progress, 0

    def newest(self, episode_id: str) -> LiveScore:
        self.index += 1
        return LiveScore(
            episode_id=episode_id, index=self.index, progress=self.progress, success=0.0, declared=False, version="v"
        )


class FrankPolicy(FakePolicy):
    """Says of each decision that nothing can be known, and notes what was sent by then and what was void."""

    def __init__(self, cell: FakeCell) -> None:
        super().__init__()
        self._cell = cell
        self.sent_before: list[int] = []
        self.void: list[bool] = []

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        self.void.append(interrupted)
        return super().act(observation, deterministic=deterministic, interrupted=interrupted)

    def insight(self) -> Insight:
        self.sent_before.append(len(self._cell.sent))
        return Insight(distance=math.nan)


class Closing(FakePolicy):
    """Moves on with a gripper that it closes."""

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return np.append(super().act(observation, deterministic=deterministic), np.float32(-1.0))


def run(
    cell: FakeCell,
    config: AskingConfig = CONFIG,
    *,
    policy: FakePolicy | None = None,
    kind: EpisodeKind = EpisodeKind.ONLINE,
    steps: int = 20,
) -> EpisodeOutcome:
    loop = ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=steps), Asker(config, SPEC.period_s))
    header = header_of(episode_id(1, kind, "a"), kind, seed=1)
    return loop.run_episode(header, policy or FakePolicy(), ListSink(), scores=StuckScores())


def test_the_operator_is_told_of_a_request_and_of_its_end() -> None:
    cell = FakeCell()
    outcome = run(cell)
    assert [request is None for request in cell.asked] == [False, True]
    assert outcome.help is not None
    assert [(r.end, r.needed) for r in outcome.help.requests] == [(HelpEnd.OVER, True)]


def test_the_policy_is_asked_about_itself_after_its_action_has_been_sent() -> None:
    cell = FakeCell()
    policy = FrankPolicy(cell)
    outcome = run(cell, policy=policy)
    assert policy.sent_before == list(range(1, 21))
    assert outcome.help is not None
    assert len(outcome.help.evaluate_s) == 20


def test_a_policy_without_the_arm_is_asked_nothing_about_itself() -> None:
    executed = [motion(0.5)] * 5 + [motion(0.3, Source.HUMAN, human=0.3)] * 4 + [motion(0.5)]
    cell = FakeCell(executed=executed)
    policy = FrankPolicy(cell)
    run(cell, policy=policy)
    assert policy.sent_before == [1, 2, 3, 4, 5, *range(10, 21)]


def test_who_takes_over_has_answered() -> None:
    cell = FakeCell(executed=[motion(0.5)] * 12 + [motion(0.3, Source.HUMAN, human=0.3)] * 3 + [motion(0.5)])
    outcome = run(cell)
    assert outcome.help is not None
    assert outcome.help.requests[0].end is HelpEnd.TAKEN
    assert outcome.help.in_hand_s == pytest.approx(0.3)
    assert outcome.human_steps == 3


def test_the_key_dismisses() -> None:
    outcome = run(FakeCell(events={10: "dismiss"}), steps=12)
    assert outcome.help is not None
    assert outcome.help.requests[0].end is HelpEnd.DISMISSED


def test_held_the_arm_is_asked_for_no_motion_and_the_time_limit_counts_on() -> None:
    cell = FakeCell()
    policy = FrankPolicy(cell)
    outcome = run(cell, CONFIG.model_copy(update={"hold": True}), policy=policy)
    still = [not action.any() for action in cell.sent]
    assert still == [False] * 6 + [True] * 14
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, 20)
    assert policy.void == [False] * 7 + [True] * 13, "what was planned before the hold is void"


def test_held_a_gripper_goes_on_gripping() -> None:
    cell = GrippingCell(executed=[motion(0.5, gripper=0.0)])
    loop = ControlLoop(
        cell, GRIPPING, cell, LoopLimits(episode_steps=20), Asker(CONFIG.model_copy(update={"hold": True}), 0.1)
    )
    header = header_of(episode_id(1, EpisodeKind.ONLINE, "a"))
    loop.run_episode(header, Closing(), ListSink(), scores=StuckScores())
    np.testing.assert_array_equal(cell.sent[-1], [0, 0, 0, -1])
    assert [float(action[3]) for action in cell.sent] == [-1.0] * 20


def test_a_dismissed_hold_lets_the_policy_go_on() -> None:
    cell = FakeCell(events={9: "dismiss"})
    run(cell, CONFIG.model_copy(update={"hold": True}), steps=12)
    assert [bool(action.any()) for action in cell.sent] == [True] * 6 + [False] * 3 + [True] * 3


@pytest.mark.parametrize("kind", [EpisodeKind.EVAL, EpisodeKind.DEMO])
def test_nobody_is_asked_while_a_policy_is_measured_or_shown_something(kind: EpisodeKind) -> None:
    cell = FakeCell()
    assert run(cell, kind=kind).help is None
    assert cell.asked == []


def test_without_asking_nothing_changes() -> None:
    cells = FakeCell(), FakeCell()
    header = header_of(episode_id(1, EpisodeKind.ONLINE, "a"), EpisodeKind.ONLINE, seed=1)
    loop = ControlLoop(cells[0], SPEC, cells[0], LoopLimits(episode_steps=20))
    plain = loop.run_episode(header, FakePolicy(), ListSink(), scores=StuckScores())
    asking = run(cells[1])
    assert plain.help is None
    np.testing.assert_array_equal(cells[0].sent, cells[1].sent)
    assert plain.steps == asking.steps


def test_a_request_that_a_fault_ends_is_withdrawn_and_teaches_nothing() -> None:
    cell = FakeCell(broken=15)
    outcome = run(cell)
    assert outcome.end is EndReason.FAULT
    assert cell.asked[-1] is None
    assert outcome.help is not None
    assert outcome.help.requests[0].needed is None


@pytest.mark.parametrize(
    ("answer", "needed", "not_needed"), [("", 0, 1), ("success", 0, 1), ("failure", 1, 0), ("discard", 0, 0)]
)
def test_a_claimed_success_teaches_what_the_operator_says_of_it(answer: str, needed: int, not_needed: int) -> None:
    cell, asker = FakeCell(answer=answer), Asker(CONFIG, SPEC.period_s)
    loop = ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=20), asker)
    header = header_of(episode_id(1, EpisodeKind.ONLINE, "a"), EpisodeKind.ONLINE, seed=1)
    loop.run_episode(header, FakePolicy(), ListSink(), scores=FakeScores(after=6))
    learnt = asker.state_dict()
    assert (len(learnt["needed"]), len(learnt["not_needed"])) == (needed, not_needed)


class NoStart(FakeCell):
    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        raise RobotError("not armed")


def test_an_episode_that_never_began_leaves_no_request() -> None:
    cell = NoStart()
    with pytest.raises(RobotError, match="not armed"):
        run(cell)
    assert cell.asked == []
