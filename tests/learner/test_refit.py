"""A new reward model scores every episode before it counts, survives a restart, and never fails in silence."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.tiny_run import write_run
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.model import FrameScores
from reward_models.progress.orders import Order
from robot_stack.config.resolve import load_run
from robot_stack.learner import fitting
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.learner.reward import fit_job, refit
from robot_stack.learner.reward.fit_job import FitJob, TaskToFit, fit_elsewhere
from robot_stack.learner.reward.refit import REFIT_AT, RETRY_AFTER, Refitter
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import SuccessRule
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import RefitFailedRow, RewardFitRow, of_kind
from robot_stack.types.command import Source
from robot_stack.types.errors import FitError, ResumeError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Further, Preference
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.learner.bench import RULE, SPEC, Bench, full_disk, header_of, label_of, monitor_of, steps_of
from tests.learner.driven import Driven
from tests.replay.test_preferences import preference

pytestmark = pytest.mark.long

TINY = ProgressConfig(members=2, window=4, width=16, layers=1, steps=2, batch=4, held_out=1)
P = Source.POLICY
HELPED = [P] * 9 + [Source.HUMAN] * 4 + [Source.IDLE] + [P] * 2
TASK = load_run("peg_insert").task


def _refitter(
    bench: Bench,
    settings: ProgressConfig = TINY,
    folder: Path | None = None,
    marks: Sequence[StageMark] = (),
    preferences: Sequence[Preference] = (),
) -> Refitter:
    return Refitter(
        folder=folder or bench.folder, settings=settings, spec=SPEC, task=TASK, statistics=bench.statistics,
        scorer=bench.scorer, monitor=monitor_of(bench), ingest=bench.ingest, metrics=bench.metrics, thumbnails=(),
        seed=0, marks=lambda: marks, preferences=lambda: preferences,
        source=lambda name: np.array(HELPED, np.uint8),
    )  # fmt: skip


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a fit is due does not hang on where it is done: this process needs no three seconds to start."""
    monkeypatch.setattr(refit, "fit_elsewhere", lambda job, stopping: job.fit(fitting.unless(stopping)))


def _demos(bench: Bench, count: int = 2) -> None:
    for number in range(count):
        bench.send(f"{number:06d}-demo-a", [Source.HUMAN] * 6, EndReason.SUCCESS, kind=EpisodeKind.DEMO)
    bench.take()


def _train_online(bench: Bench, count: int, first: int = 10) -> None:
    for number in range(first, first + count):
        name = f"{number:06d}-online-a"
        bench.ingest.take([header_of(name), *steps_of(name, [P] * 4)])


def _finish(refitter: Refitter) -> None:
    thread = refitter._thread
    assert thread is not None
    thread.join(240.0)
    assert not thread.is_alive()


def test_fit_scores_every_episode_and_becomes_the_active_model(bench: Bench) -> None:
    _demos(bench)
    _train_online(bench, 2)
    _refitter(bench).fit()
    version = bench.scorer.version
    assert version
    assert {s.episode_id for s in bench.store.scores(version)} == set(bench.statistics.episodes)
    state = bench.replay.state_dict()
    assert (state["score_version"], state["scored_episodes"]) == (version, sorted(bench.statistics.episodes))
    (row,) = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RewardFitRow)
    assert (row.version, row.episodes, row.failures) == (version, 4, 2)
    assert row.held_out == ("000000-demo-a", "000010-online-a")
    assert row.trained_on == ("000001-demo-a", "000011-online-a")


@pytest.mark.parametrize(("episodes", "steps"), [(0, 6), (1, 3)])
def test_fits_are_shorter_while_the_policy_learns_beside_them(bench: Bench, episodes: int, steps: int) -> None:
    _demos(bench)
    _train_online(bench, episodes)
    taken: list[int] = []
    settings = TINY.model_copy(update={"steps": 6, "refit_steps": 3})
    _refitter(bench, settings).fit(on_step=lambda step, of, loss: taken.append(step))
    assert len(taken) == steps * TINY.members


