"""RLPD on outside suites, beside the figures that others published.

Run: make bench-suites [SMOKE=1], or python -m benchmarks.suites [--seeds 0 1 2] [--only TASK ...] [--chunks 1 5]
[--steps 200000] [--networks published --device cuda]. Writes SUITES.md and suites.json. With the small networks each
run takes an hour on a core for 200,000 steps; those of the published size need a GPU. Evaluations are kept as they
come, and the next call does the runs that are not finished, from their start. SMOKE=1 is one run of 100,000 steps:
puzzle-3x3-4 with decisions of 5 steps.

Where a GPU is rented by the minute, --keep FOLDER trains and puts the policies there instead of evaluating them, and
--evaluate FOLDER does that later, on any machine, with the same figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import nn

from benchmarks.suites import ogbench
from benchmarks.suites.table import FOLDER, Run, read, write
from robot_stack.disk.durable import write_durable
from robot_stack.suites.training import Evaluated, Progress

STEPS = 200_000
CHUNKS = (1, 5)


def key(run: Run) -> tuple[str, int, str, int]:
    """Return what tells a run from others."""
    return run["task"], run["chunk"], run["networks"], run["seed"]


def last(run: Run) -> int:
    """Return after how many steps a run was evaluated last."""
    return max(int(at) for at in run["evaluations"])


def keep(run: Run, folder: Path) -> None:
    """Write a run in the place of what was known of it, unless that went further, and table and figures anew."""
    order = list(ogbench.TASKS)
    known = read(folder)
    if any(key(other) == key(run) and last(other) > last(run) for other in known.ogbench):
        return
    runs = [other for other in known.ogbench if key(other) != key(run)] + [run]
    runs.sort(key=lambda one: (order.index(one["task"]), *key(one)[1:]))
    known.ogbench = runs
    write(known, folder)


def wanted(
    seeds: Sequence[int], names: Sequence[str], chunks: Sequence[int]
) -> Iterator[tuple[ogbench.Task, int, int]]:
    """Yield task, chunk and seed of each run in order: all of a seed before the next."""
    for seed in seeds:
        for name in names:
            for chunk in chunks:
                yield ogbench.TASKS[name], chunk, seed


def measure(
    task: ogbench.Task,
    *,
    chunk: int,
    seed: int,
    steps: int,
    data: Path,
    folder: Path,
    networks: ogbench.Networks = "small",
    device: str = "cpu",
    eval_every: int = ogbench.EVAL_EVERY,
    policies: Path | None = None,
) -> None:
    """Train once; each evaluation is on disk before the next begins.

    Args:
        policies: Folder in which the policies are kept instead of being evaluated.
    """
    run: Run = {
        "suite": "ogbench",
        "task": task.name,
        "chunk": chunk,
        "networks": networks,
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "seed": seed,
        "steps": steps,
        "evaluations": {},
    }

    def say(evaluated: Evaluated) -> None:
        if policies is None:
            note(run, evaluated, folder)

    def keep_policy(progress: Progress, network: nn.Module) -> None:
        if policies is not None:
            name = f"{task.name}-chunk{chunk}-{networks}-seed{seed}-{progress.online_steps}.safetensors"
            about = {"run": json.dumps(run), "progress": json.dumps(asdict(progress))}
            write_durable(policies / name, save(network.state_dict(), about))
            print(f"{name} after {progress.seconds / 60:.1f} min", flush=True)

    ogbench.train(
        task,
        chunk=chunk,
        seed=seed,
        steps=steps,
        data=data,
        say=say,
        networks=networks,
        device=device,
        eval_every=eval_every,
        eval_episodes=ogbench.EVAL_EPISODES if policies is None else 0,
        keep=keep_policy,
    )


def note(run: Run, evaluated: Evaluated, folder: Path) -> None:
    """Add an evaluation to a run, on disk too, and print it."""
    run["evaluations"][str(evaluated.online_steps)] = [evaluated.successes, evaluated.episodes]
    run["seconds"] = round(evaluated.seconds)
    keep(run, folder)
    print(
        f"{run['task']}, chunk {run['chunk']}, seed {run['seed']}: {evaluated.successes} of {evaluated.episodes} "
        f"after {evaluated.online_steps} steps and {evaluated.seconds / 60:.0f} min",
        flush=True,
    )


def evaluate_kept(policies: Path, folder: Path) -> None:
    """Evaluate the policies in a folder that were not evaluated yet, those of a run in the order of their steps."""
    kept = []
    for path in policies.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            about = file.metadata()
        kept.append((json.loads(about["run"]), Progress(**json.loads(about["progress"])), path))
    for run, progress, path in sorted(kept, key=lambda one: (*key(one[0]), one[1].online_steps)):
        known = next((other for other in read(folder).ogbench if key(other) == key(run)), run)
        if str(progress.online_steps) not in known["evaluations"]:
            successes = ogbench.evaluate(
                ogbench.TASKS[run["task"]],
                load_file(path),
                chunk=run["chunk"],
                seed=run["seed"],
                networks=run["networks"],
            )
            note(known, Evaluated(**asdict(progress), successes=successes, episodes=ogbench.EVAL_EPISODES), folder)


def is_done(run: Run | None, steps: int) -> bool:
    """Return whether a run has been evaluated at its end, and that is not before `steps`."""
    return run is not None and run["steps"] >= steps and any(int(at) >= run["steps"] for at in run["evaluations"])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.suites", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="*", choices=list(ogbench.TASKS), default=list(ogbench.TASKS))
    parser.add_argument("--chunks", type=int, nargs="+", choices=CHUNKS, default=list(CHUNKS))
    parser.add_argument("--steps", type=int, default=STEPS, help="online steps of each run")
    parser.add_argument("--networks", choices=list(ogbench.SIZES), default="small", help="how many and how wide")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where they are trained")
    parser.add_argument("--eval-every", type=int, default=ogbench.EVAL_EVERY, help="steps between evaluations")
    parser.add_argument("--data", type=Path, default=Path("build/suites"), help="where play data lies, or is made")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the table and the results")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--keep", type=Path, metavar="FOLDER", help="put policies there instead of evaluating them")
    when.add_argument("--evaluate", type=Path, metavar="FOLDER", help="evaluate what was kept there, and train nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.evaluate is not None:
        evaluate_kept(options.evaluate, options.out)
        return
    for task, chunk, seed in wanted(options.seeds, options.only, options.chunks):
        known = {key(run): run for run in read(options.out).ogbench}
        if not is_done(known.get((task.name, chunk, options.networks, seed)), options.steps):
            measure(
                task,
                chunk=chunk,
                seed=seed,
                steps=options.steps,
                data=options.data,
                folder=options.out,
                networks=options.networks,
                device=options.device,
                eval_every=options.eval_every,
                policies=options.keep,
            )
