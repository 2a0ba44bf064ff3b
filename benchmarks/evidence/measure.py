"""What does the learning do? Reward against corrections, at equal robot time, with operators of other skill.

Run: make bench-evidence, or python -m benchmarks.evidence [--seeds 0 1 2 3 4] [--only NAME ...].
Writes EVIDENCE.md, evidence.json and docs/images/evidence.png. Days on one core for all of it; each run is kept as
soon as it is done, and the next call goes on from there, the most telling conditions first. Runs of another length
(--minutes), or of a learner with other settings, need a folder of their own (--out): benchmarks/evidence_5_minutes has
some.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch

from benchmarks.evidence.conditions import CONDITIONS, FIRST
from benchmarks.evidence.runs import EvidenceRuns
from benchmarks.evidence.table import MixedSettings, differences, document, draw, refuse_mixed, table
from benchmarks.learning.comparison import FOLDER, IMAGES, Result
from robot_stack.disk.durable import write_durable

LONG = ("settings", "defaults", "alone", "steps", "cycles_s")
"""Parts of a result that are not printed."""


class Measures(Protocol):
    """Measures one condition with one seed, and says before by what it may be pooled with others."""

    def identity(self, name: str, seed: int) -> Result:
        """What is known of a run before it is measured."""
        ...

    def measure(self, name: str, seed: int) -> Result:
        """The identity, with what was measured."""
        ...


def read(folder: Path) -> list[Result]:
    """The runs that are done."""
    path = folder / "evidence.json"
    runs: list[Result] = json.loads(path.read_text())["runs"] if path.exists() else []
    return runs


def write(results: Sequence[Result], folder: Path) -> None:
    """Results, table and picture.

    Raises:
        MixedSettings: If runs do not belong together; nothing is written then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    order = list(CONDITIONS)
    ordered = sorted(results, key=lambda r: (order.index(r["condition"]), r["seed"]))
    write_durable(folder / "evidence.json", json.dumps(document(ordered), indent=1) + "\n")
    picture = (IMAGES if folder.resolve() == FOLDER else folder) / "evidence.png"
    (folder / "EVIDENCE.md").write_text(table(ordered, os.path.relpath(picture, folder)))
    draw(ordered, picture)


def wanted(seeds: Sequence[int], names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """What to measure, in order: the most telling conditions seed after seed, then the others likewise."""
    rest = [name for name in CONDITIONS if name not in FIRST]
    for group in (FIRST, rest):
        yield from ((name, seed) for seed in seeds for name in group if name in names)


def twin(identity: Result, done: Sequence[Result]) -> Result | None:
    """The run that was measured with the same settings and seed under another name, under this one; None without."""
    same = ("seed", "minutes", "settings")
    found = next((r for r in done if not any(differences(r[key], identity[key]) for key in same)), None)
    return None if found is None else {**found, "condition": identity["condition"]}


def measure_missing(runs: Measures, seeds: Sequence[int], names: Sequence[str], folder: Path) -> None:
    """Measure what is not in the folder yet; each run is on disk before the next begins.

    Raises:
        MixedSettings: If a run would not belong to those that are there; it is not measured.
    """
    for name, seed in wanted(seeds, names):
        done = read(folder)
        if (name, seed) in [(r["condition"], r["seed"]) for r in done]:
            continue
        identity = runs.identity(name, seed)
        refuse_mixed([*done, identity])
        result = twin(identity, done) or runs.measure(name, seed)
        print({key: value for key, value in result.items() if key not in LONG}, flush=True)
        write([*read(folder), result], folder)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="benchmarks.evidence", description=__doc__)
    parser.add_argument("--minutes", type=float, help="robot time of each online training, if not each condition's own")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--only", nargs="*", choices=list(CONDITIONS), default=list(CONDITIONS))
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the table and the results")
    parser.add_argument("--work", type=Path, default=Path("build/evidence"), help="what runs leave to each other")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        measure_missing(EvidenceRuns(options.work, options.minutes), options.seeds, options.only, options.out)
    except MixedSettings as mixed:
        parser.error(str(mixed))
