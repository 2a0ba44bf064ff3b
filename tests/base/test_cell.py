"""A cell with a base observes its proposal too; where there is none it observes nothing and says why."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_stack.config.asking import AskingConfig
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.base import cell as module
from robot_stack.rollout.base.cell import CellWithBase, with_base
from robot_stack.rollout.base.policy import BasePolicy
from robot_stack.rollout.control_loop import BLIND_LIMIT_S, ControlLoop, LoopLimits
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.runs.statistics import EpisodeAccount
from robot_stack.types.command import Source
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.help import Meanwhile
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.spec import BASE
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.base.small_base import WITH_BASE
from tests.learner.bench import SPEC, header_of
from tests.rollout.asking.test_help_in_the_loop import StuckScores
from tests.rollout.fake_cell import FakeCell, FakePolicy, ListSink, motion

GONE = Refusal(kind=RefusalKind.BASE_SILENT, text="base does not answer")
ENTRIES = WITH_BASE.part(BASE)


class Sensed(FakeCell):
    """A cell whose observations have the base's field, empty, as an observer leaves it."""

    def observe(self) -> Observation | None:
        found = super().observe()
        if found is None:
            return None
        whole = np.concatenate([found.proprio, np.zeros(3, np.float32)])
        return replace(found, proprio=whole, stamp_ns=self.now_ns())


class Scripted:
    """A base that proposes the tick's number in hundredths, or nothing from `dies` to `back`."""

    def __init__(self, *, dies: int = 10_000, back: int = 20_000, ready_after: int = 0) -> None:
        self.dies, self.back, self._unready = dies, back, ready_after
        self.tick = 0
        self.begun = 0
        self.interrupted: list[bool] = []
        self.sizes: set[int] = set()
        self.chosen: list[np.ndarray] = []

    def begin_episode(self) -> None:
        self.begun += 1

    def prepare(self, observation: Observation) -> Refusal | None:
        self._unready -= 1
        return GONE if self._unready >= 0 else None

    def propose(self, observation: Observation, *, interrupted: bool) -> np.ndarray | Refusal:
        self.tick += 1
        self.interrupted.append(interrupted)
        self.sizes.add(len(observation.proprio))
        if self.dies <= self.tick < self.back:
            return GONE
        return np.full(3, self.tick / 100, np.float32)

    def steer(self, noise: np.ndarray) -> None:
        self.chosen.append(noise)

    def close(self) -> None:
        pass


def cell_with(base: Any, cell: FakeCell | None = None, **change: Any) -> tuple[CellWithBase, FakeCell]:
    inner = cell or Sensed()
    return CellWithBase(inner, base, ENTRIES, **{"start_s": 5.0, "stopping": lambda: False} | change), inner


def run(base: Scripted, cell: FakeCell | None = None, steps: int = 6) -> tuple[Any, ListSink, FakeCell]:
    based, inner = cell_with(base, cell)
    sink = ListSink()
    loop = ControlLoop(based, WITH_BASE, inner, LoopLimits(episode_steps=steps))
    return loop.run_episode(header_of("000000-online-a"), BasePolicy(WITH_BASE), sink), sink, inner


def test_the_proposal_is_recorded_with_its_observation_and_acted_on() -> None:
    base = Scripted()
    outcome, sink, cell = run(base)
    assert outcome.end is EndReason.TIMEOUT
    recorded = [step.observation.proprio[ENTRIES] for step in sink.steps]
    np.testing.assert_allclose(recorded, [[(1 + n) / 100] * 3 for n in range(7)])
    np.testing.assert_allclose(cell.sent, recorded[:-1])
    assert base.sizes == {SPEC.proprio_size}  # it is not shown its own proposal


class Steering(BasePolicy):
    """A policy that does what the base proposes, and chooses the number of its tick as noise."""

    ticks = 0

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        self.ticks += 1
        return super().act(observation, deterministic=deterministic, interrupted=interrupted)

    def steering(self) -> np.ndarray | None:
        return None if self.ticks == 2 else np.full(4, self.ticks, np.float32)


