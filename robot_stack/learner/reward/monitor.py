"""The reward monitor: watches the active reward model against operators and demonstrations, and ends trust in it.

Without trust the learner goes on with what operators say: no shaping, no success declared by the model. The next
version, fitted with the offending episodes as negatives, is trusted again if it passes the canaries. What is usual on a
task is not on another that takes turns with it: each is watched by itself, and trust in all is lost together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence, Set

import numpy as np

from reward_models.alarms import (
    Alarm,
    AlarmConfig,
    EpisodeEvidence,
    Normal,
    OrderWatch,
    Watch,
    nearest_distance,
)
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.learner.reward.rescoring import Rescorer
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import RescoredRow
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics, awaited
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeKind


class ShapingScores:
    """The choice of whose scores shape the reward: a large model's once it knows enough, else the live model's.

    The large model is watched too: after an alarm no score of it shapes any more, in this run and after a restart.

    Args:
        replay: Is told whose.
        scorer: Has the live model.
        statistics: Of all episodes.
        metrics: Take a row when the large model's scores become the active ones.
        rescorer: Of the large model, None without one.
        alarms: When trust in the large model ends.
        log: Told of each alarm, for metrics and operators.
        lost: Whether an alarm has ended trust in the large model before.
    """

    def __init__(
        self,
        replay: Replay,
        scorer: Scorer,
        statistics: EpisodeStatistics,
        metrics: MetricsLog,
        rescorer: Rescorer | None,
        *,
        alarms: AlarmConfig,
        log: Callable[[str, Alarm], None],
        lost: bool = False,
    ) -> None:
        self._replay = replay
        self._scorer = scorer
        self._statistics = statistics
        self._metrics = metrics
        self._rescorer = rescorer
        self._watch = OrderWatch(alarms)
        self._log = log
        self._seen: set[str] = set()
        self._live_trusted = False
        self.lost = lost

    def follow_live(self, trusted: bool) -> None:
        """Let the live model's scores shape the reward if it is trusted, else none; a large one's go before them."""
        self._live_trusted = trusted
        if self._rescorer is None or self.lost or self._replay.score_version != self._rescorer.version:
            self._replay.activate_scores(self._scorer.version if trusted else None)

    def goes_on_with(self, version: str) -> bool:
        """Return whether a version that shaped the reward before a restart is the large model's, and trusted."""
        return self._rescorer is not None and version == self._rescorer.version and not self.lost

    def rescore(self) -> None:
        """Offer what has ended to the large model; its scores count once it knows nearly all of it."""
        rescorer = self._rescorer
        if rescorer is None or self.lost:
            return
        accounts = [a for a in self._statistics.accounts if a.end is not None]
        ended = [a.header.episode_id for a in accounts if a.header.kind is not EpisodeKind.EVAL]
        for episode_id in ended:
            rescorer.offer(episode_id)
        if self._misled(rescorer, accounts):
            return
        if self._replay.score_version != rescorer.version and rescorer.ready(ended):
            self._replay.activate_scores(rescorer.version)
            self._metrics.log(RescoredRow(version=rescorer.version, episodes=len(rescorer.known)))

    def _misled(self, rescorer: Rescorer, accounts: Sequence[EpisodeAccount]) -> bool:
        """Hold the large model's scores against what operators have said since; True if that ended trust in it."""
        waiting = awaited(accounts)
        for account in accounts:
            name = account.header.episode_id
            if name in self._seen or name not in rescorer.progress or not is_judged(account, waiting):
                continue
            if not _tells(account):
                continue
            self._seen.add(name)
            success = account.success or (False if account.judged else None)
            alarms = self._watch.add(name, rescorer.progress[name], success=success)
            for alarm in alarms:
                self._log(rescorer.version, alarm)
            if alarms:
                self.lost = True
                self._drop(rescorer)
                return True
        return False

    def _drop(self, rescorer: Rescorer) -> None:
        """See to it that a model that is not trusted is asked nothing and shapes nothing."""
        rescorer.give_up()
        if self._replay.score_version == rescorer.version:
            self._replay.activate_scores(self._scorer.version if self._live_trusted else None)


def is_judged(account: EpisodeAccount, waiting: Set[str]) -> bool:
    """Return whether an operator's verdict on an episode is here, or will not come any more; see `awaited`."""
    return account.header.episode_id not in waiting or LabelSource.OPERATOR in account.verdicts


def _tells(account: EpisodeAccount) -> bool:
    """Return whether an episode says something of a model that scored it: it was no accident and nobody discards it."""
    return account.steps > 0 and account.end is not EndReason.FAULT and Verdict.DISCARD not in account.verdicts.values()


