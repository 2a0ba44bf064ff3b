"""A large model's late scores join by frame; repeats change nothing, and its failures only cost its own scores."""

from __future__ import annotations

import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from reward_models.alarms import Alarm, AlarmConfig
from reward_models.decode import Fusion, decode, hop_between, remaining_between
from reward_models.evaluate.done_metrics import DoneRule
from reward_models.evaluate.judge import judge, phi_along
from reward_models.interface import Capabilities, ClipQuery, Frame, Instruction, LabelledEpisode, PairQuery, Score
from reward_models.potential import anchor_queries, potential, spread_out
from reward_models.service import ScoringService
from robot_stack.config.resolve import load_run
from robot_stack.learner.reward.labelled import recorded_frames
from robot_stack.learner.reward.monitor import ShapingScores
from robot_stack.learner.reward.rescoring import Rescorer, _Turn, make_rescorer
from robot_stack.learner.settings import learning_settings
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.errors import RewardError, StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason
from tests.learner.bench import Bench, FakeModel

pytestmark = pytest.mark.long

HOPS = Capabilities(pair="hop", done=True)
TASK = Instruction(
    text="insert the peg", goal=Frame(images={"front": np.zeros((8, 8, 3), np.uint8)}, proprio=np.ones(7, np.float32))
)
P = Source.POLICY
Q = TypeVar("Q", PairQuery, ClipQuery)


def phi_of(frame: Frame) -> float:
    """True progress of a frame, out of its pixels; the goal image is 1."""
    image = frame.images["front"]
    return 1.0 if not image.any() else float(image.mean()) / 255


class Model:
    """Sees the truth; fails where it is told to."""

    name, version, capabilities = "synthetic", "v1", HOPS

    def __init__(self) -> None:
        self.broken = False
        self.bad = ""
        self.unreadable = 0.0
        self.error = 0.0
        """Standard deviation of what is added to each hop; the same for the same question."""
        self.answers = 10**9
        """Questions that it still answers."""
        self.refused = 0
        self.questions: list[str] = []
        self._rng = np.random.default_rng(0)

    @property
    def asked(self) -> int:
        return len(self.questions)

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        return [
            self._said(q, float(np.clip(hop_between(phi_of(q.before), phi_of(q.after)) + self._wrong(q), -1, 1)))
            for q in self._taken(queries)
        ]

    def _wrong(self, query: PairQuery) -> float:
        return self.error * float(np.random.default_rng(zlib.crc32(query.key.encode())).normal()) if self.error else 0.0

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        raise AssertionError

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        return [self._said(query, phi_of(query.frames[-1])) for query in self._taken(queries)]

    def _taken(self, queries: Sequence[Q]) -> Sequence[Q]:
        if self.bad == "raises":
            raise KeyError("front")
        if self.bad == "none":
            return None  # type: ignore[return-value]
        if self.broken or len(queries) > self.answers:
            self.refused += 1
            raise RewardError("server answers 500")
        self.answers -= len(queries)
        return queries

    def _said(self, query: PairQuery | ClipQuery, value: float) -> Score:
        self.questions.append(f"{type(query).__name__} {query.key}")
        if self.bad == "above":
            return Score(value=1.7)
        return Score(value=float("nan"), raw="mumble") if self._rng.random() < self.unreadable else Score(value=value)


