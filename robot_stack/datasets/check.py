"""Checks of a whole folder of episodes: one after the other (data, and labels against them), then all together."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from robot_stack.datasets import frame_checks
from robot_stack.datasets.declared import check_scores
from robot_stack.datasets.findings import LIMITS, CheckLimits, EpisodeFinding, Span
from robot_stack.datasets.quality import Demonstration, Quality, demonstration_quality
from robot_stack.datasets.store_view import StoreView, broken
from robot_stack.datasets.summary import RECORDED, EpisodeSummary, line_of, share_of
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label, LabelSource
from robot_stack.types.finding import Level
from robot_stack.types.transition import EpisodeKind

AHEAD = 2
"""Episodes that are read while another one is checked, so at most three are in memory."""


def contradictions(
    line: EpisodeSummary, labels: Sequence[Label], last_success: float | None, limits: CheckLimits
) -> list[str]:
    """Find what does not fit together in an episode, one phrase each.

    Args:
        last_success: Success probability of its last frame by the newest reward model, or None.
        limits: `score_low`, `score_high`.
    """
    if line.outcome == "discard":
        return []
    who = "its recorded end" if line.said_by == RECORDED else f"the {line.said_by}"
    found = []
    if line.truth is not None and line.outcome in ("success", "failure") and line.outcome != line.truth:
        found.append(f"it counts as {line.outcome} by {who}, but the simulator says {line.truth}")
    said = {label.verdict.value for label in labels if label.source is LabelSource.OPERATOR}
    if len(said) > 1:
        found.append(f"the operator said {' and '.join(sorted(said))}; the newest verdict counts, {line.outcome}")
    if last_success is not None and np.isfinite(last_success):
        if line.outcome == "success" and last_success < limits.score_low:
            found.append(f"it counts as success by {who}, but the reward model gives its end {last_success:.2f}")
        if line.outcome == "failure" and last_success > limits.score_high:
            found.append(f"it counts as failure by {who}, but the reward model gives its end {last_success:.2f}")
    if line.kind is EpisodeKind.DEMO and line.outcome != "success":
        found.append(f"it is a demonstration that counts as {line.outcome}, must be a success to be imitated")
    if line.kind is EpisodeKind.DEMO and line.human_share < 0.5:
        found.append(f"it is a demonstration of which an operator did {line.human_share:.0%}, must be most of it")
    if line.kind is EpisodeKind.EVAL and line.human_share > 0:
        found.append(f"it is an evaluation of which an operator did {line.human_share:.0%}, must be nothing")
    return found


def copies(digests: Mapping[str, str]) -> dict[str, str]:
    """Map each episode that is a copy to the first one with the same motions at the same times."""
    first: dict[str, str] = {}
    return {name: first[digest] for name, digest in digests.items() if first.setdefault(digest, name) != name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a check of a folder of episodes.

    Attributes:
        findings: Sorted by episode, then by frame.
        quality: Demonstration -> how it compares with the others.
    """

    episodes: int
    findings: tuple[EpisodeFinding, ...]
    quality: dict[str, Quality]


def check(view: StoreView, limits: CheckLimits = LIMITS) -> Report:
    """Check every closed episode, and name those that are set aside or unfinished."""
    findings = [
        _whole("broken", Level.FAIL, name, f"it was set aside: {why}") for name, why in view.quarantined.items()
    ]
    findings += [
        _whole("unfinished", Level.WARN, name, "it has no last frame; the run closes it when it goes on")
        for name in view.unfinished
    ]
    scores = last_success(view)
    rough: dict[str, float] = {}
    demos: dict[str, Demonstration] = {}
    digests: dict[str, str] = {}
    for episode_id, opened in _ahead(view):
        try:
            episode, line = opened.result()
        except StoreError as error:
            findings.append(_whole("broken", Level.FAIL, episode_id, f"it cannot be used: {error}"))
            continue
        arrays = episode.arrays
        findings += check_episode(episode, limits)
        findings += [
            _whole("mislabelled", Level.WARN, episode_id, what)
            for what in contradictions(line, view.labels_of(episode_id), scores.get(episode_id), limits)
        ]
        digests[episode_id] = hashlib.sha256(arrays["executed"].tobytes() + arrays["stamp_ns"].tobytes()).hexdigest()
        if line.kind is EpisodeKind.DEMO and line.outcome != "discard" and _finite(arrays):
            rough[episode_id] = frame_checks.roughness(arrays["executed"][:, frame_checks.motion_axes(view.spec)])
            demos[episode_id] = Demonstration(states=arrays["proprio"], actions=arrays["executed"])
    findings += _among_all(rough, digests, limits)
    findings.sort(key=lambda each: (each.episode_id, each.frames or (-1, -1), each.check))
    return Report(episodes=len(view.episodes), findings=tuple(findings), quality=demonstration_quality(demos))


def check_episode(episode: StoredEpisode, limits: CheckLimits = LIMITS) -> list[EpisodeFinding]:
    """Check one episode for everything that shows in it alone."""
    name = episode.header.episode_id
    found = [
        EpisodeFinding(
            check=check,
            level=level,
            episode_id=name,
            frames=(span.first, span.last),
            text=words.format(value=span.value),
        )
        for rules in (_timing, _cameras, _numbers)
        for check, level, words, spans in rules(episode, limits)
        for span in spans
    ]
    if episode.length < limits.min_steps:
        what = f"it has {episode.length} steps, must have {limits.min_steps} or more"
        found.append(_whole("short", Level.WARN, name, what))
    idle = share_of(episode.arrays["source"], Source.HOLD, Source.IDLE)
    if idle > limits.idle_share:
        what = f"nobody moved the arm in {idle:.0%} of its steps, must be at most {limits.idle_share:.0%}"
        found.append(_whole("idle", Level.WARN, name, what))
    return found


