"""Every algorithm on the same demonstrations at equal robot time: success and interventions.

Run: make bench-algorithms, or python -m benchmarks.learning.algorithms [--minutes 5] [--seeds 0 1 2] [--only NAME ...].
Writes ALGORITHMS.md, algorithms.json and docs/images/algorithms.png. Hours for all of them; what is done is kept, and
the next call goes on from there. Runs of another length need a folder of their own (--out).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.learning.comparison import Comparison, Result
from benchmarks.learning.lockstep import LAST, human_share, train_from_shared
from robot_stack.config.resolve import load_run
from robot_stack.rollout.evaluate import evaluate
from robot_stack.rollout.params_file import load_params

ALGORITHMS = (
    "rlpd", "bc", "hg_dagger", "residual", "cal_ql", "jump_start", "act", "flow_bc", "recap",
    "qc", "qc_fql", "cqn", "cqn_as", "dsrl",
)  # fmt: skip
EVAL_EPISODES = 50


def measure(name: str, seed: int, minutes: float, work: Path) -> Result:
    """Train online and evaluate; demonstrations and trunk of a seed are those of the first algorithm that asked."""
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
    rows = train_from_shared(resolved, folder, work / f"shared-{seed}")
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
        "alone": [row.success and row.alone for row in rows],
        "steps": [row.steps for row in rows],
        "wall_s": time.monotonic() - started,
    }


def table(results: Sequence[Result]) -> str:
    """ALGORITHMS.md."""
    lines = [
        "# Algorithms",
        "",
        "Made by `make bench-algorithms`: peg insertion in simulation; the same demonstrations, trunk and operator for",
        f"all algorithms of a seed. Success on {EVAL_EPISODES} held-out resets without an operator; share of human",
        f"steps in the first and last {LAST} episodes of online training.",
        "",
        "| algorithm | seed | robot time | episodes | success | cycle | human, first | human, last |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['algorithm']} | {r['seed']} | {r['minutes']:g} min | {r['episodes']} | {r['success']:.0%} | "
        f"{'-' if r['cycle_s'] is None else format(r['cycle_s'], '.1f') + ' s'} | {r['human_first']:.1%} | "
        f"{r['human_last']:.1%} |"
        for r in results
    ]
    return "\n".join([*lines, "", "![Success without help over robot time](../docs/images/algorithms.png)", ""])


def main() -> None:
    """See the module."""
    Comparison(
        what="algorithm", file="algorithms", names={name: name for name in ALGORITHMS}, minutes=5.0, measure=measure,
        table=table,
    ).run(__doc__ or "")  # fmt: skip


if __name__ == "__main__":
    main()
