"""An operator who looks only when the policy asks, against one who always looks: success, attention, needed requests.

Run: make bench-asking, or python -m benchmarks.learning.asking [--minutes 5] [--seeds 0 1].
Writes ASKING.md, asking.json and docs/images/asking.png. Both train from the same demonstrations and trunk of a
seed; half an hour each on one core.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.learning.comparison import Comparison, Result
from benchmarks.learning.lockstep import LAST, human_share, train_from_shared
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.report.asked_help import help_figures
from robot_stack.rollout.evaluate import evaluate
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EpisodeRow

EVAL_EPISODES = 100
ALWAYS, ON_REQUEST = "always", "on_request"
OPERATORS = {
    ALWAYS: ("cell.teleop=scripted",),
    ON_REQUEST: ("cell.teleop=scripted_on_request", "run.asking.signals=[stall, distance, samples, critics]"),
}


def resolve(attention: str, seed: int, minutes: float) -> ResolvedRun:
    """The shipped run with that operator, without any rule that ends it early."""
    return load_run(
        "peg_insert",
        [
            *OPERATORS[attention],
            f"run.seed={seed}",
            f"run.training.max_robot_minutes={minutes}",
            "run.training.max_episodes=100000",
            "run.training.enough.episodes=10000",
        ],
    )


def measure(attention: str, seed: int, minutes: float, work: Path) -> Result:
    """Train online and evaluate; demonstrations and trunk of a seed are those of the first operator that asked."""
    resolved, folder = resolve(attention, seed, minutes), work / f"{attention}-{seed}"
    started = time.monotonic()
    rows = train_from_shared(resolved, folder, work / f"shared-{seed}")
    won = evaluate(resolved, load_params(RunPaths(folder).policy("policy")), EVAL_EPISODES).successes
    return {
        "attention": attention,
        "seed": seed,
        "minutes": minutes,
        "success": sum(won),
        "resets": len(won),
        **training_figures(folder, rows),
        "wall_s": round(time.monotonic() - started, 1),
    }


def training_figures(folder: Path, rows: Sequence[EpisodeRow]) -> dict[str, Any]:
    """The course of online training, and what its operator had to attend to: of one who always looks, everything."""
    robot_s = sum(row.duration_s for row in rows)
    asked = help_figures(read_rows(RunPaths(folder).actor / "bench.jsonl").rows)
    return {
        "episodes": len(rows),
        "robot_s": round(robot_s, 1),
        "attention_s": round(robot_s, 1) if asked is None else asked["attention_s"],
        "in_hand_s": round(sum(row.human_steps * row.duration_s / row.steps for row in rows if row.steps), 1),
        "human_first": human_share(rows[:LAST]),
        "human_last": human_share(rows[-LAST:]),
        "asked": asked,
        "alone": [row.success and row.alone for row in rows],
        "steps": [row.steps for row in rows],
    }


def table(results: Sequence[Result]) -> str:
    """ASKING.md."""
    lines = [
        "# An operator who looks only when asked",
        "",
        "Made by `make bench-asking`: peg insertion in simulation, RLPD as shipped, the same demonstrations and trunk",
        f"for both operators of a seed. Success of the policy by itself on {EVAL_EPISODES} held-out resets; attention",
        "and the hand on the arm in seconds of online training, whose length is the robot's time.",
        "",
        "| attention | seed | success | robot time | attention | in hand | requests | needed | missed needs |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in results:
        asked = r["asked"]
        requests, needed, missed = ("-",) * 3 if asked is None else (asked[k] for k in ("requests", "needed", "missed"))
        share = f" ({asked['share_needed']:.0%})" if asked is not None and asked["share_needed"] is not None else ""
        lines.append(
            f"| {r['attention']} | {r['seed']} | {r['success']} of {r['resets']} | {r['robot_s']:.0f} s | "
            f"{r['attention_s']:.0f} s ({r['attention_s'] / r['robot_s']:.0%}) | {r['in_hand_s']:.0f} s | {requests} | "
            f"{needed}{share} | {missed} |"
        )
    return "\n".join([*lines, "", "![Success without help over robot time](../docs/images/asking.png)", ""])


def main() -> None:
    """See the module."""
    Comparison(
        what="attention",
        file="asking",
        names={ALWAYS: "always looks", ON_REQUEST: "looks when asked"},
        minutes=5.0,
        measure=measure,
        table=table,
    ).run(__doc__ or "")


if __name__ == "__main__":
    main()
