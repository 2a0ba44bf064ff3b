"""A learner's parts without processes: a small cell's spec, steps, and store, replay, scorer around them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from policies.encoders.embedded import EmbeddedTrunk
from reward_models.alarms import Alarm, AlarmConfig
from reward_models.progress.model import FrameScores
from robot_stack.config.task import NOfM, SuccessConfig
from robot_stack.learner.backend import Backend, ParamsBoard
from robot_stack.learner.data.feature_cache import FeatureCache
from robot_stack.learner.data.ingest import Ingest
from robot_stack.learner.reward.monitor import RewardMonitor
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import SuccessRule
from robot_stack.replay import annotations
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.transport.backend import LearnerStatus
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.observation import Observation
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

TASK = "peg_insert"
SPEC = Spec(
    arms=(ArmSpec(name="arm", axes=("x", "y", "rz"), translation_m=0.01, rotation_rad=0.06),),
    cameras=(CameraSpec(name="front", height_px=8, width_px=8),),
    proprio=(ProprioField(name="tcp_pose", size=6), ProprioField(name="force", size=1)),
    rate_hz=10.0,
)
RULE = SuccessConfig(threshold=0.8, n_of_m=NOfM(n=2, m=3))


def header_of(
    episode_id: str, kind: EpisodeKind = EpisodeKind.ONLINE, actor: str = "a", seed: int = 0
) -> EpisodeHeader:
    return EpisodeHeader(
        episode_id=episode_id, kind=kind, task=TASK, actor=actor, started_unix_s=float(int(episode_id[:6])), seed=seed
    )


def observation_of(index: int, tag: int = 0) -> Observation:
    rng = np.random.default_rng([index, tag])
    return Observation(
        images={"front": rng.integers(0, 256, (8, 8, 3), np.uint8)},
        proprio=rng.uniform(-1, 1, SPEC.proprio_size).astype(np.float32),
        stamp_ns=index * 100_000_000,
    )


def action_row(source: Source = Source.POLICY, *, params_version: int = 1, clipped: bool = False) -> ActionRow:
    zeros = np.zeros(SPEC.action_size, np.float32)
    return ActionRow(
        executed=zeros, proposed=zeros, human=zeros, source=source, params_version=params_version, clipped=clipped
    )


def steps_of(episode_id: str, sources: Sequence[Source], end: EndReason | None = EndReason.TIMEOUT) -> list[Step]:
    """One action per source, then, with an `end`, the last frame."""
    tag = int(episode_id[:6])
    rows = [
        Step(episode_id=episode_id, index=t, observation=observation_of(t, tag), action=action_row(source))
        for t, source in enumerate(sources)
    ]
    if end is None:
        return rows
    last = len(sources)
    return [*rows, Step(episode_id=episode_id, index=last, observation=observation_of(last, tag), action=None, end=end)]


def label_of(episode_id: str, verdict: Verdict, source: LabelSource = LabelSource.OPERATOR) -> Label:
    return Label(episode_id=episode_id, verdict=verdict, source=source, stamp_unix_s=1.0)


class FakeModel:
    """Progress k/100 and success `p` at frame k; remembers what it was asked."""

    def __init__(self, version: str, success: float = 0.0) -> None:
        self.version = version
        self.success = success
        self.asked: list[tuple[int, int]] = []

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        self.asked.append((len(frames), start))
        k = np.arange(start, len(frames), dtype=np.float32)
        return FrameScores(k / 100, np.full(len(k), self.success, np.float32), np.zeros(len(k), np.float32))


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No scores can be written."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(annotations, "write_durable", refuse)
        yield


def make_scorer(rule: SuccessConfig = RULE) -> Scorer:
    return Scorer(lambda: SuccessRule(rule, SPEC))


def monitor_of(bench: Bench, alarms: list[tuple[str, Alarm]] | None = None, *, haste: float = 0.01) -> RewardMonitor:
    """Build a bench's monitor, without the alarms of unlike episodes and disagreement: its frames are noise."""
    heard: list[tuple[str, Alarm]] = [] if alarms is None else alarms

    def shape(by_scores: bool) -> None:
        bench.replay.activate_scores(bench.scorer.version if by_scores else None)

    return RewardMonitor(
        AlarmConfig(strange_episodes=100, haste=haste),
        thresholds={TASK: RULE.threshold, "out": 1.0},
        statistics=bench.statistics,
        scorer=bench.scorer,
        shape=shape,
        log=lambda version, alarm: heard.append((version, alarm)),
    )


class Bench:
    """The learner's side of a run on disk. What `record` gives it arrives as over the link."""

    def __init__(self, folder: Path, scorer: Scorer | None = None) -> None:
        self.folder = folder
        self.store = EpisodeStore(folder / "store", SPEC, TASK)
        self.store.open()
        self.statistics = EpisodeStatistics(SPEC.rate_hz)
        self.scorer = scorer if scorer is not None else make_scorer()
        self.trunk = EmbeddedTrunk({"front": (8, 8, 3)}, 3).requires_grad_(False).eval()
        self.replay = Replay(SPEC, feature_size=self.trunk.feature_size, keep_images=False)
        self.metrics = MetricsLog(folder / "metrics.jsonl")
        self.cache = FeatureCache(folder / "features", self.store, trunk=self.trunk.identity, spec=SPEC)
        self.cache.start()
        self.ingest = Ingest(
            trunk=self.trunk, reward_encoder=self.trunk, replay=self.replay, store=self.store, scorer=self.scorer,
            statistics=self.statistics, cache=self.cache,
        )  # fmt: skip
        self.backend = Backend(
            spec=SPEC, task=TASK, run_id="run", store=self.store, scorer=self.scorer, board=ParamsBoard(),
            status=lambda: LearnerStatus(phase="training"),
        )  # fmt: skip

    def send(
        self,
        episode_id: str,
        sources: Sequence[Source],
        end: EndReason | None = EndReason.TIMEOUT,
        *,
        kind: EpisodeKind = EpisodeKind.ONLINE,
        said: Verdict | None = None,
        actor: str = "a",
    ) -> None:
        """Over the link, into store and inbox."""
        self.backend.begin(header_of(episode_id, kind, actor))
        for step in steps_of(episode_id, sources, end):
            self.backend.append(step)
        if said is not None:
            self.backend.label(label_of(episode_id, said))

    def take(self) -> None:
        """What the ingest thread does."""
        self.ingest.take(self.backend.take())

    def close(self) -> None:
        self.cache.stop()
        self.store.close()
        self.metrics.close()