def test_the_noise_that_a_policy_chooses_reaches_the_base_at_every_tick_that_it_acts() -> None:
    base = Scripted()
    based, inner = cell_with(base)
    loop = ControlLoop(based, WITH_BASE, inner, LoopLimits(episode_steps=4))
    loop.run_episode(header_of("000000-online-a"), Steering(WITH_BASE), ListSink())
    np.testing.assert_array_equal(base.chosen, [[tick] * 4 for tick in (1, 3, 4)])  # none was chosen at the second
    run(untouched := Scripted())  # a policy that steers nothing
    assert untouched.chosen == []


def test_noise_that_the_base_refuses_ends_the_episode_as_a_fault() -> None:
    class Refuses(Scripted):
        def steer(self, noise: np.ndarray) -> None:
            raise SpecError("noise for the base is nan")

    based, inner = cell_with(Refuses())
    loop = ControlLoop(based, WITH_BASE, inner, LoopLimits(episode_steps=4))
    outcome = loop.run_episode(header_of("000000-online-a"), Steering(WITH_BASE), ListSink())
    assert outcome.end is EndReason.FAULT
    assert outcome.ticks.hold_reasons == ["noise for the base is nan"]
    assert inner.sent == []


def test_a_base_that_dies_stops_the_arm_says_why_and_loses_nothing() -> None:
    outcome, sink, cell = run(Scripted(dies=4), steps=60)
    assert outcome.end is EndReason.FAULT
    assert len(cell.sent) == 3  # nobody acts without it
    assert outcome.ticks.hold_reasons == [str(GONE)]
    assert outcome.ticks.blind_ticks == round(BLIND_LIMIT_S / SPEC.period_s) + 1
    assert [step.index for step in sink.steps] == [0, 1, 2]
    assert sink.steps[-1].end is EndReason.FAULT


def test_a_base_that_comes_back_goes_on() -> None:
    outcome, sink, _ = run(Scripted(dies=4, back=7), steps=8)
    assert (outcome.end, outcome.ticks.blind_ticks) == (EndReason.TIMEOUT, 3)
    assert outcome.ticks.hold_reasons == [str(GONE)]
    assert len(sink.steps) == 9


def test_a_base_is_told_once_that_somebody_else_moved_the_arm() -> None:
    before_the_first_tick = motion(0.0, Source.HOLD)
    windows = [before_the_first_tick, motion(0.1), motion(0.1, Source.HUMAN), motion(0.1)]
    base = Scripted()
    run(base, Sensed(executed=windows))
    assert base.interrupted == [False, False, False, True, False, False, False]


def test_an_episode_begins_when_the_base_has_a_proposal() -> None:
    base = Scripted(ready_after=3)
    based, cell = cell_with(base)
    based.reset(7)
    assert cell.calls == ["reset 7"]
    assert (base.begun, base.tick) == (1, 0)


def test_an_answer_that_cannot_be_used_is_not_waited_for_as_long_as_a_server_that_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Wrong(Scripted):
        def prepare(self, observation: Observation) -> Refusal | None:
            return Refusal(kind=RefusalKind.BASE_INVALID, text="answer has 5 entries, must have 4")

    monkeypatch.setattr(module, "INVALID_S", 0.2)
    based, _ = cell_with(Wrong(), start_s=600.0)
    with pytest.raises(RobotError, match="answer has 5 entries, must have 4"):
        based.reset(7)
    stopped, _ = cell_with(Scripted(ready_after=10**9), Sensed(stopped=-1), start_s=600.0)
    with pytest.raises(RobotError, match="base does not answer"):
        stopped.reset(7)


@pytest.mark.parametrize("change", [{"start_s": 0.2}, {"start_s": 600.0, "stopping": lambda: True}])
def test_an_episode_does_not_begin_without_it(change: dict[str, Any]) -> None:
    based, _ = cell_with(Scripted(ready_after=10**9), **change)
    before_s = time.monotonic()
    with pytest.raises(RobotError, match="no episode begins without the base policy: base does not answer"):
        based.reset(7)
    assert time.monotonic() - before_s < 20.0


