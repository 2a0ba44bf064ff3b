"""Time to sample a batch from replay: against an update, against a memory copy, and against gathering row by row.

Run: python -m benchmarks.replay_sample [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from policies.encoders.trunk import FeaturePart
from policies.learner import LearnerSpec, TensorBatch
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

LENGTH = 100
GAMMA = 0.97
BATCH = 256
FEATURES = 512
"""Of one camera."""
PROPRIO = 18
SHIFT_PX = 4


def cell_spec(side_px: int) -> Spec:
    """One arm with a gripper, two square cameras, 18-D proprio."""
    return Spec(
        arms=(ArmSpec(name="arm", translation_m=0.01, rotation_rad=0.06, gripper=GripperKind.DISCRETE),),
        cameras=tuple(CameraSpec(name=name, height_px=side_px, width_px=side_px) for name in ("front", "wrist")),
        proprio=(ProprioField(name="state", size=PROPRIO),),
        rate_hz=10.0,
    )


def episode(spec: Spec, episode_id: str, rng: np.random.Generator) -> Iterator[Step]:
    """100 steps of noise, a third of them by a human."""
    for t in range(LENGTH + 1):
        images = {camera.name: rng.integers(0, 256, camera.shape, np.uint8) for camera in spec.cameras}
        action = rng.uniform(-1, 1, spec.action_size).astype(np.float32)
        source = Source.HUMAN if rng.random() < 1 / 3 else Source.POLICY
        proprio = rng.normal(size=spec.proprio_size).astype(np.float32)
        yield Step(
            episode_id=episode_id,
            index=t,
            observation=Observation(images=images, proprio=proprio, stamp_ns=t),
            action=ActionRow(executed=action, proposed=action, human=action, source=source) if t < LENGTH else None,
            end=EndReason.SUCCESS if t == LENGTH else None,
        )


def fill(replay: Replay, spec: Spec, transitions: int, features: int) -> None:
    """Episodes of noise, a fifth of them demos, featured and scored."""
    rng = np.random.default_rng(0)
    replay.activate_scores("v")
    for number in range(transitions // LENGTH):
        name = f"{number:06d}"
        kind = EpisodeKind.ONLINE if number % 5 else EpisodeKind.DEMO
        replay.begin(EpisodeHeader(episode_id=name, kind=kind, task="noise", actor="benchmark", started_unix_s=0.0))
        for step in episode(spec, name, rng):
            replay.add_step(step)
        if features:
            replay.set_features(name, rng.normal(size=(LENGTH + 1, features)).astype(np.float16))
        phi = rng.uniform(size=LENGTH + 1).astype(np.float32)
        replay.add_scores(EpisodeScores(episode_id=name, version="v", progress=phi, success=phi))


def featured(transitions: int) -> Replay:
    """A replay of features; the images are those of the smallest camera there is, and are not kept."""
    spec = cell_spec(8)
    replay = Replay(spec, feature_size=2 * FEATURES, keep_images=False)
    fill(replay, spec, transitions, 2 * FEATURES)
    return replay


def by_row(replay: Replay, rng: np.random.Generator, batch: int) -> list[np.ndarray]:
    """Features, proprio, action, reward and discount, gathered one row at a time and stacked."""
    pools, column = replay.pools, replay.frames.column
    rows = []
    for i in range(batch):
        pool = pools.expert if i < batch // 2 else pools.online
        row = int(pool[rng.integers(len(pool))])
        after = int(column("next_row")[row])
        phi = replay._potential.at(np.array([row, after]))
        terminal = column("next_row")[after] < 0
        rows.append(
            (
                column("features")[row],
                column("proprio")[row],
                column("executed")[row],
                np.float32(terminal + (0.0 if terminal else GAMMA * phi[1]) - phi[0]),
                np.float32(0.0 if terminal else GAMMA),
                column("features")[after],
                column("proprio")[after],
            )
        )
    return [np.stack(field) for field in zip(*rows)]


def median_s(call: Callable[[], object], rounds: int) -> float:
    """Median wall time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def cached_shares(*, quick: bool) -> list[float]:
    """Time to sample features over the time of an update with them, one ratio per repeat."""
    torch.set_num_threads(1)
    spec = cell_spec(8)
    replay, rng = featured(2_000 if quick else 20_000), np.random.default_rng(1)
    config = RLPDConfig(batch_size=BATCH, critics=2, hidden=(256, 256))
    sizes = LearnerSpec(
        parts=tuple(
            FeaturePart(slice=slice(camera * FEATURES, (camera + 1) * FEATURES), maps=None) for camera in range(2)
        ),
        proprio_mean=torch.zeros(PROPRIO),
        proprio_std=torch.ones(PROPRIO),
        actions=spec.action_size,
        grippers=spec.gripper_indices,
    )
    learner = RLPDLearner(sizes, config, seed=0)

    def sample() -> TensorBatch:
        return TensorBatch.from_numpy(replay.sample(rng, BATCH, gamma=GAMMA))

    batch = sample()

    def cycle() -> None:
        for _ in range(config.critic_actor_ratio):
            learner.update(batch)

    cycle()
    repeats, rounds = (3, 5) if quick else (9, 20)
    return [
        median_s(lambda: replay.sample(rng, BATCH, gamma=GAMMA), 10 * rounds)
        / (median_s(cycle, rounds) / config.critic_actor_ratio)
        for _ in range(repeats)
    ]


