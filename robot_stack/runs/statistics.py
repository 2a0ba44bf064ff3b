"""The learner's statistics of episodes: what each came to, and the rows that reports are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, ResetType, Step

EARLIER_RUN = "0-"
"""Before the id of an episode that a warm start has taken over: no actor's number begins so, and it sorts first."""
AWAITED = 2
"""Newest episodes of an actor whose verdicts may still be to come."""


@dataclass(slots=True, kw_only=True)
class EpisodeAccount:
    """The account of one episode as it grows.

    Attributes:
        header: As announced.
        steps: Actions so far.
        human_steps: Of them, in an operator's hand, moving or not.
        base_steps: Of them, led by the base policy in the policy's place.
        interventions: Times an operator took over.
        clipped: Steps the safety filter changed.
        end: Why it ended, or None.
        labels: Newest label of each source by its stamp, whenever it arrived.
        params_version: Newest parameters behind a proposal.
        progress: Φ of the newest scored frame, and its maximum.
    """

    header: EpisodeHeader
    steps: int = 0
    human_steps: int = 0
    base_steps: int = 0
    interventions: int = 0
    clipped: int = 0
    end: EndReason | None = None
    labels: dict[LabelSource, Label] = field(default_factory=dict)
    params_version: int = 0
    progress: float = float("nan")
    max_progress: float = float("nan")
    _source: Source = Source.HOLD

    @classmethod
    def of(cls, episode: StoredEpisode) -> EpisodeAccount:
        """Return the account that all steps of an episode on disk add up to."""
        arrays = episode.arrays
        source = arrays["source"]
        held = np.isin(source, IN_HAND)
        before = np.concatenate([[False], held])[:-1]
        return cls(
            header=episode.header,
            steps=len(source),
            human_steps=int(held.sum()),
            base_steps=int(led_by_base(episode.header.kind, source, arrays["params_version"]).sum()),
            interventions=int((held & ~before).sum()),
            clipped=int(arrays["clipped"].sum()),
            end=episode.end,
            params_version=int(arrays["params_version"].max(initial=0)),
            _source=Source(int(source[-1])) if len(source) else Source.HOLD,
        )

    def add(self, step: Step) -> None:
        """Count the next step; one that was counted before, from disk or over the link, changes nothing."""
        if step.index < self.steps or self.end is not None:
            return
        self.end = step.end
        if step.action is None:
            return
        source = step.action.source
        self.steps += 1
        self.human_steps += source in IN_HAND
        self.base_steps += int(led_by_base(self.header.kind, source, step.action.params_version))
        self.interventions += source in IN_HAND and self._source not in IN_HAND
        self.clipped += step.action.clipped
        self.params_version = max(self.params_version, step.action.params_version)
        self._source = source

    @property
    def alone(self) -> bool:
        """Return whether the policy did all of it, without an operator and without its base in its place."""
        return not self.human_steps and not self.base_steps

    @property
    def verdicts(self) -> dict[LabelSource, Verdict]:
        """Return the newest verdict of each source."""
        return {source: label.verdict for source, label in self.labels.items()}

    @property
    def success(self) -> bool:
        """Return the outcome as it counts: the operator's verdict, else the model's, else how it ended."""
        for source in (LabelSource.OPERATOR, LabelSource.MODEL):
            if source in self.verdicts:
                return self.verdicts[source] is Verdict.SUCCESS
        return self.end is EndReason.SUCCESS

    @property
    def judged(self) -> bool:
        """Return whether somebody said how it ended: the operator, or a task that ended; no model, nor running out."""
        return LabelSource.OPERATOR in self.verdicts or (self.end is not None and self.end.terminal)

    @property
    def discarded(self) -> bool:
        """Return whether the operator discarded it: it says nothing of the policy."""
        return self.verdicts.get(LabelSource.OPERATOR) is Verdict.DISCARD

    @property
    def refused(self) -> bool:
        """Return whether the operator refused a success that the model declared."""
        said = self.verdicts
        return said.get(LabelSource.MODEL) is Verdict.SUCCESS and said.get(LabelSource.OPERATOR) is Verdict.FAILURE

    @property
    def confirmed(self) -> bool:
        """Return whether the operator said that it was a success."""
        return self.verdicts.get(LabelSource.OPERATOR) is Verdict.SUCCESS

    def row(self, rate_hz: float, reward_version: str) -> EpisodeRow:
        """Return the episode's row for metrics.jsonl.

        Args:
            rate_hz: Of the control loop.
            reward_version: The reward model in use.
        """
        truth = self.verdicts.get(LabelSource.TRUTH)
        return EpisodeRow(
            episode_id=self.header.episode_id,
            episode_kind=self.header.kind,
            seed=self.header.seed,
            level=self.header.level,
            reset=self.header.reset.value,
            task=self.header.task,
            task_id=self.header.task_id,
            started_unix_s=self.header.started_unix_s,
            end=self.end,
            steps=self.steps,
            duration_s=self.steps / rate_hz,
            human_steps=self.human_steps,
            base_steps=self.base_steps,
            interventions=self.interventions,
            clipped=self.clipped,
            success=self.success,
            declared=self.verdicts.get(LabelSource.MODEL) is Verdict.SUCCESS,
            refused=self.refused,
            discarded=self.discarded,
            truth=None if truth is None else truth is Verdict.SUCCESS,
            params_version=self.params_version,
            progress_last=self.progress,
            progress_max=self.max_progress,
            reward_version=reward_version,
        )