def test_nothing_observed_at_the_start_is_not_the_bases_doing() -> None:
    based, _ = cell_with(Scripted(), Sensed(blind=lambda tick: True), start_s=0.1)
    with pytest.raises(RobotError, match="nothing is observed at the start"):
        based.reset(7)


def test_why_the_cell_itself_holds_is_still_said() -> None:
    held = Refusal(kind=RefusalKind.KEY, text="an operator pressed hold")
    based, _ = cell_with(Scripted(dies=2), Sensed(refusal=held))
    assert based.observe() is not None
    assert based.reason() is held
    assert based.observe() is None
    assert based.reason() is GONE


def test_a_run_without_a_base_has_the_cell_as_it_is(resolved_peg: Any) -> None:
    cell = FakeCell()
    with with_base(resolved_peg, cell, waits=True) as based:
        assert based is cell
    with pytest.raises(SpecError, match="base"):
        BasePolicy(resolved_peg.spec())


class Idle(FakePolicy):
    """A policy that asks for no motion, and notes when what it planned was void."""

    def __init__(self) -> None:
        super().__init__()
        self.void: list[bool] = []

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        self.void.append(interrupted)
        return np.zeros(3, np.float32)


def test_a_base_leads_in_the_policys_place_once_nobody_has_answered_its_request() -> None:
    based, cell = cell_with(Scripted())
    sink, policy = ListSink(), Idle()
    asker = Asker(AskingConfig(stall_s=0.5, sustain_s=0.0, base_after_s=0.5), WITH_BASE.period_s)
    loop = ControlLoop(based, WITH_BASE, cell, LoopLimits(episode_steps=20), asker)
    header = header_of(episode_id(1, EpisodeKind.ONLINE, "a"), EpisodeKind.ONLINE, seed=1)
    outcome = loop.run_episode(header, policy, sink, scores=StuckScores())
    assert [request and request.meanwhile for request in cell.asked] == [Meanwhile.POLICY, Meanwhile.BASE, None]
    began = next(tick for tick, action in enumerate(cell.sent) if action.any())
    assert 10 <= began <= 13
    recorded = [step.observation.proprio[ENTRIES] for step in sink.steps]
    np.testing.assert_allclose(cell.sent[began:], recorded[began:-1])
    rows = [step.action for step in sink.steps if step.action is not None]
    np.testing.assert_allclose([row.proposed for row in rows], cell.sent, err_msg="what was sent is what was proposed")
    assert policy.void == [False] * (began + 1) + [True] * (19 - began)
    assert outcome.help is not None
    assert outcome.help.requests[0].base_s == pytest.approx((20 - began) * WITH_BASE.period_s)
    assert (outcome.human_steps, outcome.base_steps) == (0, 20 - began)
    assert [row.params_version for row in rows] == [policy.version] * began + [0] * (20 - began)
    account = EpisodeAccount(header=header)
    for step in sink.steps:
        account.add(step)
    assert (account.base_steps, account.alone) == (20 - began, False)
    assert account.row(10.0, "").base_steps == 20 - began


@pytest.mark.parametrize("wrong", ["old", "nan"])
def test_where_the_policy_may_not_act_the_base_does_not_either(wrong: str) -> None:
    class Lost(Idle):
        def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
            action = super().act(observation, deterministic=deterministic, interrupted=interrupted)
            lost = len(self.void) > 15
            self.age_s = 100.0 if lost and wrong == "old" else 0.0
            return np.full(3, np.nan, np.float32) if lost and wrong == "nan" else action

    based, cell = cell_with(Scripted())
    asker = Asker(AskingConfig(stall_s=0.5, sustain_s=0.0, base_after_s=0.5), WITH_BASE.period_s)
    limits = LoopLimits(episode_steps=20, max_params_age_s=10.0)
    header = header_of(episode_id(1, EpisodeKind.ONLINE, "a"), EpisodeKind.ONLINE, seed=1)
    outcome = ControlLoop(based, WITH_BASE, cell, limits, asker).run_episode(
        header, Lost(), ListSink(), scores=StuckScores()
    )
    assert len(cell.sent) == 15, "nothing is sent: the safety filter holds"
    assert outcome.base_steps == 15 - next(tick for tick, action in enumerate(cell.sent) if action.any())
