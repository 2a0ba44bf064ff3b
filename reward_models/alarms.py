"""Alarms on a reward model that is no longer to be trusted, from what it said and what operators said. Pure numpy.

A policy finds what a model gets wrong. Shaping by a potential cannot be farmed, whatever the model hallucinates; what
can be is the success that it declares. So its verdicts are compared with an operator's, and its inputs and scores with
those of the demonstrations. An alarm stops trust in that version; the caller goes on with operators' verdicts alone,
fits a new version with the offenders as negatives, and trusts that one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from reward_models.metrics import wilson_interval

STRANGE = 2.0
"""A frame is strange beyond so many times the demonstrations' 99th percentile, cycling beyond so many times theirs."""
SWING = 0.1
"""Change of Φ from one turning point to the next from which on it is a swing; below that lies a model's noise."""
LOW = 0.5
"""Highest Φ that the way of an episode is measured against at least: below that there is little to be farmed."""


class AlarmConfig(BaseModel):
    """Limits beyond which a reward model is no longer trusted.

    Windows count episodes of online training, newest first, since the version became active.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    window: int = Field(20, ge=2, le=1000, description="newest episodes that are looked at")
    false_claims: int = Field(3, ge=1, le=100, description="claims that operators refused, at least this many")
    false_rate: float = Field(0.05, gt=0.0, lt=1.0, description="and certainly above this share of all claims")
    strange_episodes: int = Field(3, ge=1, le=100, description="episodes with strange frames, of the newest five")
    strange_share: float = Field(0.5, gt=0.0, le=1.0, description="share of its frames that makes an episode strange")
    cycling: float = Field(5.0, gt=1.0, le=100.0, description="way of Φ in swings up and down, over its highest value")
    haste: float = Field(
        0.5, gt=0.0, lt=1.0, description="share of the fastest success so far that is too fast an unconfirmed claim"
    )

    def too_often(self, errors: int, asked: int) -> bool:
        """Return whether a model was wrong often enough to be distrusted, and certainly above its rate."""
        low, _ = wilson_interval(errors, asked)
        return errors >= self.false_claims and low > self.false_rate

    def cycles(self, progress: np.ndarray, usual: float = 0.0) -> bool:
        """Return whether Φ of an episode goes up and down too far.

        Args:
            progress: Φ per frame, shape (T+1,), NaN where not valid.
            usual: `way_of_swings` of a usual demonstration, 0 where that is not known.
        """
        return way_of_swings(progress) > self._furthest(usual)

    def cycling_words(self, usual: float = 0.0) -> str:
        """Return what `cycles` found, in words."""
        return f"Φ goes up and down in swings of {SWING:g} or more, {self._furthest(usual):.3g} times its highest value"

    def _furthest(self, usual: float) -> float:
        return max(self.cycling, STRANGE * usual)


def way_of_swings(progress: np.ndarray) -> float:
    """Return how far Φ goes up and down in swings of at least `SWING`, over its highest value or `LOW`.

    A smaller swing is part of the one that it interrupts.

    Args:
        progress: Φ per frame, shape (T+1,), NaN where not valid.

    >>> way_of_swings(np.array([0.0, 0.5, 0.45, 1.0])), way_of_swings(np.array([0.0, 1.0, 0.5, 1.0]))
    (1.0, 2.0)
    """
    phi = progress[np.isfinite(progress)].tolist()
    if not phi:
        return 0.0
    turns, furthest = phi[:1], phi[0]
    for value in phi:
        if (value - furthest) * (furthest - turns[-1]) >= 0:  # on in the direction of this swing
            furthest = value
        elif abs(value - furthest) >= SWING:
            turns.append(furthest)
            furthest = value
    return float(np.abs(np.diff([*turns, furthest])).sum()) / max(*phi, LOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEvidence:
    """The evidence that an episode of online training gives about the model that scored it.

    Attributes:
        name: Of the episode.
        progress: Φ per frame, shape (T+1,), NaN where not valid.
        spread: Disagreement of the ensemble per frame, same.
        distance: How far each frame's inputs are from all that was trained on, same; NaN if it was trained on nothing
            else than this.
        claimed_at: Frame at which the model declares success, None if it does not.
        refused: An operator said that it was none.
        confirmed: An operator said that it was a success.
        again: It began where an earlier try had ended, perhaps nearly done: how fast it was says nothing.
        lacking: Whether each frame lacks what successes always show, bool, shape (T+1,); None if that is not known.
    """

    name: str
    progress: np.ndarray
    spread: np.ndarray
    distance: np.ndarray
    claimed_at: int | None
    refused: bool
    confirmed: bool = False
    again: bool = False
    lacking: np.ndarray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """The usual figures of the demonstrations: 99th percentiles per frame, and the fastest way to success.

    Attributes:
        distance: Infinite where there is a single demonstration: nothing says how far another one would be.
        way: Median of what `way_of_swings` says of each.
        fastest: Frames of the shortest success: of a demonstration at first, then of what was learned.
    """

    spread: float
    distance: float
    way: float
    fastest: int

    @classmethod
    def of(cls, demos: Sequence[EpisodeEvidence]) -> Normal:
        """Measure the usual figures on demonstrations, at least one, each held against the others."""
        distance = np.concatenate([d.distance for d in demos])
        return cls(
            spread=float(np.nanpercentile(np.concatenate([d.spread for d in demos]), 99)),
            distance=float(np.nanpercentile(distance, 99)) if np.isfinite(distance).any() else np.inf,
            way=float(np.median([way_of_swings(d.progress) for d in demos])),
            fastest=min(len(d.progress) for d in [d for d in demos if not d.again] or demos),
        )

    def strangeness(self, episode: EpisodeEvidence) -> dict[str, float]:
        """Return the share of an episode's frames that are strange, by the kind of alarm that this may raise."""
        return {
            "disagreement": float((np.nan_to_num(episode.spread) > STRANGE * self.spread).mean()),
            "unfamiliar": float((np.nan_to_num(episode.distance) > STRANGE * self.distance).mean()),
            "lacking": _lacks_from_the_start(episode.lacking),
        }

    def too_fast(self, frames: int, *, haste: float) -> bool:
        """Return whether a success after so many frames is faster than what is usual explains."""
        return frames < haste * self.fastest

    def with_success(self, frames: int, *, confirmed: bool, haste: float) -> Normal:
        """Return what is usual after a success that nobody refused: operators teach slowly, and a policy grows quicker.

        A leap beyond `haste` becomes usual only if an operator confirmed it.
        """
        if not confirmed and self.too_fast(frames, haste=haste):
            return self
        return replace(self, fastest=min(self.fastest, frames))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A reason why a version of a reward model is not to be trusted.

    Attributes:
        kind: "false_claims", "disagreement", "unfamiliar", "lacking", "cycling", "haste" or "order".
        words: What was seen and what is usual.
        episodes: Those that gave cause.
    """

    kind: str
    words: str
    episodes: tuple[str, ...]


class Watch:
    """A watch over the newest episodes that one version scored; a new version starts a new watch."""

    def __init__(self, config: AlarmConfig, normal: Normal) -> None:
        self._config, self._normal = config, normal
        self._newest: deque[EpisodeEvidence] = deque(maxlen=config.window)

    def add(self, episode: EpisodeEvidence) -> tuple[Alarm, ...]:
        """Add an episode once operators have had time to judge it; return the alarms that it raises."""
        self._newest.append(episode)
        if episode.claimed_at is not None and not episode.refused and not episode.again:
            self._normal = self._normal.with_success(
                episode.claimed_at, confirmed=episode.confirmed, haste=self._config.haste
            )
        strange = (self._strange(kind) for kind in ("disagreement", "unfamiliar", "lacking"))
        found = (self._false_claims(), *strange, *self._farming())
        return tuple(alarm for alarm in found if alarm is not None)

    def _false_claims(self) -> Alarm | None:
        claimed = [e for e in self._newest if e.claimed_at is not None]
        refused = [e for e in claimed if e.refused]
        if not self._config.too_often(len(refused), len(claimed)):
            return None
        return Alarm(
            kind="false_claims",
            words=f"operators refused {len(refused)} of its {len(claimed)} newest claims of success, certainly more "
            f"than {100 * self._config.false_rate:.0f} %",
            episodes=tuple(e.name for e in refused),
        )

    def _strange(self, kind: str) -> Alarm | None:
        """Check how many of the newest five episodes are strange in one way."""
        newest = list(self._newest)[-5:]
        strange = [e for e in newest if self._normal.strangeness(e)[kind] >= self._config.strange_share]
        if len(strange) < self._config.strange_episodes:
            return None
        where = f"in {len(strange)} of the newest 5 episodes"
        frames = f"in at least {100 * self._config.strange_share:.0f} % of the frames"
        limit = self._normal.spread if kind == "disagreement" else self._normal.distance
        usual = f"twice the demonstrations' 99th percentile ({limit:.3g}) {frames}"
        words = {
            "disagreement": f"its members disagree {where}: {usual}",
            "unfamiliar": f"frames are unlike all that it was trained on {where}: {usual}",
            "lacking": f"what every success has shown is not to be seen {where}, from their first frame on, {frames}; "
            "are part, light, table and cameras as in the demonstrations?",
        }
        return Alarm(kind=kind, words=words[kind], episodes=tuple(e.name for e in strange))

    def _farming(self) -> tuple[Alarm | None, Alarm | None]:
        cycling, hasty = list[str](), list[str]()
        for episode in list(self._newest)[-5:]:
            if self._config.cycles(episode.progress, self._normal.way):
                cycling.append(episode.name)
            if episode.claimed_at is None or episode.confirmed or episode.again:
                continue
            if self._normal.too_fast(episode.claimed_at, haste=self._config.haste):
                hasty.append(episode.name)
        return (
            _repeated("cycling", cycling, self._config.cycling_words(self._normal.way)),
            _repeated(
                "haste",
                hasty,
                f"success declared within {self._config.haste:g} of the fastest success's "
                f"{self._normal.fastest} frames and confirmed by nobody",
            ),
        )


def _lacks_from_the_start(lacking: np.ndarray | None) -> float:
    """Return the share of frames that lack what successes always show; 0 where the first has it: it was lost later."""
    return float(lacking.mean()) if lacking is not None and len(lacking) and lacking[0] else 0.0


class OrderWatch:
    """A watch over a model that shapes and declares nothing: does it put operators' successes above their failures?

    A potential cannot be farmed, but one that pays for failures as for successes teaches nothing, or slowly; and a
    large model is seldom fitted to the cell.
    """

    def __init__(self, config: AlarmConfig) -> None:
        self._config = config
        self._successes: list[float] = []
        self._newest: deque[tuple[str, np.ndarray, bool | None]] = deque(maxlen=config.window)

    def add(self, name: str, progress: np.ndarray, *, success: bool | None) -> tuple[Alarm, ...]:
        """Add an episode that operators have had time to judge; return the alarms that it raises.

        Args:
            name: Of the episode.
            progress: Φ per frame, shape (T+1,), finite.
            success: As operators, or the end of the task, have it; None where nobody said.
        """
        if success:
            self._successes.append(float(progress[-1]))
        self._newest.append((name, progress, success))
        found = (self._misplaced(), self._cycling())
        return tuple(alarm for alarm in found if alarm is not None)

    def _misplaced(self) -> Alarm | None:
        failures = [(name, progress) for name, progress, success in self._newest if success is False]
        if len(self._successes) < 2 or not failures:
            return None
        usual = float(np.median(self._successes))
        high = [name for name, progress in failures if progress[-1] >= usual]
        if not self._config.too_often(len(high), len(failures)):
            return None
        return Alarm(
            kind="order",
            words=f"it scores the end of {len(high)} of the {len(failures)} newest failures as high as that of a usual "
            f"success ({usual:.2f})",
            episodes=tuple(high),
        )

    def _cycling(self) -> Alarm | None:
        cycling = [name for name, progress, _ in list(self._newest)[-5:] if self._config.cycles(progress)]
        return _repeated("cycling", cycling, self._config.cycling_words())


def _repeated(kind: str, episodes: Sequence[str], words: str) -> Alarm | None:
    """Make an alarm if at least two episodes gave cause: one may be an accident, two of the newest five are not."""
    if len(episodes) < 2:
        return None
    return Alarm(
        kind=kind,
        words=f"{words}, in {len(episodes)} of the newest 5 episodes",
        episodes=tuple(episodes),
    )


def nearest_distance(frames: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the distance of each frame to the nearest known one, per dimension; float64, shape (N,).

    Args:
        frames: Standardised inputs, shape (N, D).
        known: Those that the model was trained on, shape (M, D).

    >>> nearest_distance(np.array([[3.0, 4.0]]), np.zeros((2, 2))).round(6).tolist()
    [3.535534]
    """
    squared = (frames**2).sum(1)[:, None] - 2 * frames @ known.T + (known**2).sum(1)[None]
    return np.asarray(np.sqrt(np.maximum(squared.min(axis=1), 0.0) / frames.shape[1]))
