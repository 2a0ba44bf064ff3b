"""The real backend on a real store, and all that must be as before once something was refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from robot_stack.learner.backend import Arrival, Backend, ParamsBoard
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import SuccessRule
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.transport.backend import LearnerStatus
from tests.transport.fake_learner import SPEC, TASK


def no_rule() -> SuccessRule:
    raise AssertionError("nothing is scored here")


class RealLearner:
    """Store and backend of a run in `folder`; `clock_s` is the time of its roster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock_s = 0.0
        self.store = EpisodeStore(folder, SPEC, TASK)
        self.store.open()
        self.board = ParamsBoard()
        self.backend = Backend(
            spec=SPEC, task=TASK, run_id="run-1", store=self.store, scorer=Scorer(no_rule), board=self.board,
            status=lambda: LearnerStatus(phase="training"),
        )  # fmt: skip
        self.backend.roster.now_s = lambda: self.clock_s
        self.arrived: list[Arrival] = []

    def take(self) -> list[Arrival]:
        """All that has come out of the inbox so far."""
        self.arrived += self.backend.take()
        return self.arrived

    def state(self) -> tuple[object, ...]:
        """Every byte on disk, what waits in the inbox, and the status."""
        self.store.flush()
        files = {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
        self.take()
        return files, len(self.take()), self.backend.status()  # the second call tells that the first has been counted

    def close(self) -> None:
        self.store.close()


Learn = Callable[[], RealLearner]