def led_by_base(kind: EpisodeKind, source: np.ndarray | int, params_version: np.ndarray | int) -> np.ndarray:
    """Return True for the steps of online training that the base policy led in the policy's place, see `ActionRow`."""
    return np.logical_and(source == Source.POLICY, params_version == 0) & (kind is EpisodeKind.ONLINE)


def awaited(accounts: Sequence[EpisodeAccount]) -> set[str]:
    """Return the episodes on which a verdict may still come: the newest two of each actor.

    An operator has said what there is to say once the same cell has begun two episodes more; what others begin says
    nothing of that.

    Args:
        accounts: In the order of their start, or of their end.
    """
    newest: Counter[str] = Counter()
    found = set()
    for account in reversed(accounts):
        newest[account.header.actor] += 1
        if newest[account.header.actor] <= AWAITED:
            found.add(account.header.episode_id)
    return found


def by_start(started_unix_s: Mapping[str, float]) -> list[str]:
    """Return names of episodes in the order of their start, of each actor in that of its numbers.

    By name alone the episodes of several actors cannot be ordered, since each counts from 0; by time alone those of one
    actor would change places where its clock was set back. Those of an earlier run come first, whatever clock it had.

    Args:
        started_unix_s: Name, "NUMBER-KIND-ACTOR" -> start by its actor's wall clock.
    """
    latest: dict[str, float] = {}
    at = {}
    for name in sorted(started_unix_s):
        actor = name.split("-", 2)[-1]
        at[name] = latest[actor] = max(latest.get(actor, -np.inf), started_unix_s[name])
    return sorted(at, key=lambda name: (not name.startswith(EARLIER_RUN), at[name]))


def balanced(demos: Sequence[EpisodeAccount], task_ids: Sequence[str]) -> list[EpisodeAccount]:
    """Return the demonstrations that count: of each task as many as would come by turns.

    Args:
        demos: In the order of their start.
        task_ids: Of the tasks, in the order in which they take turns; of fewer than two each demonstration counts.
    """
    if len(task_ids) < 2:
        return list(demos)
    of_task = {task_id: [a for a in demos if a.header.task_id == task_id] for task_id in task_ids}
    kept: set[int] = set()
    for turn, own in enumerate(of_task.values()):
        others = enumerate(of_task.values())
        most = min(len(other) + (at > turn) for at, other in others if at != turn)
        kept |= {id(a) for a in own[:most]}
    return [a for a in demos if id(a) in kept]


def _online(account: EpisodeAccount) -> tuple[int, int]:
    """Return the online steps of an account, and 1 if it is of an online episode that has ended."""
    return (account.steps, int(account.end is not None)) if account.header.kind is EpisodeKind.ONLINE else (0, 0)


