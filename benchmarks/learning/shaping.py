"""How progress becomes reward: five forms on the same demonstrations at equal robot time.

Run: make bench-shaping, or python -m benchmarks.learning.shaping [--minutes 3] [--seeds 0 1 2] [--only FORM ...].
Writes SHAPING.md, shaping.json and docs/images/shaping.png. Hours for all of them; what is done is kept, and the next
call goes on from there. Runs of another length need a folder of their own (--out).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from benchmarks.learning.comparison import Comparison, Result
from benchmarks.learning.lockstep import human_share, kept_file, train_from_shared
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.evaluate import HELD_OUT, evaluation_runner
from robot_stack.rollout.params_file import load_params
from robot_stack.workcell.build import build_local_cell
from robot_stack.workcell.local_cell import see

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
KEEP_EVERY, KEPT_EPISODES = 4, 20
WANTED = 0.9
HOVER_SIDE_M, HOVER_HEIGHT_M = 0.015, 0.05


def measure(form: str, seed: int, minutes: float, work: Path) -> Result:
    """Train online and evaluate; demonstrations and trunk of a seed are those of the first form that asked."""
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
    rows = train_from_shared(resolved, folder, work / f"shared-{seed}", keep_every=KEEP_EVERY)
    successes, hovers = evaluate_ends(resolved, folder / "policy.safetensors", EVAL_EPISODES)
    shares: dict[int, float] = {}
    for episodes in range(KEEP_EVERY, len(rows) + 1, KEEP_EVERY):
        if (file := kept_file(folder, episodes)).exists() and first_reached(shares) is None:
            shares[episodes] = evaluate_ends(resolved, file, KEPT_EPISODES)[0] / KEPT_EPISODES
    alone = [row.success and row.alone for row in rows]
    return {
        "form": form,
        "seed": seed,
        "minutes": minutes,
        "episodes": len(rows),
        "episodes_to_wanted": first_reached(shares),
        "kept": shares,
        "success": successes / EVAL_EPISODES,
        "hovering": hovers / EVAL_EPISODES,
        "human_share": human_share(rows),
        "alone": alone,
        "steps": [row.steps for row in rows],
        "wall_s": time.monotonic() - started,
    }


def first_reached(shares: Mapping[int, float]) -> int | None:
    """Count the episodes until the policy by itself succeeded at 90 % of held-out resets; None if it never did.

    Args:
        shares: Episodes of online training -> success of the parameters of then, without an operator and without noise.
    """
    return next((episodes for episodes, share in sorted(shares.items()) if share >= WANTED), None)


def evaluate_ends(resolved: ResolvedRun, policy_file: Path, episodes: int) -> tuple[int, int]:
    """Held-out resets without an operator: successes, and failures that ended hanging over the goal."""
    cell = build_local_cell(resolved, seed=0)
    runner = evaluation_runner(resolved, load_params(policy_file), cell, cell)
    successes = hovers = 0
    for _ in range(episodes):
        outcome = runner.run(HELD_OUT)
        successes += bool(outcome.truth)
        seen = see(cell.world)
        aside, above = float(np.linalg.norm((seen.tcp[0] - seen.goal[0])[:2])), float(seen.tcp[0][2] - seen.goal[0][2])
        hovers += not outcome.truth and aside < HOVER_SIDE_M and above < HOVER_HEIGHT_M
    return successes, hovers


def table(results: Sequence[Result]) -> str:
    """SHAPING.md."""
    lines = [
        "# Forms of reward",
        "",
        "Made by `make bench-shaping`: peg insertion in simulation; the same demonstrations, trunk and operator for",
        f"all forms of a seed. Success on {EVAL_EPISODES} held-out resets without an operator. Hovering: failures",
        f"that ended within {100 * HOVER_SIDE_M:g} cm beside the goal and below {100 * HOVER_HEIGHT_M:g} cm above it.",
        f"Until {WANTED:.0%}: online episodes after which the policy by itself did as well on {KEPT_EPISODES} of",
        f"these resets, looked at every {KEEP_EVERY}; a dash: never within the robot time.",
        "",
        "| form | reward of Φ | seed | robot time | episodes | until 90 % | success | hovering | human steps |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {r['form']} | {WORDS[r['form']]} | {r['seed']} | {r['minutes']:g} min | {r['episodes']} | "
        f"{r['episodes_to_wanted'] or '-'} | {r['success']:.0%} | {r['hovering']:.0%} | {r['human_share']:.1%} |"
        for r in results
    ]
    lines += [
        "",
        "Together, over the seeds shared with sparse reward. p is that of the episodes until 90 % against sparse's",
        "(Mann and Whitney, exact, two-sided); three seeds of each cannot bring it below 0.1, so they decide nothing.",
        "",
        "| form | seeds | until 90 %, mean | of sparse's | p | success, mean | hovering, mean |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *together(results),
    ]
    return "\n".join([*lines, "", "![Success without help over robot time](../docs/images/shaping.png)", ""])


def together(results: Sequence[Result]) -> list[str]:
    """A row for each form; a dash where one of its seeds never reached what is wanted."""
    found: dict[str, dict[int, Result]] = {}
    for result in results:
        found.setdefault(result["form"], {})[result["seed"]] = result
    rows = []
    for form, of_seed in found.items():
        seeds = sorted(of_seed.keys() & found.get("sparse", {}).keys())
        if not seeds:
            continue
        until = [of_seed[seed]["episodes_to_wanted"] for seed in seeds]
        sparse = [found["sparse"][seed]["episodes_to_wanted"] for seed in seeds]
        mean = "-" if None in until else f"{np.mean(until):.1f}"
        known = None not in until + sparse
        share = f"{sum(until) / sum(sparse):.2f}" if known else "-"
        chance = f"{difference_by_chance(until, sparse):.1f}" if known and form != "sparse" else "-"
        success, hovering = (np.mean([of_seed[seed][key] for seed in seeds]) for key in ("success", "hovering"))
        rows.append(f"| {form} | {len(seeds)} | {mean} | {share} | {chance} | {success:.0%} | {hovering:.0%} |")
    return rows


def difference_by_chance(one: Sequence[int], other: Sequence[int]) -> float:
    """How probable a difference of ranks as large as this is without any reason, two-sided and exact."""
    return float(mannwhitneyu(one, other, method="exact").pvalue)


def main() -> None:
    """See the module."""
    names = {form: f"{form}: {WORDS[form]}" for form in FORMS}
    Comparison(what="form", file="shaping", names=names, minutes=3.0, measure=measure, table=table).run(__doc__ or "")


if __name__ == "__main__":
    main()
