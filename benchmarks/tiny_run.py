"""A run small enough to be killed a hundred times: the shipped task with tiny cameras, networks and synthetic steps.

Every image, proprio and action is noise seeded by its episode, so that whoever knows the name of an episode knows
what must be on disk. Images are noise of half their size, blown up: they compress about as well as rendered ones.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

TINY = (
    "training.demos=2",
    "training.max_episodes=1000000",
    "training.max_robot_minutes=100000",
    "encoder.settings.steps=5",
    "encoder.settings.batch=16",
    "reward.settings.steps=5",
    "reward.settings.batch=8",
    "algorithm.settings.pretrain_updates=20",
    "algorithm.settings.batch_size=32",
    "algorithm.settings.critics=2",
    "algorithm.settings.hidden=[32, 32]",
    "algorithm.settings.head=8",
)


def write_run(folder: Path, *more: str, side_px: int = 16) -> ResolvedRun:
    """A run folder with nothing in it but its configuration; two cameras of `side_px` squared."""
    folder.mkdir(parents=True, exist_ok=True)
    sides = [
        f"cameras.{name}.policy_{side}_px={side_px}" for name in ("wrist", "front") for side in ("width", "height")
    ]
    resolved = load_run("peg_insert", (*TINY, *sides, *more))
    (folder / "run.yaml").write_text(resolved.to_yaml())
    return resolved


def header_of(resolved: ResolvedRun, episode_id: str, actor: str = "synthetic") -> EpisodeHeader:
    """Header of an episode `<number>-<kind>-...`."""
    number, kind = episode_id.split("-")[:2]
    return EpisodeHeader(
        episode_id=episode_id,
        kind=EpisodeKind(kind),
        task=resolved.task.name,
        actor=actor,
        started_unix_s=float(int(number)),
        seed=int(number),
    )


def steps_of(
    spec: Spec, episode_id: str, actions: int, end: EndReason = EndReason.TIMEOUT, *, sources: Sequence[Source] = ()
) -> Iterator[Step]:
    """`actions` actions and the last frame; by the policy unless `sources` says otherwise."""
    rng = np.random.default_rng(zlib.crc32(episode_id.encode()))
    for index in range(actions + 1):
        last = index == actions
        source = sources[index] if index < len(sources) else Source.POLICY
        executed = rng.uniform(-1, 1, spec.action_size).astype(np.float32)
        row = ActionRow(executed=executed, proposed=executed, human=executed, source=source, params_version=1)
        yield Step(
            episode_id=episode_id,
            index=index,
            observation=Observation(
                images={camera.name: _image(rng, camera.shape) for camera in spec.cameras},
                proprio=rng.uniform(-0.1, 0.1, spec.proprio_size).astype(np.float32),
                stamp_ns=index * round(1e9 * spec.period_s),
            ),
            action=None if last else row,
            end=end if last else None,
        )


def _image(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    height, width, depth = shape
    coarse = rng.integers(0, 256, (-(-height // 2), -(-width // 2), depth), np.uint8)
    return np.ascontiguousarray(coarse.repeat(2, axis=0).repeat(2, axis=1)[:height, :width])
