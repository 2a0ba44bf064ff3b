"""Fits the reward model on demonstrations, and again when online training has brought verdicts to learn from."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import LiveRewardConfig
from reward_models.progress.orders import Order, take_overs
from robot_stack.config.task import TaskConfig
from robot_stack.learner import fitting
from robot_stack.learner.data.ingest import Ingest
from robot_stack.learner.data.training_data import distance_progress, proprio_columns
from robot_stack.learner.elsewhere import STOP_S
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.learner.reward.fit_job import Fit, FitJob, TaskToFit, fit_elsewhere
from robot_stack.learner.reward.monitor import RewardMonitor, is_judged
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import RefitFailedRow, RewardFitRow
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics, awaited
from robot_stack.types.errors import FitError, ResumeError, StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Further, Preference, settled
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark, counting, stage_starts
from robot_stack.types.transition import EndReason, EpisodeKind

log = logging.getLogger(__name__)

REFIT_AT = (12, 30, 70, 130, 200)
"""Online episodes after which the model is fitted again with the failures and verdicts so far."""
RETRY_AFTER = 5
"""Online episodes from one fit to the next, where one has failed or the model is not trusted."""
LEAD_S = 0.5
"""Before a take-over by so much it was going wrong already, and the operator had seen it."""
SHARE = {Further.FIRST: 0.0, Further.SECOND: 1.0, Further.SAME: 0.5}
""""Unknown" never counts, see `settled`."""


class Known(NamedTuple):
    """The episodes that a model was fitted on, all that had ended by then, and the number of online ones."""

    episodes: tuple[str, ...]
    ended: frozenset[str]
    online: int


class Refitter:
    """The fits of a run's reward model: a new version scores every episode whole before it becomes the active one.

    `thumbnails` are the columns [start, stop) of each camera's in the inputs that the scorer holds; `marks` returns the
    stage marks of all episodes as they are now, `preferences` all preferences, `source` who acted in an episode, (T,).
    """

    def __init__(
        self,
        *,
        folder: Path,
        settings: LiveRewardConfig,
        spec: Spec,
        task: TaskConfig,
        statistics: EpisodeStatistics,
        scorer: Scorer,
        monitor: RewardMonitor,
        ingest: Ingest,
        metrics: MetricsLog,
        thumbnails: tuple[tuple[int, int], ...],
        seed: int,
        marks: Callable[[], Iterable[StageMark]] = tuple,
        preferences: Callable[[], Iterable[Preference]] = tuple,
        source: Callable[[str], np.ndarray],
    ) -> None:
        self._folder = folder
        self._thumbnails = thumbnails
        self._settings = settings
        self._spec = spec
        self._task = task
        self._statistics = statistics
        self._scorer = scorer
        self._monitor = monitor
        self._ingest = ingest
        self._metrics = metrics
        self._seed = seed
        self._marks = marks
        self._preferences = preferences
        self._source = source
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._fitted_at = 0
        self._retry_at = 0
        self._failure: Exception | None = None
        self.completed_at = 0
        """Online episodes of the newest refit that is in use, for the checkpoint."""

    def maybe_start(self) -> None:
        """Start a refit in the background if it is time and none is running.

        Raises:
            Exception: What ended the one before.
        """
        if self._failure is not None:
            raise self._failure
        self._monitor.consider()
        if self.runs:
            return
        online = self._statistics.online_ended
        due = [count for count in REFIT_AT if self._fitted_at < count <= online]
        if online < self._retry_at or not (due or self._monitor.lost):
            return
        self._fitted_at = due[-1] if due else self._fitted_at
        self._retry_at = online + RETRY_AFTER
        self._thread = threading.Thread(target=self._refit, args=(self._fitted_at,), name="refit", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Return whether a refit is under way."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """End a refit at its next step; nothing of it is kept."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def _refit(self, count: int) -> None:
        try:
            job, known = self._job()
            fit = fit_elsewhere(job, self._stopping)
            model = self._written(fit.version)
            if self._worse(model, fit.held_out, known):
                return
            self._use(fit, model, known)
        except fitting.Stopped:
            return
        except (FitError, StoreError) as error:  # of labels taken back, a fit that was killed or is broken, or the disk
            self._keep("not_fitted", str(error))
        except Exception as error:  # the top of this thread: `maybe_start` raises it where the process can end
            self._failure = error
        else:
            self.completed_at = count

    def _worse(self, model: RewardNetwork, held_out: Sequence[str], known: Known) -> bool:
        """Return whether the version in use is better than a new one, and goes on; without trust it is not."""
        if not self._scorer.version or self._monitor.lost:
            return False
        alarm = self._monitor.canary(model, known.episodes)
        if alarm is not None:
            self._keep("canary", f"version {model.version} {alarm.words}")
            return True
        before, after = self._scorer.declares(held_out), self._scorer.declares(held_out, model)
        if after < before:
            words = f"version {model.version} declares {after} of the {len(held_out)} successes held out, must declare"
            self._keep("worse", f"{words} the {before} that the version in use does")
        return after < before

    def _keep(self, why: Literal["not_fitted", "canary", "worse"], reason: str) -> None:
        """Go on with the version in use, and log why; another fit follows after some episodes."""
        log.warning("the reward model in use goes on, it was not fitted again: %s", reason)
        self._metrics.log(RefitFailedRow(reason=reason, why=why))
        self._fitted_at = self.completed_at

    def fit(self, on_step: fitting.OnStep = lambda step, steps, loss: None) -> None:
        """Fit on the episodes known now, score all of them, and make the new version the active one."""
        job, known = self._job()
        fit = job.fit(on_step)
        self._use(fit, self._written(fit.version), known)
        self._fitted_at = self.completed_at = max((count for count in REFIT_AT if count <= known.online), default=0)

    def _job(self) -> tuple[FitJob, Known]:
        """Return the fit on the episodes known now, and which these are."""
        known = self._known()
        accounts = [self._statistics.episodes[name] for name in known.episodes]
        marked: dict[str, list[StageMark]] = defaultdict(list)
        for mark in self._marks():
            marked[mark.episode_id].append(mark)
        preferences = tuple(self._preferences())
        tasks = {}
        for turn in self._task.turns:
            own = [a for a in accounts if a.header.task_id == turn.id]
            orders, became = self._orders(own, preferences)
            tasks[turn.id] = TaskToFit(
                text=turn.text,
                told=turn.told,
                episodes=tuple(self._scored(a, marked[a.header.episode_id], orders[a.header.episode_id]) for a in own),
                preferences=became,
            )
        told_by = self._task.told_by
        job = FitJob(
            folder=self._folder,
            tasks=tasks,
            column=0 if told_by is None else self._spec.part(told_by).start - self._spec.proprio_size,
            settings=self._settings.for_refit() if known.online else self._settings,
            seed=self._seed,
        )
        return job, known

    def _use(self, fit: Fit, model: RewardNetwork, known: Known) -> None:
        """Score every episode by a fitted model, make it the active one, and log what is known of it."""
        self._switch_to(model, set(), known)
        first, *_ = told = dict(fit.told)
        for task_id, report in told.items():
            if report.classifier_unsure:
                log.warning("success classifier of task %s has not the wanted precision, it refuses nothing", task_id)
        said = asdict(told.pop(first)) | {"version": fit.version}
        self._metrics.log(RewardFitRow(**said, others=told, online_episodes=known.online))

    def _written(self, version: str) -> RewardNetwork:
        return fitting.load_reward(RunPaths(self._folder).reward(version), version, self._settings)

    def _orders(
        self, accounts: Sequence[EpisodeAccount], preferences: Sequence[Preference]
    ) -> tuple[Mapping[str, list[Order]], Mapping[str, int]]:
        """Return the orders of frames of a task's episodes, by episode, and what became of the preferences."""
        frames = {a.header.episode_id: len(self._scorer.inputs(a.header.episode_id)) for a in accounts}
        found: dict[str, list[Order]] = defaultdict(list)
        said = settled(preferences, frames)
        for each in said.preferences:
            first, second = (m.frame if m.frame >= 0 else frames[m.episode_id] - 1 for m in (each.first, each.second))
            order = Order(first, each.second.episode_id, second, SHARE[each.further])
            found[each.first.episode_id].append(order)
        lead = max(1, round(LEAD_S * self._spec.rate_hz))
        taken = 0
        for account in accounts if self._settings.take_overs else ():
            name = account.header.episode_id
            if account.header.kind is not EpisodeKind.ONLINE or not account.interventions:
                continue
            try:
                source = self._source(name)
            except StoreError as error:
                log.warning("take-overs of %s are left out: %s", name, error)
                continue
            for before, after in take_overs(source, lead):
                found[name].append(Order(before, name, after, 1.0))
                taken += 1
        counts = {
            "people": said.by_operators,
            "models": len(said.preferences) - said.by_operators,
            "take_overs": taken,
            "contradicting": said.contradicting,
            "unknown": said.unknown,
            "overruled": said.overruled,
            "unusable": said.unusable,
        }
        return found, {what: count for what, count in counts.items() if count}

    def _scored(self, account: EpisodeAccount, marks: Iterable[StageMark], orders: Iterable[Order]) -> ScoredEpisode:
        frames = self._scorer.inputs(account.header.episode_id)
        return ScoredEpisode(
            frames=frames,
            success=account.success,
            judged=account.judged,
            done_frames=self._done_frames(account),
            refused=account.refused,
            progress=self._progress(account.header.episode_id) if account.success else None,
            thumbnails=self._thumbnails,
            parts=proprio_columns(frames.shape[1], self._spec),
            stage_starts=self._starts(account, marks, len(frames)),
            name=account.header.episode_id,
            orders=tuple(orders),
        )

    def _starts(self, account: EpisodeAccount, marks: Iterable[StageMark], frames: int) -> tuple[int, ...]:
        """Return where an operator marked that the stages of a success begin; () unless all of them are marked."""
        if not account.success or account.header.goes_back:
            return ()
        return stage_starts(counting(marks), frames, len(self._task.stages) or None)

    def _known(self) -> Known:
        """Return the episodes to fit on, demonstrations first: the held-out episodes are taken from the front.

        Then by name: after a restart the accounts are in another order, and the model must not depend on it.
        """
        ended = [a for a in self._statistics.accounts if a.end is not None]
        taught = [a for a in ended if self._teaches(a)]
        taught.sort(key=lambda a: (a.header.kind is not EpisodeKind.DEMO, a.header.episode_id))
        return Known(
            episodes=tuple(a.header.episode_id for a in taught),
            ended=frozenset(a.header.episode_id for a in ended),
            online=sum(a.header.kind is EpisodeKind.ONLINE for a in ended),
        )

    def _teaches(self, account: EpisodeAccount) -> bool:
        """Return whether an episode can be trained on: a good demonstration, an operator's verdict, no success."""
        if account.steps == 0 or account.end is EndReason.FAULT or Verdict.DISCARD in account.verdicts.values():
            return False
        if account.header.kind is EpisodeKind.EVAL:
            return False
        if account.header.kind is EpisodeKind.DEMO:
            return account.success
        return LabelSource.OPERATOR in account.verdicts or not account.success

    def _switch_to(self, model: RewardNetwork, scored: set[str], known: Known) -> None:
        """Score every episode but those `scored`, then those that ended meanwhile and so were scored by the old one."""
        for _ in range(2):
            ended = [a.header.episode_id for a in self._statistics.accounts if a.end is not None]
            for scores in self._scorer.adopt(model, [name for name in ended if name not in scored]):
                self._ingest.add_scores(scores)
                scored.add(scores.episode_id)
        self._monitor.renew(model, known.episodes, known.ended)

    def _progress(self, episode_id: str) -> np.ndarray | None:
        return (
            distance_progress(self._scorer.proprio(episode_id), self._spec)
            if self._settings.labels == "distance"
            else None
        )

    def _done_frames(self, account: EpisodeAccount) -> int:
        """Return how many of an episode's last frames count as done.

        An operator waits before he says so; the model does not, and its verdict must not creep forward in time.
        """
        return 2 if LabelSource.MODEL in account.verdicts else self._settings.done_frames

    def load(self, version: str, completed_at: int, *, trusted: bool) -> None:
        """Load the model that was active at the checkpoint, and its scores of all episodes, most of them from disk.

        It is judged by the episodes whose verdict is still to come, too.

        Raises:
            ResumeError: If its weights are gone.
        """
        path = RunPaths(self._folder).reward(version)
        if not path.exists():
            raise ResumeError(f"reward model {path.name} is missing, must be there to resume; restore it")
        known, online = self._known(), [a for a in self._statistics.accounts if a.header.kind is EpisodeKind.ONLINE]
        waiting = awaited(online)
        unjudged = {a.header.episode_id for a in online if not is_judged(a, waiting)}
        known = known._replace(ended=known.ended - unjudged)
        self._switch_to(self._written(version), set(self._ingest.restore_scores(version)), known)
        if not trusted:
            self._monitor.lose()
        self._fitted_at = self.completed_at = completed_at