class Rig:
    """A bench, a large model behind it, and what it delivered."""

    def __init__(self, folder: Path, every: int = 3) -> None:
        self.bench = Bench(folder)
        self.model = Model()
        self.delivered: list[EpisodeScores] = []
        self.news = threading.Condition()
        self.service = ScoringService(self.model, cache_path=None, wait_ms=1.0, max_batch=4)
        self.rescorer = Rescorer(
            self.service,
            version="synthetic-v1",
            can=HOPS,
            instruction=TASK,
            read=self.bench.store.read,
            deliver=self._take,
            every=every,
            first_retry_s=0.02,
        )
        self.rescorer.start()

    def _take(self, scores: EpisodeScores) -> None:
        with self.news:
            self.delivered.append(scores)
            self.news.notify_all()

    def wait_for(self, count: int) -> None:
        with self.news:
            assert self.news.wait_for(lambda: len(self.delivered) >= count, 30.0)

    def episode(self, name: str, steps: int = 10) -> None:
        self.bench.send(name, [P] * steps, EndReason.TIMEOUT)
        self.bench.take()

    def close(self) -> None:
        self.rescorer.close()
        self.bench.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def test_an_episode_gets_scores_for_every_frame_from_some_of_them(rig: Rig) -> None:
    rig.episode("000010-online-a")
    rig.rescorer.offer("000010-online-a")
    rig.wait_for(1)
    (scores,) = rig.delivered
    assert (scores.episode_id, scores.version) == ("000010-online-a", "synthetic-v1")
    assert scores.progress.shape == scores.success.shape == (11,)
    assert np.isfinite(scores.progress).all()
    rig.bench.ingest.add_scores(scores)
    rig.bench.replay.activate_scores("synthetic-v1")


def test_offering_again_asks_nothing_again(rig: Rig) -> None:
    rig.episode("000010-online-a")
    rig.rescorer.offer("000010-online-a")
    rig.wait_for(1)
    asked = rig.model.asked
    rig.rescorer.offer("000010-online-a")
    rig.episode("000011-online-a")
    rig.rescorer.offer("000011-online-a")
    rig.wait_for(2)
    assert [s.episode_id for s in rig.delivered] == ["000010-online-a", "000011-online-a"]
    assert rig.model.asked == 2 * asked


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("nothing came in 30 s")


def test_episodes_that_ended_while_the_server_was_away_get_their_scores_when_it_is_back(rig: Rig) -> None:
    names = [f"{n:06d}-online-a" for n in range(10, 20)]
    for name in names:
        rig.episode(name, 4)
    rig.model.broken = True
    for name in names[:6]:
        rig.rescorer.offer(name)
    until(lambda: rig.model.refused >= 8)  # each was tried, and some of them again
    assert rig.rescorer.failure == (
        "reward model synthetic-v1 does not answer, its episodes are asked about again: server answers 500"
    )
    assert not rig.rescorer.failed
    assert not rig.rescorer.ready(names[:6])
    rig.model.broken = False
    for name in names[6:]:
        rig.rescorer.offer(name)
    rig.wait_for(10)
    until(lambda: rig.rescorer.ready(names))
    assert {scores.episode_id for scores in rig.delivered} == set(names)
    assert rig.rescorer.failure == ""


def test_what_was_answered_before_the_server_went_away_is_not_asked_again(rig: Rig) -> None:
    rig.episode("000010-online-a", 6)
    rig.model.answers = 4
    rig.rescorer.offer("000010-online-a")
    until(lambda: rig.model.refused >= 1)
    asked_before = list(rig.model.questions)
    assert asked_before
    rig.model.answers = 10_000
    rig.wait_for(1)
    assert len(rig.model.questions) == len(set(rig.model.questions))


def test_waiting_times_double_up_to_a_limit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(rig.rescorer, "_first_retry_s", 5.0)
    monkeypatch.setattr(rig.rescorer, "_put", lambda episode_id, *, after_s, asked, unanswered: waits.append(after_s))
    for unanswered in (*range(7), 5000):
        rig.rescorer._not_answered(_Turn(0.0, 0, "e", 0, unanswered), "away")
    assert waits == [5.0, 10.0, 20.0, 40.0, 80.0, 120.0, 120.0, 120.0]


def test_closing_does_not_wait_for_a_server_that_is_away(rig: Rig) -> None:
    rig.episode("000010-online-a", 4)
    rig.model.broken = True
    rig.rescorer.offer("000010-online-a")
    until(lambda: rig.model.refused >= 1)
    rig.rescorer.close()
    assert not rig.rescorer._thread.is_alive()


