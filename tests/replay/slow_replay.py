"""A slow, obvious replay: lists of steps and loops. What the fast one must equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.replay.rewards import RewardRule
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.spec import GripperKind, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeKind, Step

Key = tuple[str, int]


@dataclass
class SlowEpisode:
    kind: EpisodeKind
    steps: list[Step]
    labels: list[Label]
    phi: np.ndarray | None = None
    cut: bool = False
    """Its actor went away, so that it was ended from outside."""
    featured: int | None = None
    """Frames that have features; None where there is no trunk."""

    @property
    def end(self) -> EndReason | None:
        if self.cut:
            return EndReason.FAULT
        return self.steps[-1].end if self.steps else None

    @property
    def complete(self) -> int:
        """Frames between which transitions run."""
        return len(self.steps) if self.featured is None else self.featured

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
        model = [label for label in self.labels if label.source is LabelSource.MODEL]
        claimed = bool(model) and max(model, key=lambda label: label.stamp_unix_s).verdict is Verdict.SUCCESS
        if said is Verdict.FAILURE and claimed and self.end is EndReason.SUCCESS:
            return None
        if said is not None:
            return said is Verdict.SUCCESS
        return {EndReason.SUCCESS: True, EndReason.FAILURE: False}.get(self.end)

    def scored(self) -> bool:
        return self.phi is not None and self.end is not None and bool(np.isfinite(self.phi).mean() >= 0.95)

    def potential(self, t: int) -> float:
        """Φ of a frame; between its neighbours, as far as they go, where it is not valid."""
        assert self.phi is not None
        known = [k for k in range(len(self.phi)) if np.isfinite(self.phi[k])]
        before, after = [k for k in known if k <= t], [k for k in known if k >= t]
        low, high = (before or after[:1])[-1], (after or before[-1:])[0]
        share = 0.0 if low == high else (t - low) / (high - low)
        return float((1 - share) * self.phi[low] + share * self.phi[high])

    def linked(self, t: int) -> bool:
        """Whether there is a transition from t: both frames complete, and no tick missed in between (10 Hz).

        One that leads to the end of the task is there all the same.
        """
        if t + 1 >= self.complete:
            return False
        if t + 2 == len(self.steps) and self.success() is not None:
            return True
        now, then = (self.steps[k].observation.stamp_ns for k in (t, t + 1))
        return then - now <= 150_000_000

    def action(self, t: int) -> ActionRow:
        action = self.steps[t].action
        assert action is not None
        return action


def pools(episodes: dict[str, SlowEpisode]) -> tuple[list[Key], list[Key]]:
    """Expert and online transitions as (episode, t)."""
    expert, online, leftover = [], [], []
    for episode_id in sorted(episodes):
        episode = episodes[episode_id]
        if not episode.used():
            continue
        for t in filter(episode.linked, range(len(episode.steps))):
            source = episode.action(t).source
            demo = episode.kind is EpisodeKind.DEMO
            if demo and (source is not Source.HUMAN or not episode.success()):
                leftover.append((episode_id, t))
            elif source is Source.HUMAN:
                expert.append((episode_id, t))
            if not demo:
                online.append((episode_id, t))
    return expert, sorted(online + leftover) if online else []


def driver(episode: SlowEpisode, t: int) -> bool:
    """Whether an operator had the robot."""
    return episode.action(t).source in (Source.HUMAN, Source.IDLE)


def transition(
    episode: SlowEpisode, t: int, *, rule: RewardRule, gamma: float, n_step: int, chunks: bool = False
) -> tuple[int, float, float]:
    """Next frame, reward and discount of the n-step transition at t."""
    reward, after, terminal = 0.0, t, False
    for k in range(n_step):
        if not episode.linked(after):
            break
        if not chunks and driver(episode, after) != driver(episode, t):
            break
        after += 1
        passed = ticks(episode, after - 1)  # more than one only into the end of a task
        reward -= sum(gamma ** (k + j) * rule.step_penalty for j in range(passed))
        if after == len(episode.steps) - 1 and episode.success() is not None:
            terminal = True
            reward += gamma ** (k + passed - 1) * (rule.success if episode.success() else rule.failure)
    made = after - t
    if episode.scored():
        shaping = (0.0 if terminal else gamma**made * episode.potential(after)) - episode.potential(t)
        reward += rule.shaping * shaping
    return after, reward, 0.0 if terminal else gamma**made


def ticks(episode: SlowEpisode, t: int) -> int:
    """Control ticks between frame t and the next (10 Hz)."""
    now, then = (episode.steps[k].observation.stamp_ns for k in (t, t + 1))
    return max(1, round((then - now) / 100_000_000))


def mc_return(episode: SlowEpisode, t: int, *, rule: RewardRule, gamma: float) -> float:
    """Discounted reward from t to the end, step by step; NaN if the task has not ended."""
    if episode.success() is None:
        return float("nan")
    total = 0.0
    left = sum(ticks(episode, k) for k in range(t, len(episode.steps) - 1))
    for k in range(left):
        total -= gamma**k * rule.step_penalty
    total += gamma ** (left - 1) * (rule.success if episode.success() else rule.failure)
    if episode.scored():
        total -= rule.shaping * episode.potential(t)
    return total


def whole(episode: SlowEpisode, t: int, length: int) -> bool:
    """Whether `length` actions follow from t, or all until the task ended at the episode's last frame."""
    after = t
    while after - t < length and episode.linked(after):
        after += 1
    return after - t == length or (episode.success() is not None and after == len(episode.steps) - 1)


