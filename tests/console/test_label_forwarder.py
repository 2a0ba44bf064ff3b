"""Between the console and a learner over real gRPC: what it does, its scores, and the verdicts said at the page."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from robot_stack.console.label_forwarder import LabelForwarder
from robot_stack.console.verdicts import operator_label
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Verdict
from robot_stack.types.reward import LiveScore
from tests.console.page_rig import FakeCell
from tests.console.slow_disk import unlocked
from tests.transport.fake_learner import TOKEN, FakeLearner

EPISODE = "000041-online-actor"
LABEL = operator_label(EPISODE, Verdict.FAILURE, 5.0)


def until(fits: Callable[[], object], what: str, timeout_s: float = 15.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not fits():
        assert time.monotonic() < deadline_s, f"{what} not within {timeout_s:g} s"
        time.sleep(0.01)


@pytest.fixture
def learner():
    return FakeLearner()


@pytest.fixture
def running(cell: FakeCell, learner):
    server = LearnerServer(learner, "127.0.0.1:0", TOKEN)
    server.start()
    forwarder = LabelForwarder(cell.desk, server.address, cell.tell, TOKEN)
    forwarder.start()
    yield server
    forwarder.stop()
    server.stop(grace_s=0.0)


def test_what_the_learner_does_and_scores_is_heard(cell, learner, running):
    cell.episode(41)
    until(lambda: cell.desk.heard.facts.learner is not None, "a status")
    learner.score(LiveScore(episode_id=EPISODE, index=3, progress=0.5, success=0.25, declared=False, version="v"))
    until(lambda: cell.desk.heard.curve.newest is not None, "a score")
    assert cell.desk.heard.curve.newest.success == 0.25


def test_a_verdict_is_brought_once(cell, learner, running):
    cell.journal.add(LABEL)
    until(lambda: not cell.journal.waiting, "delivery")
    assert list(learner.labels.values()) == [LABEL]


def test_pages_do_not_wait_while_it_is_written_that_one_was_brought(cell, running, disk):
    disk.free.set()
    cell.journal.add(LABEL)
    disk.begun.clear()
    disk.free.clear()
    try:
        assert disk.begun.wait(15.0), "no verdict was brought"
        assert unlocked(cell.desk)
    finally:
        disk.free.set()
    until(lambda: not cell.journal.waiting, "delivery")


def test_one_that_the_learner_refuses_is_told_and_not_sent_again(cell, learner, running, monkeypatch):
    def refuse(label, by_actor):
        raise SpecError("episode is not one of this run")

    monkeypatch.setattr(learner, "label", refuse)
    cell.journal.add(LABEL)
    until(lambda: not cell.journal.waiting, "refusal")
    assert cell.journal.refused == {EPISODE: "episode is not one of this run"}


def test_while_the_learner_is_away_verdicts_wait_and_follow(cell, learner):
    first = LearnerServer(learner, "127.0.0.1:0", TOKEN)
    address = first.start()
    first.stop(grace_s=0.0)
    forwarder = LabelForwarder(cell.desk, address, cell.tell, TOKEN)
    forwarder.start()
    try:
        cell.journal.add(LABEL)
        until(lambda: cell.desk.heard.facts.learner_error, "a word about it")
        assert "must answer; is it running there?" in cell.desk.heard.facts.learner_error
        assert cell.journal.waiting == [LABEL]
        second = LearnerServer(learner, address, TOKEN)
        second.start()
        try:
            until(lambda: list(learner.labels.values()) == [LABEL], "delivery")
            until(lambda: not cell.desk.heard.facts.learner_error, "the error's end")
        finally:
            second.stop(grace_s=0.0)
    finally:
        forwarder.stop()