def test_a_backlog_of_many_episodes_loses_none_and_fills_no_queue(rig: Rig) -> None:
    names = [f"{n:06d}-online-a" for n in range(10, 50)]
    for name in names:
        rig.episode(name, 8)
    rig.service._queue_limit = 40  # more than an episode asks, far less than forty ask
    for name in names:
        rig.rescorer.offer(name)
    rig.wait_for(len(names))
    assert {scores.episode_id for scores in rig.delivered} == set(names)
    assert rig.service.stats().refused == 0


@pytest.mark.parametrize("share", [*(pytest.param(share, marks=pytest.mark.slow) for share in (0.01, 0.03)), 0.06])
def test_a_few_answers_that_cannot_be_read_leave_no_episode_without_shaping(rig: Rig, share: float) -> None:
    names = [f"{n:06d}-online-a" for n in range(10, 30)]
    for name in names:
        rig.episode(name, 80)
    rig.model.unreadable = share
    for name in names:
        rig.rescorer.offer(name)
    rig.wait_for(len(names))
    until(lambda: rig.rescorer.ready(names))
    for scores in rig.delivered:
        rig.bench.ingest.add_scores(scores)
    replay = rig.bench.replay
    replay.activate_scores("synthetic-v1")
    for name in names:
        rows = np.array(replay.frames.episode(name).rows)
        assert np.isfinite(replay._potential.at(rows)).all()
    assert rig.rescorer.interpolated > 0 or share < 0.05  # most are read when asked again


def test_an_episode_whose_answers_cannot_be_read_is_asked_about_twice_and_then_said(rig: Rig) -> None:
    rig.episode("000010-online-a", 20)
    rig.model.unreadable = 0.9
    rig.rescorer.offer("000010-online-a")
    until(lambda: bool(rig.rescorer.failed))
    assert re.fullmatch(
        r"frames with answers that could be read are \d of 8, must be 80%; look at the model's words, such as 'mumble'",
        rig.rescorer.failed["000010-online-a"],
    )
    assert max(Counter(rig.model.questions).values()) == 2
    assert not rig.rescorer.ready(["000010-online-a"])


@pytest.mark.parametrize("bad", ["raises", "above", "none"])
def test_a_foreign_model_that_breaks_the_rules_is_asked_again_and_ends_no_thread(rig: Rig, bad: str) -> None:
    rig.episode("000010-online-a", 4)
    rig.model.bad = bad
    rig.rescorer.offer("000010-online-a")
    until(lambda: rig.rescorer.away != "")
    assert {"raises": "KeyError", "above": "is 1.7, must be in [-1, 1]", "none": "TypeError"}[bad] in rig.rescorer.away
    rig.model.bad = ""
    rig.wait_for(1)
    assert rig.service.stats().running


def test_it_is_ready_once_it_knows_nearly_all_episodes(rig: Rig) -> None:
    names = [f"{n:06d}-online-a" for n in range(10, 20)]
    for name in names:
        rig.episode(name, 4)
    assert not rig.rescorer.ready(names)
    for name in names[:8]:
        rig.rescorer.offer(name)
    rig.wait_for(8)
    assert not rig.rescorer.ready(names)
    rig.rescorer.offer(names[8])
    rig.wait_for(9)
    for _ in range(3000):
        if rig.rescorer.ready(names):
            break
        threading.Event().wait(0.01)
    assert rig.rescorer.ready(names)
    assert not rig.rescorer.ready([])


@pytest.mark.parametrize("fusion", ["gated", "mean"])
def test_an_evaluation_judges_the_very_potential_that_a_run_shapes_by(rig: Rig, fusion: Fusion) -> None:
    rig.model.error, rig.model.capabilities = 0.1, replace(HOPS, fusion=fusion)
    rig.rescorer._can, rig.rescorer._every = rig.model.capabilities, 1
    rig.episode("000010-online-a", 30)
    rig.rescorer.offer("000010-online-a")
    rig.wait_for(1)
    frames = recorded_frames(rig.bench.store.read("000010-online-a"))
    shown = LabelledEpisode(
        name="a", kind="fail", frames=frames, instruction=TASK, success=False, done_at=None,
        progress=np.full(len(frames), np.nan),
    )  # fmt: skip
    judged = judge(rig.model, shown, DoneRule(threshold=0.8, n=1, m=1))
    assert judged.phi == pytest.approx(rig.delivered[0].progress, abs=1e-6)
    by_steps_alone = decode(
        np.array([score.value for score in rig.model.score_pairs(anchor_queries(TASK, frames)[0])]),
        start=0.0, semantics="hop",
    )  # fmt: skip
    assert np.abs(judged.phi - by_steps_alone).mean() > 0.05