def image_ratios(*, quick: bool) -> list[float]:
    """Time to sample shifted images of two cameras over that of copying what was sampled, one ratio per repeat."""
    spec = cell_spec(128)
    replay, rng = Replay(spec), np.random.default_rng(1)
    fill(replay, spec, 1_000 if quick else 10_000, 0)
    batch = replay.sample(rng, BATCH, gamma=GAMMA, shift=SHIFT_PX)
    returned = [*(batch.images or {}).values(), *(batch.next_images or {}).values()]

    def copy() -> list[np.ndarray]:
        return [images.copy() for images in returned]

    def sample() -> object:
        return replay.sample(rng, BATCH, gamma=GAMMA, shift=SHIFT_PX)

    copy(), sample()
    repeats, rounds = (3, 5) if quick else (9, 15)
    return [median_s(sample, rounds) / median_s(copy, rounds) for _ in range(repeats)]


def measure(quick: bool) -> dict[str, float]:
    """Medians over the repeats."""
    return {
        "sample_cached_share": statistics.median(cached_shares(quick=quick)),
        "sample_images_over_memcpy": statistics.median(image_ratios(quick=quick)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer transitions and repeats")
    quick = parser.parse_args().quick
    for name, found in (
        ("sample_cached_share", cached_shares(quick=quick)),
        ("sample_images_over_memcpy", image_ratios(quick=quick)),
    ):
        print(f"{name:28}{statistics.median(found):8.3f}   from {min(found):.3f} to {max(found):.3f}")
    replay, rng = featured(2_000 if quick else 20_000), np.random.default_rng(1)
    fast = 1e3 * median_s(lambda: replay.sample(rng, BATCH, gamma=GAMMA), 200)
    chunks = 1e3 * median_s(lambda: replay.sample(rng, BATCH, gamma=GAMMA, n_step=3, chunk=3), 200)
    slow = 1e3 * median_s(lambda: by_row(replay, rng, BATCH), 20)
    print(f"sample            {fast:8.3f} ms")
    print(f"chunks of 3       {chunks:8.3f} ms")
    print(f"row by row        {slow:8.3f} ms   ratio {slow / fast:.1f}")

    def arrive() -> None:
        replay._pools = None
        _ = replay.pools

    print(f"pools after a step arrived {1e3 * median_s(arrive, 20):.3f} ms")


if __name__ == "__main__":
    main()
