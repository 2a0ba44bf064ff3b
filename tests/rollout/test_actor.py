"""What an actor meets between two episodes is said, and it goes on."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.tiny_run import write_run
from robot_stack.rollout import actor as actor_module
from robot_stack.rollout import episode_runner, live_policy
from robot_stack.rollout.actor import Actor, EpisodeCounter
from robot_stack.rollout.asking.moment import Moment
from robot_stack.rollout.episode_runner import Plan, Ran
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import AskingRow, HelpRow
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.client import LearnerClient, LinkCounters
from robot_stack.types.errors import ConfigError, SpecError, TransportError
from robot_stack.types.event import Label, Verdict
from robot_stack.types.help import HelpEnd
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from tests.rollout.fake_cell import FakeCell
from tests.rollout.outcomes import outcome


class FakeClient:
    """A learner in a phase, with parameters that it hands out once."""

    refusal = refused_why = ""

    link = True
    next_number: int | None = 0
    counters = LinkCounters(
        spooled=0, acked=0, not_spooled=0, reconnects=0, params_version=0, params_refused=0, refused=0
    )

    def __init__(self, params: Params | None = None, *, phase: str = "training") -> None:
        self._fresh = params
        self._phase = phase
        self.begun: list[str] = []

    def latest(self) -> Params | None:
        params, self._fresh = self._fresh, None
        return params

    def status(self, timeout_s: float) -> LearnerStatus:
        return LearnerStatus(phase=self._phase)

    def newest(self, episode_id: str) -> LiveScore | None:
        return None

    def begin(self, header: EpisodeHeader) -> None:
        self.begun.append(header.episode_id)

    def push(self, step: Step) -> None:
        pass

    def label(self, label: Label) -> None:
        pass

    def wait_acked(self, timeout_s: float) -> bool:
        return True


def test_parameters_of_an_encoder_that_is_not_here_end_no_actor(tmp_path: Path) -> None:
    cell, said, stop = FakeCell(), list[str](), threading.Event()
    reference = {"encoder": "of tomorrow", "settings": "{}"}
    params = Params(
        version=1,
        tensors={},
        sha256="",
        metadata={
            "trunk": "t",
            "trunk_trained": "false",
            "trunk_reference": json.dumps(reference),
            "algorithm": "rlpd",
            "settings": "{}",
        },
    )
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, FakeClient(params)), "a")

    def say(message: str) -> None:
        said.append(message)
        stop.set()

    assert actor.run(stop, say) == "stopped"
    assert len(said) == 1
    assert said[0].startswith("episode not run: encoder is 'of tomorrow', must be one of")
    assert [row.kind for row in read_rows(tmp_path / "a.jsonl").rows] == ["fault"]
    assert cell.calls == []


def test_no_actor_explores_with_the_noise_of_another_or_of_an_earlier_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = list[int]()

    def noted(spec: Spec, params: Params, *, seed: int) -> None:
        seeds.append(seed)
        raise SpecError("not built")

    monkeypatch.setattr(live_policy, "ActingPolicy", noted)
    run, params = write_run(tmp_path), Params(version=1, tensors={}, sha256="", metadata={})

    def seed_of(actor_id: str) -> int:
        stop = threading.Event()
        actor = Actor(run, tmp_path, cell, cell, cast(LearnerClient, FakeClient(params)), actor_id)
        actor.run(stop, lambda message: stop.set())
        return seeds[-1]

    cell = FakeCell()
    left, right, again = seed_of("left"), seed_of("right"), seed_of("left")
    (tmp_path / "left.next").write_text("7")
    assert left == again  # nothing was run in between
    assert len({left, right, seed_of("left")}) == 3


def test_plans_that_cannot_be_read_are_refused_by_file(tmp_path: Path) -> None:
    cell = FakeCell()
    (tmp_path / "a.protocol.json").write_text('{"level": ')
    client = cast(LearnerClient, FakeClient())
    with pytest.raises(ConfigError, match=r"a\.protocol\.json is unreadable .* remove it to begin at level 0"):
        Actor(write_run(tmp_path), tmp_path, cell, cell, client, "a")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"signals": ', "JSONDecodeError"),
        ('{"signals": ["stall"], "needed": [], "not_needed": []}', "as the run says"),
    ],
)
def test_evidence_that_cannot_be_read_or_is_of_other_signals_is_refused_by_file(
    tmp_path: Path, content: str, why: str
) -> None:
    cell = FakeCell()
    (tmp_path / "a.asking.json").write_text(content)
    run = write_run(tmp_path, "run.asking={}")
    with pytest.raises(
        ConfigError, match=r"a\.asking\.json is unreadable .*remove it to begin without evidence"
    ) as said:
        Actor(run, tmp_path, cell, cell, cast(LearnerClient, FakeClient()), "a")
    assert why in str(said.value)


@pytest.mark.parametrize(
    ("end", "said", "nominal", "asked"),
    [
        (EndReason.SUCCESS, None, [True], [6]),
        (EndReason.SUCCESS, Verdict.FAILURE, [False], [6, 5]),
        (EndReason.SUCCESS, Verdict.DISCARD, [], [5, 6]),
        (EndReason.TIMEOUT, Verdict.SUCCESS, [True], [6]),
        (EndReason.TIMEOUT, None, [False], [6, 5]),
        (EndReason.TIMEOUT, Verdict.DISCARD, [], [5, 6]),
        (EndReason.OPERATOR, Verdict.DISCARD, [], [5, 6]),
        (EndReason.OPERATOR, None, [], [5, 6]),
        (EndReason.FAULT, Verdict.SUCCESS, [], [5, 6]),
    ],
)
def test_the_curriculum_goes_by_the_last_verdict_and_not_by_what_nobody_judged(
    tmp_path: Path, end: EndReason, said: Verdict | None, nominal: list[bool], asked: list[int]
) -> None:
    cell, run = FakeCell(), write_run(tmp_path)

    def told(kind: EpisodeKind, seed: int | None = None) -> dict[str, Any]:
        actor = Actor(run, tmp_path, cell, cell, cast(LearnerClient, FakeClient()), "a")
        actor._help._asked = [5, 6]
        actor._keep_plans(Ran(Plan(kind=kind, seed=seed), outcome(end, said, kind=kind)))
        return actor._help.state_dict()

    assert told(EpisodeKind.ONLINE)["nominal"] == nominal
    assert told(EpisodeKind.DEMO, 5)["asked"] == asked


class Disk:
    """A disk that is full until somebody frees space."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, fd: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._sync(fd)