def test_scores_that_were_asked_for_or_fused_otherwise_are_of_another_version(rig: Rig, tmp_path: Path) -> None:
    rig.episode("000010-online-a")
    rig.episode("000011-online-a", 20)
    versions = []
    for demo, fusion, every in (("10", "gated", 5), ("10", "mean", 5), ("11", "gated", 5), ("10", "gated", 4)) * 2:
        place = "{server: {url: 'http://127.0.0.1:1/v1', model: any}, fusion: " + fusion + "}"
        choice = f"{{name: grm, every: {every}, settings: {place}}}"
        resolved = load_run("peg_insert", [f"run.reward.rescore={choice}"])
        settings, shown = learning_settings(resolved).rescore, rig.bench.store.read(f"0000{demo}-online-a")
        made = make_rescorer(tmp_path, resolved, settings, shown, read=rig.bench.store.read, deliver=rig._take)
        versions.append(made.version)
    assert versions[:4] == versions[4:]
    assert len(set(versions)) == 4


@pytest.mark.parametrize(
    ("unread", "outages"), [({(8, 9), (9, 10)}, 0), ({(8, 9)}, 0), ({(8, 9)}, 3)],
    ids=["a black frame", "an answer", "an answer, and the server is away when it is asked over"],
)  # fmt: skip
def test_what_happened_where_nothing_could_be_read_counts_behind_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, unread: set[tuple[int, int]], outages: int
) -> None:
    rig.episode("000010-online-a", 15)
    frames = recorded_frames(rig.bench.store.read("000010-online-a"))
    lifted_and_lost = [*np.linspace(0.0, 0.8, 9), *[0.1] * 7]
    number = {frame.key: t for t, frame in enumerate(frames)}

    def score_pairs(queries: Sequence[PairQuery]) -> list[Score]:
        rig.model.questions += [query.key for query in queries]
        pairs = [(number[query.before.key], number[query.after.key]) for query in queries]
        if (8, 10) in pairs and rig.model.refused < outages:
            rig.model.refused += 1
            raise RewardError("server answers 500")
        said = [remaining_between(*(lifted_and_lost[t] for t in pair)) for pair in pairs]
        return [Score(value=np.nan if pair in unread else value) for pair, value in zip(pairs, said, strict=True)]

    monkeypatch.setattr(rig.model, "score_pairs", score_pairs)
    rig.model.capabilities = rig.rescorer._can = Capabilities(pair="remaining")
    rig.rescorer._every = 1
    rig.rescorer.offer("000010-online-a")
    rig.wait_for(1)
    phi = rig.delivered[0].progress
    assert np.delete(phi, 9) == pytest.approx(np.delete(lifted_and_lost, 9), abs=1e-6)
    assert rig.rescorer.interpolated == 1
    assert len(set(rig.model.questions)) == 16
    assert phi_along(rig.model, TASK, frames) == pytest.approx(phi, abs=1e-6)


def test_what_is_between_two_known_frames_is_a_line() -> None:
    line = spread_out(np.array([0.0, 0.6, np.nan, 0.9]), np.array([0, 3, 6, 9]), 10)
    assert line == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9])
    assert np.isnan(spread_out(np.array([np.nan, np.nan]), np.array([0, 3]), 4)).all()


