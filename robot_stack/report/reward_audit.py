"""The audit of a run's reward model: how its episodes went by Φ alone, and its verdicts against what was true.

Scores are those of the newest model that scored an episode, as the learner used them. What is true says the simulator,
or on a cell the operator. Read only, but for the two files that it writes into the run folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from reward_models.evaluate.estimate import Rate
from reward_models.evaluate.opd import GroupOpd, opd, opd_of_groups
from robot_stack.learner.reward.labelled import labels_of
from robot_stack.learner.reward.success import success_rule
from robot_stack.report.run_folder import RunRecord
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EpisodeKind

TELLING = 2
"""Episodes of each sort that are drawn."""
REGRET = "highest regret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An episode, what the model said of it, and what was true.

    Attributes:
        name: Of the episode.
        group: Who acted: "demonstrations", "online training, first third", ..., "final evaluation".
        success: What was true; None where nobody said.
        declared: The model declared success while the episode ran.
        would_declare: Frame at which the newest model would have; None if never, or if no frames are kept.
        scores: By the newest model, or None.
    """

    name: str
    group: str
    success: bool | None
    declared: bool
    would_declare: int | None
    scores: EpisodeScores | None = field(repr=False)

    @property
    def regret(self) -> float:
        """Return the regret of Φ over the episode (CRA); -1 if it cannot be known."""
        phi = None if self.scores is None else self.scores.progress[np.isfinite(self.scores.progress)]
        return opd(phi).regret if phi is not None and len(phi) > 1 else -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Result of an audit: OPD metrics, and how often the model's verdict was wrong.

    Attributes:
        groups: Group -> OPD metrics.
        false_done: Group -> episodes without success in which the model declared one as they ran.
        missed: Group -> successes in which it did not.
        false_done_now: The same as `false_done`, of what the newest model would say; where frames are kept.
        missed_now: The same as `missed`.
        unlabelled: Episodes of which nobody said whether they succeeded.
        unscored: Episodes without scores.
        telling: What is striking about an episode -> the episode, for those that are drawn.
        episodes: All of them.
    """

    groups: dict[str, GroupOpd]
    false_done: dict[str, Rate]
    missed: dict[str, Rate]
    false_done_now: Rate
    missed_now: Rate
    unlabelled: int
    unscored: int
    telling: tuple[tuple[str, Told], ...]
    episodes: tuple[Told, ...] = field(repr=False)


def audit(record: RunRecord) -> Audit:
    """Audit a run that has been read.

    Raises:
        StoreError: If it has no finished episode.
    """
    told = _told(record)
    if not told:
        raise StoreError(f"finished episodes of {record.folder} are 0, must be at least 1; run it for a while first")
    groups: dict[str, list[Told]] = {}
    for one in told:
        groups.setdefault(one.group, []).append(one)
    phi = {name: [one.scores.progress for one in members if one.scores is not None] for name, members in groups.items()}
    trained = {name: members for name, members in groups.items() if name != "demonstrations"}
    kept = [one for name in trained for one in trained[name] if one.scores is not None]
    return Audit(
        groups=opd_of_groups(phi, np.random.default_rng(0)),
        false_done={name: _false_done(members) for name, members in trained.items()},
        missed={name: _missed(members) for name, members in trained.items()},
        false_done_now=Rate.of(
            sum(one.would_declare is not None for one in kept if one.success is False),
            sum(one.success is False for one in kept),
        ),
        missed_now=Rate.of(
            sum(one.would_declare is None for one in kept if one.success), sum(bool(one.success) for one in kept)
        ),
        unlabelled=sum(one.success is None for one in told),
        unscored=sum(one.scores is None for one in told),
        telling=_telling(told),
        episodes=tuple(told),
    )


def as_json(found: Audit) -> dict[str, Any]:
    """Return an audit as a JSON document, for scripts; NaN is null."""
    document = {
        "opd": {name: asdict(group) for name, group in found.groups.items()},
        "false_done": {name: asdict(rate) for name, rate in found.false_done.items()},
        "missed": {name: asdict(rate) for name, rate in found.missed.items()},
        "false_done_now": asdict(found.false_done_now),
        "missed_now": asdict(found.missed_now),
        "unlabelled": found.unlabelled,
        "unscored": found.unscored,
        "telling": [{"why": why, "episode": one.name} for why, one in found.telling],
    }
    result: dict[str, Any] = json.loads(json.dumps(document), parse_constant=lambda constant: None)
    return result


def _told(record: RunRecord) -> list[Told]:
    labels, scores = labels_of(record.folder), record.scores
    found = []
    for group, rows in _groups(record):
        for row in rows:
            name = row.episode_id
            said = labels.get(name)
            found.append(
                Told(
                    name=name,
                    group=group,
                    success=None if said is None else said is Verdict.SUCCESS,
                    declared=bool(row.declared),
                    would_declare=_would_declare(record, name, scores.get(name)),
                    scores=scores.get(name),
                )
            )
    return found


def _groups(record: RunRecord) -> list[tuple[str, list[EpisodeRow]]]:
    online = record.episodes(EpisodeKind.ONLINE)
    third = -(-len(online) // 3)
    thirds = [online[i * third : (i + 1) * third] for i in range(3)]
    groups = [
        ("demonstrations", record.episodes(EpisodeKind.DEMO)),
        *(
            (f"online training, {part} third", rows)
            for part, rows in zip(("first", "second", "last"), thirds, strict=True)
        ),
        ("final evaluation", record.episodes(EpisodeKind.EVAL)),
    ]
    return [(name, rows) for name, rows in groups if rows]


def _would_declare(record: RunRecord, name: str, scores: EpisodeScores | None) -> int | None:
    stored = record.stored(name, images=False) if scores is not None and record.resolved is not None else None
    if stored is None or scores is None or record.resolved is None:
        return None
    rule = success_rule(record.resolved.task, record.resolved.spec())
    for t, (probability, proprio) in enumerate(zip(scores.success, stored.arrays["proprio"], strict=False)):
        if rule.update(float(probability), proprio):
            return t
    return None


def _false_done(told: Sequence[Told]) -> Rate:
    failed = [one for one in told if one.success is False]
    return Rate.of(sum(one.declared for one in failed), len(failed))


def _missed(told: Sequence[Told]) -> Rate:
    won = [one for one in told if one.success]
    return Rate.of(sum(not one.declared for one in won), len(won))


def _telling(told: Sequence[Told]) -> tuple[tuple[str, Told], ...]:
    """Choose the episodes that a reader should see, each once, and only such as have scores."""
    acted = [one for one in told if one.scores is not None and one.group != "demonstrations"]
    missed = [one for one in acted if one.success and not one.declared]
    sorts = (
        ("false done", [one for one in acted if one.declared and one.success is False]),
        ("missed a success", sorted(missed, key=lambda one: one.would_declare is not None)),
        (REGRET, sorted(acted, key=lambda one: -one.regret)),
        ("a success", [one for one in reversed(acted) if one.success and one.declared]),
    )
    found: list[tuple[str, Told]] = []
    for why, candidates in sorts:
        fresh = [one for one in candidates if one not in [shown for _, shown in found]]
        found += [(why, one) for one in fresh[:TELLING]]
    return tuple(found)
