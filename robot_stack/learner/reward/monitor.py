"""The reward monitor: watches the active reward model against people and demonstrations, and ends trust in it.

Without trust the learner goes on with what people say: no shaping, no success declared by the model. The next version,
fitted with the offending episodes as negatives, is trusted again if it passes the canaries. What is usual on a task is
not on its way back: each is watched by itself, and trust in both is lost together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reward_models.alarms import Alarm, AlarmConfig, EpisodeEvidence, Normal, Watch, nearest_distance
from reward_models.bidirectional import BidirectionalModel, OneWay
from reward_models.progress.text import other_task
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics
from robot_stack.types.event import LabelSource
from robot_stack.types.transition import EpisodeKind

JUDGED_AFTER = 2
"""Episodes that have begun since, by when an operator's verdict on an episode has come in."""
CANARY_TEXTS = 5


class RewardMonitor:
    """A monitor of a run's active reward model, which ends trust in it on an alarm.

    Args:
        config: When trust ends.
        threshold: Probability of success that counts as done.
        back_threshold: The same on the way back.
        ledger: Verdicts.
        scorer: Scores; it stops declaring success while trust is lost.
        shape: Told True when scores may shape the reward, False when they may not.
        log: Told of each alarm, for metrics and people.

    Attributes:
        lost: The active version is not trusted.
    """

    def __init__(
        self,
        config: AlarmConfig,
        *,
        threshold: float,
        back_threshold: float = 1.0,
        ledger: EpisodeStatistics,
        scorer: Scorer,
        shape: Callable[[bool], None],
        log: Callable[[str, Alarm], None],
    ) -> None:
        self._config = config
        self._thresholds = threshold, back_threshold
        self._statistics = ledger
        self._scorer = scorer
        self._shape = shape
        self._log = log
        self._watches: dict[bool, Watch] = {}
        self._known: dict[bool, list[str]] = {}
        self._seen: set[str] = set()
        self.lost = False

    def renew(self, model: RewardNetwork, known: Sequence[str]) -> None:
        """Watch a version from here on that has become active and was fitted on the `known` episodes.

        It is trusted unless it fails its canaries.
        """
        known = [name for name in known if self._scorer.holds(name)]
        self._watches, self._known = {}, {}
        demos: list[str] = []
        for backward in (False, True):
            same = [name for name in known if self._statistics.episodes[name].header.backward is backward]
            if same:
                demos += self._watch(same, backward=backward)
        self._seen = {a.header.episode_id for a in self._statistics.accounts if a.end is not None}
        self.lost = False
        alarm = self._canary(model, demos)
        if alarm is not None:
            self.lose(alarm)
            return
        self._scorer.trusted = True
        self._shape(True)

    def consider(self) -> bool:
        """Check the model on the episodes that have been judged since; True if that ended trust."""
        if not self._watches or self.lost:
            return False
        online = [a for a in self._statistics.accounts if a.header.kind is EpisodeKind.ONLINE]
        for number, account in enumerate(online):
            old = number < len(online) - JUDGED_AFTER or LabelSource.OPERATOR in account.verdicts
            name = account.header.episode_id
            if (
                account.end is None
                or name in self._seen
                or not old
                or not account.steps
                or not self._scorer.holds(name)
            ):
                continue
            self._seen.add(name)
            watch = self._watches.get(account.header.backward)
            alarms = watch.add(self._evidence(account, self._known[account.header.backward])) if watch else ()
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
            self._log(self._scorer.version, alarm)

    def _watch(self, known: list[str], *, backward: bool) -> list[str]:
        """Begin to watch one way, given the known episodes of it; returns those that say what is usual there."""
        demos = [a.header.episode_id for a in self._statistics.demos() if a.header.episode_id in known] or known
        others = {name: [other for other in demos if other != name] or [name] for name in demos}
        normal = Normal.of([self._evidence(self._statistics.episodes[name], others[name]) for name in demos])
        self._watches[backward], self._known[backward] = Watch(self._config, normal), known
        return demos

    def _evidence(self, account: EpisodeAccount, known: Sequence[str]) -> EpisodeEvidence:
        episode_id = account.header.episode_id
        scores = self._scorer.whole(episode_id)
        inputs = self._scorer.standardised(episode_id)
        trained = np.concatenate([self._scorer.standardised(name) for name in known])
        return EpisodeEvidence(
            name=episode_id,
            progress=scores.progress,
            spread=scores.spread,
            distance=nearest_distance(inputs, trained),
            claimed_at=self._scorer.declared_at.get(episode_id),
            refused=account.refused,
            again=self._statistics.again(account),
        )

    def _canary(self, model: RewardNetwork, demos: Sequence[str]) -> Alarm | None:
        """Score frames that show no finished task as the words ask for it; an alarm if too many count as success."""
        rng = np.random.default_rng(0)
        own = {self._asked(model, self._scorer.inputs(name)).text: None for name in demos}
        texts = {text: [other_task(text, rng) for _ in range(CANARY_TEXTS)] for text in own}
        false = []
        for name in demos:
            inputs = self._scorer.inputs(name)
            asked = self._asked(model, inputs)
            threshold = self._thresholds[self._statistics.episodes[name].header.backward]
            if asked.score(np.repeat(inputs[:1], len(inputs), axis=0)).success[-1] >= threshold:
                false.append(f"{name} standing at its start")
            said = [
                text
                for text in texts[asked.text]
                if asked.score(inputs, len(inputs) - 1, text=text).success[-1] >= threshold
            ]
            false += [f"{name} as {text!r}" for text in said]
        count = len(demos) * (1 + CANARY_TEXTS)
        if len(false) <= 0.05 * count:
            return None
        return Alarm(
            kind="canary",
            words=f"calls {len(false)} of {count} canaries a success, among them {false[0]}",
            episodes=tuple(demos),
        )

    @staticmethod
    def _asked(model: RewardNetwork, inputs: np.ndarray) -> OneWay:
        return model.of(inputs) if isinstance(model, BidirectionalModel) else model