Rule = tuple[str, Level, str, Iterable[Span]]
"""Name of a check, how bad it is, what to say of each span, and the spans."""


def _timing(episode: StoredEpisode, limits: CheckLimits) -> Iterator[Rule]:
    arrays, period_s = episode.arrays, episode.spec.period_s
    words = f"{{value:.2f}} s lie between them, must be {period_s:.2f} s; frames were dropped"
    yield "dropped", Level.FAIL, words, frame_checks.dropped(arrays["stamp_ns"], period_s, limits)
    words = "{value:.3f} s lie between them, must be above 0; the clock stood or jumped"
    yield "dropped", Level.FAIL, words, frame_checks.disordered(arrays["stamp_ns"])
    words = f"the oldest part is {{value:.2f}} s old, must be at most {limits.late_s} s"
    yield "late", Level.WARN, words, frame_checks.late(arrays["age_s"], limits)
    words = f"its parts are {{value:.2f}} s apart, must be at most {limits.skew_periods * period_s:.2f} s"
    yield "late", Level.WARN, words, frame_checks.skewed(arrays["skew_s"], period_s, limits)


def _cameras(episode: StoredEpisode, limits: CheckLimits) -> Iterator[Rule]:
    arrays = episode.arrays
    travelled = frame_checks.travel(arrays["proprio"], arrays["executed"], episode.spec)
    for camera in episode.spec.cameras:
        images = arrays[IMAGE_PREFIX + camera.name]
        words = f"camera {camera.name} repeats one image while the arm moves {{value:.1f}} full steps"
        yield "frozen", Level.FAIL, words, frame_checks.frozen(images, travelled, limits)
        words = f"mean pixel of camera {camera.name} is {{value:.1f}}, must be {limits.dark} to {limits.bright}"
        yield "blank", Level.FAIL, words, frame_checks.blank(images, limits)


def _numbers(episode: StoredEpisode, limits: CheckLimits) -> Iterator[Rule]:
    arrays, spec = episode.arrays, episode.spec
    for array, span in frame_checks.out_of_range(arrays):
        yield "out-of-range", Level.FAIL, f"{array} has an entry {{value:.3g}}, must be possible for it", [span]
    words = "the TCP moves {value:.3f} m between them, must be within reach of one step"
    yield "out-of-range", Level.FAIL, words, frame_checks.jumps(arrays["proprio"], spec, limits)
    words = f"the operator's action leaps by {{value:.2f}} within a step, must be at most {limits.jerk}"
    motion = arrays["executed"][:, frame_checks.motion_axes(spec)]
    yield "jerky", Level.WARN, words, frame_checks.jerky(motion, arrays["source"], limits)


def last_success(view: StoreView) -> dict[str, float]:
    """Return the success probability of each episode's last frame by the reward model that scored last."""
    check_scores(view.paths.scores)
    files = ScoreFiles(view.paths.scores)
    newest = max(files.versions, key=lambda name: (view.paths.scores / name).stat().st_mtime_ns, default=None)
    if newest is None:
        return {}
    return {scores.episode_id: float(scores.success[-1]) for scores in files.read(newest) if len(scores.success)}


def _ahead(view: StoreView) -> Iterator[tuple[str, Future[tuple[StoredEpisode, EpisodeSummary]]]]:
    """Yield every closed episode, while the next ones are read and verified in the background."""
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting: deque[tuple[str, Future[tuple[StoredEpisode, EpisodeSummary]]]] = deque()
        for episode_id in view.episodes:
            waiting.append((episode_id, pool.submit(_open, view, episode_id)))
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        yield from waiting


def _open(view: StoreView, episode_id: str) -> tuple[StoredEpisode, EpisodeSummary]:
    reason = broken(view.path(episode_id))
    if reason is not None:
        raise StoreError(reason)
    episode = view.read(episode_id)
    return episode, line_of(view, episode)


def _finite(arrays: Mapping[str, np.ndarray]) -> bool:
    return all(bool(np.isfinite(arrays[name]).all()) for name in ("proprio", "executed"))


def _among_all(rough: dict[str, float], digests: dict[str, str], limits: CheckLimits) -> list[EpisodeFinding]:
    middle = float(np.median([value for value in rough.values() if np.isfinite(value)] or [0.0]))
    found = [
        _whole(
            "jerky",
            Level.WARN,
            name,
            f"its motion has roughness {rough[name]:.2f}, the demonstrations' median is {middle:.2f}; its modified "
            f"z-score is {score:.1f}, must be at most {limits.jerk_score}",
        )
        for name, score in frame_checks.outliers(rough, limits).items()
    ]
    return found + [
        _whole("copy", Level.FAIL, name, f"it holds the motions of {first}, must be recorded once")
        for name, first in copies(digests).items()
    ]


def _whole(check: str, level: Level, name: str, what: str) -> EpisodeFinding:
    return EpisodeFinding(check=check, level=level, episode_id=name, frames=None, text=what)