def test_quick_fits_stay_quick(bench: Bench) -> None:
    _demos(bench)
    _train_online(bench, 1)
    taken: list[int] = []
    _refitter(bench).fit(on_step=lambda step, of, loss: taken.append(step))
    assert len(taken) == TINY.steps * TINY.members < TINY.refit_steps


def test_episode_that_ends_while_the_new_model_scores_is_scored_by_it_too(tmp_path: Path) -> None:
    class Late(Scorer):
        """One more episode ends just before the switch."""

        def adopt(self, model: RewardNetwork, episode_ids: list[str]) -> list[EpisodeScores]:
            if "000099-online-a" not in bench.statistics.episodes:
                _train_online(bench, 1, first=99)
            return super().adopt(model, episode_ids)

    bench = Bench(tmp_path, Late(lambda: SuccessRule(RULE, SPEC)))
    try:
        _demos(bench)
        _refitter(bench).fit()
        assert "000099-online-a" in {s.episode_id for s in bench.store.scores(bench.scorer.version)}
    finally:
        bench.close()


@pytest.mark.usefixtures("here")
def test_refit_is_due_after_so_many_episodes_and_once(bench: Bench) -> None:
    refitter = _refitter(bench)
    _demos(bench)
    refitter.fit()
    first = bench.scorer.version
    _train_online(bench, REFIT_AT[0] - 1)
    refitter.maybe_start()
    assert refitter._thread is None
    _train_online(bench, 1, first=900)
    refitter.maybe_start()
    _finish(refitter)
    assert bench.scorer.version != first
    assert refitter.completed_at == REFIT_AT[0]
    thread = refitter._thread
    refitter.maybe_start()
    assert refitter._thread is thread


def test_without_a_success_to_learn_from_the_model_in_use_goes_on(bench: Bench) -> None:
    """As when an operator takes back what they said of the demonstrations."""
    _demos(bench)
    refitter = _refitter(bench)
    refitter.fit()
    version = bench.scorer.version
    for account in bench.statistics.demos():
        bench.statistics.label(label_of(account.header.episode_id, Verdict.FAILURE))
    _train_online(bench, REFIT_AT[0])
    refitter.maybe_start()
    _finish(refitter)
    assert (refitter.completed_at, bench.scorer.version) == (0, version)
    refitter.maybe_start()
    (row,) = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RefitFailedRow)
    assert "record a demonstration" in row.reason


def test_disk_that_refuses_the_model_leaves_the_one_in_use(bench: Bench) -> None:
    full = bench.folder / "full"
    full.touch()  # a folder in which nothing can be written
    refitter = _refitter(bench, folder=full)
    _demos(bench)
    _train_online(bench, REFIT_AT[0])
    refitter.maybe_start()
    _finish(refitter)
    assert refitter.completed_at == 0
    refitter.maybe_start()
    (row,) = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RefitFailedRow)
    assert re.search(r"Not a directory|File exists", row.reason)


@pytest.mark.usefixtures("here")
def test_disk_that_is_full_while_the_new_model_scores_takes_its_scores_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _demos(bench)
    _train_online(bench, REFIT_AT[0])
    refitter = _refitter(bench)
    with full_disk(monkeypatch):
        refitter.maybe_start()
        _finish(refitter)
        refitter.maybe_start()
        assert refitter.completed_at == REFIT_AT[0]
        assert bench.store.scores(bench.scorer.version) == ()
    bench.store.flush()
    assert {each.episode_id for each in bench.store.scores(bench.scorer.version)} == set(bench.statistics.episodes)


def test_a_fit_elsewhere_is_the_fit_here(bench: Bench) -> None:
    _demos(bench)
    _train_online(bench, 2)
    job, known = _refitter(bench)._job()
    assert known.online == 2
    assert fit_elsewhere(job, threading.Event()) == job.fit()


