"""A slow, obvious replay: lists of steps and loops. What the fast one must equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.replay.rewards import RewardRule
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeKind, Step

Key = tuple[str, int]


@dataclass
class SlowEpisode:
    kind: EpisodeKind
    steps: list[Step]
    labels: list[Label]
    phi: np.ndarray | None = None

    @property
    def end(self) -> EndReason | None:
        return self.steps[-1].end if self.steps else None

    def verdict(self) -> Verdict | None:
        for source in (LabelSource.OPERATOR, LabelSource.MODEL):
            said = [label for label in self.labels if label.source is source]
            if said:
                return max(said, key=lambda label: label.stamp_unix_s).verdict
        return None

    def used(self) -> bool:
        return self.kind is not EpisodeKind.EVAL and self.verdict() is not Verdict.DISCARD

    def success(self) -> bool | None:
        """True or False where the task ended, None where it did not."""
        if self.end is None:
            return None
        said = self.verdict()
        if said is not None:
            return said is Verdict.SUCCESS
        return {EndReason.SUCCESS: True, EndReason.FAILURE: False}.get(self.end)


def pools(episodes: dict[str, SlowEpisode]) -> tuple[list[Key], list[Key]]:
    """Expert and online transitions as (episode, t)."""
    expert, online, leftover = [], [], []
    for episode_id in sorted(episodes):
        episode = episodes[episode_id]
        if not episode.used():
            continue
        for t in range(len(episode.steps) - 1):
            action = episode.steps[t].action
            assert action is not None
            source = action.source
            demo = episode.kind is EpisodeKind.DEMO
            if demo and source in (Source.IDLE, Source.HOLD):
                leftover.append((episode_id, t))
            elif demo or source is Source.HUMAN:
                expert.append((episode_id, t))
            if not demo:
                online.append((episode_id, t))
    return expert, sorted(online + leftover) if online else []


def transition(
    episode: SlowEpisode, t: int, *, rule: RewardRule, gamma: float, n_step: int
) -> tuple[int, float, float]:
    """Next frame, reward and discount of the n-step transition at t."""
    last = len(episode.steps) - 1
    reward, after, terminal = 0.0, t, False
    for k in range(n_step):
        if after == last:
            break
        after += 1
        reward -= gamma**k * rule.step_penalty
        if after == last and episode.success() is not None:
            terminal = True
            reward += gamma**k * (rule.success if episode.success() else rule.failure)
    made = after - t
    phi = episode.phi
    if phi is not None and episode.end is not None and np.isfinite(phi).mean() >= 0.95:
        shaping = (0.0 if terminal else gamma**made * float(phi[after])) - float(phi[t])
        if np.isfinite(shaping):
            reward += rule.shaping * shaping
    return after, reward, 0.0 if terminal else gamma**made
