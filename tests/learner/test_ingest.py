"""From link to replay: every step once, in order, whatever overlaps, and a dead actor's episode is closed."""

from __future__ import annotations

import errno
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.learner.backend import EpisodeCut, ParamsBoard
from robot_stack.learner.data.replay_restorer import ReplayRestorer
from robot_stack.replay.manifest import Manifest
from robot_stack.replay.outcome import Outcome
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.params import Params
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from tests.disk.full import full_after
from tests.learner.bench import (
    SPEC,
    Bench,
    FakeModel,
    action_row,
    full_disk,
    header_of,
    label_of,
    observation_of,
    steps_of,
)

pytestmark = pytest.mark.long

P, H = Source.POLICY, Source.HUMAN


def test_arrived_episode_is_in_replay_ledger_and_scores(bench: Bench) -> None:
    bench.scorer.adopt(FakeModel("m1"), [])  # type: ignore[arg-type]
    bench.send("000000-online-a", [P, H, H, P], EndReason.SUCCESS)
    bench.take()
    account = bench.statistics.episodes["000000-online-a"]
    assert (account.steps, account.human_steps, account.interventions, account.end) == (4, 2, 1, EndReason.SUCCESS)
    assert bench.replay.frame_count("000000-online-a") == 5
    assert len(bench.replay.pools.online) == 4
    bench.cache.stop()
    assert bench.cache.holds("000000-online-a")
    (scores,) = bench.store.scores("m1")
    assert len(scores.progress) == 5
    assert account.max_progress == pytest.approx(0.04)


def test_features_are_those_of_the_trunk_however_the_steps_were_grouped(bench: Bench) -> None:
    steps = steps_of("000000-online-a", [P] * 4)
    bench.backend.begin(header_of("000000-online-a"))
    for step in steps:
        bench.backend.append(step)
        if step.index % 2:
            bench.take()
    bench.take()
    wanted = bench.trunk.encode({"front": np.stack([step.observation.images["front"] for step in steps])})
    found = bench.replay.frames.column("features")[bench.replay.frames.episode("000000-online-a").rows]
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), atol=2e-2)


def test_steps_that_are_both_on_disk_and_in_the_inbox_count_once(bench: Bench) -> None:
    name = "000000-online-a"
    steps = steps_of(name, [P] * 5, EndReason.FAILURE)
    bench.backend.begin(header_of(name))
    for step in steps[:3]:
        bench.backend.append(step)
    bench.store.flush()
    bench.ingest.load(bench.store.read(name))  # what a learner that starts does before it looks at its inbox
    for step in steps[3:]:
        bench.backend.append(step)
    bench.scorer.adopt(FakeModel("m1"), [])  # type: ignore[arg-type]
    bench.take()
    assert bench.statistics.episodes[name].steps == 5
    assert bench.replay.frame_count(name) == 6
    assert len(bench.scorer.inputs(name)) == 6
    assert len(bench.store.scores("m1")[0].progress) == 6


def test_step_sent_again_changes_nothing(bench: Bench) -> None:
    bench.send("000000-online-a", [P] * 3)
    bench.take()
    bench.send("000000-online-a", [P] * 3)
    bench.take()
    assert bench.statistics.online_steps == 3
    assert len(bench.scorer.inputs("000000-online-a")) == 4


def test_episode_of_an_actor_that_began_another_is_closed(bench: Bench) -> None:
    bench.send("000000-online-a", [P] * 4, None)
    bench.send("000001-online-b", [P] * 2, None, actor="b")
    bench.send("000002-online-a", [P] * 2, None)
    bench.take()
    assert bench.store.unfinished == ("000001-online-b", "000002-online-a")
    account = bench.statistics.episodes["000000-online-a"]
    assert (account.end, account.steps) == (EndReason.FAULT, 3)  # the last motion led to a frame nobody saw
    assert bench.store.read("000000-online-a").length == 3
    assert bench.replay.frame_count("000000-online-a") == 4
    assert bench.replay.outcome("000000-online-a") is Outcome.OPEN
    assert "000000-online-a" in bench.replay.state_dict()["episodes"]


