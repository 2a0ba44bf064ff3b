"""Between the console and a learner over real gRPC: what it does, its scores, and the verdicts said at the page."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from robot_stack.console import label_forwarder
from robot_stack.console.label_forwarder import LabelForwarder
from robot_stack.console.messages import Say
from robot_stack.console.verdicts import operator_label
from robot_stack.transport.access.refusals import Refusal, RefusedError
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


@pytest.mark.parametrize(
    "error",
    [
        RefusedError(Refusal.TOKEN_WRONG, "token is wrong, must be the learner's"),
        RefusedError(Refusal.MISMATCH, "run is another, must be this one"),
        RefusedError(Refusal.TOO_SLOW, "request has not come, must come within 5 s"),
        RuntimeError("a defect of the learner"),
    ],
    ids=["token", "mismatch", "slow", "defect"],
)
def test_a_refusal_that_is_not_of_the_verdict_keeps_it_until_the_learner_takes_it(
    cell, learner, running, monkeypatch, error
):
    def refuse(label, by_actor):
        raise error

    cell.episode(41)
    cell.ended()
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(learner, "label", refuse)
        cell.journal.add(LABEL)
        until(lambda: state(cell) != "on its way to the store", "a word about it")
        assert state(cell).startswith("on its way to the store: ")
        assert str(error) in state(cell)
        assert (cell.journal.waiting, cell.journal.refused) == ([LABEL], {})
    until(lambda: list(learner.labels.values()) == [LABEL], "delivery")
    until(lambda: state(cell) == "", "the end of the wait")
    with cell.desk.locked():
        cell.desk.join("page", time.monotonic_ns())
        said = Say(episode=EPISODE, verdict=Verdict.SUCCESS)
        left = cell.desk.obey("page", said, time.monotonic_ns(), time.time())
    assert left is not None
    left()
    until(
        lambda: state(cell) == "on its way to the store", "a verdict that waits to be taken back, and for nothing else"
    )


def state(cell: FakeCell) -> str:
    with cell.desk.locked():
        return cell.desk.part("episodes")[0]["state"]


def test_a_page_that_the_learner_does_not_let_in_keeps_its_verdicts(cell, learner, running, monkeypatch):
    """What is wrong with a Hello says nothing of the verdict behind it."""
    monkeypatch.setattr(label_forwarder, "NAME", "x" * 200)
    cell.episode(41)
    cell.ended()
    cell.journal.add(LABEL)
    until(lambda: ": actor is " in state(cell), "a word about it")
    assert (cell.journal.waiting, cell.journal.refused) == ([LABEL], {})


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
