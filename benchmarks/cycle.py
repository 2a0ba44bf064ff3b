"""A full RLPD cycle against what it cannot do without: its matrix products, or the bare network on the same images.

A cycle is two critic updates, one actor and temperature update, and all targets, at batch 256 with two cameras of
128x128, 18-D proprio, 7-D action and 2 critics of [256, 256]. Run: python -m benchmarks.cycle [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from policies import precision
from policies.encoders.registry import find_encoder, make_trunk
from policies.encoders.trunk import FeaturePart
from policies.learner import LearnerSpec, TensorBatch
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.learner.host_memory import keep_freed_memory

BATCH = 256
PROPRIO, ACTIONS = 18, 7
POOLED = 512
"""Features of one camera."""
SHAPES = {"front": (128, 128, 3), "wrist": (128, 128, 3)}
PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
TARGET_CACHED, TARGET_END_TO_END = 1.5, 1.25


class Products(TorchDispatchMode):
    """Remembers the operands' shapes, strides and types of every matrix product that runs under it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Callable[[], Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.removeprefix("aten::") in PRODUCTS:
            operands = [_like(value) if isinstance(value, torch.Tensor) else value for value in args]
            self.calls.append(lambda: func(*operands, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """Noise of the same shape, strides and type."""
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return torch.randn(extent).to(tensor.dtype).as_strided(tensor.shape, tensor.stride())


def batch(rows: int, *, images: bool) -> TensorBatch:
    """Rows of noise, with pooled features or with images."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    def seen() -> dict[str, torch.Tensor]:
        return {
            name: torch.from_numpy(rng.integers(0, 256, (rows, *shape), dtype=np.uint8))
            for name, shape in (SHAPES.items() if images else ())
        }

    features = 0 if images else POOLED * len(SHAPES)
    action = torch.tanh(normal(rows, ACTIONS))
    return TensorBatch(
        features=normal(rows, features),
        proprio=normal(rows, PROPRIO),
        action=action,
        proposed=torch.where(torch.arange(rows)[:, None] < rows // 4, -action, action),
        reward=normal(rows),
        discount=torch.full((rows,), 0.97),
        next_features=normal(rows, features),
        next_proprio=normal(rows, PROPRIO),
        expert=torch.arange(rows) < rows // 2,
        imitation=torch.ones(rows),
        human=(torch.arange(rows) < rows // 2)[:, None],
        label=torch.ones(rows, ACTIONS, dtype=torch.bool),
        gripper_change=torch.zeros(rows, 0, dtype=torch.bool),
        mc_return=torch.full((rows,), torch.nan),
        images=seen(),
        next_images=seen(),
    )


def learner(*, end_to_end: bool, device: str = "cpu") -> RLPDLearner:
    """RLPD as the recipe has it."""
    trunk: Any = None
    parts = tuple(FeaturePart(slice=slice(i * POOLED, (i + 1) * POOLED), maps=None) for i, _ in enumerate(SHAPES))
    if end_to_end:
        trunk = make_trunk("resnet10", SHAPES, find_encoder("resnet10").config(trained=True), demos=(), seed=0)
        parts = trunk.parts
    spec = LearnerSpec(
        parts=parts,
        proprio_mean=torch.zeros(PROPRIO),
        proprio_std=torch.ones(PROPRIO),
        actions=ACTIONS,
        trunk=trunk,
    )
    return RLPDLearner(spec, RLPDConfig(batch_size=BATCH), seed=0, device=device)


def in_turn(first: Callable[[], Any], second: Callable[[], Any], repeats: int) -> tuple[float, float, list[float]]:
    """Median seconds of both, run by turns so that a busy machine slows both, and the ratio of each pair."""
    pairs = []
    for _ in range(repeats + 1):
        times = []
        for run in (first, second):
            started = time.perf_counter()
            run()
            times.append(time.perf_counter() - started)
        pairs.append(times)
    pairs = pairs[1:]  # the first warms up
    ratios = sorted(a / b for a, b in pairs)
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), ratios


def cached(repeats: int, *, bf16: bool) -> tuple[float, float, list[float]]:
    """Cycle on cached features against its products in the same types."""
    precision.FAST_BF16["cpu"] = bf16
    made, rows = learner(end_to_end=False), batch(BATCH, images=False)
    cycle_updates = made.config.critic_actor_ratio

    def cycle() -> None:
        for _ in range(cycle_updates):
            made.update(rows)

    cycle()
    products = Products()
    with products:
        cycle()

    def alone() -> None:
        for call in products.calls:
            call()

    return in_turn(cycle, alone, repeats)


def end_to_end(repeats: int, rows: int) -> tuple[float, float, list[float]]:
    """Cycle with a trained ResNet-10 against the bare network's own passes: forward and backward on o, forward on o'
    by the trained weights and by their average."""
    precision.FAST_BF16["cpu"] = False
    made, images = learner(end_to_end=True), batch(rows, images=True)
    trunk, average = made.vision.trunk, made.vision.average
    assert trunk is not None
    assert average is not None
    updates = made.config.critic_actor_ratio

    def cycle() -> None:
        for _ in range(updates):
            made.update(images)

    def bare() -> None:
        for _ in range(updates):
            trunk(images.images).sum().backward()
            trunk.zero_grad(set_to_none=True)
            with torch.no_grad():
                trunk(images.next_images)
                average(images.next_images)

    return in_turn(cycle, bare, repeats)


def measure(quick: bool) -> dict[str, float]:
    """Keys for results.json; the ratios are medians of pairs run by turns."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as the learner does
    repeats = 5 if quick else 40
    plain_s, _, plain = cached(repeats, bf16=False)
    shipped = {"cycle_cached_bf16_ms": cached(repeats, bf16=True)[0] * 1e3} if SHIPS_BF16 else {}
    _, _, whole = end_to_end(1 if quick else 3, 16 if quick else BATCH)
    return {
        "cycle_cached_over_gemm": statistics.median(plain),
        "cycle_cached_ms": plain_s * 1e3,
        "cycle_end_to_end_over_network": statistics.median(whole),
        **shipped,
    }


SHIPS_BF16 = precision.FAST_BF16["cpu"]


def main() -> None:
    """Print what was measured, with its spread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    keep_freed_memory()
    for bf16 in (False, True) if SHIPS_BF16 else (False,):
        cycle_s, products_s, ratios = cached(5 if quick else 40, bf16=bf16)
        print(
            f"cached, {'bf16' if bf16 else 'fp32'}: cycle {cycle_s * 1e3:.1f} ms, products {products_s * 1e3:.1f} ms, "
            f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); fp32 at most {TARGET_CACHED}"
        )
    rows = 16 if quick else BATCH
    cycle_s, network_s, ratios = end_to_end(1 if quick else 3, rows)
    print(
        f"end to end, ResNet-10, batch {rows}: cycle {cycle_s:.2f} s, bare network {network_s:.2f} s, "
        f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); at most {TARGET_END_TO_END}"
    )


if __name__ == "__main__":
    main()