class EpisodeStatistics:
    """The accounts of all episodes of a run, in the order of their start.

    Args:
        rate_hz: Of the control loop.
        task_ids: Of the tasks, in the order in which they take turns, see `balanced`.
    """

    def __init__(self, rate_hz: float, task_ids: Sequence[str] = ()) -> None:
        self.online_steps = 0
        """Online actions, those of the running episode included."""
        self.online_ended = 0
        """Online episodes that have ended."""
        self._rate_hz = rate_hz
        self._task_ids = tuple(task_ids)
        self.episodes: dict[str, EpisodeAccount] = {}
        self._early: dict[str, list[Label]] = {}
        self.counts_above = -1
        """Version of the parameters of an earlier policy, up to which episodes say nothing of how good this one is."""

    def begin(self, header: EpisodeHeader) -> EpisodeAccount:
        """Open an account for an episode; repeating it is harmless."""
        account = self.episodes.setdefault(header.episode_id, EpisodeAccount(header=header))
        for label in self._early.pop(header.episode_id, []):
            self.label(label)
        return account

    def label(self, label: Label) -> None:
        """Record a verdict in the account of its episode, or keep it until that begins: they come by two ways."""
        if label.episode_id not in self.episodes:
            self._early.setdefault(label.episode_id, []).append(label)
            return
        known = self.episodes[label.episode_id].labels
        newest = known.setdefault(label.source, label)
        known[label.source] = max(newest, label, key=lambda each: (each.stamp_unix_s, each.verdict))

    def add(self, step: Step) -> None:
        """Count the next step of an episode that has begun, see `EpisodeAccount.add`."""
        account = self.episodes[step.episode_id]
        before = _online(account)
        account.add(step)
        self._count(before, _online(account))

    def forget(self, episode_id: str) -> None:
        """Close the account of an episode that was announced and has no frame: it never was."""
        account = self.episodes.pop(episode_id, None)
        if account is not None:
            self._count(_online(account), (0, 0))
        self._early.pop(episode_id, None)

    @property
    def accounts(self) -> list[EpisodeAccount]:
        """Return all accounts as of now; another thread may open more meanwhile."""
        return list(self.episodes.values())

    def recount(self, episode: StoredEpisode) -> None:
        """Count an episode by what is on disk, as after a start, or when its actor died; its verdicts stay."""
        fresh, known = EpisodeAccount.of(episode), self.begin(episode.header)
        fresh.labels = known.labels
        self.episodes[episode.header.episode_id] = fresh
        self._count(_online(known), _online(fresh))

    def order_by_start(self) -> None:
        """Put the accounts in the order of their start, see `by_start`."""
        names = by_start({name: account.header.started_unix_s for name, account in self.episodes.items()})
        self.episodes = {name: self.episodes[name] for name in names}

    def ended(self, kind: EpisodeKind) -> list[EpisodeAccount]:
        """Return the finished episodes of a kind."""
        return [a for a in self.accounts if a.header.kind is kind and a.end is not None]

    def demos(self) -> list[EpisodeAccount]:
        """Return the finished demonstrations that succeeded and count, see `balanced`."""
        return balanced([a for a in self.ended(EpisodeKind.DEMO) if a.success], self._task_ids)

    def recent_success(self, window: int) -> float:
        """Return the share of the last `window` online episodes that succeeded unaided; NaN while there are fewer.

        No way back counts, none of those from a start that an operator chose or that were discarded, which say nothing
        of how good the policy is, and none that an earlier policy drove, see `counts_above`.
        """
        newest = list(islice(filter(self._counts, reversed(self.accounts)), window))
        if len(newest) < window:
            return float("nan")
        return float(np.mean([a.success and a.alone for a in newest]))

    def _counts(self, account: EpisodeAccount) -> bool:
        """Return whether an episode says how good the policy is."""
        header = account.header
        ended = header.kind is EpisodeKind.ONLINE and account.end is not None and not header.goes_back
        if not ended or account.discarded:
            return False
        return header.reset is not ResetType.RETURN and account.params_version > self.counts_above

    def _count(self, before: tuple[int, int], after: tuple[int, int]) -> None:
        """Take what an account came to online for what it came to before."""
        self.online_steps += after[0] - before[0]
        self.online_ended += after[1] - before[1]

    def again(self, account: EpisodeAccount) -> bool:
        """Return whether an episode tries the same task again from where its actor's last try ended."""
        if account.header.reset is not ResetType.CARRIED:
            return False
        actor, name = account.header.actor, account.header.episode_id
        earlier = [a for a in self.accounts if a.header.actor == actor and a.header.episode_id < name]
        last = max(earlier, key=lambda a: a.header.episode_id, default=None)  # after a restart they come in any order
        return last is not None and last.header.task_id == account.header.task_id

    def human_share(self, accounts: list[EpisodeAccount]) -> float:
        """Return the share of these episodes' steps that an operator executed."""
        steps = sum(a.steps for a in accounts)
        return sum(a.human_steps for a in accounts) / steps if steps else 0.0