def test_where_the_anchors_err_each_by_itself_their_mean_is_nearer_to_the_truth() -> None:
    rng, truth = np.random.default_rng(0), np.linspace(0.0, 1.0, 60)
    errors: dict[Fusion, list[float]] = {"mean": [], "gated": []}
    for _ in range(20):
        told = [
            np.clip(part + rng.normal(0, 0.1, part.shape), -1, 1) for part in (np.full(59, 1 / 60), truth, truth - 1)
        ]
        for fusion, found in errors.items():
            can = Capabilities(pair="hop", fusion=fusion)
            phi = potential(can, steps=told[0], forward=told[1], backward=told[2])
            found.append(float(np.abs(phi - truth).mean()))
    assert np.mean(errors["mean"]) < 0.8 * np.mean(errors["gated"])


def test_progress_is_taken_as_it_is_and_pairs_are_decoded() -> None:
    steps = np.array([0.5, 0.5])
    assert potential(Capabilities(pair="remaining"), steps=steps) == pytest.approx([0, 0.5, 0.75])
    known = np.array([0.1, 0.2, 0.3])
    assert potential(Capabilities(progress=True), progress=known) is known
    with pytest.raises(RewardError, match="neither progress nor how far"):
        potential(Capabilities(done=True))


def test_a_disk_that_refuses_scores_ends_nothing(rig: Rig) -> None:
    def refuse(scores: EpisodeScores) -> None:
        raise StoreError("disk is full")

    rig.episode("000010-online-a")
    rig.episode("000011-online-a")
    taking, rig.rescorer._deliver = rig.rescorer._deliver, refuse
    rig.rescorer.offer("000010-online-a")
    for _ in range(3000):
        if rig.rescorer.failed:
            break
        threading.Event().wait(0.01)
    assert rig.rescorer.failed == {"000010-online-a": "disk is full"}
    assert "000010-online-a" not in rig.rescorer.known
    rig.rescorer._deliver = taking
    rig.rescorer.offer("000011-online-a")
    rig.wait_for(2)
    until(lambda: not rig.rescorer.failed)
    assert {scores.episode_id for scores in rig.delivered} == {"000010-online-a", "000011-online-a"}
    assert rig.rescorer.failure == ""
    assert rig.service.stats().failed == 0


def test_an_episode_that_the_disk_does_not_give_is_read_again_and_said_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []
    reading = rig.rescorer._read

    def failing(name: str) -> StoredEpisode:
        tries.append(name)
        if len(tries) < 4:
            raise StoreError("reading failed")
        return reading(name)

    rig.episode("000010-online-a")
    rig.rescorer._read = failing
    rig.rescorer.offer("000010-online-a")
    rig.wait_for(1)
    assert caplog.text.count("has no scores for 000010-online-a: reading failed") == 1


@pytest.mark.parametrize("where", ["_read", "_deliver"])
def test_an_error_that_nobody_foresaw_is_said_and_the_next_episode_gets_scores(rig: Rig, where: str) -> None:
    def broken(_: object) -> None:
        raise KeyError("front")

    rig.episode("000010-online-a")
    rig.episode("000011-online-a")
    whole = getattr(rig.rescorer, where)
    setattr(rig.rescorer, where, broken)
    rig.rescorer.offer("000010-online-a")
    for _ in range(300):
        if rig.rescorer.failed:
            break
        threading.Event().wait(0.01)
    assert rig.rescorer.failed == {"000010-online-a": "KeyError('front'); report this"}
    assert (
        rig.rescorer.failure
        == "reward model synthetic-v1 has no scores for 000010-online-a: KeyError('front'); report this"
    )
    setattr(rig.rescorer, where, whole)
    rig.rescorer.offer("000011-online-a")
    rig.wait_for(1)
    assert rig.delivered[0].episode_id == "000011-online-a"


