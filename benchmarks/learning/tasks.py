"""What is learned on each simulated task: RLPD as its shipped run has it, beside HG-DAgger and behaviour cloning.

Run: make bench-tasks, or python -m benchmarks.learning.tasks [--minutes 5] [--seeds 0 1 2] [--only TASK ...]
[--algorithms rlpd rlpd_refit bc].
Writes TASKS.md and tasks.json. Each run takes its robot time several times on a core; each is kept as soon as it is
done, and the next call does the rest. All begin from the same demonstrations and trunk of a task and a seed, and make
as many updates; `rlpd_refit` fits the trunk again while it trains.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.evidence.conditions import AS_MANY_UPDATES, DEMONSTRATIONS, EVAL_EPISODES, OF_THE_CELL, Condition
from benchmarks.evidence.measure import Measures
from benchmarks.evidence.runs import EvidenceRuns
from benchmarks.evidence.table import MixedSettings, refuse_mixed
from benchmarks.learning.comparison import FOLDER, Result
from benchmarks.learning.lockstep import LAST
from reward_models.metrics import wilson_interval
from robot_stack.disk.durable import write_durable, write_json

TASKS = ("cable_plug", "pick_insert", "drawer", "two_arm_insert", "peg_in_and_out")
SMOOTHED = ("487e2fec6ca1",)
"""Commits of runs whose scores took jerk over 0.15 s, not 30 ms: some tenths of a point more."""
ALGORITHMS = ("rlpd", "rlpd_refit", "hg_dagger", "bc")
REFIT_AT = (15, 40)
"""Online episodes after which the trunk is fitted again."""
_OVERRIDES = {"rlpd": (), "rlpd_refit": (f"encoder.settings.refit_at={list(REFIT_AT)}",)}
LONG = ("settings", "defaults", "alone", "steps", "cycles_s")
"""Parts of a result that are not printed."""
WANTED = 0.95


def conditions() -> dict[str, Condition]:
    """Return what is measured, by the name `TASK.ALGORITHM`."""
    return {
        f"{task}.{algorithm}": Condition(
            words=algorithm,
            run=task,
            operator=OF_THE_CELL,
            algorithm="rlpd" if algorithm in _OVERRIDES else "hg_dagger",
            overrides=_OVERRIDES.get(algorithm, AS_MANY_UPDATES),
            imitates=DEMONSTRATIONS if algorithm == "bc" else None,
        )
        for task in TASKS
        for algorithm in ALGORITHMS
    }


def read(folder: Path) -> list[Result]:
    """Return the runs that are done."""
    path = folder / "tasks.json"
    runs: list[Result] = json.loads(path.read_text())["runs"] if path.exists() else []
    return runs


def figures(runs: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of one algorithm on one task, an entry a seed, and Wilson's interval of all its resets."""
    low, high = wilson_interval(sum(run["success"] for run in runs), sum(run["resets"] for run in runs))
    told: dict[str, Any] = {
        "seeds": [run["seed"] for run in runs],
        "success": [run["success"] / run["resets"] for run in runs],
        "wilson95": [round(low, 4), round(high, 4)],
        "cycle_s": [_mean(run["cycles_s"]) for run in runs],
        "demonstration_cycle_s": [run["demonstration_cycle_s"] for run in runs],
        "human_share_last20": [run["human_share_last20"] for run in runs],
        "episodes": [run["episodes"] for run in runs],
        "operator_s": [run["operator_s"] for run in runs],
        "robot_s": [run["robot_s"] for run in runs],
    }
    return told | {key: [run[key] for run in runs] for key in ("reached", "score") if key in runs[0]}


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 3) if values else None


def document(runs: Sequence[Result]) -> dict[str, Any]:
    """Return tasks.json: RLPD's figures under each task, those of the others under their names there, and all runs."""
    found: dict[str, Any] = {}
    for task in TASKS:
        for algorithm in ALGORITHMS:
            own = [run for run in runs if run["condition"] == f"{task}.{algorithm}"]
            if own:
                entry = found.setdefault(task, {})
                entry |= figures(own) if algorithm == "rlpd" else {algorithm: figures(own)}
    return {**found, "runs": list(runs)}


