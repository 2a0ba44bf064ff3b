"""Demonstrations without a learner: on disk as each ends, a second start goes on, a full disk is said."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.verdicts import operator_label
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.outcome import verdict
from robot_stack.rollout import store_sink
from robot_stack.rollout.record import HAND, Recorder, count_valid_demos
from robot_stack.rollout.store_sink import StoreSink, next_number
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from robot_stack.workcell.build import build_local_cell

pytestmark = pytest.mark.long

EASY = ("task.sim.clearance_m=0.008", "task.sim.start_height_m=0.03", "task.sim.start_range_m=[0.03, 0.03, 0.0]")


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("peg_insert", EASY)


def opened(folder: Path, resolved: ResolvedRun) -> EpisodeStore:
    return EpisodeStore(folder, resolved.spec(), resolved.task.name)


class CellWith:
    """A cell that says an event of its own at a tick; everything else is the real one's."""

    def __init__(self, cell, at: dict[int, str]) -> None:
        self._cell, self._at, self._asked = cell, at, 0

    def __getattr__(self, name: str):
        return getattr(self._cell, name)

    def events(self) -> tuple[str, ...]:
        self._asked += 1
        said = self._at.pop(self._asked, None)
        return (said,) if said else self._cell.events()


def record(
    folder: Path, resolved: ResolvedRun, wanted: int, *, at: dict[int, str] | None = None
) -> tuple[int, list[str]]:
    said: list[str] = []
    cell = build_local_cell(resolved, seed=0)
    with opened(folder, resolved) as store:
        have = Recorder(resolved, CellWith(cell, at or {}), cell, store, said.append).run(wanted, threading.Event())
    return have, said


def test_demonstrations_are_recorded_until_there_are_enough_and_a_second_start_goes_on(resolved, tmp_path) -> None:
    assert record(tmp_path, resolved, 1)[0] == 1
    have, said = record(tmp_path, resolved, 2)
    assert have == 2
    assert said[-1].endswith("2 of 2 demonstrations")
    with opened(tmp_path, resolved) as store:
        assert count_valid_demos(store) == 2
        assert store.unfinished == ()
        for name in store.episodes:
            episode = store.read(name)
            assert episode.header.kind is EpisodeKind.DEMO
            assert episode.header.actor == HAND
            assert episode.length > 10
    assert record(tmp_path, resolved, 2) == (2, [])


def test_a_discarded_demonstration_is_kept_and_not_counted(resolved, tmp_path) -> None:
    have, said = record(tmp_path, resolved, 1, at={15: "discard"})
    assert have == 1
    assert "discarded" in said[0]
    with opened(tmp_path, resolved) as store:
        first, _ = store.episodes
        assert store.read(first, images=False).end is EndReason.OPERATOR
        assert verdict([label for label in store.labels if label.episode_id == first]) is Verdict.DISCARD


def test_what_an_operator_says_later_reaches_the_store_and_is_counted(resolved, tmp_path) -> None:
    def said(final: bool) -> list[Label]:
        """The first one was no good, as somebody says at the page; of another store's episodes they say it too."""
        return [operator_label(name, Verdict.DISCARD, 2e9) for name in ("000000-demo-hand", "000000-online-actor")]

    said_of, have = [], 0
    cell = build_local_cell(resolved, seed=0)
    with opened(tmp_path, resolved) as store:
        have = Recorder(resolved, cell, cell, store, said_of.append, said).run(1, threading.Event())
        assert verdict([label for label in store.labels if label.episode_id == "000000-demo-hand"]) is Verdict.DISCARD
        assert {label.episode_id for label in store.labels} <= set(store.episodes)
    assert have == 1
    assert len(said_of) == 2, "another one was recorded"


def test_an_episode_that_a_killed_recorder_left_open_is_closed(resolved, tmp_path) -> None:
    record(tmp_path, resolved, 1)
    with opened(tmp_path, resolved) as store:
        step = next(iter(store.read(store.episodes[0]).steps()))
        header = EpisodeHeader(
            episode_id="000001-demo-hand",
            kind=EpisodeKind.DEMO,
            task=resolved.task.name,
            actor=HAND,
            started_unix_s=1.0,
        )
        store.begin(header)
        store.append(type(step)(
            episode_id=header.episode_id, index=0, observation=step.observation, action=step.action
        ))  # fmt: skip
        store.flush()
    assert record(tmp_path, resolved, 2)[0] == 2
    with opened(tmp_path, resolved) as store:
        assert store.read("000001-demo-hand", images=False).end is EndReason.FAULT
        assert next_number(store) == 3


def test_a_stop_ends_the_recording_between_two_episodes(resolved, tmp_path) -> None:
    stop = threading.Event()
    stop.set()
    cell = build_local_cell(resolved, seed=0)
    with opened(tmp_path, resolved) as store:
        assert Recorder(resolved, cell, cell, store).run(3, stop) == 0
        assert store.episodes == ()


class Refusing:
    """A store on a disk that is full from the `limit`-th write on, or that breaks there in another way."""

    def __init__(self, limit: int, error: Exception | None = None) -> None:
        self.written: list[object] = []
        self._limit = limit
        self._error = StoreError("disk is full, must have room; free some") if error is None else error

    def _write(self, what: object) -> bool:
        if len(self.written) >= self._limit:
            raise self._error
        self.written.append(what)
        return True

    begin = append = append_label = _write
    unfinished = ()

    def flush(self) -> None:
        pass


def header(number: int) -> EpisodeHeader:
    return EpisodeHeader(episode_id=f"{number}", kind=EpisodeKind.DEMO, task="t", actor="a", started_unix_s=0.0)


def test_after_the_disk_has_refused_no_further_episode_begins() -> None:
    store = Refusing(1)
    said = Label(episode_id="0", verdict=Verdict.SUCCESS, source=LabelSource.OPERATOR, stamp_unix_s=0.0)
    sink = StoreSink(store)
    sink.__enter__()
    sink.begin(header(0))
    sink.label(said)
    for refused in (lambda: sink.settle(10.0), lambda: sink.begin(header(1)), lambda: sink.__exit__(None, None, None)):
        with pytest.raises(StoreError, match="recording failed: disk is full"):
            refused()
    assert store.written == [header(0)]


def test_an_error_that_nobody_foresaw_ends_the_recording_with_its_text() -> None:
    sink = StoreSink(Refusing(1, KeyError("front")))
    sink.__enter__()
    sink.begin(header(0))
    sink.begin(header(1))
    for refused in (lambda: sink.settle(10.0), lambda: sink.begin(header(2)), lambda: sink.__exit__(None, None, None)):
        with pytest.raises(StoreError, match=r"recording failed: KeyError\('front'\); report this"):
            refused()


def test_leaving_while_the_disk_still_stalls_says_what_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_sink, "CLOSE_S", 0.05)
    goes_on = threading.Event()
    store = Refusing(1000)
    monkeypatch.setattr(store, "begin", lambda header: goes_on.wait(10.0))
    sink = StoreSink(store)
    sink.__enter__()
    sink.begin(header(0))
    try:
        with pytest.raises(StoreError, match=r"disk has not taken \d steps or verdicts within 0.05 s"):
            sink.__exit__(None, None, None)
    finally:
        goes_on.set()


def test_everything_that_was_handed_over_is_written_on_leaving() -> None:
    store = Refusing(1000)
    headers = [header(number) for number in range(200)]
    with StoreSink(store) as sink:
        for each in headers:
            sink.begin(each)
    assert store.written == headers
