"""Every algorithm on the same demonstrations at equal robot time: success and interventions.

Run: make bench-algorithms, or python benchmarks/algorithms.py [--minutes 10] [--seeds 0 1 2] [--only NAME ...].
Writes ALGORITHMS.md, algorithms.json and docs/images/algorithms.png. Each run is the real actor and the real learner
over gRPC with the cell in this process: time stands still while the learner makes the updates that it owes, so that a
run takes as long as its updates and not as long as its robot. Hours for all of them; what is done is kept, and the
next call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.run import fitting
from robot_stack.run.actor import Actor
from robot_stack.run.build import build_local_cell
from robot_stack.run.evaluate import evaluate, load_params
from robot_stack.run.local_cell import LocalCell
from robot_stack.run.metrics import read_metrics
from robot_stack.run.settings import learning_settings
from robot_stack.run.training import Training
from robot_stack.transport.client import LearnerClient

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent
FIGURE = FOLDER.parent / "docs" / "images" / "algorithms.png"
ALGORITHMS = ("rlpd", "bc", "hg_dagger", "residual", "cal_ql", "jump_start")
EVAL_EPISODES = 50
LAST = 20
LEARNER_LATE_S = 120.0


class Lockstep:
    """The clock of a cell whose time waits for the learner.

    Args:
        cell: Whose time it is.
        training: Must have made the updates that it owes before time goes on.
        utd: Updates owed for each online step.
        pretrain: Updates owed before the first.
    """

    def __init__(self, cell: LocalCell, training: Training, *, utd: float, pretrain: int) -> None:
        self._cell, self._training = cell, training
        self._utd, self._pretrain = utd, pretrain

    def now_ns(self) -> int:
        """Simulated time."""
        return self._cell.now_ns()

    def sleep_until_ns(self, when_ns: int) -> None:
        """Wait for the learner, then let the simulation run until then."""
        deadline_s = time.monotonic() + LEARNER_LATE_S
        while not self._level():
            if time.monotonic() > deadline_s:
                raise SystemExit(f"learner owes updates for {LEARNER_LATE_S:.0f} s, must make them; see its log")
            time.sleep(0.001)
        self._cell.sleep_until_ns(when_ns)

    def _level(self) -> bool:
        status = self._training.status()
        owed = self._pretrain + self._utd * (status.counters["env_steps"] - 1)
        return status.phase != "training" or status.counters["updates"] >= owed


def practise(resolved: ResolvedRun, folder: Path) -> None:
    """One whole run in `folder`, up to its final parameters."""
    (folder / "actor").mkdir(parents=True, exist_ok=True)
    (folder / "run.yaml").write_text(resolved.to_yaml())
    stop, training = threading.Event(), Training(resolved, folder)
    failures: list[BaseException] = []

    def learn() -> None:
        try:
            training.run(stop)
        except BaseException as error:  # the top of this thread: raised below, where the benchmark can end
            failures.append(error)
            stop.set()

    address = training.serve("127.0.0.1:0")
    learner = threading.Thread(target=learn, name="learner")
    learner.start()
    spec, cell = resolved.spec(), build_local_cell(resolved, seed=resolved.run.seed)
    client = LearnerClient(address, spec, resolved.task.name, "bench", folder / "actor" / "bench.spool")
    client.connect()
    config = learning_settings(resolved).config
    clock = Lockstep(cell, training, utd=config.utd, pretrain=config.pretrain_updates)
    try:
        why = Actor(resolved, folder / "actor", cell, clock, client, "bench").run(stop)
    finally:
        stop.set()
        learner.join()
        client.close()
        training.close()
    if failures:
        raise failures[0]
    if why:
        raise SystemExit(f"run {folder.name} ended with {why!r}, must come to its end")


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
    folder, shared = work / f"{name}-{seed}", work / f"shared-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    if shared.exists():
        shutil.copytree(shared, folder)
    started = time.monotonic()
    practise(resolved, folder)
    if not shared.exists():
        keep_demonstrations(folder, shared)
    rows = [
        r for r in read_metrics(folder / "metrics.jsonl") if r["kind"] == "episode" and r["episode_kind"] == "online"
    ]
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


def keep_demonstrations(folder: Path, shared: Path) -> None:
    """What other algorithms start from: recorded demonstrations, their labels, and the trunk."""
    draft = shared.with_suffix(".tmp")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(folder / "store", draft / "store", ignore=lambda _, names: [n for n in names if "online" in n])
    shutil.copy(folder / fitting.TRUNK, draft / fitting.TRUNK)
    (draft / "actor").mkdir()
    demos = len(list((draft / "store" / "episodes").iterdir()))
    (draft / "actor" / "bench.next").write_text(str(demos))
    draft.rename(shared)


def human_share(rows: Sequence[dict[str, Any]]) -> float:
    """Share of steps that a person executed."""
    return sum(r["human_steps"] for r in rows) / max(1, sum(r["steps"] for r in rows))


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


def smoothed(result: dict[str, Any], grid_min: np.ndarray) -> np.ndarray:
    """Mean over the last 20 episodes at each instant of the grid."""
    alone = np.array(result["alone"], np.float64)
    done_min = np.cumsum(result["steps"]) / 600
    counts = np.searchsorted(done_min, grid_min, side="right")
    return np.array([alone[max(0, c - LAST) : max(1, c)].mean() for c in counts])


def main() -> None:
    """Measure what is missing, write after each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="robot time of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="*", choices=ALGORITHMS, default=ALGORITHMS)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of ALGORITHMS.md and algorithms.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = options.out / "algorithms.json"
    results: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    with tempfile.TemporaryDirectory() as work:
        for seed in options.seeds:
            for name in options.only:
                key = (name, seed, options.minutes)
                if key in [(r["algorithm"], r["seed"], r["minutes"]) for r in results]:
                    continue
                results.append(measure(name, seed, options.minutes, Path(work)))
                print({k: v for k, v in results[-1].items() if k not in ("alone", "steps")}, flush=True)
                path.write_text(json.dumps(results) + "\n")
                (options.out / "ALGORITHMS.md").write_text(table(results))
                draw(results, FIGURE if options.out == FOLDER else options.out / "algorithms.png")


if __name__ == "__main__":
    main()
