"""One update of each algorithm: its time, and how much of it is not its matrix products.

Run: python -m benchmarks.updates [--repeats 40] [--only NAME ...]

Every algorithm has its shipped settings, two cameras' pooled features of the embedded trunk, 18-D proprio and a 4-D
action, and is past what it clones first; the batch is its own. Time and ratio are medians over repeats in which the
update and its products alone take turns, in float32, on one thread; RLPD and its neighbours make an actor update on
every second one, which is counted by halves. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from typing import Any

import torch

from benchmarks.cycle import PROPRIO, Products, batch, in_turn
from policies import precision
from policies.encoders.trunk import FeaturePart
from policies.learner import LearnerSpec, TensorBatch
from policies.registry import ALGORITHMS, find_algorithm
from robot_stack.learner.host_memory import keep_freed_memory

ACTIONS = 4
PARTS = (192, 192, 68)
"""Features of each part of the embedded trunk with two cameras."""
BEGUN: dict[str, dict[str, int]] = {
    "dsrl": {"base_updates": 1, "pretrain_updates": 1},
    "residual": {"base_updates": 1, "pretrain_updates": 1},
    "jump_start": {"guide_updates": 1, "pretrain_updates": 1},
}
"""Settings of those that clone something first, so that it is over after one update."""
UPDATES = 2
"""Updates that are timed together."""


def sizes(name: str) -> LearnerSpec:
    """The sizes of the dry run's learner; of its proprio the last few are a base's where one is steered."""
    ends = [sum(PARTS[: i + 1]) for i in range(len(PARTS))]
    return LearnerSpec(
        parts=tuple(FeaturePart(slice=slice(end - size, end), maps=None) for size, end in zip(PARTS, ends)),
        proprio_mean=torch.zeros(PROPRIO),
        proprio_std=torch.ones(PROPRIO),
        actions=ACTIONS,
        noise=1 if find_algorithm(name).steers_base else 0,
    )


def rows_of(config: Any) -> TensorBatch:
    """A batch of noise of the size and with the chunks that the settings ask for."""
    made, chunk, count = batch(config.batch_size, images=False), config.sampling.chunk, config.batch_size
    action = torch.tanh(torch.randn(count, chunk * ACTIONS))
    features = torch.randn(2, count, sum(PARTS))
    return replace(
        made,
        features=features[0],
        next_features=features[1],
        action=action,
        proposed=action,
        human=made.human.expand(count, chunk),
        label=torch.ones(action.shape, dtype=torch.bool),
    )


def measure_one(name: str, repeats: int) -> tuple[float, float, int]:
    """The milliseconds of an update, their ratio to those of its products, and the rows of its batch."""
    algorithm = find_algorithm(name)
    config = algorithm.config(**BEGUN.get(name, {}))
    learner, rows = algorithm.builders().learner(sizes(name), config, seed=0), rows_of(config)

    def update() -> None:
        for _ in range(UPDATES):
            learner.update(rows)

    update()
    update()
    products = Products()
    with products:
        update()

    def alone() -> None:
        for call in products.calls:
            call()

    taken_s, _, ratios = in_turn(update, alone, repeats)
    return 1e3 * taken_s / UPDATES, statistics.median(ratios), config.batch_size


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.updates", description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=sorted(ALGORITHMS), default=sorted(ALGORITHMS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as the learner does
    precision.FAST_BF16["cpu"] = False
    print("| algorithm | ms an update | of its products | rows |\n| --- | --- | --- | --- |")
    for name in options.only:
        took_ms, ratio, rows = measure_one(name, options.repeats)
        print(f"| `{name}` | {took_ms:.1f} | {ratio:.2f} | {rows} |", flush=True)


if __name__ == "__main__":
    main()
