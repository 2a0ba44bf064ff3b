"""Fits the reward model on demonstrations, and again when practice has brought verdicts to learn from."""

from __future__ import annotations

import threading
from pathlib import Path

from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from robot_stack.replay.replay import Replay
from robot_stack.run import fitting
from robot_stack.run.ingest import Ingest
from robot_stack.run.ledger import EpisodeAccount, Ledger
from robot_stack.run.metrics import MetricsLog
from robot_stack.run.scoring import Scorer
from robot_stack.types.errors import ResumeError
from robot_stack.types.event import LabelSource
from robot_stack.types.transition import EpisodeKind

REFIT_AT = (12, 30, 70, 130, 200)
"""Online episodes after which the model is fitted again with the failures and verdicts so far."""


class Refitter:
    """A new version scores every episode whole before it becomes the active one."""

    def __init__(
        self,
        *,
        folder: Path,
        settings: ProgressConfig,
        ledger: Ledger,
        scorer: Scorer,
        replay: Replay,
        ingest: Ingest,
        metrics: MetricsLog,
        seed: int,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._ledger = ledger
        self._scorer = scorer
        self._replay = replay
        self._ingest = ingest
        self._metrics = metrics
        self._seed = seed
        self._thread: threading.Thread | None = None
        self._fitted_at = 0

    def maybe_start(self) -> None:
        """Start a refit in the background if it is time and none is running."""
        online = len(self._ledger.ended(EpisodeKind.ONLINE))
        due = [count for count in REFIT_AT if self._fitted_at < count <= online]
        if not due or (self._thread is not None and self._thread.is_alive()):
            return
        self._fitted_at = due[-1]
        self._thread = threading.Thread(target=self.fit, name="refit", daemon=True)
        self._thread.start()

    def fit(self, on_step: fitting.OnStep = lambda step, steps, loss: None) -> None:
        """Fit on what is known now, score everything, switch over."""
        accounts = [a for a in self._ledger.episodes.values() if a.end is not None and self._known(a)]
        episodes = [
            ScoredEpisode(
                frames=self._scorer.inputs(a.header.episode_id), success=a.success, refused=a.refused
            )
            for a in accounts
        ]
        # demonstrations first: the held-out episodes are taken from the front
        order = sorted(range(len(accounts)), key=lambda i: accounts[i].header.kind is not EpisodeKind.DEMO)
        model, report = fitting.fit_progress(
            [episodes[i] for i in order], self._settings, seed=self._seed, on_step=on_step
        )
        fitting.save_progress(self._folder / f"progress_{model.version}.safetensors", model)
        ended = [a.header.episode_id for a in self._ledger.episodes.values() if a.end is not None]
        for scores in self._scorer.adopt(model, ended):
            self._ingest.add_scores(scores)
        self._replay.activate_scores(model.version)
        self._metrics.log(
            "reward_fit",
            version=report.version,
            voc_heldout=report.voc_heldout,
            voc_clock=report.voc_clock,
            false_done=report.false_done,
            episodes=len(episodes),
            failures=sum(not e.success for e in episodes),
            online_episodes=len(self._ledger.ended(EpisodeKind.ONLINE)),
        )

    def _known(self, account: EpisodeAccount) -> bool:
        """Training needs an outcome that a person stands behind, or a demonstration, or a plain failure."""
        if account.header.kind is EpisodeKind.DEMO:
            return account.success
        return LabelSource.OPERATOR in account.verdicts or not account.success

    def load(self, version: str) -> None:
        """The model that was active at the checkpoint, and the scores of all episodes by it.

        Raises:
            ResumeError: If its weights are gone.
        """
        path = self._folder / f"progress_{version}.safetensors"
        if not path.exists():
            raise ResumeError(f"reward model {path.name} is missing, must be there to resume; restore it")
        model = fitting.load_progress(path, version, self._settings)
        ended = [a.header.episode_id for a in self._ledger.episodes.values() if a.end is not None]
        for scores in self._scorer.adopt(model, ended):
            self._ingest.add_scores(scores)
        self._replay.activate_scores(version)
        online = len(self._ledger.ended(EpisodeKind.ONLINE))
        self._fitted_at = max([count for count in REFIT_AT if count <= online], default=0)