def test_a_full_disk_keeps_the_next_episode_waiting_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_runner, "RETRY_S", 0.01)
    disk, cell, stop, said = Disk(monkeypatch), FakeCell(events={0: "success"}), threading.Event(), list[str]()
    client = FakeClient(phase="collecting_demos")
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, client), "a")

    def say(message: str) -> None:
        said.append(message)
        disk.full = len(said) < 3

    def begin(header: EpisodeHeader) -> None:
        client.begun.append(header.episode_id)
        stop.set()

    monkeypatch.setattr(client, "begin", begin)
    assert actor.run(stop, say) == "stopped"
    assert len(said) == 3
    assert "No space left on device" in said[0]
    assert client.begun == ["000000-demo-a"]
    assert cell.calls[0].startswith("reset"), "nothing moves before there is room"
    assert (tmp_path / "a.next").read_text() == "1"
    assert [row.kind for row in read_rows(tmp_path / "a.jsonl").rows] == ["fault"] * 3 + ["control"]


@pytest.mark.parametrize(("changes", "begun"), [(True, []), (False, ["000000-demo-a"])])
def test_an_episode_that_nobody_wants_after_the_reset_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: bool, begun: list[str]
) -> None:
    """A reset may take minutes; meanwhile the learner has what it waited for, or stands still for a while."""
    cell, client, stop = FakeCell(events={0: "success"}), FakeClient(phase="collecting_demos"), threading.Event()
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, client), "a")
    reset, begin = cell.reset, client.begin

    def slow_reset(seed: int, **asked: Any) -> None:
        reset(seed, **asked)
        if changes:
            client._phase = "fitting"
            stop.set()

    def begin_last(header: EpisodeHeader) -> None:
        begin(header)
        stop.set()

    monkeypatch.setattr(cell, "reset", slow_reset)
    monkeypatch.setattr(client, "begin", begin_last)
    said: list[str] = []
    assert actor.run(stop, said.append) == "stopped"
    assert (client.begun, said) == (begun, [])
    assert ("start demo" in cell.calls) == bool(begun)


