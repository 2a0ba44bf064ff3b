"""Online training side by side, for hours: each run is kept as soon as it is done, the next call does the rest."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from benchmarks.learning.lockstep import smoothed

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent.parent
IMAGES = FOLDER.parent / "docs" / "images"
Result = dict[str, Any]
"""One run: what was compared, `seed`, `minutes`, `alone` and `steps` of each episode, figures."""
CURVES = ("alone", "steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is compared.

    Attributes:
        what: Key of a result that says which, and the name of the option.
        file: Results are in <file>.json, the table in <FILE>.md, the curves in <file>.png.
        names: Which there are, in the order of table and curves, with what the curves call them.
        minutes: Of robot time of each run, unless the caller says otherwise.
        measure: Name, seed, minutes, and a folder that all runs share.
        table: Markdown of all results in order.
    """

    what: str
    file: str
    names: Mapping[str, str]
    minutes: float
    measure: Callable[[str, int, float, Path], Result]
    table: Callable[[Sequence[Result]], str]

    def run(self, description: str) -> None:
        """The command line: measure what is missing, write after each run."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--minutes", type=float, default=self.minutes, help="robot time of each run")
        parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
        parser.add_argument("--only", nargs="*", choices=list(self.names), default=list(self.names))
        parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the table and the results")
        options = parser.parse_args()
        torch.set_num_threads(1)
        path = options.out / f"{self.file}.json"
        results: list[Result] = json.loads(path.read_text()) if path.exists() else []
        others = {r["minutes"] for r in results} - {options.minutes}
        if others:
            parser.error(f"{path} holds runs of {others} minutes, must be of {options.minutes:g}; name another --out")
        with tempfile.TemporaryDirectory() as work:
            for seed in options.seeds:
                for name in options.only:
                    if (name, seed) in [(r[self.what], r["seed"]) for r in results]:
                        continue
                    results.append(self.measure(name, seed, options.minutes, Path(work)))
                    print({k: v for k, v in results[-1].items() if k not in CURVES}, flush=True)
                    self.write(results, options.out)

    def write(self, results: list[Result], folder: Path) -> None:
        """Results, table and curves."""
        folder.mkdir(parents=True, exist_ok=True)
        order = list(self.names)
        results.sort(key=lambda r: (order.index(r[self.what]), r["seed"]))
        (folder / f"{self.file}.json").write_text(json.dumps(results) + "\n")
        (folder / f"{self.file.upper()}.md").write_text(self.table(results))
        self.draw(results, (IMAGES if folder == FOLDER else folder) / f"{self.file}.png")

    def draw(self, results: Sequence[Result], path: Path) -> None:
        """Draw the share of successes without an operator over robot time; a line per name, a band over seeds."""
        figure, axes = plt.subplots(figsize=(8, 5.2), dpi=110, layout="constrained")
        for name, label in self.names.items():
            runs = [r for r in results if r[self.what] == name]
            if not runs:
                continue
            grid = np.linspace(0, min(sum(r["steps"]) for r in runs) / 600, 60)
            curves = np.array([smoothed(r, grid) for r in runs])
            (line,) = axes.plot(grid, curves.mean(axis=0), label=label)
            axes.fill_between(grid, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.13)
        axes.set(xlabel="robot time [min]", ylabel="success without help, last 20 episodes", ylim=(0, 1.02))
        axes.grid(alpha=0.3)
        figure.legend(loc="outside lower center", ncols=2)
        figure.savefig(path)
        plt.close(figure)
