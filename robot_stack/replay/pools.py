"""Pools of transitions, from which batches are drawn; all are row numbers into one `FrameTable`.

A draw depends on the order of a pool, so the order is by episode id and frame: a run resumed from disk draws the
same rows as the one that was killed, whatever the order of arrival was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from robot_stack.replay.frames import NO_ROW, EpisodeRows, FrameTable
from robot_stack.replay.outcome import Outcome
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EpisodeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of transitions: rows of frames t whose transition to t+1 may be drawn, int64.

    Attributes:
        demo: Expert steps of demos that succeeded: all but IDLE and HOLD.
        human: Steps a human executed in online episodes.
        expert: Both, in canonical order.
        online: Every step of online episodes, and, once there are any, the IDLE and HOLD steps of demos and all steps
            of those that did not succeed: nobody should imitate them, but they lead to the end of the demo and its
            reward.
    """

    demo: np.ndarray
    human: np.ndarray
    expert: np.ndarray
    online: np.ndarray

    @classmethod
    def of(cls, table: FrameTable, episodes: Iterable[tuple[EpisodeRows, EpisodeKind, Outcome]]) -> Pools:
        """Sort the transitions of `episodes`, given in canonical order with kind and outcome, into pools."""
        empty = np.empty(0, np.int64)
        rows, demos, successes = [empty], [empty.astype(np.bool_)], [empty.astype(np.bool_)]
        for episode, kind, outcome in episodes:
            part = np.asarray(episode.rows[: max(0, episode.linked - 1)], np.int64)
            rows.append(part)
            demos.append(np.full(len(part), kind is EpisodeKind.DEMO))
            successes.append(np.full(len(part), outcome is Outcome.SUCCESS))
        row, is_demo, succeeded = np.concatenate(rows), np.concatenate(demos), np.concatenate(successes)
        linked = table.column("next_row")[row] != NO_ROW  # not so where a tick was missed
        row, is_demo, succeeded = row[linked], is_demo[linked], succeeded[linked]
        source = table.column("source")[row]
        demo = is_demo & succeeded & (source != Source.IDLE) & (source != Source.HOLD)
        human = ~is_demo & (source == Source.HUMAN)
        online = ~is_demo
        return cls(
            demo=row[demo],
            human=row[human],
            expert=row[demo | human],
            online=row[online | (is_demo & ~demo)] if online.any() else empty,
        )

    def draw(self, rng: np.random.Generator, batch_size: int, expert_fraction: float) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows uniformly and with replacement from the expert and the online pool, expert rows first.

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
            rows[:experts] = self.expert[rng.integers(len(self.expert), size=experts)]
        if experts < batch_size:
            rows[experts:] = self.online[rng.integers(len(self.online), size=batch_size - experts)]
        return rows, np.arange(batch_size) < experts
