"""Our runs on outside suites beside the published rows, as JSON and Markdown, and the files that hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reward_models.metrics import wilson_interval
from robot_stack.disk.durable import write_durable, write_json

Run = dict[str, Any]
FOLDER = Path(__file__).parent.parent
"""Of the table and the results."""

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text())
ROWS = {1: "RLPD", 5: "RLPD-AC"}
"""Chunk -> name of the published rows."""
NETWORKS = {"small": "2 of 2x256, tanh", "wide": "10 of 4x512, tanh", "published": "10 of 4x512, ReLU"}
"""Critics by the name of the networks."""
AT = (100_000, 200_000)
LATE = 1_000
"""Steps by which an evaluation may come late: it waits for the end of an episode."""
HEAD = """# Outside suites

RLPD of this project on tasks of others, beside the figures that others published. Made by `make bench-suites`; each run
is added as soon as it is evaluated, so a row has as many seeds as were run so far.

## OGBench

Success of {episodes} evaluation episodes of each seed, pooled, with Wilson's 95 % interval; published: mean over seeds
with its bootstrapped 95 % interval (Li, Zhou and Levine, 2025, arXiv:2507.07969; plot data of ColinQiyangLi/qc at
{commit}). Chunk is how many steps a decision covers; the published name of chunk 5 is RLPD-AC.

