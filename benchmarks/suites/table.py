"""Our runs on outside suites beside the published rows, as JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reward_models.metrics import wilson_interval

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "published.json").read_text())
ROWS = {1: "RLPD", 5: "RLPD-AC"}
"""Chunk -> name of the published rows."""
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

| task | chunk | steps | ours | seeds | published |
| --- | --- | --- | --- | --- | --- |
"""
TAIL = """
What is the same: state observations, half of each batch of 256 from a million steps of play and half online, one update
a step after 5,000 random steps, discount .99, the entropy target, the learning rate, the averaged target. What is not:

- **Networks**: 2 critics of 2x256, which learn on one core; the published ones are 10 of 4x512 and need a GPU.
- **Play data**: made anew by OGBench's own oracles with its own settings (`benchmarks/suites/play.py`), a thousand
  episodes of a thousand steps, not OGBench's file.
- **Evaluation**: of the policy's mean; the published runs sample it.
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

So at the size that one core affords the published program fails as ours does, and depth and width are what is missing;
the play data teach the task. Ten critics of 4x512 were not run: they need a GPU.
"""


def document(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return suites.json: success of each seed by task, chunk and steps, and all runs."""
    found: dict[str, Any] = {}
    for run in runs:
        for at in AT:
            told = evaluated_at(run, at)
            if told is not None:
                cell = found.setdefault(run["task"], {}).setdefault(f"chunk{run['chunk']}", {}).setdefault(str(at), {})
                cell.setdefault("success", []).append(told[0] / told[1])
                cell.setdefault("seeds", []).append(run["seed"])
                cell["successes"] = cell.get("successes", 0) + told[0]
                cell["episodes"] = cell.get("episodes", 0) + told[1]
                cell["wilson95"] = [round(end, 4) for end in wilson_interval(cell["successes"], cell["episodes"])]
    return {"ogbench": found, "published": PUBLISHED, "runs": list(runs)}


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Return SUITES.md."""
    figures = document(runs)["ogbench"]
    episodes = max((told[1] for run in runs for told in run["evaluations"].values()), default=0)
    lines = []
    for task in figures:
        for name in figures[task]:
            chunk = int(name.removeprefix("chunk"))
            published = PUBLISHED[ROWS[chunk]][task]
            for at, cell in figures[task][name].items():
                lines.append(
                    f"| {task} | {chunk} | {int(at):,} | "
                    f"{_with_interval(cell['successes'] / cell['episodes'], *cell['wilson95'])} | "
                    f"{len(cell['seeds'])} | {_with_interval(*published[at])} |"
                )
    commit = PUBLISHED["source"]["commit"][:12]
    head = HEAD.format(episodes=episodes, commit=commit)
    return head + "\n".join(lines) + "\n" + TAIL.format(commit=commit)


def evaluated_at(run: dict[str, Any], steps: int) -> tuple[int, int] | None:
    """Return successes and episodes of the evaluation after `steps` online steps, None if there was none."""
    at = sorted(int(at) for at in run["evaluations"] if steps <= int(at) <= steps + LATE)
    if not at:
        return None
    successes, episodes = run["evaluations"][str(at[0])]
    return successes, episodes


def _with_interval(rate: float, low: float, high: float) -> str:
    return f"{rate:.2f} ({low:.2f} to {high:.2f})"
