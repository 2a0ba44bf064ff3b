"""Pools of transitions, from which batches are drawn; all are row numbers into one `FrameTable`.

A draw depends on the order of a pool, so the order is by episode id and frame: a run resumed from disk draws the
same rows as the one that was killed, whatever the order of arrival was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.replay.frames import NO_ROW, EpisodeRows, FrameTable
from robot_stack.replay.outcome import Outcome
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EpisodeHeader, EpisodeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of transitions: rows of frames t whose transition to t+1 may be drawn, int64.

    Attributes:
        demo: Steps a human executed in demos that succeeded.
        human: Steps a human executed in online episodes.
        expert: Both, in canonical order.
        online: Every step of online episodes, and, once there are any, all other steps of demos, and all steps
            of those that did not succeed: nobody should imitate them, but they lead to the end of the demo and its
            reward.
        tasks: The pools of each task, where several are drawn from evenly; else empty.
    """

    demo: np.ndarray
    human: np.ndarray
    expert: np.ndarray
    online: np.ndarray
    tasks: tuple[Pools, ...] = ()

    @classmethod
    def of(cls, parts: Sequence[PoolPart], tasks: Sequence[Sequence[PoolPart]] = ()) -> Pools:
        """Join the parts of episodes, given in canonical order, and the same sorted by task."""
        any_online = any(part.is_online and len(part.linked) for part in parts)
        return cls(
            demo=_joined(part.expert for part in parts if not part.is_online),
            human=_joined(part.expert for part in parts if part.is_online),
            expert=_joined(part.expert for part in parts),
            online=_joined(part.linked if part.is_online else part.others for part in parts)
            if any_online
            else _joined([]),
            tasks=tuple(cls.of(own) for own in tasks),
        )

    def draw(self, rng: np.random.Generator, batch_size: int, expert_fraction: float) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows uniformly and with replacement from the expert and the online pool, expert rows first.

        Of several tasks each gives as many, as far as it has any.

        Returns:
            Rows, int64 (B,), and True where drawn as expert, bool (B,). As long as nothing was recorded online, all
            rows are expert ones.

        Raises:
            StoreError: If a pool that must give rows is empty.
        """
        if not len(self.expert) and not len(self.online):
            raise StoreError("replay size is 0 transitions, must be 1 or more; record or load episodes first")
        experts = round(batch_size * expert_fraction) if len(self.online) else batch_size
        if experts and not len(self.expert):
            raise StoreError(
                f"size of the expert pool is 0 transitions, must be 1 or more for an expert fraction of "
                f"{expert_fraction}; record demonstrations, or set the fraction to 0"
            )
        rows = np.empty(batch_size, np.int64)
        if experts:
            rows[:experts] = _evenly(rng, [pools.expert for pools in self.tasks] or [self.expert], experts)
        if experts < batch_size:
            online = [pools.online for pools in self.tasks] or [self.online]
            rows[experts:] = _evenly(rng, online, batch_size - experts)
        return rows, np.arange(batch_size) < experts


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPart:
    """The transitions of one episode, sorted: rows of frames, int64, in order.

    Attributes:
        is_online: Whether the episode is one of online training, not a demo.
        linked: All that may be drawn.
        expert: Those of them that are imitated.
        others: Those that are not.
    """

    is_online: bool
    linked: np.ndarray
    expert: np.ndarray
    others: np.ndarray

    @classmethod
    def of(cls, table: FrameTable, episode: EpisodeRows, kind: EpisodeKind, outcome: Outcome) -> PoolPart:
        """Sort the transitions of an episode as it is now."""
        rows = np.asarray(episode.rows[: max(0, episode.linked - 1)], np.int64)
        linked = rows[table.column("next_row")[rows] != NO_ROW]  # not so where a tick was missed
        source = table.column("source")[linked]
        is_expert = (source == Source.HUMAN) & (kind is not EpisodeKind.DEMO or outcome is Outcome.SUCCESS)
        return cls(
            is_online=kind is not EpisodeKind.DEMO,
            linked=linked,
            expert=linked[is_expert],
            others=linked[~is_expert],
        )


class PoolIndex:
    """The sorted transitions of all episodes, of which only those that have changed are sorted again.

    Args:
        table: The frames.
        task_ids: Of the tasks that are drawn evenly; fewer than two make no difference.
    """

    def __init__(self, table: FrameTable, task_ids: Sequence[str] = ()) -> None:
        self._table = table
        self._task_ids = tuple(task_ids)
        self._parts: dict[str, tuple[tuple[int, Outcome], PoolPart]] = {}

    def pools(self, episodes: Iterable[tuple[EpisodeHeader, Outcome]]) -> Pools:
        """Return the pools of episodes, given in canonical order with their outcome."""
        parts = [(head.task_id, self._part(head.episode_id, head.kind, outcome)) for head, outcome in episodes]
        each = self._task_ids if len(self._task_ids) > 1 else ()
        tasks = [[part for of, part in parts if of == task_id] for task_id in each]
        return Pools.of([part for _, part in parts], tasks)

    def _part(self, episode_id: str, kind: EpisodeKind, outcome: Outcome) -> PoolPart:
        episode = self._table.episode(episode_id)
        state = (episode.linked, outcome)
        known = self._parts.get(episode_id)
        if known is not None and known[0] == state:
            return known[1]
        part = PoolPart.of(self._table, episode, kind, outcome)
        self._parts[episode_id] = (state, part)
        return part


def _evenly(rng: np.random.Generator, pools: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Draw rows with replacement from pools, as many from each that is not empty; one of them is not."""
    full = [pool for pool in pools if len(pool)]
    shares = [(count + place) // len(full) for place in reversed(range(len(full)))]
    return np.concatenate([pool[rng.integers(len(pool), size=share)] for pool, share in zip(full, shares, strict=True)])


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *parts])