| task | chunk | critics | evaluated | steps | ours | seeds | published |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
TAIL = """
What is the same: state observations, half of each batch of 256 from a million steps of play and half online, one update
a step after 5,000 random steps, discount .99, the entropy target, the learning rate, the averaged target. What is not:

- **Networks**: "ReLU" are the published ones: 10 critics of 4x512 with ReLU and LayerNorm, an actor without LayerNorm,
  the mean of all critics as the target, float32 products (TF32). They need a GPU. "tanh" are those of our runs on
  robots: LayerNorm and tanh behind each layer and behind a trained encoding of 256 or 512, one critic at random as the
  target, bf16 products on a GPU; 2 of 2x256 learn on one core.
- **Updates**: observations are standardised and clipped at five deviations; the temperature is a softplus instead of an
  exponential; standard deviations are 1e-5 to 5 instead of e^-20 to e^2; critics, actor and temperature step one after
  the other instead of at once; an action is of a policy that is one update older.
- **Ends**: chunks in which the task is done before their end are learned from, where the published program leaves them
  out of its online half; play is cut where it passes through success.
- **Play data**: made anew by OGBench's own oracles with its own settings (`benchmarks/suites/play.py`), a thousand
  episodes of a thousand steps, not OGBench's file.
- **Evaluation**: as "evaluated" says; the published runs sample. All evaluations have the same 50 starts, on every
  seed.
- **cube-double**: our reward is -1 until the task is done; theirs counts the cubes that are not in place, which tells
  more. The four other rows have the same reward.

## The published program at our size

To tell whether the gap is ours, the published agent itself (`agents/acrlpd.py` of ColinQiyangLi/qc at {commit}, in JAX)
was run on our play data, puzzle-3x3-4 with chunk 5, one seed each, 20 evaluation episodes:

| networks | successes at 20,000, 40,000 ... 100,000 steps |
| --- | --- |
| 2 critics of 2x256, as ours | 0, 0, 0, 0, **0** of 20; none in its 200 episodes of training |
| 2 critics of 4x512 | 0, 0, 4, 2, **8** of 20 |
| 10 critics of 4x512, published | 1.00 at 100,000 |

So at the size that one core affords the published program fails as ours does, and with its own layers depth and width
are what it lacks; the play data teach the task. Two changes of ours towards it at that size, one run each, did not
help: LayerNorm and ReLU without a trained encoding, 0 of 20 after 40,000 steps; the minimum of both critics instead of
one at random, 0 of 20 after 60,000.

## Our program with the published networks

puzzle-3x3-4 with chunk 5, two seeds trained at once on an H200 for 100,000 steps each in 10 minutes, 6 ms a step. For
the way to that machine observations of play were rounded by .001 of their spread at most, or .00005 where they hardly
vary, and actions by .0005. The policies were evaluated later on one core (`python -m benchmarks.suites --keep`,
`--evaluate`). Successes of 50 episodes with sampled actions:

| seed | 65,000 | 70,000 | 75,000 | 80,000 | 85,000 | 90,000 | 95,000 | 100,000 steps |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 0 | 48 | 48 | 49 | 50 | 50 | 50 | 50 | **50** |
| 1 | 36 | 45 | 50 | 46 | 48 | 50 | 49 | **49** |

The first success of training itself came after 30,000 to 35,400 steps on seed 0 and 35,000 to 40,300 on seed 1, and of
the last 55 and 48 training episodes 54 and 47 succeeded. Published are success before the first step and after 100,000.

Ten critics of 4x512 with our own layers ("tanh") had been trained before, in two quarters of an hour of such a GPU:
three seeds of puzzle-3x3-4 and one of puzzle-3x3-1 at once to 60,000 steps, then seed 0 of puzzle-3x3-4 anew to 80,000.
Of 50 episodes with the policy's mean succeeded:

| task, seed | 50,000 | 55,000 | 60,000 | 65,000 | 70,000 | 75,000 steps |
| --- | --- | --- | --- | --- | --- | --- |
| puzzle-3x3-1, 0 | 1 | | 48 | | | |
| puzzle-3x3-4, 1 | 0 | | 0 | | | |
| puzzle-3x3-4, 2 | 0 | | 0 | | | |
| puzzle-3x3-4, 0, anew | 0 | 0 | 0 | 0 | 0 | 1 |

So size was not all that ours lacked. What differs besides was changed in one step: ReLU instead of tanh, no LayerNorm
in the actor, scales of the LayerNorm for each critic, no trained encoding before the networks, weights that start by
Xavier's rule with biases at 0, an actor that starts wide, the mean of all critics as the target instead of one at
random, TF32 instead of bf16; and the play was rounded another way. Evaluation differs too, and tells in the middle of
a training: by their mean the policies of the first table succeed 31 and 11 times at 65,000 steps, where with sampled
actions it is 48 and 36, and as often as these, 50 and 49, at 100,000.
"""
METAWORLD = """
## Meta-World, seen by its camera

Made by `python -m benchmarks.suites.metaworld` in an environment with the extra `metaworld`. Four tasks as in Hu,
Mirchandani and Sadigh, 2023 (arXiv:2311.02198, hengyuan-hu/ibrl at 617f170b9210): three demonstrations by
Meta-World's own scripted policy, the 96x96 image of corner2, each action made twice, at most 100 decisions an episode,
reward for success alone. Their tasks are of version 2, these of version 3, and here the hand's place is told beside
the image. They publish curves of up to 100,000 decisions and no numbers; nobody publishes what help does. Success of
the policy alone in {resets} episodes from held-out resets, each seed and Wilson's 95 % interval of all; decisions are
those of online training, of which the expert made those under "corrected".

| task | condition | success, each seed | together | decisions | episodes | demonstrated | corrected | alone, last 20 |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(slots=True, kw_only=True)
class Runs:
    """All runs on outside suites so far.

    Attributes:
        ogbench: As `benchmarks.suites.measure` makes them, finished or not.
        metaworld: As `benchmarks.suites.metaworld` makes them.
    """

    ogbench: list[Run] = field(default_factory=list)
    metaworld: list[Run] = field(default_factory=list)


def read(folder: Path) -> Runs:
    """Return the runs in a folder; none where nothing was measured yet."""
    path = folder / "suites.json"
    if not path.exists():
        return Runs()
    found = json.loads(path.read_text())
    return Runs(ogbench=found["runs"], metaworld=found.get("metaworld_runs", []))


def write(runs: Runs, folder: Path) -> None:
    """Write runs, figures and table, each whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "suites.json", document(runs))
    write_durable(folder / "SUITES.md", table(runs))


def document(runs: Runs) -> dict[str, Any]:
    """Return suites.json: success of each seed by task, chunk or condition, and steps, and all runs."""
    return {
        "ogbench": _ogbench(runs.ogbench),
        "metaworld": _metaworld(runs.metaworld),
        "published": PUBLISHED,
        "runs": runs.ogbench,
        "metaworld_runs": runs.metaworld,
    }