def test_a_learner_out_of_reach_after_the_reset_keeps_no_episode_from_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, client, stop = FakeCell(events={0: "success"}), FakeClient(phase="collecting_demos"), threading.Event()
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, client), "a")
    reset = cell.reset

    def away(timeout_s: float) -> LearnerStatus:
        raise TransportError("no answer")

    def slow_reset(seed: int, **asked: Any) -> None:
        reset(seed, **asked)
        monkeypatch.setattr(client, "status", away)
        stop.set()

    monkeypatch.setattr(cell, "reset", slow_reset)
    assert actor.run(stop, lambda _: None) == "stopped"
    assert client.begun == ["000000-demo-a"]


def test_what_the_learner_refuses_of_an_episode_is_said_once_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, client, stop = FakeCell(events={0: "success"}), FakeClient(phase="collecting_demos"), threading.Event()
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, client), "a")
    begin, said = client.begin, list[str]()

    def refuse_the_first(header: EpisodeHeader) -> None:
        begin(header)
        monkeypatch.setattr(client, "counters", replace(client.counters, refused=13))
        monkeypatch.setattr(client, "refused_why", "header is of another; use a new episode id")
        if len(client.begun) == 2:
            stop.set()

    monkeypatch.setattr(client, "begin", refuse_the_first)
    actor.run(stop, said.append)
    assert said == ["learner refused 13 records, they are lost: header is of another; use a new episode id"]
    figures = actor.figures()
    assert (figures["refused"], figures["refused_why"]) == (13, "header is of another; use a new episode id")


def test_episode_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    counter = EpisodeCounter(tmp_path / "a.next")
    assert [counter.take(0), counter.take(0), EpisodeCounter(tmp_path / "a.next").take(0)] == [0, 1, 2]


def test_episode_numbers_are_above_those_that_the_learner_has_of_the_actor(tmp_path: Path) -> None:
    counter = EpisodeCounter(tmp_path / "a.next")
    assert [counter.take(7), counter.take(7), counter.take(3), EpisodeCounter(tmp_path / "a.next").take(7)] == [
        7, 8, 9, 10,
    ]  # fmt: skip


def test_no_episode_begins_before_the_learner_has_said_which_numbers_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episode_runner, "IDLE_S", 0.0)
    cell, stop, asked = FakeCell(), threading.Event(), 0
    client = FakeClient(phase="collecting_demos")
    client.next_number = None
    actor = Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, client), "a")

    def status(timeout_s: float) -> LearnerStatus:
        nonlocal asked
        asked += 1
        if asked == 3:
            assert client.begun == []
            client.next_number = 40
        return LearnerStatus(phase="collecting_demos", counters={"counted": 0.0, "received": 0.0})

    def begin(header: EpisodeHeader) -> None:
        client.begun.append(header.episode_id)
        stop.set()

    monkeypatch.setattr(client, "status", status)
    monkeypatch.setattr(client, "begin", begin)
    assert actor.run(stop, print) == "stopped"
    assert client.begun == ["000040-demo-a"]


@pytest.mark.parametrize("content", ["", "x", "-1"])
def test_a_counter_that_cannot_be_read_is_refused_by_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.next").write_text(content)
    with pytest.raises(ConfigError, match=r"a\.next is .*, must be the number of the next episode"):
        EpisodeCounter(tmp_path / "a.next")


def test_what_the_asker_has_learnt_is_on_disk_after_an_episode_and_there_after_a_restart(tmp_path: Path) -> None:
    cell, run = FakeCell(), write_run(tmp_path, "run.asking={}")

    def start() -> Actor:
        return Actor(run, tmp_path, cell, cell, cast(LearnerClient, FakeClient()), "a")

    actor = start()
    asker = actor.asker
    assert asker is not None
    for tick in range(30):
        score = LiveScore(episode_id="0", index=tick, progress=0.5, success=0.0, declared=False, version="v")
        asker.look(Moment(now_ns=tick * 100_000_000, index=tick, score=score))
    asker.end(EndReason.FAILURE, 3_000_000_000)
    actor.log_help(replace(outcome(EndReason.FAILURE), help=asker.account))
    resumed = start().asker
    assert resumed is not None
    assert resumed.state_dict() == asker.state_dict()
    assert resumed.state_dict()["needed"] != []
    help_row, episode_row = read_rows(tmp_path / "a.jsonl").rows
    assert isinstance(help_row, HelpRow)
    assert isinstance(episode_row, AskingRow)
    assert (help_row.end, help_row.needed, episode_row.requests) == (HelpEnd.OVER, True, 1)
    assert episode_row.evidence["needed"] == 1


