"""Summaries of episodes for a list: kind, length, outcome and who says so, and the operator's share of actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.outcome import Outcome, counting_label, outcome
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.transition import EndReason, EpisodeKind

RECORDED = "recorded"
"""Who said so, where no label counts: the end that was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """The summary of an episode, one line of a list.

    Attributes:
        kind: What it was recorded for.
        steps: T, the number of actions.
        seconds: How long it took.
        end: Why it ended, as recorded.
        outcome: How it counts: "success", "failure", "open" (cut short, or no verdict) or "discard".
        said_by: "operator", "model" or "recorded".
        truth: What the simulator says, or None.
        human_share: Share of the actions that an operator executed, in [0, 1].
        note: The newest note, or "".
    """

    episode_id: str
    kind: EpisodeKind
    steps: int
    seconds: float
    end: EndReason
    outcome: str
    said_by: str
    truth: str | None
    human_share: float
    note: str


def summarize(view: StoreView, episode_ids: Iterable[str] | None = None) -> tuple[list[EpisodeSummary], dict[str, str]]:
    """Summarise each closed episode, in order; also returns why each of the others is unreadable."""
    found, bad = [], {}
    for episode_id in view.episodes if episode_ids is None else episode_ids:
        try:
            found.append(line_of(view, read_episode(view.checked(episode_id), only=("stamp_ns",))))
        except StoreError as error:
            bad[episode_id] = str(error)
    return found, bad


def line_of(view: StoreView, episode: StoredEpisode) -> EpisodeSummary:
    """Summarise an episode that has been read, with at least its stamps and sources.

    Raises:
        StoreError: If it has not ended.
    """
    episode_id = episode.header.episode_id
    if episode.end is None:
        raise StoreError(f"end of {episode_id} is unknown, must be in its manifest; let the run close it first")
    labels = view.labels_of(episode_id)
    stamps = episode.arrays["stamp_ns"]
    return EpisodeSummary(
        episode_id=episode_id,
        kind=episode.header.kind,
        steps=episode.length,
        seconds=float(stamps[-1] - stamps[0]) * 1e-9,
        end=episode.end,
        outcome=outcome(labels, episode.end).name.lower(),
        said_by=said_by(labels),
        truth=truth_of(labels),
        human_share=share_of(episode.arrays["source"], *IN_HAND),
        note=view.note_of(episode_id),
    )


def said_by(labels: Iterable[Label]) -> str:
    """Return who said how an episode counts: "operator", "model", or "recorded" where no label counts."""
    label = counting_label(labels)
    return RECORDED if label is None else label.source.value


def truth_of(labels: Iterable[Label]) -> str | None:
    """Return the verdict of the simulator among these labels, or None."""
    said = [label.verdict.value for label in labels if label.source == "truth"]
    return said[-1] if said else None


def share_of(source: np.ndarray, *who: Source) -> float:
    """Return the share of actions, uint8, shape (T,), of these sources; 0 where there are none."""
    return float(np.isin(source, who).mean()) if len(source) else 0.0


def select(
    view: StoreView,
    *,
    kind: EpisodeKind | None = None,
    outcomes: Collection[Outcome] = (Outcome.OPEN, Outcome.SUCCESS, Outcome.FAILURE),
    episodes: Collection[str] = (),
) -> list[EpisodeSummary]:
    """Select the readable episodes that are wanted, in order. Discarded ones only if they are asked for.

    Args:
        kind: Only these; None for all.
        outcomes: Only those that count as one of these.
        episodes: Only these ids, whatever they count as; empty for all.

    Raises:
        StoreError: If a named one is not there, or none is left.
    """
    view.check_there(episodes)
    lines, _ = summarize(view, sorted(episodes) if episodes else None)
    names = {each.name.lower() for each in outcomes}
    found = [line for line in lines if (kind is None or line.kind is kind) and (episodes or line.outcome in names)]
    if not found:
        raise StoreError(
            f"number of episodes asked for in {view.root} is 0 of {len(view.episodes)}, must be at least 1; ask for "
            "other kinds or outcomes, see robot-stack data list"
        )
    return found


def totals(lines: Iterable[EpisodeSummary]) -> dict[str, dict[str, int]]:
    """Count episodes by kind and outcome, both sorted."""
    counts = Counter((line.kind.value, line.outcome) for line in lines)
    found: dict[str, dict[str, int]] = {}
    for (kind, name), count in sorted(counts.items()):
        found.setdefault(kind, {})[name] = count
    return found
