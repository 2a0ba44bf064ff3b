"""A learner on a folder whose arrivals come at fixed updates, and what it did at each of them."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.tiny_run import header_of, steps_of
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.backend import Backend
from robot_stack.learner.preparation import OnlineLearner
from robot_stack.learner.training import Training
from robot_stack.learner.update_loop import UpdateLoop
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason

H, P, IDLE = Source.HUMAN, Source.POLICY, Source.IDLE
DEMOS = ("000000-demo-a", "000001-demo-a")


@dataclass(kw_only=True)
class Told:
    """What the learner did, one entry per update."""

    batches: list[list[tuple[str, int]]] = field(default_factory=list)
    rewards: list[bytes] = field(default_factory=list)
    losses: list[dict[str, float]] = field(default_factory=list)


class AskedForDemos(threading.Event):
    """A stop that comes once a learner waits for demonstrations."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self._training = training

    def is_set(self) -> bool:
        return self._training.status().phase == "collecting_demos"


class Driven:
    """A learner whose arrivals come at fixed updates: its own parts, without its ingest thread."""

    def __init__(self, folder: Path, resolved: ResolvedRun) -> None:
        self.training = Training(resolved, folder)
        self.training.serve("127.0.0.1:0")
        self.spec, self.resolved = resolved.spec(), resolved
        self.told = Told()
        self.learner: OnlineLearner | None = None
        self._never = threading.Event()

    def demonstrate(self) -> None:
        """As many demonstrations as the run wants."""
        for name in DEMOS:
            self.begin(name)
            self.send(name, end="success")

    def start(self, stop: threading.Event | None = None) -> None:
        """To the last update before the first arrival, or to the checkpoint."""
        self.learner = self.training.prepare(stop or self._never)
        self._listen()

    def begin(self, episode_id: str) -> None:
        self._backend.begin(header_of(self.resolved, episode_id, actor=episode_id[-1]))

    def send(
        self,
        episode_id: str,
        count: int = 12,
        *,
        start: int = 0,
        stop: int = 99,
        end: str = "timeout",
        alone: bool = False,
    ) -> None:
        """Frames `start` to `stop` of an episode, in as many arrivals as there are frames."""
        sources = [H if 2 <= t < 5 or "demo" in episode_id else IDLE if t == 5 else P for t in range(count)]
        if alone:
            sources = [P] * count
        for step in steps_of(self.spec, episode_id, count, EndReason(end), sources=sources):
            if start <= step.index < stop:
                self._backend.append(step)
                if step.index % 3 == 0:
                    self.take()

    def say(self, episode_id: str, verdict: Verdict, source: LabelSource = LabelSource.OPERATOR) -> None:
        self._backend.label(Label(episode_id=episode_id, verdict=verdict, source=source, stamp_unix_s=1.0))

    def take(self) -> None:
        """What the ingest thread does, once there is one."""
        if self.learner is not None:
            self.learner.recorded.ingest.take(self._backend.take())

    def run(self, until: int, stream: dict[int, Any]) -> None:
        """Updates up to `until`; before update n, what `stream` says of n."""
        loop = self.loop
        done: set[int] = set()

        def over() -> bool:
            if loop.updates in stream and loop.updates not in done:
                done.add(loop.updates)
                stream[loop.updates](self)
                self.take()
            return loop.updates >= until

        loop.run(over, self._never)

    def copy(self, to: Path) -> None:
        """What a SIGKILL here would leave, without files that are being written just now."""
        shutil.copytree(self.folder, to, ignore=shutil.ignore_patterns("*.partial"))

    def close(self) -> None:
        self.training.close()

    @property
    def folder(self) -> Path:
        return self.training.parts.folder

    @property
    def loop(self) -> UpdateLoop:
        assert self.learner is not None
        return self.learner.loop

    @property
    def replay(self) -> Replay:
        assert self.learner is not None
        return self.learner.recorded.replay

    @property
    def _backend(self) -> Backend:
        return self.training.backend

    def _listen(self) -> None:
        replay, loop = self.replay, self.loop
        draw, update = replay.draw, loop.updater.learner.update

        def drawn(*args: Any, **kwargs: Any) -> Any:
            """Rows are drawn on the host wherever they are gathered, on the host or on a GPU."""
            found = draw(*args, **kwargs)
            frames = replay.frames
            told = zip(frames.column("episode")[found.rows], frames.column("frame")[found.rows])
            self.told.batches.append([(frames.episode_ids[e], int(t)) for e, t in told])
            following = frames.column("features")[found.next_rows]
            self.told.rewards.append(found.reward.tobytes() + found.discount.tobytes() + following.tobytes())
            return found

        def updated(batch: Any) -> dict[str, torch.Tensor]:
            metrics = update(batch)
            self.told.losses.append({name: float(value) for name, value in metrics.items()})
            return metrics

        replay.draw = drawn  # type: ignore[method-assign]
        loop.updater.learner.update = updated