def test_what_people_say_is_learned_and_what_becomes_of_it_is_logged(bench: Bench) -> None:
    _demos(bench)
    _train_online(bench, 3)  # the first one is held out
    one, two, demo = "000011-online-a", "000012-online-a", "000001-demo-a"
    said = [
        preference((one, 1), (two, 3)), preference((two, 1), (demo, 4)), preference((one, -1), (two, -1)),
        preference((one, 1), (two, 3), Further.FIRST, by="ben"),
        preference((one, 2), (two, 2), Further.UNKNOWN), preference((one, 99), (two, 2)),
        preference(("x", 1), (two, 2)),
    ]  # fmt: skip
    refitter = _refitter(bench, preferences=said)
    job, _ = refitter._job()
    orders = {e.name: e.orders for e in job.tasks[TASK.turns[0].id].episodes}
    last = len(bench.scorer.inputs(one)) - 1
    assert orders[one] == (Order(1, two, 3, 1.0), Order(1, two, 3, 0.0), Order(last, two, last, 1.0))
    assert orders[demo] == (Order(4, two, 1, 0.0),)
    refitter.fit()
    (row,) = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RewardFitRow)
    assert row.preferences == {"people": 4, "contradicting": 1, "unknown": 1, "unusable": 2}
    assert row.orders == 4


def test_take_overs_are_orders_where_the_settings_say_so(bench: Bench) -> None:
    _demos(bench)
    _train_online(bench, 1)
    helped = "000020-online-a"
    bench.ingest.take([header_of(helped), *steps_of(helped, HELPED)])
    lead = max(1, round(refit.LEAD_S * SPEC.rate_hz))
    on = TINY.model_copy(update={"take_overs": True})
    for settings, wanted in ((TINY, ()), (on, (Order(9 - lead, helped, 14, 1.0),))):
        job, _ = _refitter(bench, settings)._job()
        orders = [e.orders for e in job.tasks[TASK.turns[0].id].episodes if e.name == helped]
        assert orders == [wanted]


def test_a_job_survives_its_way_to_the_other_process(tmp_path: Path) -> None:
    frames = np.arange(12, dtype=np.float32).reshape(4, 3)
    staged = ScoredEpisode(frames=frames[:, ::-1], success=True, stage_starts=(0, 2), progress=np.linspace(0, 1, 4))
    failed = ScoredEpisode(
        frames=frames[:2], success=False, judged=False, done_frames=5, refused=True, thumbnails=((0, 3), (3, 6)),
        name="f", orders=(Order(0, "f", 1, 0.5),),
    )  # fmt: skip
    tasks = {
        "there": TaskToFit(text="put it in\n", told=(1.0,), episodes=(staged, failed), preferences={"people": 1}),
        "back": TaskToFit(text="pull it out", told=(-1.0,), episodes=(failed,)),
    }
    job = FitJob(folder=tmp_path, tasks=tasks, column=2, settings=TINY, seed=3)
    again = FitJob.from_bytes(job.to_bytes())
    assert (again.folder, again.column, again.settings, again.seed) == (tmp_path, 2, TINY, 3)
    assert [(name, t.text, t.told) for name, t in again.tasks.items()] == [
        ("there", "put it in\n", (1.0,)),
        ("back", "pull it out", (-1.0,)),
    ]
    for before, after in zip(tasks["there"].episodes, again.tasks["there"].episodes, strict=True):
        assert np.array_equal(before.frames, after.frames)
        assert before.frames.dtype == after.frames.dtype
        assert replace(before, frames=frames, progress=None) == replace(after, frames=frames, progress=None)
    assert np.array_equal(again.tasks["there"].episodes[0].progress, staged.progress)
    assert again.tasks["there"].episodes[1].progress is None


def _child() -> int:
    """Return the number of the process that fits, once it is there."""
    until_s = time.monotonic() + 60.0
    while time.monotonic() < until_s:
        for thread in Path("/proc/self/task").iterdir():
            for number in (thread / "children").read_text().split():
                words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
                if b"robot_stack.learner.reward.fit_job" in words and b"--nice" not in words:
                    return int(number)
        time.sleep(0.02)
    raise AssertionError("no process fits")


ENDLESS = TINY.model_copy(update={"steps": 1_000_000, "refit_steps": 1_000_000})


