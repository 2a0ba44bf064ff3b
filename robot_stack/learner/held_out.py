"""Asks the critic about each online episode before it is trained on it: held out by time, at no cost in data."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch

from policies.learner import AskedCritic, HasCritic, Learner, TensorBatch
from policies.settings import Sampling
from robot_stack.learner.data.batches import Batches
from robot_stack.replay.frames import NO_ROW
from robot_stack.replay.outcome import Outcome
from robot_stack.replay.replay import Replay
from robot_stack.replay.sampling import Draw, corrected
from robot_stack.runs.critic import NEWEST, CriticFigures, critic_figures
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import CriticRow
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics, awaited
from robot_stack.types.command import Source
from robot_stack.types.transition import EpisodeKind

MOST_ROWS = 256
"""Transitions of one episode that are asked about; of a longer one, so many at even distances."""
MOST_COPIES = 16
"""Copies of the critic that wait for the end of their episode; the oldest gives way, its episode is not asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A copy of the critic from before an episode.

    Attributes:
        critic: The copy.
        gamma: Discount that it was trained towards at last.
        updates: Made before it.
        took_ms: For which it held the updates up.
    """

    critic: AskedCritic
    gamma: float
    updates: int
    took_ms: float


class HeldOutEpisodes:
    """The questions to a learner's critic about episodes that no update has sampled; nothing for one without a critic.

    Steps are drawn as soon as they arrive. So a copy of the critic is made when an episode begins, and asked once the
    episode and the verdict on it are there. All is done in the update loop's thread, one episode at a time; random
    numbers come from a generator of its own, so that training is the same with and without it.

    Args:
        learner: Whose critic is asked.
        batches: Gather the transitions, in the memory that the learner computes on.
        replay: Has them.
        statistics: Of all episodes; those that are in it now have been sampled, and are not asked about.
        metrics: Take a row per episode.
        sampling: How the learner's batches are drawn.
        grippers: Positions of discrete grippers in an action, of which this critic knows nothing.
        earlier: Rows of an earlier start of this run.
        seed: Of the random actions.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        batches: Batches,
        replay: Replay,
        statistics: EpisodeStatistics,
        metrics: MetricsLog,
        sampling: Sampling,
        grippers: tuple[int, ...],
        earlier: list[CriticRow],
        seed: int,
    ) -> None:
        self._learner = learner if isinstance(learner, HasCritic) else None
        self._batches = batches
        self._replay = replay
        self._statistics = statistics
        self._metrics = metrics
        self._sampling = sampling
        self._grippers = list(grippers)
        self._rng = torch.Generator().manual_seed(seed)
        self._seen = set(statistics.episodes)
        self._copies: dict[str, Copy] = {}
        self._due: deque[str] = deque()
        self._rows: deque[CriticRow] = deque(earlier, maxlen=NEWEST)

    @property
    def figures(self) -> CriticFigures:
        """Return the figures over the newest episodes; callable from any thread."""
        return critic_figures(list(self._rows.copy()))

    def before_update(self, gamma: float, updates: int) -> None:
        """Copy the critic for episodes that have begun; called between the draw of a batch and the update on it.

        A row of the batch is of an episode that had begun before the draw: so no update has been made on any of it.

        Args:
            gamma: Discount that the batch was drawn with, which the copies are trained towards.
            updates: Of the run so far, of learners before this one too.
        """
        if self._learner is None or self._statistics.episodes.keys() == self._seen:
            return
        accounts = self._statistics.accounts
        names = [a.header.episode_id for a in accounts if a.header.kind is EpisodeKind.ONLINE]
        begun = [name for name in names if name not in self._seen]
        self._seen = {a.header.episode_id for a in accounts}
        if begun:
            started_s = time.perf_counter()
            critic = self._learner.critic_snapshot()
            took_ms = 1e3 * (time.perf_counter() - started_s)
            copy = Copy(critic=critic, gamma=gamma, updates=updates, took_ms=took_ms)
            self._copies |= dict.fromkeys(begun, copy)
            while len(self._copies) > MOST_COPIES:
                del self._copies[next(iter(self._copies))]
        waiting = awaited(accounts)
        self._find_due([a for a in accounts if a.header.episode_id not in waiting])

    def ask(self) -> None:
        """Ask about one episode that is due, if there is one, and log its row."""
        if self._due:
            self._ask(self._due.popleft())

    def finish(self) -> None:
        """Ask about all episodes that have ended: the verdicts on them are here."""
        self._find_due(self._statistics.accounts)
        while self._due:
            self.ask()

    def _find_due(self, accounts: list[EpisodeAccount]) -> None:
        ended = (a.header.episode_id for a in accounts if a.end is not None)
        self._due.extend(name for name in ended if name in self._copies and name not in self._due)

    def _ask(self, episode_id: str) -> None:
        started_s = time.perf_counter()
        copy, sampling = self._copies.pop(episode_id, None), self._sampling
        if copy is None:  # it gave way to those that came meanwhile
            return
        outcome = self._replay.outcome(episode_id)
        if outcome is Outcome.DISCARD:
            return
        draw = self._replay.transitions(
            episode_id, MOST_ROWS, gamma=copy.gamma, n_step=sampling.n_step, chunk=sampling.chunk
        )
        if not len(draw.rows):
            return
        alone = outcome is Outcome.SUCCESS and self._statistics.episodes[episode_id].alone
        said = corrected(self._replay.frames, draw.action_rows[:, :1])[:, 0]
        if not copy.critic.values_discrete_grippers:
            said[:, self._grippers] = False
        corrections = said.any(axis=1)
        batch = self._batches.gather(draw)
        random = torch.rand(batch.action.shape, generator=self._rng) * 2 - 1
        actions = [batch.action, batch.proposed, random.to(batch.action.device)]
        q, q_proposed, q_random = (value.cpu().numpy() for value in copy.critic.values(batch, actions))
        own = (self._sources(draw) == Source.POLICY).all(axis=1) & alone
        known = np.isfinite(draw.mc_return)
        row = CriticRow(
            episode_id=episode_id,
            updates=copy.updates,
            steps=len(q),
            td_error=float(np.sqrt(np.square(self._targets(copy.critic, batch) - q).mean())),
            returns=int(known.sum()),
            q_mean=float(q[known].mean()) if known.any() else None,
            return_mean=float(draw.mc_return[known].mean()) if known.any() else None,
            corrections=int(corrections.sum()),
            corrections_preferred=int((q > q_proposed)[corrections].sum()),
            own_steps=int(own.sum()),
            own_preferred=int((q > q_random)[own].sum()),
            ask_ms=copy.took_ms + 1e3 * (time.perf_counter() - started_s),
        )
        self._rows.append(row)
        self._metrics.log(row)

    def _targets(self, critic: AskedCritic, batch: TensorBatch) -> np.ndarray:
        return np.asarray(critic.targets(batch, self._rng).cpu())

    def _sources(self, draw: Draw) -> np.ndarray:
        """Return who executed each tick of each row, (B, C); the policy where a chunk runs past the end."""
        sources = self._replay.frames.column("source")[draw.action_rows]
        return np.where(draw.action_rows == NO_ROW, Source.POLICY, sources)