def human(episode: SlowEpisode, t: int, length: int) -> list[bool]:
    """Which of the actions of t, t+1, ... an operator executed."""
    found = [False] * length
    for k in range(length):
        if not episode.linked(t + k):
            break
        found[k] = episode.action(t + k).source is Source.HUMAN
    return found


def chunk(episode: SlowEpisode, t: int, length: int, filler: np.ndarray) -> np.ndarray:
    """The actions of t, t+1, ..., and `filler` where there is no transition any more."""
    actions = np.tile(filler, (length, 1))
    for k in range(length):
        if not episode.linked(t + k):
            break
        actions[k] = episode.action(t + k).executed
    return actions.reshape(-1)


def held(episode: SlowEpisode, t: int, arm: int) -> int:
    """For how many steps up to t an operator has had an arm without a break."""
    count = 0
    while t - count >= 0 and episode.action(t - count).sources[arm] in (Source.HUMAN, Source.IDLE):
        count += 1
    return count


def labels(episode: SlowEpisode, t: int, length: int, spec: Spec) -> list[bool]:
    """Which entries of the actions of t, t+1, ... say something, with several arms."""
    found: list[bool] = []
    for k in range(length):
        if not episode.linked(t + k):
            return found + [False] * ((length - k) * spec.action_size)
        action = episode.action(t + k)
        for number, (arm, source) in enumerate(zip(spec.arms, action.sources)):
            moved = action.source is not Source.HUMAN or source is Source.HUMAN
            moved = moved and source is not Source.HOLD
            correction = action.source is Source.HUMAN and episode.kind is not EpisodeKind.DEMO
            blended = correction and held(episode, t + k, number) <= 2
            driven = moved and not blended and source is not Source.IDLE
            found += [driven] * len(arm.axes) + [moved] * (arm.size - len(arm.axes))
            if arm.gripper is GripperKind.DISCRETE and correction:
                found[-1] = moved and abs(action.human[len(found) % spec.action_size - 1]) > 0.5
    return found


def proposed(episode: SlowEpisode, t: int, length: int, spec: Spec, filler: np.ndarray) -> np.ndarray:
    """The actions of t, t+1, ..., with the policy's proposals in the entries that an operator corrected."""
    shown = labels(episode, t, length, spec)
    actions = chunk(episode, t, length, filler)
    for place, drove in enumerate(human(episode, t, length)):
        for entry in range(spec.action_size):
            index = place * spec.action_size + entry
            if drove and shown[index]:
                asked = episode.action(t + place).proposed
                actions[index] = asked[entry] if any(asked) else actions[index]
    return actions


def gripper_change(episode: SlowEpisode, t: int, spec: Spec) -> list[bool]:
    """Per discrete gripper, whether the action at t closes what is open or opens what is closed."""
    fields = [field.name for field in spec.proprio for _ in range(field.size)]
    changes, entry = [], -1
    for arm in spec.arms:
        entry += arm.size
        if arm.gripper is not GripperKind.DISCRETE:
            continue
        is_open = True
        if f"{arm.name}.gripper" in fields:
            is_open = episode.steps[0].observation.proprio[fields.index(f"{arm.name}.gripper")] >= 0.5
        for earlier in range(t):
            asked = episode.action(earlier).executed[entry]
            is_open = True if asked > 0.5 else False if asked < -0.5 else is_open
        asked = episode.action(t).executed[entry]
        changes.append(bool((asked > 0.5 and not is_open) or (asked < -0.5 and is_open)))
    return changes
