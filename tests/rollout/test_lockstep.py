"""Simulated time waits for the learner: for its updates, and for the steps that are still on their way to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from robot_stack.learner.update_loop import Governor
from robot_stack.rollout import lockstep
from robot_stack.rollout.lockstep import Lockstep


class Cell:
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        self.time_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        self.time_ns = when_ns


class Learner:
    """A learner that says how far it is."""

    def __init__(self, **counters: int) -> None:
        self.counters = {"env_steps": 0, "updates": 0, "episodes": 0} | counters

    def status(self) -> Any:
        return SimpleNamespace(phase="training", counters=self.counters)


def clock(learner: Learner, sent: list[int], arrived: Sequence[bool] = (False,), utd: float = 2.0) -> Lockstep:
    return Lockstep(Cell(), learner.status, lambda: sent[0], utd=utd, pretrain=10, arrived=lambda: arrived[0])


def stands(waiting: Lockstep) -> bool:
    """Whether time stands still until the learner is level; lets it go on afterwards."""
    before_ns = waiting.now_ns()
    thread = threading.Thread(target=waiting.sleep_until_ns, args=(before_ns + 1,), daemon=True)
    thread.start()
    thread.join(0.2)
    return waiting.now_ns() == before_ns


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "LATE_S", 5.0)


def test_time_goes_on_while_the_learner_is_level() -> None:
    learner, sent = Learner(updates=10), [0]
    level = clock(learner, sent)
    assert not stands(level)
    sent[0] = 3
    learner.counters |= {"env_steps": 3, "updates": 14}
    assert not stands(level)


def test_time_stands_still_while_updates_are_owed() -> None:
    learner, sent = Learner(updates=10), [0]
    level = clock(learner, sent)
    assert not stands(level)
    sent[0] = 3
    learner.counters |= {"env_steps": 3, "updates": 13}
    assert stands(level)
    learner.counters |= {"updates": 14}
    time.sleep(0.1)
    assert level.now_ns() == 2


@pytest.mark.parametrize("utd", [0.05, 0.3, 1.0, 2.5])
def test_time_waits_for_no_update_that_the_learner_may_not_make_yet(utd: float) -> None:
    governor = Governor(utd=utd, pretrain=10)
    for steps in range(1, 25):
        learner, sent = Learner(env_steps=0, updates=10), [0]
        level = clock(learner, sent, utd=utd)
        level.sleep_until_ns(1)
        sent[0] = steps
        learner.counters |= {"env_steps": steps, "updates": governor.allowed(steps)}
        level.sleep_until_ns(2)
    assert level.now_ns() == 2


def test_time_stands_still_while_steps_are_on_their_way() -> None:
    learner, sent = Learner(updates=10_000), [0]
    level = clock(learner, sent)
    assert not stands(level)
    sent[0] = 3
    learner.counters |= {"env_steps": 2}
    assert stands(level)
    learner.counters |= {"env_steps": 3}
    time.sleep(0.1)
    assert level.now_ns() == 2


def test_steps_of_an_earlier_start_are_not_waited_for() -> None:
    learner, sent = Learner(updates=10_000, env_steps=50), [0]
    level = clock(learner, sent)
    assert not stands(level)
    sent[0] = 1
    assert stands(level)
    learner.counters |= {"env_steps": 51}


@pytest.mark.long
def test_an_episode_of_an_earlier_start_that_is_closed_a_step_shorter_is_not_waited_for(monkeypatch) -> None:
    """A killed actor's episode ends at its newest frame, whose action is then no step: see `EpisodeCut`."""
    monkeypatch.setattr(lockstep, "TAKEN_IN_S", 0.3)
    learner, sent, arrived = Learner(updates=10_000, env_steps=50), [0], [False]
    level = clock(learner, sent, arrived)
    assert not stands(level)
    sent[0] = 1  # 50 to 49, and 50 again by this one
    assert stands(level)
    time.sleep(0.5)
    assert level.now_ns() == 1, "it may be on its way"
    learner.counters |= {"received": 12.0, "counted": 0.0}
    arrived[0] = True
    time.sleep(0.5)
    assert level.now_ns() == 1, "or not yet counted"
    learner.counters |= {"counted": 12.0}
    time.sleep(0.6)
    assert level.now_ns() == 2
    sent[0] = 2
    assert stands(level)
    learner.counters |= {"env_steps": 51}
    time.sleep(0.1)
    assert level.now_ns() == 3
