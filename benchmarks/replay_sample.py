"""Time to sample a batch from replay, against a plain gather row by row.

Run: python benchmarks/replay_sample.py [--transitions 20000] [--batch 256] [--features 512]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

SPEC = Spec(
    arms=(ArmSpec(name="arm", translation_m=0.01, rotation_rad=0.06, gripper=GripperKind.DISCRETE),),
    cameras=(CameraSpec(name="front", height_px=8, width_px=8),),
    proprio=(ProprioField(name="state", size=20),),
    rate_hz=10.0,
)
LENGTH = 100
GAMMA = 0.97


def episode(episode_id: str, rng: np.random.Generator) -> Iterator[Step]:
    """100 steps of noise, a third of them by a human."""
    image = {"front": np.zeros((8, 8, 3), np.uint8)}
    for t in range(LENGTH + 1):
        action = rng.uniform(-1, 1, SPEC.action_size).astype(np.float32)
        source = Source.HUMAN if rng.random() < 1 / 3 else Source.POLICY
        yield Step(
            episode_id=episode_id,
            index=t,
            observation=Observation(images=image, proprio=rng.normal(size=20).astype(np.float32), stamp_ns=t),
            action=ActionRow(executed=action, proposed=action, human=action, source=source) if t < LENGTH else None,
            end=EndReason.SUCCESS if t == LENGTH else None,
        )


def filled(transitions: int, features: int) -> Replay:
    """A replay of noise, featured and scored."""
    rng = np.random.default_rng(0)
    replay = Replay(SPEC, feature_size=features, keep_images=False)
    replay.activate_scores("v")
    for number in range(transitions // LENGTH):
        name = f"{number:06d}"
        replay.begin(
            EpisodeHeader(episode_id=name, kind=EpisodeKind.ONLINE, task="noise", actor="benchmark", started_unix_s=0.0)
        )
        for step in episode(name, rng):
            replay.add_step(step)
        replay.set_features(name, rng.normal(size=(LENGTH + 1, features)).astype(np.float16))
        phi = rng.uniform(size=LENGTH + 1).astype(np.float32)
        replay.add_scores(EpisodeScores(episode_id=name, version="v", progress=phi, success=phi))
    return replay


def by_row(replay: Replay, rng: np.random.Generator, batch: int) -> list[np.ndarray]:
    """The same fields, gathered one row at a time and stacked."""
    pools, column = replay.pools, replay.frames.column
    rows = []
    for i in range(batch):
        pool = pools.expert if i < batch // 2 else pools.online
        row = int(pool[rng.integers(len(pool))])
        after = int(column("next_row")[row])
        phi = replay._potential.at(np.array([row, after]))
        terminal = column("next_row")[after] < 0
        silent = column("source")[row] == Source.HUMAN and not column("gripper_pressed")[row]
        rows.append(
            (
                column("features")[row],
                column("proprio")[row],
                column("executed")[row],
                np.float32(terminal + (0.0 if terminal else GAMMA * phi[1]) - phi[0]),
                np.float32(0.0 if terminal else GAMMA),
                column("features")[after],
                column("proprio")[after],
                np.bool_(i < batch // 2),
                np.bool_(not silent),
                column("episode")[row],
                column("frame")[row],
            )
        )
    return [np.stack(field) for field in zip(*rows)]


def median_ms(call: Callable[[], object], rounds: int) -> float:
    """Median wall time of a call in milliseconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transitions", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--features", type=int, default=512)
    options = parser.parse_args()
    replay = filled(options.transitions, options.features)
    rng = np.random.default_rng(1)
    fast = median_ms(lambda: replay.sample(rng, options.batch, gamma=GAMMA), 200)
    three = median_ms(lambda: replay.sample(rng, options.batch, gamma=GAMMA, n_step=3), 200)
    slow = median_ms(lambda: by_row(replay, rng, options.batch), 20)
    print(f"{options.transitions} transitions, batch {options.batch}, F={options.features}")
    print(f"sample            {fast:8.3f} ms")
    print(f"sample, n_step=3  {three:8.3f} ms")
    print(f"row by row        {slow:8.3f} ms   ratio {slow / fast:.1f}")
    print(f"{replay.frames.bytes_per_transition:.0f} bytes per transition without images")

    def arrive() -> None:
        replay._pools = None
        _ = replay.pools

    print(f"pools after a step arrived {median_ms(arrive, 20):.3f} ms")


if __name__ == "__main__":
    main()