def test_a_killed_fit_leaves_the_model_in_use(bench: Bench) -> None:
    _demos(bench)
    refitter = _refitter(bench, ENDLESS)
    _train_online(bench, REFIT_AT[0])
    refitter.maybe_start()
    os.kill(_child(), signal.SIGKILL)
    _finish(refitter)
    refitter.maybe_start()
    (row,) = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RefitFailedRow)
    assert "was ended by signal 9, must end by itself" in row.reason
    assert (refitter.completed_at, bench.scorer.version) == (0, "")


@pytest.mark.usefixtures("here")
def test_a_fit_that_failed_is_tried_again_after_some_episodes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise FitError("process was ended by signal 9")

    _demos(bench)
    refitter = _refitter(bench)
    _train_online(bench, REFIT_AT[0])
    with monkeypatch.context() as short:
        short.setattr(refit, "fit_elsewhere", killed)
        refitter.maybe_start()
        _finish(refitter)
    first = refitter._thread
    refitter.maybe_start()
    assert refitter._thread is first, "not at once"
    _train_online(bench, RETRY_AFTER, first=500)
    refitter.maybe_start()
    _finish(refitter)
    assert refitter.completed_at == REFIT_AT[0]


def test_the_model_in_use_is_watched_while_a_refit_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(job: FitJob, stopping: threading.Event) -> fit_job.Fit:
        go_on.wait(60.0)
        return job.fit(fitting.unless(stopping))

    monkeypatch.setattr(refit, "fit_elsewhere", slow)
    _demos(bench)
    refitter = _refitter(bench)
    refitter.fit()
    _train_online(bench, REFIT_AT[0])
    refitter.maybe_start()
    before = set(refitter._monitor._seen)
    _train_online(bench, 4, first=500)
    refitter.maybe_start()
    assert refitter.runs
    assert "000500-online-a" in refitter._monitor._seen - before
    go_on.set()
    _finish(refitter)
    assert refitter.completed_at == REFIT_AT[0]
    assert "000500-online-a" not in refitter._monitor._seen, "the next version is judged by it"
    assert "000010-online-a" in refitter._monitor._seen
    refitter.maybe_start()
    assert "000500-online-a" in refitter._monitor._seen


class Fixed:
    """A version that is sure of success to the same degree in every frame, but of a scene that stands still."""

    text = TASK.text

    def __init__(self, version: str, success: float, still: float = 0.0) -> None:
        self.version, self._success, self._still = version, success, still

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        return frames

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        none = np.zeros(len(frames) - start, np.float32)
        return FrameScores(none, none + (self._success if np.ptp(frames, axis=0).any() else self._still), none)


@pytest.mark.parametrize(
    ("new", "trusted", "why"),
    [
        (Fixed("new", 0.9), True, None),
        (Fixed("new", 0.1), True, "worse"),
        (Fixed("new", 0.1), False, None),
        (Fixed("new", 0.9, still=0.9), True, "canary"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_version_that_is_worse_than_the_one_in_use_is_not_taken_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, new: Fixed, trusted: bool, why: str | None
) -> None:
    _demos(bench)
    refitter = _refitter(bench)
    monkeypatch.setattr(refitter, "_written", lambda version: Fixed("old", 0.9))
    refitter.fit()
    _train_online(bench, REFIT_AT[0])
    if not trusted:
        refitter._monitor.lose()
    monkeypatch.setattr(refitter, "_written", lambda version: new)
    refitter.maybe_start()
    _finish(refitter)
    assert bench.scorer.version == ("new" if why is None else "old")
    assert bench.scorer.trusted
    rows = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RefitFailedRow)
    assert [row.why for row in rows] == ([] if why is None else [why])
    assert refitter.completed_at == (REFIT_AT[0] if why is None else 0)
    if why == "worse":
        assert rows[0].reason == (
            "version new declares 0 of the 1 successes held out, must declare the 1 that the version in use does"
        )
    first = refitter._thread
    _train_online(bench, RETRY_AFTER, first=500)
    refitter.maybe_start()
    assert (refitter._thread is not first) is (why is not None), "another fit follows"
    _finish(refitter)


def test_a_broken_fit_is_told_and_the_model_in_use_goes_on(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_job, "OWN", "robot_stack.learner.reward.nothing")
    _demos(bench)
    refitter = _refitter(bench)
    _train_online(bench, REFIT_AT[0])
    refitter.maybe_start()
    _finish(refitter)
    refitter.maybe_start()
    rows = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RefitFailedRow)
    assert [row.why for row in rows] == ["not_fitted"]
    assert "process that fits the reward model ended with exit code 1, must end by itself" in rows[0].reason