def test_episode_begun_again_leaves_a_later_one_of_its_actor_open(bench: Bench) -> None:
    bench.send("000000-online-a", [P] * 2)
    bench.send("000001-online-a", [P] * 2, None)
    bench.backend.begin(header_of("000000-online-a"))  # sent again after a reconnect
    assert bench.store.unfinished == ("000001-online-a",)


def test_cut_that_was_learned_from_disk_is_no_second_end(bench: Bench) -> None:
    bench.send("000000-online-a", [P] * 4, None)
    bench.send("000001-online-a", [P] * 2)
    bench.ingest.load(bench.store.read("000000-online-a"))
    bench.take()
    assert bench.statistics.episodes["000000-online-a"].steps == 3
    assert bench.statistics.online_steps == 5


def test_episode_without_a_frame_is_gone(bench: Bench) -> None:
    bench.send("000000-online-a", [], None)
    bench.send("000001-online-a", [P])
    assert EpisodeCut(episode_id="000000-online-a", gone=True) in bench.backend.take()
    assert (bench.store.quarantined, bench.store.unfinished) == ({}, ())
    assert bench.store.episodes == ("000001-online-a",)


def test_unfinished_episode_without_a_frame_loads(bench: Bench) -> None:
    bench.send("000000-online-a", [], None)
    bench.store.flush()
    bench.ingest.load(bench.store.read("000000-online-a"))
    assert bench.replay.frame_count("000000-online-a") == 0


@pytest.mark.parametrize("phase", ["read", "load"])
def test_restart_passes_over_an_episode_that_its_actor_leaves_without_a_frame_meanwhile(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, phase: str
) -> None:
    announced = "000001-online-a"
    bench.send("000000-online-b", [P] * 2, actor="b")
    bench.send(announced, [], None)
    bench.send("000002-online-b", [P] * 3, actor="b")
    bench.store.flush()
    restorer = ReplayRestorer(tmp_path / "features", bench.store, SPEC, bench.statistics)
    read = bench.store.read

    def reading(episode_id: str, **kwargs: Any) -> Any:
        bench.backend.begin(header_of("000003-online-a"))  # its actor is back, and removes what has no frame
        return read(episode_id, **kwargs)

    for name in ("read", "load"):
        with monkeypatch.context() as while_it_reads:
            if name == phase:
                while_it_reads.setattr(bench.store, "read", reading)
            if name == "read":
                restorer.read(None)
            else:
                restorer.load(bench.ingest, bench.replay, {}, stop=threading.Event(), say=lambda _: None)
    assert announced in caplog.text
    bench.take()
    assert announced not in bench.statistics.episodes
    assert bench.statistics.online_steps == 5
    assert bench.replay.frame_count("000002-online-b") == 4


def test_after_a_restart_the_newest_episodes_are_those_that_began_last(bench: Bench, tmp_path: Path) -> None:
    for actor, numbers, began_s, end in (
        ("left", range(6), 1000.0, EndReason.SUCCESS),
        ("right", range(4), 2000.0, EndReason.FAILURE),
    ):
        for number in numbers:
            name = f"{number:06d}-online-{actor}"
            bench.backend.begin(replace(header_of(name, actor=actor), started_unix_s=began_s + number))
            for step in steps_of(name, [P], end):
                bench.backend.append(step)
    bench.take()
    before = list(bench.statistics.episodes)
    assert bench.statistics.recent_success(4) == 0.0
    statistics = EpisodeStatistics(10.0)
    ReplayRestorer(tmp_path / "features", bench.store, SPEC, statistics).read(None)
    assert list(statistics.episodes) == before
    assert statistics.recent_success(4) == 0.0


def test_restart_with_an_episode_that_the_disk_no_longer_gives_is_refused(bench: Bench, tmp_path: Path) -> None:
    name = "000000-online-a"
    bench.send(name, [P] * 2)
    shutil.rmtree(bench.folder / "store" / "episodes" / f"{name}.zarr")
    restorer = ReplayRestorer(tmp_path / "features", bench.store, SPEC, bench.statistics)
    with pytest.raises(StoreError, match=name):
        restorer.read(None)


