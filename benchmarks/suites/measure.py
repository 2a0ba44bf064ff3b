"""RLPD on outside suites, beside the figures that others published.

Run: make bench-suites [SMOKE=1], or python -m benchmarks.suites [--seeds 0 1 2] [--only TASK ...] [--chunks 1 5]
[--steps 200000] [--networks published --device cuda]. Writes SUITES.md and suites.json. With the small networks each
run takes an hour on a core for 200,000 steps; the published ones, and `wide`, which are our own as wide, need a GPU.
Evaluations are kept as they come, and the next call does the runs that are not finished, from their start. SMOKE=1 is
one run of 100,000 steps: puzzle-3x3-4 with decisions of 5 steps.

Where a GPU is rented by the minute, --keep FOLDER trains and puts the policies there instead of evaluating them, and
--evaluate FOLDER does that later, on any machine, and finds the same successes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
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
        "training": uuid4().hex,
        "evaluated": "sampled",
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
            print(
                f"{name} after {progress.seconds / 60:.1f} min; since the last "
                f"{progress.trained_successes} of {progress.trained_episodes} training episodes succeeded",
                flush=True,
            )

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
    run["seconds"] = max(run.get("seconds", 0), round(evaluated.seconds))
    keep(run, folder)
    print(
        f"{run['task']}, chunk {run['chunk']}, seed {run['seed']}: {evaluated.successes} of {evaluated.episodes} "
        f"after {evaluated.online_steps} steps and {evaluated.seconds / 60:.0f} min",
        flush=True,
    )


def evaluate_kept(policies: Path, folder: Path) -> list[str]:
    """Evaluate the policies in a folder that were not evaluated yet, those of a training in the order of their steps.

    Returns:
        What could not be evaluated, a sentence each; everything else was.
    """
    trainings: dict[tuple[Any, ...], Run] = {}
    failures: list[str] = []
    for run, progress, path in sorted(_kept(policies, failures), key=lambda one: (*key(one[0]), one[1].online_steps)):
        training = (*key(run), run.get("training"))
        known = trainings.setdefault(training, _known(run, folder))
        if str(progress.online_steps) not in known["evaluations"]:
            try:
                successes = ogbench.evaluate(
                    ogbench.TASKS[run["task"]],
                    load_file(path),
                    chunk=run["chunk"],
                    seed=run["seed"],
                    networks=run["networks"],
                    eval_episodes=ogbench.EVAL_EPISODES,
                )
            except (KeyError, RuntimeError, SafetensorError) as error:
                why = " ".join(str(error).split()[:30])
                failures.append(f"{path} is of another task or size than this program's ({why}); train it again")
                continue
            note(known, Evaluated(**asdict(progress), successes=successes, episodes=ogbench.EVAL_EPISODES), folder)
    return failures


def _kept(policies: Path, failures: list[str]) -> Iterator[tuple[Run, Progress, Path]]:
    for path in sorted(policies.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
            yield json.loads(about["run"]), Progress(**json.loads(about["progress"])), path
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            failures.append(f"{path} is no policy that --keep has written ({error!r}); remove it, or train it again")


def _known(run: Run, folder: Path) -> Run:
    """Return what is known of a training of which a policy was kept: another of the same seed is none of it."""
    same = (other for other in read(folder).ogbench if key(other) == key(run))
    return next((other for other in same if other.get("training") == run.get("training")), run)


def is_kept(policies: Path | None, run: tuple[str, int, str, int], steps: int) -> bool:
    """Return whether the policy at the end of a run lies in a folder already."""
    task, chunk, networks, seed = run
    found = [] if policies is None else policies.glob(f"{task}-chunk{chunk}-{networks}-seed{seed}-*.safetensors")
    return any(int(path.stem.rpartition("-")[2]) >= steps for path in found)


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
    parser.add_argument("--networks", choices=list(ogbench.NETWORKS), default="small", help="small for one core")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where they are trained")
    parser.add_argument("--eval-every", type=int, default=ogbench.EVAL_EVERY, help="steps between evaluations")
    parser.add_argument("--data", type=Path, default=Path("build/suites"), help="where play data lies, or is made")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the table and the results")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--keep", type=Path, metavar="FOLDER", help="put policies there instead of evaluating them")
    when.add_argument(
        "--evaluate", type=Path, metavar="FOLDER", help="evaluate all that was kept there, and train nothing"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.evaluate is not None:
        if not list(options.evaluate.glob("*.safetensors")):
            parser.error(f"no policy lies in {options.evaluate}, must be one that --keep has written; name its folder")
        if failures := evaluate_kept(options.evaluate, options.out):
            sys.exit("\n".join(failures))
        return
    for task, chunk, seed in wanted(options.seeds, options.only, options.chunks):
        known = {key(run): run for run in read(options.out).ogbench}
        run = (task.name, chunk, options.networks, seed)
        if not is_done(known.get(run), options.steps) and not is_kept(options.keep, run, options.steps):
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