def test_a_learner_that_ends_takes_its_fit_along(bench: Bench) -> None:
    _demos(bench)
    refitter = _refitter(bench, ENDLESS)
    _train_online(bench, REFIT_AT[0])
    refitter.maybe_start()
    child = _child()
    refitter.stop()
    assert not Path(f"/proc/{child}").exists()
    assert not list(bench.folder.glob("progress_*"))


def test_restart_goes_on_with_the_same_model(bench: Bench, tmp_path: Path) -> None:
    _demos(bench)
    bench.send("000010-online-a", [P] * 4)
    bench.take()
    refitter = _refitter(bench)
    refitter.fit()
    version, before = bench.scorer.version, bench.replay.state_dict()
    scores = {s.episode_id: s for s in bench.store.scores(version)}
    bench.close()
    again = Bench(tmp_path)
    again.trunk.load_state_dict(bench.trunk.state_dict())
    try:
        for name in again.store.episodes:
            again.ingest.load(again.store.read(name))
        _refitter(again).load(version, 0, trusted=True)
        again.replay.load_state_dict(before)
        assert again.scorer.version == version
        assert {s.episode_id for s in again.store.scores(version)} == set(scores)
        assert again.statistics.episodes["000010-online-a"].max_progress == pytest.approx(
            float(scores["000010-online-a"].progress.max()), abs=1e-3
        )
    finally:
        again.close()


def test_model_that_is_gone_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(ResumeError, match=r"progress_abc\.safetensors is missing"):
        _refitter(bench).load("abc", 0, trusted=True)


def test_discarded_and_broken_off_episodes_teach_the_reward_nothing(bench: Bench) -> None:
    _demos(bench)
    bench.send("000010-online-a", [P] * 4, EndReason.OPERATOR, said=Verdict.DISCARD)
    bench.send("000011-online-a", [P] * 4, EndReason.FAULT)
    bench.send("000012-online-a", [P] * 4, EndReason.SUCCESS)  # nobody stands behind it
    bench.send("000013-online-a", [P] * 4, EndReason.SUCCESS, said=Verdict.SUCCESS)
    bench.take()
    _refitter(bench).fit()
    (row,) = of_kind(read_rows(bench.folder / "metrics.jsonl").rows, RewardFitRow)
    assert (row.episodes, row.failures) == (3, 0)


def test_only_an_operator_or_the_task_itself_judges_a_failure(bench: Bench) -> None:
    _demos(bench)
    bench.send("000010-online-a", [P] * 4, EndReason.TIMEOUT)
    bench.send("000011-online-a", [P] * 4, EndReason.TIMEOUT, said=Verdict.FAILURE)
    bench.send("000012-online-a", [P] * 4, EndReason.FAILURE)
    bench.send("000013-online-a", [P] * 4, EndReason.OPERATOR)
    bench.take()
    job, _ = _refitter(bench)._job()
    (task,) = job.tasks.values()
    assert [(e.success, e.judged) for e in task.episodes] == [
        (True, True), (True, True), (False, False), (False, True), (False, True), (False, False)
    ]  # fmt: skip


def test_refit_that_ends_while_a_checkpoint_is_taken_is_done_again_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Driven(tmp_path, write_run(tmp_path))
    try:
        run.demonstrate()
        run.start()
        assert run.learner is not None
        refitter, replay = run.learner.reward.refitter, run.replay
        before, state_dict = run.training.parts.scorer.version, replay.state_dict

        def refitted_right_after() -> dict[str, Any]:
            state = state_dict()
            refitter.completed_at = REFIT_AT[0]
            return state

        monkeypatch.setattr(replay, "state_dict", refitted_right_after)
        run.loop.save(wait=True)
        state = CheckpointFolder(tmp_path / "checkpoints").load_latest()
        assert state is not None
        assert (state["reward_version"], state["refitted_at"]) == (before, 0)
    finally:
        run.close()


