"""How progress becomes reward: five forms on the same demonstrations at equal robot time.

Run: make bench-shaping, or python benchmarks/shaping.py [--minutes 4] [--seeds 0 1 2] [--only FORM ...].
Writes SHAPING.md, shaping.json and docs/images/shaping.png. Hours for all of them; what is done is kept, and the next
call goes on from there.
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
from robot_stack.config.resolved import ResolvedRun
from robot_stack.run.build import build_local_cell
from robot_stack.run.control_loop import ControlLoop, LoopLimits
from robot_stack.run.evaluate import NullSink, eval_header, load_params
from robot_stack.run.local_cell import see

mpl.use("Agg")
from matplotlib import pyplot as plt

from policies.acting import ActingPolicy

FOLDER = Path(__file__).parent
FIGURE = FOLDER.parent / "docs" / "images" / "shaping.png"
FORMS = {
    "sparse": ("run.reward.form=sparse",),
    "absolute": ("run.reward.form=absolute",),
    "difference": ("run.reward.form=difference",),
    "potential": (),
    "gated": ("reward.settings.gate=20.0",),
}
WORDS = {
    "sparse": "sparse reward only",
    "absolute": "Φ(s')",
    "difference": "Φ(s') - Φ(s)",
    "potential": "γΦ(s') - Φ(s), Φ = 0 at the end",
    "gated": "the same, Φ gated",
}
EVAL_EPISODES = 50
WANTED = 0.9
HOVER_SIDE_M, HOVER_HEIGHT_M = 0.015, 0.05


def measure(form: str, seed: int, minutes: float, work: Path) -> dict[str, Any]:
    """Practise and evaluate; demonstrations and trunk of a seed are those of the first form that asked."""
    overrides = [
        f"run.seed={seed}",
        f"run.training.max_robot_minutes={minutes}",
        "run.training.max_episodes=100000",
        "run.training.enough.episodes=10000",
        *FORMS[form],
    ]
    resolved = load_run("peg_insert", overrides)
    folder = work / f"{form}-{seed}"
    started = time.monotonic()
    rows = practise_from_shared(resolved, folder, work / f"shared-{seed}")
    successes, hovers = evaluate_ends(resolved, folder / "policy.safetensors")
    alone = [bool(r["success"]) and not r["human_steps"] for r in rows]
    return {
        "form": form,
        "seed": seed,
        "minutes": minutes,
        "episodes": len(rows),
        "episodes_to_wanted": first_reached(alone),
        "success": successes / EVAL_EPISODES,
        "hovering": hovers / EVAL_EPISODES,
        "human_share": human_share(rows),
        "alone": alone,
        "steps": [r["steps"] for r in rows],
        "wall_s": time.monotonic() - started,
    }


def first_reached(alone: Sequence[bool]) -> int | None:
    """Episodes of practice after which the newest 20 were at least 90 % successes without a person."""
    for end in range(LAST, len(alone) + 1):
        if np.mean(alone[end - LAST : end]) >= WANTED:
            return end
    return None


def evaluate_ends(resolved: ResolvedRun, policy_file: Path) -> tuple[int, int]:
    """Held-out resets without a person: successes, and failures that ended hanging over the goal."""
    cell, spec = build_local_cell(resolved, seed=0), resolved.spec()
    policy = ActingPolicy(spec, load_params(policy_file), seed=0)
    loop = ControlLoop(cell, spec, cell, LoopLimits(episode_steps=resolved.task.episode_steps))
    successes = hovers = 0
    for number in range(EVAL_EPISODES):
        outcome = loop.run_episode(eval_header(resolved, number), policy, NullSink(), deterministic=True)
        successes += bool(outcome.truth)
        seen = see(cell.world)
        aside, above = float(np.linalg.norm((seen.tcp[0] - seen.goal[0])[:2])), float(seen.tcp[0][2] - seen.goal[0][2])
        hovers += not outcome.truth and aside < HOVER_SIDE_M and above < HOVER_HEIGHT_M
    return successes, hovers


def table(results: Sequence[dict[str, Any]]) -> str:
    """SHAPING.md."""
    lines = [
        "# Forms of reward",
        "",
        "Made by `make bench-shaping`: peg insertion in simulation; the same demonstrations, trunk and person for all",
        f"forms of a seed. Success on {EVAL_EPISODES} held-out resets without a person. Hovering: of these, failures",
        f"that ended within {100 * HOVER_SIDE_M:g} cm beside the goal and below {100 * HOVER_HEIGHT_M:g} cm above it.",
        f"Episodes until {LAST} in a row had {WANTED:.0%} success without help; a dash: never within the robot time.",
        "",
        "| form | reward of Φ | seed | robot time | episodes | until 90 % | success | hovering | human steps |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['form']} | {WORDS[r['form']]} | {r['seed']} | {r['minutes']:g} min | {r['episodes']} | "
        f"{r['episodes_to_wanted'] or '-'} | {r['success']:.0%} | {r['hovering']:.0%} | {r['human_share']:.1%} |"
        for r in sorted(results, key=lambda r: (list(FORMS).index(r["form"]), r["seed"]))
    ]
    return "\n".join([*lines, "", "![Success without help over robot time](../docs/images/shaping.png)", ""])


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Share of episodes that ended well without a person, over robot time; a line per form, a band over seeds."""
    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=110)
    for form in [n for n in FORMS if any(r["form"] == n for r in results)]:
        runs = [r for r in results if r["form"] == form]
        grid = np.linspace(0, min(sum(r["steps"]) for r in runs) / 600, 60)
        curves = np.array([smoothed(r, grid) for r in runs])
        (line,) = axes.plot(grid, curves.mean(axis=0), label=f"{form}: {WORDS[form]}")
        axes.fill_between(grid, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.12)
    axes.set(xlabel="robot time [min]", ylabel="success without help, last 20 episodes", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    """Measure what is missing, write after each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=4.0, help="robot time of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="*", choices=list(FORMS), default=list(FORMS))
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of SHAPING.md and shaping.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = options.out / "shaping.json"
    results: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    with tempfile.TemporaryDirectory() as work:
        for seed in options.seeds:
            for form in options.only:
                if (form, seed, options.minutes) in [(r["form"], r["seed"], r["minutes"]) for r in results]:
                    continue
                results.append(measure(form, seed, options.minutes, Path(work)))
                print({k: v for k, v in results[-1].items() if k not in ("alone", "steps")}, flush=True)
                path.write_text(json.dumps(results) + "\n")
                (options.out / "SHAPING.md").write_text(table(results))
                draw(results, FIGURE if options.out == FOLDER else options.out / "shaping.png")


if __name__ == "__main__":
    main()
