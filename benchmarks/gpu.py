"""Updates per second on a GPU, each with a batch of its own off the replay: as shipped, and eager in float32.

Sizes are those of `cycle`. What is measured against the GPU's peak is the multiplications of matrix products and
convolutions alone. Without a GPU nothing is measured. Run: python -m benchmarks.gpu [--quick] [--algorithms], which
times one update of each algorithm on its own batch of noise instead, beside one core, as a table in Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import cycle, replay_sample, updates
from policies import precision
from policies.registry import ALGORITHMS
from policies.rlpd.learner import RLPDLearner
from robot_stack.learner.data.batches import Batches, make_batches
from robot_stack.replay.replay import Replay

PEAK_SIDE = 8192


def updates_of(learner: RLPDLearner, batches: Batches, *, shift: int) -> Callable[[], None]:
    """What draws and does one update."""
    rng = np.random.default_rng(0)

    def update() -> None:
        learner.update(batches.sample(rng, cycle.BATCH, gamma=replay_sample.GAMMA, shift=shift))

    return update


def per_s(update: Callable[[], None], count: int) -> float:
    """Calls per second, once warm; the GPU has done them all."""
    for _ in range(20):
        update()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(count):
        update()
    torch.cuda.synchronize()
    return count / (time.perf_counter() - started)


def peak_flops(count: int = 50) -> float:
    """Operations per second in a large bf16 product."""
    a, b = (torch.randn(PEAK_SIDE, PEAK_SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * PEAK_SIDE**3 * per_s(lambda: torch.mm(a, b), count)


def flops(update: Callable[[], None], updates: int) -> float:
    """Of one update, eagerly; the mean over as many as there are kinds."""
    with FlopCounterMode(display=False) as counter:
        for _ in range(updates):
            update()
    return counter.get_total_flops() / updates


def figures(name: str, replay: Replay, *, end_to_end: bool, count: int) -> dict[str, float]:
    """Of one kind of learner."""
    batches = make_batches(replay, "cuda")
    shift = replay_sample.SHIFT_PX if end_to_end else 0
    shipped = per_s(updates_of(cycle.learner(end_to_end=end_to_end, device="cuda"), batches, shift=shift), count)
    eager = cycle.learner(end_to_end=end_to_end, device="cuda")
    eager._graphs = None
    update = updates_of(eager, batches, shift=shift)
    work = flops(update, eager.config.critic_actor_ratio)
    precision.FAST_BF16["cuda"] = False
    plain = per_s(update, count)
    precision.FAST_BF16["cuda"] = True
    return {
        f"gpu_{name}_updates_per_s": shipped,
        f"gpu_{name}_eager_updates_per_s": plain,
        f"gpu_{name}_peak_share": shipped * work / peak_flops(),
    }


def algorithm_ms(name: str, device: str, count: int) -> float:
    """Milliseconds of one update of an algorithm, on rows that lie on the device."""
    algorithm = ALGORITHMS[name]
    config = algorithm.config(**updates.BEGUN.get(name, {}))
    learner = algorithm.builders().learner(updates.sizes(name), config, seed=0, device=device)
    rows = updates.rows_of(config).to(device)
    return 1e3 / per_s(lambda: learner.update(rows), count)


def algorithms(quick: bool) -> str:
    """The table of all algorithms."""
    lines = ["| algorithm | ms, one core | ms, GPU | times faster |", "| --- | --- | --- | --- |"]
    for name in sorted(ALGORITHMS):
        core = algorithm_ms(name, "cpu", 4 if quick else 40)
        gpu = algorithm_ms(name, "cuda", 100 if quick else 1000)
        lines.append(f"| `{name}` | {core:.1f} | {gpu:.2f} | {core / gpu:.1f} |")
    return "\n".join(lines)


def measure(quick: bool) -> dict[str, float]:
    """Keys for results.json; none without a GPU."""
    if not torch.cuda.is_available():
        print("no GPU")
        return {}
    torch.set_num_threads(1)
    spec = replay_sample.cell_spec(cycle.SHAPES["front"][0])
    images = Replay(spec)
    replay_sample.fill(images, spec, 1_000 if quick else 10_000, 0)
    features = replay_sample.featured(2_000 if quick else 20_000)
    return {
        **figures("cached", features, end_to_end=False, count=100 if quick else 2000),
        **figures("end_to_end", images, end_to_end=True, count=20 if quick else 200),
    }


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--algorithms", action="store_true")
    options = parser.parse_args()
    if options.algorithms and torch.cuda.is_available():
        torch.set_num_threads(1)
        print(algorithms(options.quick))
        return
    for name, value in measure(options.quick).items():
        print(f"{name:36}{value:12.4g}")


if __name__ == "__main__":
    main()