def _ogbench(runs: Sequence[Run]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for run in runs:
        for at, told in figures_of(run):
            row = found.setdefault(run["task"], {}).setdefault(row_name(run), {})
            cell = row.setdefault(str(at), {})
            cell.setdefault("success", []).append(told[0] / told[1])
            cell.setdefault("seeds", []).append(run["seed"])
            cell.setdefault("evaluated", []).append(run["evaluated"])
            cell["successes"] = cell.get("successes", 0) + told[0]
            cell["episodes"] = cell.get("episodes", 0) + told[1]
            cell["wilson95"] = [round(end, 4) for end in wilson_interval(cell["successes"], cell["episodes"])]
    return found


def row_name(run: Run) -> str:
    """Return the name of a row of suites.json; the plain one is of the published networks, sampled as the published."""
    networks = "" if run["networks"] == "published" else f"_{run['networks']}"
    return f"chunk{run['chunk']}{networks}" + ("" if run["evaluated"] == "sampled" else f"_{run['evaluated']}")


def _metaworld(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the figures of each task by its condition, an entry a seed, and Wilson's interval of all its resets."""
    found: dict[str, Any] = {}
    for run in runs:
        cell = found.setdefault(run["task"], {}).setdefault(run["condition"], {})
        for key, value in {
            "seeds": run["seed"],
            "success": run["success"] / run["resets"],
            **{key: run[key] for key in ("episodes", "demonstrated", "corrected", "decisions", "alone_last20")},
        }.items():
            cell.setdefault(key, []).append(value)
        won = sum(other["success"] for other in runs if _is_of(other, run))
        resets = sum(other["resets"] for other in runs if _is_of(other, run))
        cell["wilson95"] = [round(end, 4) for end in wilson_interval(won, resets)]
    return found


def _is_of(other: Run, run: Run) -> bool:
    return (other["task"], other["condition"]) == (run["task"], run["condition"])


def table(runs: Runs) -> str:
    """Return SUITES.md."""
    return _ogbench_table(runs.ogbench) + _metaworld_table(runs.metaworld)


def _metaworld_table(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    lines = [
        f"| {task} | {condition} | {', '.join(f'{share:.0%}' for share in cell['success'])} "
        f"| {cell['wilson95'][0]:.0%} to {cell['wilson95'][1]:.0%} "
        f"| {_joined(cell['decisions'])} | {_joined(cell['episodes'])} | {_joined(cell['demonstrated'])} "
        f"| {_joined(cell['corrected'])} | {_joined(cell['alone_last20'])} |"
        for task, conditions in _metaworld(runs).items()
        for condition, cell in conditions.items()
    ]
    resets = max(run["resets"] for run in runs)
    commits = ", ".join(sorted({run["commit"] for run in runs}))
    return METAWORLD.format(resets=resets) + "\n".join(lines) + f"\n\nCommits: {commits}.\n"


def _joined(values: Sequence[Any]) -> str:
    return ", ".join("-" if value is None else str(value) for value in values)


def _ogbench_table(runs: Sequence[Run]) -> str:
    figures = _ogbench(runs)
    episodes = max((told[1] for run in runs for told in run["evaluations"].values()), default=0)
    lines = []
    for task in figures:
        for name in figures[task]:
            chunk, _, networks = name.removeprefix("chunk").removesuffix("_mean").partition("_")
            published = PUBLISHED[ROWS[int(chunk)]][task]
            for at, cell in sorted(figures[task][name].items(), key=lambda one: int(one[0])):
                told = _with_interval(*published[at]) if at in published else "-"
                lines.append(
                    f"| {task} | {chunk} | {NETWORKS[networks or 'published']} | "
                    f"{' and '.join(sorted(set(cell['evaluated'])))} | {int(at):,} | "
                    f"{_with_interval(cell['successes'] / cell['episodes'], *cell['wilson95'])} | "
                    f"{len(cell['seeds'])} | {told} |"
                )
    commit = PUBLISHED["source"]["commit"][:12]
    head = HEAD.format(episodes=episodes, commit=commit)
    return head + "\n".join(lines) + "\n" + TAIL.format(commit=commit)


def figures_of(run: Run) -> list[tuple[int, tuple[int, int]]]:
    """Return steps, successes and episodes of each row that a run is part of.

    It has one at each published number of steps at which it was evaluated, or, if there is none, one as far as it came.
    """
    found = [(at, told) for at in AT if (told := evaluated_at(run, at)) is not None]
    if found or not run["evaluations"]:
        return found
    come = max(run["evaluations"], key=int)
    successes, episodes = run["evaluations"][come]
    return [(int(come) // LATE * LATE or int(come), (successes, episodes))]


def evaluated_at(run: Run, steps: int) -> tuple[int, int] | None:
    """Return successes and episodes of the evaluation after `steps` online steps, None if there was none."""
    at = sorted(int(at) for at in run["evaluations"] if steps <= int(at) <= steps + LATE)
    if not at:
        return None
    successes, episodes = run["evaluations"][str(at[0])]
    return successes, episodes


def _with_interval(rate: float, low: float, high: float) -> str:
    return f"{rate:.2f} ({low:.2f} to {high:.2f})"