def table(runs: Sequence[Result]) -> str:
    """Return TASKS.md."""
    lines = [
        "# Tasks",
        "",
        "Made by `make bench-tasks`: the shipped run of each simulated task in lockstep, with its",
        f"own operator; success of the policy alone on {EVAL_EPISODES} held-out resets a seed, with Wilson's 95 %",
        "interval over all of them. RLPD, HG-DAgger and behaviour cloning begin from the same demonstrations and trunk",
        "and make as many updates; `rlpd_refit` is RLPD whose trunk is fitted again after "
        f"{' and '.join(map(str, REFIT_AT))} episodes. Human steps are those of the last {LAST} episodes. Operator and",
        "robot time have the demonstrations in them; a demonstration's time ends when the task is done, as a policy's.",
        f"Wanted: {WANTED:.0%} within 60 minutes of robot time, below 3 % of human steps.",
        "",
        "| task | algorithm | seeds | success, each seed | together | cycle | demonstrations | human steps | episodes "
        "| operator | robot |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        _row(task, algorithm, figures(own))
        for task in TASKS
        for algorithm in ALGORITHMS
        if (own := [run for run in runs if run["condition"] == f"{task}.{algorithm}"])
    ]
    for task in TASKS:
        lines += _milestones(task, [run for run in runs if run["condition"].startswith(f"{task}.")])
    commits = ", ".join(sorted({run["commit"] for run in runs}))
    return "\n".join([*lines, "", f"Commits: {commits}.", ""])


def _row(task: str, algorithm: str, told: Mapping[str, Any]) -> str:
    low, high = told["wilson95"]
    cells = (
        task,
        algorithm,
        _joined(told["seeds"], "{}"),
        _joined(told["success"], "{:.0%}"),
        f"{low:.0%} to {high:.0%}",
        _joined(told["cycle_s"], "{:.1f} s"),
        _joined(told["demonstration_cycle_s"], "{:.1f} s"),
        _joined(told["human_share_last20"], "{:.1%}"),
        _joined(told["episodes"], "{}"),
        _joined(told["operator_s"], "{:.0f} s"),
        _joined(told["robot_s"], "{:.0f} s"),
    )
    return f"| {' | '.join(cells)} |"


def _joined(values: Sequence[Any], form: str) -> str:
    return ", ".join("-" if value is None else form.format(value) for value in values)


def _milestones(task: str, runs: Sequence[Result]) -> list[str]:
    """Return what else a task tells: the resets that reached each milestone, or the score of an insertion."""
    told = [run for run in runs if "reached" in run or "score" in run]
    if not told:
        return []
    lines = ["", f"## {task}", ""]
    for run in told:
        of = f"- {run['condition'].split('.')[1]}, seed {run['seed']}: "
        if "reached" in run:
            lines.append(of + ", ".join(f"{name} {count}" for name, count in run["reached"].items()))
        if "score" in run:
            score = run["score"]
            parts = ", ".join(f"{name} {value}" for name, value in score["parts"].items())
            smoothed = "; jerk over 0.15 s" if run["commit"] in SMOOTHED else ""
            lines.append(
                of + f"mean score {score['mean']} of {score['most']} ({parts}), {score['touched']} touched{smoothed}"
            )
    return lines


def keep(result: Result, folder: Path) -> None:
    """Write what is known with one more run: results and table."""
    order = list(conditions())
    runs = sorted([*read(folder), result], key=lambda run: (order.index(run["condition"]), run["seed"]))
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "tasks.json", document(runs))
    write_durable(folder / "TASKS.md", table(runs))


def measure_missing(measured: Measures, seeds: Sequence[int], names: Sequence[str], folder: Path) -> None:
    """Measure what is not in the folder yet; each run is on disk before the next begins.

    Raises:
        MixedSettings: If a run would not belong to those that are there; it is not measured.
    """
    for name, seed in ((name, seed) for seed in seeds for name in names):
        done = read(folder)
        if (name, seed) not in [(run["condition"], run["seed"]) for run in done]:
            identity = measured.identity(name, seed)
            refuse_mixed([*done, identity])
            _refuse_other_length(identity, done)
            result = measured.measure(name, seed)
            print({key: value for key, value in result.items() if key not in LONG}, flush=True)
            keep(result, folder)


def _refuse_other_length(identity: Result, done: Sequence[Result]) -> None:
    """Refuse a run that would stand beside one of its task that had other time to learn.

    Raises:
        MixedSettings: If there is one.
    """
    task = identity["condition"].partition(".")[0]
    for run in done:
        if run["condition"].partition(".")[0] == task and run["minutes"] != identity["minutes"]:
            raise MixedSettings(
                f"minutes of {run['condition']} are {run['minutes']}, must be {identity['minutes']} as those of "
                f"{identity['condition']}; give the same --minutes, or another --out"
            )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.learning.tasks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="robot time of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the table and the results")
    parser.add_argument("--work", type=Path, default=Path("build/tasks"), help="what runs leave to each other")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    measured = EvidenceRuns(options.work, options.minutes, conditions=conditions())
    names = [f"{task}.{algorithm}" for task in options.only for algorithm in options.algorithms]
    try:
        measure_missing(measured, options.seeds, names, options.out)
    except MixedSettings as mixed:
        parser.error(str(mixed))


if __name__ == "__main__":
    main()
