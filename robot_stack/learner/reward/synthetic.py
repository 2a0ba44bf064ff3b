"""Synthetic episodes of a run's own cell and task, and what reward models are evaluated on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from reward_models.interface import Frame, Instruction, LabelledEpisode
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.labelled import shown_task
from robot_stack.sensing.observer import Observer
from robot_stack.sensing.sync import Snapshot
from robot_stack.types.errors import ConfigError
from robot_stack.types.observation import Observation
from robot_stack.workcell.build import placed_arms, scene_settings
from robot_stack.workcell.sim_camera import SimCamera
from sim.episodes import EpisodeMaker, GeneratedEpisode
from sim.randomise import KEY, RandomiseConfig
from sim.tasks.peg_insert import PegInsertConfig, TwoSockets
from sim.world import World

SHARES: Mapping[str, int] = {
    "success": 24,
    "regress_recover": 8,
    "occlusion": 8,
    "drop": 12,
    "near_miss": 12,
    "reverse": 12,
    "wrong_object": 12,
    "stall": 12,
    "partial": 12,
    "mismatch": 16,
    "empty_hand": 24,
    "left_beside": 24,
    "missing": 24,
    "invisible": 24,
}
"""Episodes of each kind in a full evaluation: enough failures that none falsely done bounds the rate below 5 %."""
FULL = sum(SHARES.values())


class CellSenses:
    """The cameras and arms of a world, as the cell's observations have them; implements `sim.episodes.Senses`."""

    def __init__(self, world: World, resolved: ResolvedRun) -> None:
        self._world = world
        self._observer = Observer(resolved.spec())
        self._cameras = {name: SimCamera(world, name, config) for name, config in resolved.cameras.items()}

    def begin_episode(self) -> None:
        """Begin a new episode, see `Senses`."""
        self._observer.begin_episode()

    def observe(self) -> Observation:
        """Observe the world now: rendered, captured at full size and averaged, like any image of the cell."""
        images = {name: camera.see() for name, camera in self._cameras.items()}
        states = {name: self._world.state(name) for name in self._world.arms}
        snapshot = Snapshot(images=images, states=states, age_s=0.0, skew_s=0.0)
        return self._observer.observe(snapshot, self._world.time_ns)

    def close(self) -> None:
        """Free the GL contexts of the cameras."""
        for camera in self._cameras.values():
            camera.close()


def build_maker(resolved: ResolvedRun) -> tuple[EpisodeMaker, CellSenses]:
    """Build an episode maker for the run's cell, and its senses, to be closed afterwards.

    Raises:
        ConfigError: If the task is not the peg insertion.
    """
    if resolved.task.simulated != TwoSockets.name:
        raise ConfigError(
            f"scene is {resolved.task.simulated!r}, must be {TwoSockets.name!r}: no synthetic "
            "episodes can be made of other tasks; record some instead"
        )
    config = scene_settings(resolved)
    assert isinstance(config, PegInsertConfig)
    task = TwoSockets(config)
    randomise = resolved.section(f"task.sim.{KEY}", RandomiseConfig)
    world = World(placed_arms(resolved), {resolved.task.name: task}, randomise)
    senses = CellSenses(world, resolved)
    maker = EpisodeMaker(world, task, senses, resolved.spec(), text=resolved.task.text, rim_m=config.socket_height_m)
    return maker, senses


def generate(
    resolved: ResolvedRun,
    counts: Mapping[str, int],
    *,
    seed: Sequence[int],
    on_episode: Callable[[int, int], None] = lambda number, episodes: None,
) -> list[GeneratedEpisode]:
    """Generate the given number of synthetic episodes of each kind.

    Args:
        resolved: The run whose cell and task they are of.
        counts: Kind -> episodes.
        seed: Another one, other episodes; of any length.
        on_episode: Told (number, episodes) after each.

    Raises:
        ConfigError: If no synthetic episodes can be made of the task.
    """
    maker, senses = build_maker(resolved)
    kinds = [kind for kind, count in counts.items() for _ in range(count)]
    seeds = np.random.SeedSequence(seed).generate_state(len(kinds))
    made = []
    try:
        for number, (kind, own) in enumerate(zip(kinds, seeds, strict=True), start=1):
            made.append(maker.make(kind, int(own)))
            on_episode(number, len(kinds))
    finally:
        senses.close()
    return made


def shared_out(episodes: int) -> dict[str, int]:
    """Divide an evaluation's episodes over all kinds in the proportions of `SHARES`, at least one of each.

    >>> sum(shared_out(40).values()), shared_out(FULL) == dict(SHARES)
    (40, True)

    Raises:
        ConfigError: If there are fewer episodes than kinds.
    """
    if episodes < len(SHARES):
        raise ConfigError(f"episodes is {episodes}, must be at least {len(SHARES)}, one of each kind")
    exact = {kind: share * episodes / FULL for kind, share in SHARES.items()}
    counts = {kind: max(1, int(wanted)) for kind, wanted in exact.items()}
    for kind in sorted(exact, key=lambda kind: counts[kind] - exact[kind]):
        counts[kind] += max(0, min(1, episodes - sum(counts.values())))
    while sum(counts.values()) > episodes:
        counts[max(counts, key=lambda kind: counts[kind])] -= 1
    return counts


def labelled(episodes: Sequence[GeneratedEpisode], *, shown: GeneratedEpisode | None = None) -> list[LabelledEpisode]:
    """Convert synthetic episodes to what reward models are evaluated on.

    Args:
        episodes: To be scored.
        shown: A demonstration, for models that want to see one, or the finished task; never one of `episodes`.
    """
    demo = None if shown is None else frames_of(shown)
    return [
        LabelledEpisode(
            name=episode.name,
            kind=episode.kind,
            frames=frames_of(episode),
            instruction=Instruction(text=episode.text) if demo is None else shown_task(episode.text, demo),
            success=episode.success,
            done_at=episode.done_at,
            progress=episode.progress,
        )
        for episode in episodes
    ]


def frames_of(episode: GeneratedEpisode) -> tuple[Frame, ...]:
    """Return the frames of a synthetic episode, T+1 of them."""
    return tuple(
        Frame(images={name: images[t] for name, images in episode.images.items()}, proprio=episode.proprio[t])
        for t in range(len(episode.proprio))
    )