class Shaped:
    """A rig whose large model may shape, under a watch, beside a live model that is trusted."""

    def __init__(self, rig: Rig, *, lost: bool = False) -> None:
        self.alarms: list[tuple[str, Alarm]] = []
        self._rig = rig
        bench = rig.bench
        bench.scorer.adopt(FakeModel("live"), [])  # type: ignore[arg-type]
        self.shaping = ShapingScores(
            bench.replay,
            bench.scorer,
            bench.statistics,
            bench.metrics,
            rig.rescorer,
            alarms=AlarmConfig(),
            log=lambda version, alarm: self.alarms.append((version, alarm)),
            lost=lost,
        )
        self.shaping.follow_live(True)
        self.ends_at = 0.0
        rig.rescorer._decoded = self._decoded  # type: ignore[method-assign]

    def _decoded(self, episode: StoredEpisode, *_: object) -> EpisodeScores:
        count = len(episode.arrays["proprio"])
        return EpisodeScores(
            episode_id=episode.header.episode_id,
            version="synthetic-v1",
            progress=np.linspace(0.0, self.ends_at, count, dtype=np.float32),
            success=np.full(count, np.nan, np.float32),
        )

    def episode(self, number: int, *, success: bool, ends_at: float, judged: bool = True) -> None:
        name = f"{number:06d}-online-a"
        said = (Verdict.SUCCESS if success else Verdict.FAILURE) if judged else None
        end = (EndReason.SUCCESS if success else EndReason.FAILURE) if judged else EndReason.TIMEOUT
        self._rig.bench.send(name, [P] * 10, end, said=said)
        self._rig.bench.take()
        self.ends_at = ends_at
        self.shaping.rescore()
        until(lambda: name in self._rig.rescorer.known)
        self._rig.bench.ingest.add_scores(self._rig.delivered[-1])
        self.shaping.rescore()


def test_a_large_model_that_scores_failures_like_successes_shapes_no_more(rig: Rig) -> None:
    shaped, replay = Shaped(rig), rig.bench.replay
    for number in range(10, 14):
        shaped.episode(number, success=True, ends_at=0.95)
    assert replay.score_version == "synthetic-v1"
    for number in range(14, 16):
        shaped.episode(number, success=False, ends_at=0.97)
        assert replay.score_version == "synthetic-v1"
    shaped.episode(16, success=False, ends_at=0.97)
    assert [(version, alarm.kind) for version, alarm in shaped.alarms] == [("synthetic-v1", "order")]
    assert (
        "the end of 3 of the 3 newest failures as high as that of a usual success (0.95)" in shaped.alarms[0][1].words
    )
    assert replay.score_version == "live"
    asked = rig.model.asked
    rig.bench.send("000017-online-a", [P] * 10, EndReason.SUCCESS, said=Verdict.SUCCESS)
    rig.bench.take()
    shaped.shaping.rescore()
    assert (rig.model.asked, replay.score_version) == (asked, "live")


def test_episodes_that_ran_out_of_time_and_that_nobody_judged_count_neither_way(rig: Rig) -> None:
    shaped = Shaped(rig)
    for number in range(10, 14):
        shaped.episode(number, success=True, ends_at=0.95)
    for number in range(14, 21):  # a task that was done, which neither the live model nor an operator said
        shaped.episode(number, success=False, ends_at=0.97, judged=False)
    assert shaped.alarms == []
    assert rig.bench.replay.score_version == "synthetic-v1"


def test_a_large_model_that_tells_failures_from_successes_goes_on(rig: Rig) -> None:
    shaped = Shaped(rig)
    for number in range(10, 22):
        shaped.episode(number, success=number % 2 == 0, ends_at=0.95 if number % 2 == 0 else 0.8)
    assert shaped.alarms == []
    assert rig.bench.replay.score_version == "synthetic-v1"


def test_trust_that_was_lost_stays_lost_after_a_restart(rig: Rig) -> None:
    shaped = Shaped(rig, lost=True)
    assert not shaped.shaping.goes_on_with("synthetic-v1")  # as a checkpoint of before the alarm has it
    assert Shaped(rig).shaping.goes_on_with("synthetic-v1")
    rig.bench.send("000010-online-a", [P] * 10, EndReason.SUCCESS, said=Verdict.SUCCESS)
    rig.bench.take()
    shaped.shaping.rescore()
    assert rig.bench.replay.score_version == "live"
    assert rig.model.asked == 0