def demonstrating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Callable[[FakeClient], LearnerStatus]
) -> FakeClient:
    """Let an actor demonstrate to a learner with this status, for three demonstrations at most."""
    cell, client, stop = FakeCell(events={0: "success"}), FakeClient(phase="collecting_demos"), threading.Event()
    begin = client.begin

    def begin_at_most_three(header: EpisodeHeader) -> None:
        begin(header)
        if len(client.begun) == 3:
            stop.set()

    monkeypatch.setattr(client, "begin", begin_at_most_three)
    monkeypatch.setattr(client, "status", lambda timeout_s: status(client))
    Actor(write_run(tmp_path), tmp_path, cell, cell, cast(LearnerClient, client), "a").run(stop, lambda message: None)
    return client


class Counting:
    """A learner that needs one demonstration, and counts all that has arrived at the sixth question after it.

    Args:
        other: Arrivals of another actor between two questions.
        silent: Questions after the demonstration that it is too busy to answer.
    """

    def __init__(self, *, other: int = 0, silent: int = 0) -> None:
        self._other, self._silent = other, silent
        self.asked = 0

    def __call__(self, client: FakeClient) -> LearnerStatus:
        if not client.begun:
            return LearnerStatus(phase="collecting_demos", counters={"received": 0.0, "counted": 0.0})
        self.asked += 1
        if self.asked in range(3, 3 + self._silent):
            raise TransportError("learner does not answer within 1 s, must; see its log")
        received = 100.0 + self._other * self.asked
        if self.asked > 6:
            return LearnerStatus(phase="done", counters={"received": received, "counted": received - self._other})
        return LearnerStatus(phase="collecting_demos", counters={"received": received, "counted": 90.0})


@pytest.mark.long
@pytest.mark.parametrize("learner", [Counting(), Counting(other=10), Counting(silent=3)], ids=["alone", "two", "busy"])
def test_a_learner_that_is_slow_to_count_is_given_no_demonstration_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: Counting
) -> None:
    """What is acknowledged is on its disk, and not counted yet: until then it still says that it collects."""
    assert demonstrating(tmp_path, monkeypatch, learner).begun == ["000000-demo-a"]
    assert learner.asked > 6


def test_what_another_actor_sends_meanwhile_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one records without a pause, so that there is always something that is not counted."""
    asked = 0

    def status(client: FakeClient) -> LearnerStatus:
        nonlocal asked
        asked += 1
        counters = {"received": 100.0 + 10 * asked, "counted": 90.0 + 10 * asked}
        return LearnerStatus(phase="collecting_demos", counters=counters)

    started_s = time.monotonic()
    assert len(demonstrating(tmp_path, monkeypatch, status).begun) == 3
    assert time.monotonic() - started_s < actor_module.COUNTED_S


@pytest.mark.long
@pytest.mark.parametrize("answers", [True, False])
def test_a_learner_that_counts_nothing_or_is_away_keeps_no_actor_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(actor_module, "COUNTED_S", 0.3)
    waited_s: list[float] = []
    wait = Actor._wait_counted

    def timed(actor: Actor, stop: threading.Event) -> None:
        started_s = time.monotonic()
        wait(actor, stop)
        waited_s.append(time.monotonic() - started_s)

    def status(client: FakeClient) -> LearnerStatus:
        if client.begun and not answers and len(client.begun) > len(waited_s):
            raise TransportError("learner is away, must be there; start it")
        return LearnerStatus(phase="collecting_demos", counters={"received": 3.0, "counted": 0.0})

    monkeypatch.setattr(Actor, "_wait_counted", timed)
    assert len(demonstrating(tmp_path, monkeypatch, status).begun) == 3
    assert min(waited_s[:2]) >= 0.3


def test_a_learner_that_started_anew_is_asked_for_what_it_has_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its counters begin at 0 again; what it restored from its disk is counted before it answers."""
    told = [(100.0, 90.0), (0.0, 0.0)]

    def status(client: FakeClient) -> LearnerStatus:
        received, counted = told[0] if not client.begun or len(told) == 1 else told.pop(0)
        return LearnerStatus(phase="collecting_demos", counters={"received": received, "counted": counted})

    started_s = time.monotonic()
    assert len(demonstrating(tmp_path, monkeypatch, status).begun) == 3
    assert time.monotonic() - started_s < actor_module.COUNTED_S