def test_an_actors_next_number_is_above_all_that_were_ever_its_own(bench: Bench) -> None:
    assert bench.backend.next_number("a") == 0
    bench.send("000004-online-a", [P] * 2)
    bench.send("000009-demo-b-a", [P] * 2, actor="b-a")
    assert bench.backend.next_number("a") == 5
    bench.send("000006-demo-a", [P] * 2, None)
    assert bench.backend.next_number("a") == 7
    bench.backend.label(label_of("000007-online-a", Verdict.SUCCESS))  # of an episode that never arrived
    assert bench.backend.next_number("a") == 8
    assert bench.backend.next_number("b-a") == 10
    bench.store.close()
    shutil.rmtree(bench.folder / "store" / "episodes" / "000009-demo-b-a.zarr" / "source")
    bench.store.open()
    assert "000009-demo-b-a" in bench.store.quarantined
    assert bench.backend.next_number("b-a") == 10


def test_evaluation_is_kept_and_never_trained_on(bench: Bench) -> None:
    bench.send("000000-eval-a", [P] * 3, kind=EpisodeKind.EVAL)
    bench.take()
    assert bench.store.episodes == ("000000-eval-a",)
    assert len(bench.replay.frames) == 0


def test_label_flips_outcome_and_account(bench: Bench) -> None:
    bench.send("000000-online-a", [P] * 2, EndReason.SUCCESS)
    bench.take()
    assert bench.replay.outcome("000000-online-a") is Outcome.SUCCESS
    bench.backend.label(label_of("000000-online-a", Verdict.FAILURE))
    bench.backend.label(label_of("000000-online-a", Verdict.FAILURE))
    bench.take()
    assert bench.replay.outcome("000000-online-a") is Outcome.FAILURE
    assert not bench.statistics.episodes["000000-online-a"].success
    assert len(bench.store.labels) == 1


def test_gap_in_an_episode_is_refused(bench: Bench) -> None:
    bench.backend.begin(header_of("000000-online-a"))
    with pytest.raises(SpecError, match="must be 0"):
        bench.backend.append(
            Step(episode_id="000000-online-a", index=2, observation=observation_of(2), action=action_row())
        )
    bench.take()
    assert bench.statistics.online_steps == 0


def test_inbox_keeps_the_order_of_the_store_under_two_streams(bench: Bench) -> None:
    name, count = "000000-online-a", 300
    steps = steps_of(name, [P] * count)
    bench.backend.begin(header_of(name))

    def push() -> None:
        for step in steps:
            bench.backend.append(step)

    streams = [threading.Thread(target=push) for _ in range(2)]
    for stream in streams:
        stream.start()
    for stream in streams:
        stream.join(60.0)
    header, *arrived = bench.backend.take()
    assert isinstance(header, EpisodeHeader)
    assert [step.index for step in arrived if isinstance(step, Step)] == list(range(count + 1))


def test_last_step_whose_episode_the_disk_refuses_to_close_is_learned_from_once(bench: Bench) -> None:
    name = "000000-online-a"
    *steps, last = steps_of(name, [P] * 4, EndReason.SUCCESS)
    bench.backend.begin(header_of(name))
    for step in steps:
        bench.backend.append(step)
    for _ in range(2):
        with full_after(10), pytest.raises(StoreError, match="failed: File too large"):
            bench.backend.append(last)
    assert not bench.backend.append(last)  # the actor sends what was not acknowledged again
    arrived = bench.backend.take()
    assert [step.index for step in arrived if isinstance(step, Step)] == [0, 1, 2, 3, 4]
    bench.ingest.take(arrived)
    assert bench.store.episodes == (name,)
    assert bench.statistics.episodes[name].end is EndReason.SUCCESS
    assert bench.replay.outcome(name) is Outcome.SUCCESS
    assert bench.replay.frame_count(name) == 5


def test_scores_that_the_disk_refuses_count_at_once_and_are_written_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "000000-online-a"
    bench.scorer.adopt(FakeModel("m1"), [])  # type: ignore[arg-type]
    bench.replay.activate_scores("m1")
    with full_disk(monkeypatch):
        bench.send(name, [P] * 4)
        bench.take()
        bench.backend._flush()
        assert "writing scores of 000000-online-a failed: No space left on device" in bench.backend.failure
        assert bench.store.scores("m1") == ()
    assert bench.replay.state_dict()["scored_episodes"] == [name]
    assert bench.statistics.episodes[name].max_progress == pytest.approx(0.04)
    bench.backend._flush()
    assert bench.backend.failure == ""
    assert [each.episode_id for each in bench.store.scores("m1")] == [name]


