"""A reward model whose claims operators keep refusing is trusted no more; the run goes on until a better one is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reward_models.alarms import Alarm, AlarmConfig
from reward_models.progress.model import FrameScores
from robot_stack.learner.reward.monitor import RewardMonitor
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeKind, ResetType
from tests.learner.bench import Bench, label_of, monitor_of

pytestmark = pytest.mark.long

P = Source.POLICY


class Model:
    """Sees success wherever it is told to: where something has moved, or in a scene that stands still as well."""

    text = "put the red cube into the bowl"

    def __init__(self, version: str, success: float, *, looks: bool = True) -> None:
        self.version, self._success, self._looks = version, success, looks

    def standardised(self, frames: np.ndarray) -> np.ndarray:
        return frames

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        count = len(frames) - start
        moved = float(np.ptp(frames)) > 0 and not np.array_equal(frames[0], frames[-1])
        here = self._success if moved or not self._looks else 0.0
        k = np.arange(start, len(frames), dtype=np.float32)
        return FrameScores(k / 100, np.full(count, here, np.float32), np.zeros(count, np.float32))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    for number in range(2):
        bench.send(f"{number:06d}-demo-a", [Source.HUMAN] * 6, EndReason.SUCCESS, kind=EpisodeKind.DEMO)
    bench.take()
    yield bench
    bench.close()


def adopt(bench: Bench, monitor: RewardMonitor, model: Model, ended: Collection[str] | None = None) -> None:
    """Take up a version whose fit began when the episodes `ended` had ended, by default all of now."""
    ended = list(bench.statistics.episodes) if ended is None else ended
    for scores in bench.scorer.adopt(model, list(bench.statistics.episodes)):  # type: ignore[arg-type]
        bench.ingest.add_scores(scores)
    monitor.renew(model, ["000000-demo-a", "000001-demo-a"], ended)  # type: ignore[arg-type]


def train_online(bench: Bench, number: int, *, refused: bool, answered: bool = True) -> None:
    """The model claims success at the second frame; the operator answers at once, or not at all."""
    name, said = f"{number:06d}-online-a", Verdict.FAILURE if refused else Verdict.SUCCESS
    bench.send(name, [P] * 6, EndReason.SUCCESS, said=said if answered else None)
    bench.take()
    bench.statistics.label(label_of(name, Verdict.SUCCESS, LabelSource.MODEL))


def declared(bench: Bench) -> set[str]:
    """The episodes in which success was declared while they ran."""
    _, live = bench.scorer.after(0, 0.0)
    return {score.episode_id for score in live if score.declared}


def test_refused_claims_end_trust_shaping_and_claims_within_three_episodes(bench: Bench) -> None:
    alarms: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, alarms)
    adopt(bench, monitor, Model("fooled", 0.99))
    assert bench.replay.state_dict()["score_version"] == "fooled"
    for number in range(10, 13):
        assert not monitor.lost
        train_online(bench, number, refused=True)
        monitor.consider()
    assert monitor.lost
    assert [(version, alarm.kind) for version, alarm in alarms] == [("fooled", "false_claims")]
    assert bench.replay.state_dict()["score_version"] is None
    train_online(bench, 13, refused=False)
    assert declared(bench) == {f"{number:06d}-online-a" for number in range(10, 13)}
    assert monitor.consider() is False


def test_the_next_version_is_trusted_again(bench: Bench) -> None:
    monitor = monitor_of(bench)
    adopt(bench, monitor, Model("fooled", 0.99))
    for number in range(10, 13):
        train_online(bench, number, refused=True)
    monitor.consider()
    adopt(bench, monitor, Model("mended", 0.99))
    assert not monitor.lost
    assert bench.replay.state_dict()["score_version"] == "mended"
    train_online(bench, 13, refused=False)
    assert "000013-online-a" in declared(bench)
    monitor.consider()
    assert not monitor.lost


def test_a_fit_from_which_nothing_was_learned_brings_no_trust_back(bench: Bench) -> None:
    alarms: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, alarms)
    adopt(bench, monitor, Model("formula", 0.99))
    for number in range(10, 13):
        train_online(bench, number, refused=True)
    monitor.consider()
    assert monitor.lost
    for _ in range(2):
        adopt(bench, monitor, Model("formula", 0.99))
        assert monitor.lost
        assert bench.replay.state_dict()["score_version"] is None
        assert not bench.scorer.trusted
    assert len(alarms) == 1
    adopt(bench, monitor, Model("corrected", 0.99))
    assert not monitor.lost
    adopt(bench, monitor, Model("corrected", 0.99))
    assert not monitor.lost


@pytest.mark.parametrize(("success", "lost"), [(0.99, True), (0.1, False)])
def test_a_version_is_judged_by_what_it_says_of_the_episodes_since_its_fit_began(
    bench: Bench, success: float, lost: bool
) -> None:
    """Those that operators refused while the one before was in use were no negatives of its fit."""
    alarms: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, alarms)
    adopt(bench, monitor, Model("fooled", 0.99))
    began = list(bench.statistics.episodes)
    for number in range(10, 13):
        train_online(bench, number, refused=True)
    adopt(bench, monitor, Model("next", success), began)
    assert not monitor.lost
    assert monitor.consider() is lost
    assert [(version, alarm.kind) for version, alarm in alarms] == [("next", "false_claims")] * lost


def test_an_episode_is_not_judged_because_other_cells_have_begun_theirs(bench: Bench) -> None:
    monitor = monitor_of(bench)
    adopt(bench, monitor, Model("fooled", 0.99))
    for cell in ("left", "mid", "right"):
        bench.send(f"000010-online-{cell}", [P] * 6, EndReason.SUCCESS, actor=cell)
    bench.take()
    monitor.consider()
    assert "000010-online-left" not in monitor._seen
    bench.backend.label(label_of("000010-online-left", Verdict.FAILURE))
    bench.take()
    monitor.consider()
    assert "000010-online-left" in monitor._seen


def test_while_another_version_is_taken_up_the_monitor_waits(bench: Bench) -> None:
    monitor = monitor_of(bench)
    adopt(bench, monitor, Model("fooled", 0.99))
    for number in range(10, 13):
        train_online(bench, number, refused=True)
    with monitor._one_at_a_time:
        assert monitor.consider() is False
    assert monitor.consider() is True


def test_claims_that_people_confirm_keep_trust(bench: Bench) -> None:
    monitor = monitor_of(bench)
    adopt(bench, monitor, Model("good", 0.99))
    for number in range(10, 20):
        train_online(bench, number, refused=False)
        monitor.consider()
    assert not monitor.lost


def test_a_version_that_calls_a_scene_at_its_start_done_is_not_trusted_at_all(bench: Bench) -> None:
    alarms: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, alarms)
    adopt(bench, monitor, Model("blind", 0.99, looks=False))
    assert monitor.lost
    assert alarms[0][1].kind == "canary"
    assert bench.replay.state_dict()["score_version"] is None


def test_an_episode_is_looked_at_only_once_its_verdict_can_be_known(bench: Bench) -> None:
    monitor = monitor_of(bench)
    adopt(bench, monitor, Model("fooled", 0.99))
    for number in range(10, 13):
        bench.send(f"{number:06d}-online-a", [P] * 6, EndReason.SUCCESS)
    bench.take()
    monitor.consider()
    assert monitor._seen >= {"000010-online-a"}
    assert "000011-online-a" not in monitor._seen


def test_an_episode_whose_frames_are_gone_is_no_evidence(bench: Bench) -> None:
    monitor = monitor_of(bench)
    adopt(bench, monitor, Model("good", 0.99))
    train_online(bench, 10, refused=False)
    del bench.scorer._inputs["000010-online-a"]
    assert monitor.consider() is False
    known = ["000000-demo-a", "000001-demo-a", "000010-online-a"]
    monitor.renew(Model("good", 0.99), known, known)  # type: ignore[arg-type]
    assert not monitor.lost


@pytest.mark.parametrize(
    ("end", "said", "alarms"),
    [(EndReason.SUCCESS, None, ["haste"]), (EndReason.SUCCESS, Verdict.DISCARD, []), (EndReason.FAULT, None, [])],
    ids=["nobody spoke", "discarded", "broken off"],
)
def test_episodes_that_are_discarded_or_broken_off_are_no_evidence(
    bench: Bench, end: EndReason, said: Verdict | None, alarms: list[str]
) -> None:
    heard: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, heard, haste=0.3)
    adopt(bench, monitor, Model("good", 0.99))
    for number in range(10, 16):
        bench.send(f"{number:06d}-online-a", [P] * 6, end, said=said)  # claimed at frame 1
        bench.take()
        monitor.consider()
    assert [alarm.kind for _, alarm in heard] == alarms


def test_what_is_unfamiliar_is_not_known_from_a_single_demonstration(bench: Bench) -> None:
    heard: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, heard)
    monitor._config = AlarmConfig(haste=0.01)
    model = Model("good", 0.99)
    bench.scorer.adopt(model, list(bench.statistics.episodes))  # type: ignore[arg-type]
    monitor.renew(model, ["000000-demo-a"], list(bench.statistics.episodes))  # type: ignore[arg-type]
    for number in range(10, 16):
        train_online(bench, number, refused=False)
        monitor.consider()
    assert heard == []


def goes_back(bench: Bench, name: str) -> None:
    account = bench.statistics.episodes[name]
    account.header = replace(account.header, reset=ResetType.CARRIED, task_id="out")


def test_what_is_too_fast_for_the_task_may_be_usual_on_its_way_back(bench: Bench) -> None:
    for number in (2, 3):
        name = f"{number:06d}-demo-a"
        bench.send(name, [Source.HUMAN] * 2, EndReason.SUCCESS, kind=EpisodeKind.DEMO)
        bench.take()
        goes_back(bench, name)
    alarms: list[tuple[str, Alarm]] = []
    monitor = monitor_of(bench, alarms, haste=0.3)
    model = Model("quick", 0.99)
    bench.scorer.adopt(model, list(bench.statistics.episodes))  # type: ignore[arg-type]
    known = [f"{number:06d}-demo-a" for number in range(4)]
    monitor.renew(model, known, known)  # type: ignore[arg-type]
    for number in range(10, 16):
        train_online(bench, number, refused=False, answered=False)  # claimed at frame 1
        goes_back(bench, f"{number:06d}-online-a")
        assert not monitor.consider()
    for number in range(16, 20):
        train_online(bench, number, refused=False, answered=False)
        monitor.consider()
    assert [alarm.kind for _, alarm in alarms] == ["haste"]


def test_a_new_version_is_told_how_quick_the_policy_has_become(bench: Bench) -> None:
    monitor = monitor_of(bench, haste=0.3)
    adopt(bench, monitor, Model("first", 0.99))
    bench.send("000010-online-a", [P] * 2, EndReason.SUCCESS, said=Verdict.SUCCESS)
    bench.take()
    adopt(bench, monitor, Model("second", 0.99))
    for number in range(11, 20):
        train_online(bench, number, refused=False, answered=False)
        assert not monitor.consider()
