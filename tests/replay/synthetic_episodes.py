"""Random recordings for hypothesis: several actors, interventions, missed ticks, truncations, labels, scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import EndReason, EpisodeKind, Step
from tests.replay.recorded import header_of, steps_of
from tests.replay.slow_replay import SlowEpisode

FEATURES = 2


@dataclass(frozen=True)
class Cut:
    """The actor of an episode is gone."""

    episode_id: str


@dataclass(frozen=True)
class Features:
    """A trunk's output of frames start, start+1, ...: the frame number, twice."""

    episode_id: str
    start: int
    count: int

    @property
    def values(self) -> np.ndarray:
        return np.repeat(np.arange(self.start, self.start + self.count, dtype=np.float16)[:, None], FEATURES, axis=1)


Item = Step | Label | EpisodeScores | Cut | Features


def two_handed_spec(*, openings: bool = True) -> Spec:
    """Two arms with a discrete gripper, and between them one with a continuous one."""
    kinds = {"left": GripperKind.DISCRETE, "middle": GripperKind.CONTINUOUS, "right": GripperKind.DISCRETE}
    return Spec(
        arms=tuple(
            ArmSpec(name=name, axes=("x",), translation_m=0.01, rotation_rad=0.06, gripper=kind)
            for name, kind in kinds.items()
        ),
        cameras=(CameraSpec(name="front", height_px=8, width_px=8),),
        proprio=(
            ProprioField(name="pose", size=3),
            *(ProprioField(name=f"{name}.gripper", size=1) for name in (kinds if openings else ())),
        ),
        rate_hz=10.0,
    )


@st.composite
def recordings(draw: st.DrawFn, spec: Spec, *, valid_scores: bool = False) -> dict[str, SlowEpisode]:
    """Up to four episodes. With `valid_scores` each has ended and is scored in full."""
    found = {}
    for tag in range(draw(st.integers(1, 4))):
        episode_id = f"{tag:03d}"
        ends = list(EndReason) if valid_scores else [None, *EndReason]
        steps = draw(steps_with_grippers(spec, episode_id, tag, draw(st.sampled_from(ends))))
        stamps = draw(st.lists(st.integers(1, 9), unique=True, max_size=3))
        labels = [
            Label(
                episode_id=episode_id,
                verdict=draw(st.sampled_from(Verdict)),
                source=draw(st.sampled_from(LabelSource)),
                stamp_unix_s=float(stamp),
            )
            for stamp in stamps
        ]
        found[episode_id] = SlowEpisode(
            kind=draw(st.sampled_from(EpisodeKind)),
            steps=steps,
            labels=labels,
            phi=draw(potentials(len(steps), valid=valid_scores)) if valid_scores or draw(st.booleans()) else None,
            cut=steps[-1].end is None and draw(st.booleans()),
        )
    return found


@st.composite
def steps_with_grippers(draw: st.DrawFn, spec: Spec, episode_id: str, tag: int, end: EndReason | None) -> list[Step]:
    sources = draw(st.lists(st.sampled_from(Source), min_size=1, max_size=24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    steps, stamp_ns = [], 10**9
    some_missed = draw(st.booleans())
    for step in steps_of(spec, episode_id, sources, end, tag=tag):
        openings = rng.uniform(size=spec.proprio_size - 3).astype(np.float32)
        proprio = np.concatenate([step.observation.proprio, openings])
        stamp_ns += 300_000_000 if some_missed and rng.random() < 0.2 else 100_000_000
        observation = replace(step.observation, proprio=proprio, stamp_ns=stamp_ns)
        action = step.action
        if action is not None:
            executed = action.executed.copy()
            executed[list(spec.gripper_indices)] = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], len(spec.gripper_indices))
            human = action.human.copy()
            human[list(spec.gripper_indices)] = rng.choice([-1.0, 0.0, 1.0], len(spec.gripper_indices))
            action = replace(action, executed=executed, human=human, sources=who_moved(action.source, spec, rng))
        steps.append(replace(step, observation=observation, action=action))
    return steps


def who_moved(source: Source, spec: Spec, rng: np.random.Generator) -> tuple[Source, ...]:
    """Of each arm; in an operator's step, some of them, and at least one."""
    sources = [source] * len(spec.arms)
    if source is Source.HUMAN:
        for held in rng.permutation(len(sources))[1:]:
            sources[held] = Source.HOLD if rng.random() < 0.5 else Source.HUMAN
    return tuple(sources)


@st.composite
def potentials(draw: st.DrawFn, frames: int, *, valid: bool) -> np.ndarray:
    phi = np.array(draw(st.lists(st.floats(0, 1, width=32), min_size=frames, max_size=frames)), np.float32)
    if not valid and draw(st.booleans()):
        phi[draw(st.integers(0, frames - 1))] = np.nan
    return phi


def arrivals(choose: st.DataObject, recorded: dict[str, SlowEpisode], *, trunk: bool = False) -> list[Item]:
    """Steps in order within an episode, features behind them; all else anywhere, some of it twice."""
    queues: list[list[Item]] = []
    for episode_id, episode in recorded.items():
        queue: list[Item] = list(episode.steps)
        if trunk and episode.kind is not EpisodeKind.EVAL:
            queue = _with_features(choose, episode_id, episode)
        queues.append(queue + [Cut(episode_id)] * episode.cut)
        queues += [[label] for label in episode.labels for _ in range(choose.draw(st.integers(1, 2)))]
        if episode.phi is not None:
            for version, phi in (("old", 1 - episode.phi), ("new", episode.phi), ("new", episode.phi)):
                queues.append([EpisodeScores(episode_id=episode_id, version=version, progress=phi, success=phi)])
    rng = np.random.default_rng(choose.draw(st.integers(0, 2**32)))
    turns = rng.permutation(np.repeat(np.arange(len(queues)), [len(q) for q in queues]))
    return [queues[turn].pop(0) for turn in turns]


def _with_features(choose: st.DataObject, episode_id: str, episode: SlowEpisode) -> list[Item]:
    """Features of several frames at once, some late, and some of them never."""
    episode.featured = choose.draw(st.integers(0, len(episode.steps)))
    queue: list[Item] = []
    done = 0
    for step in episode.steps:
        queue.append(step)
        known = min(step.index + 1, episode.featured)
        if known > done and (choose.draw(st.booleans()) or step.index + 1 == len(episode.steps)):
            queue.append(Features(episode_id, done, known - done))
            done = known
    return queue


def begin_all(replay: Replay, recorded: dict[str, SlowEpisode]) -> None:
    for episode_id, episode in recorded.items():
        replay.begin(header_of(episode_id, episode.kind))


def take(replay: Replay, item: Item) -> None:
    if isinstance(item, Step):
        replay.add_step(item)
    elif isinstance(item, Label):
        replay.add_label(item)
    elif isinstance(item, EpisodeScores):
        replay.add_scores(item)
    elif isinstance(item, Cut):
        replay.end_episode(item.episode_id, EndReason.FAULT)
    else:
        replay.set_features(item.episode_id, item.values, item.start)


def keys(replay: Replay, rows: np.ndarray) -> list[tuple[str, int]]:
    """Rows as (episode, t)."""
    ids, column = replay.frames.episode_ids, replay.frames.column
    return [(ids[e], int(t)) for e, t in zip(column("episode")[rows], column("frame")[rows])]


def expert_share(expert: Sequence[object]) -> float:
    """Half, if there are any."""
    return 0.5 if expert else 0.0