@pytest.mark.usefixtures("here")
def test_lost_trust_brings_a_refit_and_another_only_after_more_episodes(bench: Bench) -> None:
    monitor = monitor_of(bench)
    refitter = Refitter(
        folder=bench.folder, settings=TINY, spec=SPEC, task=TASK, statistics=bench.statistics, scorer=bench.scorer,
        monitor=monitor, ingest=bench.ingest, metrics=bench.metrics, thumbnails=(), seed=0,
        source=lambda name: np.array(HELPED, np.uint8),
    )  # fmt: skip
    _demos(bench)
    refitter.fit()
    refitter.maybe_start()
    assert refitter._thread is None
    monitor.lose()
    refitter.maybe_start()
    _finish(refitter)
    thread = refitter._thread
    monitor.lose()
    refitter.maybe_start()
    assert refitter._thread is thread
    _train_online(bench, RETRY_AFTER)
    refitter.maybe_start()
    assert refitter._thread is not thread
    _finish(refitter)


def test_restart_without_trust_goes_on_without_it(bench: Bench, tmp_path: Path) -> None:
    _demos(bench)
    _refitter(bench).fit()
    version = bench.scorer.version
    bench.close()
    again = Bench(tmp_path)
    again.trunk.load_state_dict(bench.trunk.state_dict())
    try:
        for name in again.store.episodes:
            again.ingest.load(again.store.read(name))
        _refitter(again).load(version, 0, trusted=False)
        assert again.scorer.version == version
        assert not again.scorer.trusted
        assert again.replay.state_dict()["score_version"] is None
    finally:
        again.close()


def test_after_a_restart_the_model_is_judged_by_the_episodes_whose_verdict_was_still_to_come(bench: Bench) -> None:
    _demos(bench)
    _refitter(bench).fit()
    _train_online(bench, 5)
    bench.statistics.label(label_of("000013-online-a", Verdict.FAILURE))
    again = _refitter(bench)
    again.load(bench.scorer.version, 0, trusted=True)
    online = [f"{number:06d}-online-a" for number in range(10, 15)]
    assert [name in again._monitor._seen for name in online] == [True, True, True, True, False]
    bench.statistics.label(label_of("000014-online-a", Verdict.FAILURE))
    again.maybe_start()
    assert online[-1] in again._monitor._seen


def test_a_fit_knows_the_stages_of_successes_whose_every_stage_is_marked(bench: Bench) -> None:
    def mark(name: str, stage: int, frame: int, source: LabelSource = LabelSource.OPERATOR) -> StageMark:
        return StageMark(episode_id=name, stage=stage, frame=frame, source=source, stamp_unix_s=1.0)

    _demos(bench, 4)
    _train_online(bench, 1)
    first, second, third, fourth, failed = list(bench.statistics.episodes)
    marks = [
        mark(first, 1, 2), mark(first, 2, 4), mark(second, 2, 4), mark(third, 1, 99),
        mark(fourth, 1, 3, LabelSource.MODEL), mark(failed, 1, 2),
    ]  # fmt: skip
    job, _ = _refitter(bench, marks=marks)._job()
    (task,) = job.tasks.values()
    assert [episode.stage_starts for episode in task.episodes] == [(0, 2, 4), (), (), (), ()]


def test_without_marks_a_fit_is_the_same_to_the_bit(bench: Bench) -> None:
    _demos(bench, 3)
    versions = [_refitter(bench, marks=marks)._job()[0].fit().version for marks in ((), [])]
    unmarked = Refitter(
        folder=bench.folder, settings=TINY, spec=SPEC, task=TASK, statistics=bench.statistics, scorer=bench.scorer,
        monitor=monitor_of(bench), ingest=bench.ingest, metrics=bench.metrics, thumbnails=(), seed=0,
        source=lambda name: np.array(HELPED, np.uint8),
    )  # fmt: skip
    assert {*versions, unmarked._job()[0].fit().version} == {versions[0]}