class RewardMonitor:
    """A monitor of a run's active reward model, which ends trust in it on an alarm.

    It judges a version by what that version says of an episode, whichever was in use when the episode was recorded.

    Args:
        config: When trust ends.
        thresholds: By task id, the probability of success that counts as done.
        statistics: Verdicts.
        scorer: Scores; it stops declaring success while trust is lost.
        shape: Told True when scores may shape the reward, False when they may not.
        log: Told of each alarm, for metrics and operators.

    Attributes:
        lost: The active version is not trusted.
    """

    def __init__(
        self,
        config: AlarmConfig,
        *,
        thresholds: Mapping[str, float],
        statistics: EpisodeStatistics,
        scorer: Scorer,
        shape: Callable[[bool], None],
        log: Callable[[str, Alarm], None],
    ) -> None:
        self._config = config
        self._thresholds = dict(thresholds)
        self._statistics = statistics
        self._scorer = scorer
        self._shape = shape
        self._log = log
        self._watches: dict[str, Watch] = {}
        self._known: dict[str, list[str]] = {}
        self._seen: set[str] = set()
        self._model: RewardNetwork | None = None
        self._one_at_a_time = threading.Lock()
        self.lost = False

    def renew(self, model: RewardNetwork, known: Sequence[str], ended: Collection[str]) -> None:
        """Watch a version from here on that has become active.

        It is trusted unless it fails its canaries, or is the very version that trust was lost in: a fit from which
        nothing was learned, such as that of a formula.

        Args:
            model: The version.
            known: Episodes that it was fitted on.
            ended: Those that had ended when its fit began; it is judged by the others.
        """
        with self._one_at_a_time:
            self._renew(model, known, ended)

    def _renew(self, model: RewardNetwork, known: Sequence[str], ended: Collection[str]) -> None:
        as_before = self.lost and self._model is not None and model.version == self._model.version
        self._model = model
        self._watches, self._known = {}, {}
        for task_id, own in self._by_task(known).items():
            self._watch(task_id, own)
        self._seen = set(ended)
        self.lost = False
        alarm = None if as_before else self.canary(model, known)
        if as_before or alarm is not None:
            self.lose(*([] if alarm is None else [alarm]))
            return
        self._scorer.trusted = True
        self._shape(True)

    def consider(self) -> bool:
        """Check the model on the episodes that have been judged since; True if that ended trust.

        While another version is taken up, it waits for the next call.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            return False
        try:
            return self._consider()
        finally:
            self._one_at_a_time.release()

    def _consider(self) -> bool:
        if not self._watches or self.lost:
            return False
        online = [a for a in self._statistics.accounts if a.header.kind is EpisodeKind.ONLINE]
        waiting = awaited(online)
        for account in online:
            name = account.header.episode_id
            if (
                account.end is None
                or name in self._seen
                or not is_judged(account, waiting)
                or not _tells(account)
                or not self._scorer.holds(name)
            ):
                continue
            self._seen.add(name)
            watch = self._watches.get(account.header.task_id)
            alarms = watch.add(self._evidence(account, self._known[account.header.task_id])) if watch else ()
            if alarms:
                self.lose(*alarms)
                return True
        return False

    def lose(self, *alarms: Alarm) -> None:
        """End trust in the active version: it neither declares success nor shapes the reward."""
        self.lost = True
        self._scorer.trusted = False
        self._shape(False)
        for alarm in alarms:
            self._log("" if self._model is None else self._model.version, alarm)

    def _by_task(self, known: Sequence[str]) -> dict[str, list[str]]:
        """Return the known episodes whose frames are here by task id, of each task that has some."""
        found: dict[str, list[str]] = {}
        for task_id in self._thresholds:
            own = [name for name in known if self._statistics.episodes[name].header.task_id == task_id]
            found[task_id] = [name for name in own if self._scorer.holds(name)]
        return {task_id: own for task_id, own in found.items() if own}

    def _usual(self, known: Sequence[str]) -> list[str]:
        """Return the known episodes of a task that say what is usual there: its demonstrations, if there are some."""
        demos = [a.header.episode_id for a in self._statistics.demos() if a.header.episode_id in known]
        return demos or list(known)

    def _watch(self, task_id: str, known: list[str]) -> None:
        """Begin to watch one task, given the known episodes of it."""
        demos = self._usual(known)
        others = {name: [other for other in demos if other != name] for name in demos}
        normal = Normal.of([self._evidence(self._statistics.episodes[name], others[name]) for name in demos])
        for account in self._statistics.ended(EpisodeKind.ONLINE):
            if account.header.task_id == task_id and account.success and not self._statistics.again(account):
                normal = normal.with_success(account.steps, confirmed=account.confirmed, haste=self._config.haste)
        self._watches[task_id], self._known[task_id] = Watch(self._config, normal), known

    def _evidence(self, account: EpisodeAccount, known: Sequence[str]) -> EpisodeEvidence:
        assert self._model is not None
        episode_id = account.header.episode_id
        inputs = self._scorer.inputs(episode_id)
        scores = self._model.score(inputs)
        distance = np.full(len(inputs), np.nan)
        if known:
            trained = np.concatenate([self._model.standardised(self._scorer.inputs(name)) for name in known])
            distance = nearest_distance(self._model.standardised(inputs), trained)
        return EpisodeEvidence(
            name=episode_id,
            progress=scores.progress,
            spread=scores.spread,
            distance=distance,
            claimed_at=self._scorer.claimed_at(episode_id, scores.success),
            refused=account.verdicts.get(LabelSource.OPERATOR) is Verdict.FAILURE,
            confirmed=account.confirmed,
            again=self._statistics.again(account),
            lacking=scores.lacking,
        )

    def canary(self, model: RewardNetwork, known: Sequence[str]) -> Alarm | None:
        """Score the start of each demonstration, held for its whole length; an alarm if too many count as success.

        Args:
            model: Any version.
            known: Episodes that it was fitted on.
        """
        demos = [name for own in self._by_task(known).values() for name in self._usual(own)]
        false = []
        for name in demos:
            inputs = self._scorer.inputs(name)
            threshold = self._thresholds[self._statistics.episodes[name].header.task_id]
            if model.score(np.repeat(inputs[:1], len(inputs), axis=0)).success[-1] >= threshold:
                false.append(f"{name} standing at its start")
        if len(false) <= 0.05 * len(demos):
            return None
        return Alarm(
            kind="canary",
            words=f"calls {len(false)} of {len(demos)} canaries a success, among them {false[0]}",
            episodes=tuple(demos),
        )