def test_scores_that_a_restart_would_lack_count_only_once_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, phi = "000000-online-a", np.linspace(0.0, 1.0, 5, dtype=np.float32)
    bench.send(name, [P] * 4)
    bench.take()
    bench.replay.activate_scores("large")
    scores = EpisodeScores(episode_id=name, version="large", progress=phi, success=phi)
    with full_disk(monkeypatch), pytest.raises(StoreError, match="No space left"):
        bench.ingest.add_written_scores(scores)
    assert bench.replay.state_dict()["scored_episodes"] == []
    bench.ingest.add_written_scores(scores)
    assert bench.replay.state_dict()["scored_episodes"] == [name]


def test_step_after_a_cut_that_the_disk_refused_is_not_learned_from(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "000000-online-a"
    *steps, last = steps_of(name, [P] * 4, EndReason.SUCCESS)
    bench.backend.begin(header_of(name))
    for step in steps:
        bench.backend.append(step)

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "seal", full)
        with pytest.raises(StoreError, match="No space left"):
            bench.backend.cut(name)
        with pytest.raises(StoreError, match="No space left"):
            bench.backend.append(last)
    bench.backend._flush()
    bench.take()
    assert bench.store.read(name).end is EndReason.FAULT
    assert bench.statistics.episodes[name].end is EndReason.FAULT
    assert bench.replay.outcome(name) is Outcome.OPEN
    assert bench.replay.frame_count(name) == len(bench.store.read(name).arrays["proprio"]) == 4
    with pytest.raises(SpecError, match=f"step index of {name} is 4, must be at most 3: the episode was closed"):
        bench.backend.append(last)


def test_params_board_gives_only_what_is_newer() -> None:
    board = ParamsBoard()
    assert board.after(0, 0.0) is None
    for version in (3, 4):
        board.publish(Params(version=version, tensors={}, sha256="", metadata={}))
    newest = board.after(2, 0.0)
    assert newest is not None
    assert newest.version == 4
    assert board.after(4, 0.0) is None


def test_params_board_wakes_who_waits() -> None:
    board, got = ParamsBoard(), []
    waiter = threading.Thread(target=lambda: got.append(board.after(0, 30.0)))
    waiter.start()
    board.publish(Params(version=1, tensors={}, sha256="", metadata={}))
    waiter.join(30.0)
    assert [params.version for params in got] == [1]


def test_backend_flushes_by_itself(bench: Bench) -> None:
    told = threading.Event()
    bench.send("000000-online-a", [P] * 3, None)
    bench.backend.on_durable = told.set
    bench.backend.start()
    assert told.wait(30.0)
    bench.backend.stop()
    assert bench.backend.durable("000000-online-a") == 2
    assert bench.backend.hello() == 3


def test_a_verdict_that_comes_before_its_episode_counts_as_after_a_restart(bench: Bench) -> None:
    """The page tells the learner at once; the actor's header may wait in its spool."""
    name = "000001-online-a"
    bench.backend.label(label_of(name, Verdict.SUCCESS))
    bench.take()
    bench.send(name, [P] * 3, EndReason.TIMEOUT)
    bench.take()
    restarted = EpisodeStatistics(SPEC.rate_hz)
    restarted.recount(bench.store.read(name))
    for label in bench.store.labels:
        restarted.label(label)
    assert bench.statistics.episodes[name].success
    assert restarted.episodes[name].success


def test_an_episode_that_was_announced_and_has_no_frame_never_was(bench: Bench) -> None:
    """It counted as running for ever, and the learner waited for its end before each pause."""
    bench.backend.begin(header_of("000001-online-a"))
    bench.take()
    bench.send("000002-online-a", [P] * 3)
    bench.take()
    assert list(bench.statistics.episodes) == ["000002-online-a"]
