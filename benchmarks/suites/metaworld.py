"""Meta-World's tasks from pixels, as others measured them, and with what nobody published: an expert who takes over.

Run: python -m benchmarks.suites.metaworld [--tasks assembly-v3] [--conditions helped] [--seeds 0 1 2] [--minutes 5]
Adds to SUITES.md and suites.json. Meta-World pins a MuJoCo of its own; give it an environment of its own:

    python -m venv mw; mw/bin/pip install -e '.[metaworld]'

The run is docs/examples/metaworld, the learner process and the actor are the usual ones in one process, and time stands
still while updates are made. All conditions of a task and a seed begin from the same demonstrations and trunk.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import torch

from benchmarks.evidence.conditions import DEMONSTRATIONS, OF_THE_CELL, Condition
from benchmarks.evidence.runs import EvidenceRuns
from benchmarks.evidence.table import differences
from benchmarks.learning.comparison import Result
from benchmarks.learning.lockstep import LAST
from benchmarks.suites.table import FOLDER, Run, read, write

RUN = "docs/examples/metaworld/runs/metaworld.yaml"
TEXTS = {
    "assembly-v3": "put the ring over the peg",
    "box-close-v3": "put the lid on the box",
    "coffee-push-v3": "push the mug under the coffee machine",
    "stick-pull-v3": "pull the thermos with the stick",
}
RESETS = 50
NOBODY = ("task.sim.patience=null",)
CONDITIONS: Mapping[str, Condition] = {
    "bc": Condition(
        words="behaviour cloning",
        run=RUN,
        operator=OF_THE_CELL,
        algorithm="hg_dagger",
        overrides=(*NOBODY, "run.algorithm.settings.utd=2.0", "run.algorithm.settings.actor_tau=0.005"),
        imitates=DEMONSTRATIONS,
    ),
    "alone": Condition(words="RLPD without help", run=RUN, operator=OF_THE_CELL, overrides=NOBODY),
    "helped": Condition(words="RLPD with help", run=RUN, operator=OF_THE_CELL),
    "helped.without_q": Condition(
        words="the same without Q in the actor's loss",
        run=RUN,
        operator=OF_THE_CELL,
        overrides=("run.algorithm.settings.q_weight=0",),
    ),
}


def measure(task: str, condition: str, seed: int, *, minutes: float, work: Path, more: tuple[str, ...] = ()) -> Run:
    """Train once and evaluate; returns the run as it is kept.

    Args:
        task: Of Meta-World.
        condition: Of `CONDITIONS`.
        minutes: Online training, at ten decisions a second.
        work: What runs leave to each other.
        more: Texts `dotted.key=value` beside those of the condition.
    """
    overrides = (f"task.sim.kwargs.task={task}", f"task.text={TEXTS[task]}", *more)
    runs = EvidenceRuns(work / task, minutes, conditions=CONDITIONS, overrides=overrides, resets=RESETS)
    return told(task, runs.measure(condition, seed))


def told(task: str, result: Result) -> Run:
    """Return what is kept of a run: its figures in decisions, for an environment has no seconds."""
    demonstrated, corrected = (round(10 * result[key]) for key in ("demonstrations_s", "corrections_s"))
    alone = result["alone"][-LAST:]
    return {
        "task": task,
        "condition": result["condition"],
        "seed": result["seed"],
        "success": result["success"],
        "resets": result["resets"],
        "episodes": result["episodes"],
        "decisions": round(10 * result["robot_s"]) - demonstrated,
        "demonstrated": demonstrated,
        "corrected": corrected,
        "alone_last20": sum(alone) if alone else None,
        "minutes": result["minutes"],
        "wall_s": result["wall_s"],
        "settings": result["settings"],
        "commit": result["commit"],
    }


def keep(run: Run, folder: Path) -> None:
    """Write one more run, and table and figures anew.

    Raises:
        SystemExit: If those that are there had another training time, or those of its row other settings.
    """
    known = read(folder)
    if others := {one["minutes"] for one in known.metaworld} - {run["minutes"]}:
        raise SystemExit(f"runs in {folder} are of {others} minutes, must be of {run['minutes']}; give another --out")
    for one in (one for one in known.metaworld if (one["task"], one["condition"]) == (run["task"], run["condition"])):
        if differing := differences(one["settings"], run["settings"]):
            raise SystemExit(
                f"settings of {run['condition']} are {differing} in seed {one['seed']} at {one['commit']} and in seed "
                f"{run['seed']} at {run['commit']}, must be the same; give another --out"
            )
    order = [list(TEXTS), list(CONDITIONS)]
    known.metaworld = sorted(
        [*known.metaworld, run],
        key=lambda one: (order[0].index(one["task"]), order[1].index(one["condition"]), one["seed"]),
    )
    write(known, folder)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.suites.metaworld", description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(TEXTS), default=list(TEXTS))
    parser.add_argument("--conditions", nargs="+", choices=list(CONDITIONS), default=list(CONDITIONS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=5.0, help="online training, at ten decisions a second")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the table and the results")
    parser.add_argument("--work", type=Path, default=Path("build/metaworld"), help="what runs leave to each other")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in options.seeds:
        for task in options.tasks:
            (options.work / task).mkdir(parents=True, exist_ok=True)
            for condition in options.conditions:
                known = {(run["task"], run["condition"], run["seed"]) for run in read(options.out).metaworld}
                if (task, condition, seed) not in known:
                    run = measure(task, condition, seed, minutes=options.minutes, work=options.work)
                    print({key: value for key, value in run.items() if key != "settings"}, flush=True)
                    keep(run, options.out)


if __name__ == "__main__":
    main()
