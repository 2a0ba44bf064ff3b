"""Every algorithm on the same demonstrations at equal robot time: success and interventions.

Run: make bench-algorithms, or python benchmarks/algorithms.py [--minutes 5] [--seeds 0 1 2] [--only NAME ...].
Writes ALGORITHMS.md, algorithms.json and docs/images/algorithms.png. Hours for all of them; what is done is kept, and
the next call goes on from there. Runs of another length need a folder of their own (--out).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from lockstep import LAST, human_share, practise_from_shared, smoothed

from robot_stack.config.resolve import load_run
from robot_stack.run.evaluate import evaluate, load_params

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent
FIGURE = FOLDER.parent / "docs" / "images" / "algorithms.png"
ALGORITHMS = ("rlpd", "bc", "hg_dagger", "residual", "cal_ql", "jump_start")
EVAL_EPISODES = 50


def measure(name: str, seed: int, minutes: float, work: Path) -> dict[str, Any]:
    """Practise and evaluate; demonstrations and trunk of a seed are those of the first algorithm that asked."""
    overrides = [
        f"run.seed={seed}",
        f"run.algorithm.name={name}",
        f"run.training.max_robot_minutes={minutes}",
        "run.training.max_episodes=100000",
        "run.training.enough.episodes=10000",
    ]
    resolved = load_run("peg_insert", overrides)
    folder = work / f"{name}-{seed}"
    started = time.monotonic()
    rows = practise_from_shared(resolved, folder, work / f"shared-{seed}")
    result = evaluate(resolved, load_params(folder / "policy.safetensors"), EVAL_EPISODES)
    return {
        "algorithm": name,
        "seed": seed,
        "minutes": minutes,
        "episodes": len(rows),
        "success": sum(result.successes) / len(result.successes),
        "cycle_s": result.summary()["cycle_s"],
        "human_first": human_share(rows[:LAST]),
        "human_last": human_share(rows[-LAST:]),
        "alone": [bool(r["success"]) and not r["human_steps"] for r in rows],
        "steps": [r["steps"] for r in rows],
        "wall_s": time.monotonic() - started,
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """ALGORITHMS.md."""
    lines = [
        "# Algorithms",
        "",
        "Made by `make bench-algorithms`: peg insertion in simulation; the same demonstrations, trunk and person for",
        f"all algorithms of a seed. Success on {EVAL_EPISODES} held-out resets without a person; share of human steps",
        f"in the first and last {LAST} episodes of practice.",
        "",
        "| algorithm | seed | robot time | episodes | success | cycle | human, first | human, last |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['algorithm']} | {r['seed']} | {r['minutes']:g} min | {r['episodes']} | {r['success']:.0%} | "
        f"{'-' if r['cycle_s'] is None else format(r['cycle_s'], '.1f') + ' s'} | {r['human_first']:.1%} | "
        f"{r['human_last']:.1%} |"
        for r in sorted(results, key=lambda r: (ALGORITHMS.index(r["algorithm"]), r["seed"]))
    ]
    return "\n".join([*lines, "", "![Success without help over robot time](../docs/images/algorithms.png)", ""])


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Share of episodes that ended well without a person, over robot time; a line per algorithm, a band over seeds."""
    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=110)
    for name in [n for n in ALGORITHMS if any(r["algorithm"] == n for r in results)]:
        runs = [r for r in results if r["algorithm"] == name]
        end = min(sum(r["steps"]) for r in runs) / 600
        grid = np.linspace(0, end, 60)
        curves = np.array([smoothed(r, grid) for r in runs])
        (line,) = axes.plot(grid, curves.mean(axis=0), label=name)
        axes.fill_between(grid, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.15)
    axes.set(xlabel="robot time [min]", ylabel="success without help, last 20 episodes", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Measure what is missing, write after each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="robot time of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="*", choices=ALGORITHMS, default=ALGORITHMS)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of ALGORITHMS.md and algorithms.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = options.out / "algorithms.json"
    results: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    others = {r["minutes"] for r in results} - {options.minutes}
    if others:
        parser.error(f"{path} holds runs of {others} minutes, must be of {options.minutes:g}; name another --out")
    with tempfile.TemporaryDirectory() as work:
        for seed in options.seeds:
            for name in options.only:
                if (name, seed) in [(r["algorithm"], r["seed"]) for r in results]:
                    continue
                results.append(measure(name, seed, options.minutes, Path(work)))
                print({k: v for k, v in results[-1].items() if k not in ("alone", "steps")}, flush=True)
                path.write_text(json.dumps(results) + "\n")
                (options.out / "ALGORITHMS.md").write_text(table(results))
                draw(results, FIGURE if options.out == FOLDER else options.out / "algorithms.png")


if __name__ == "__main__":
    main()
