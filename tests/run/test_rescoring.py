"""A large model's late word joins by frame; repeats change nothing, and its failures only cost its own scores."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from reward_models.decode import hop_between
from reward_models.interface import Capabilities, ClipQuery, Frame, Instruction, PairQuery, Score
from reward_models.service import ScoringService
from robot_stack.learner.reward.rescoring import Rescorer, potential, spread_out
from robot_stack.types.command import Source
from robot_stack.types.errors import RewardError, StoreError
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason
from tests.run.bench import Bench

pytestmark = pytest.mark.long

HOPS = Capabilities(pair="hop", done=True)
TASK = Instruction(
    text="insert the peg", goal=Frame(images={"front": np.zeros((8, 8, 3), np.uint8)}, proprio=np.ones(7, np.float32))
)
P = Source.POLICY


def phi_of(frame: Frame) -> float:
    """True progress of a frame, out of its pixels; the goal image is 1."""
    image = frame.images["front"]
    return 1.0 if not image.any() else float(image.mean()) / 255


class Model:
    """Sees the truth; fails where it is told to."""

    name, version, capabilities = "synthetic", "v1", HOPS

    def __init__(self) -> None:
        self.broken = False
        self.asked = 0

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        if self.broken:
            raise RewardError("server answers 500")
        self.asked += len(queries)
        return [Score(value=hop_between(phi_of(query.before), phi_of(query.after))) for query in queries]

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        raise AssertionError

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        if self.broken:
            raise RewardError("server answers 500")
        return [Score(value=phi_of(query.frames[-1])) for query in queries]


class Rig:
    """A bench, a large model behind it, and what it delivered."""

    def __init__(self, folder: Path, every: int = 3) -> None:
        self.bench = Bench(folder)
        self.model = Model()
        self.delivered: list[EpisodeScores] = []
        self.news = threading.Condition()
        self.rescorer = Rescorer(
            ScoringService(self.model, cache_path=None, wait_ms=1.0),
            version="synthetic-v1",
            can=HOPS,
            instruction=TASK,
            read=self.bench.store.read,
            deliver=self._take,
            every=every,
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


def test_a_server_that_fails_leaves_the_episode_without_scores_and_the_run_goes_on(rig: Rig) -> None:
    rig.episode("000010-online-a")
    rig.episode("000011-online-a")
    rig.model.broken = True
    rig.rescorer.offer("000010-online-a")
    for _ in range(3000):
        if rig.rescorer.failed:
            break
        threading.Event().wait(0.01)
    assert rig.rescorer.failed == {"000010-online-a": "no answer could be read"}
    rig.model.broken = False
    rig.rescorer.offer("000011-online-a")
    rig.wait_for(1)
    assert rig.delivered[0].episode_id == "000011-online-a"


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


def test_what_is_between_two_known_frames_is_a_line_and_beside_an_unknown_one_nothing() -> None:
    line = spread_out(np.array([0.0, 0.6, np.nan, 0.8]), np.array([0, 3, 6, 9]), 10)
    assert line[:4] == pytest.approx([0.0, 0.2, 0.4, 0.6])
    assert np.isnan(line[4:9]).all()
    assert line[9] == pytest.approx(0.8)
    assert line.dtype == np.float32


def test_progress_is_taken_as_it_is_and_pairs_are_decoded() -> None:
    steps = np.array([0.5, 0.5])
    kinds = {"forward": None, "backward": None}
    assert potential(Capabilities(pair="remaining"), steps=steps, progress=None, **kinds) == pytest.approx(
        [0, 0.5, 0.75]
    )
    known = np.array([0.1, 0.2, 0.3])
    assert potential(Capabilities(progress=True), steps=None, progress=known, **kinds) is known
    with pytest.raises(RewardError, match="neither progress nor how far"):
        potential(Capabilities(done=True), steps=None, progress=None, **kinds)


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
    rig.wait_for(1)


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
