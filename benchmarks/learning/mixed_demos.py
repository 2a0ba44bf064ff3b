"""Cloning of demonstrations a third of which are clumsy: equal weights against weights by progress.

    python -m benchmarks.learning.mixed_demos --seed 0 --resets 100

Peg insertion in simulation. A skilled operator shows 13 successes and a half-skilled one 7. Both clones see through the
same encoder, learn from the same demonstrations with as many updates, and are evaluated on the same held-out resets.
Prints a row of a table with Wilson's 95 % intervals; the clumsy share is that of clumsy demonstrations in what is
imitated, by number of steps and by weight.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.evidence.conditions import EVAL_EPISODES, OPERATORS, SKILLED
from benchmarks.evidence.runs import QUICK_REWARD, imitate
from benchmarks.learning.lockstep import keep_demonstrations, train_online
from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.replay import Replay
from robot_stack.rollout.evaluate import evaluate
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths

DEMOS = 20
CLUMSY = "half_skilled"
CLUMSY_SHARE = 1 / 3
WEIGHTS = ("equal", "progress")
LOOKED_AT = 100_000
"""Rows drawn to see what is imitated how much."""
HEADER = (
    "| seed | demonstrations, skilled + clumsy | clumsy share, equal | clumsy share, by progress | success, equal | "
    "success, by progress |\n| --- | --- | --- | --- | --- | --- |"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloned:
    """The figures of one clone.

    Attributes:
        success: Held-out resets that it solved.
        resets: Held-out resets.
        clumsy: Share of clumsy demonstrations in what it imitated, by weight.
    """

    success: int
    resets: int
    clumsy: float

    @property
    def words(self) -> str:
        """Success with its interval, for the table."""
        low, high = wilson_interval(self.success, self.resets)
        return f"{self.success}/{self.resets} [{low:.0%}, {high:.0%}]"


class MixedDemos:
    """The measurement with one seed.

    Args:
        work: Folder of all its runs.
        seed: Of everything random.
        demos: Demonstrations, of which `CLUMSY_SHARE` are clumsy.
        overrides: Texts `dotted.key=value` of every run.
    """

    def __init__(self, work: Path, seed: int, *, demos: int = DEMOS, overrides: Sequence[str] = ()) -> None:
        self._work, self._seed, self._demos = work, seed, demos
        self._overrides = tuple(overrides)
        self.clumsy = round(demos * CLUMSY_SHARE)
        """Clumsy demonstrations."""

    def _resolve(self, operator: str, demos: int, *more: str) -> ResolvedRun:
        return load_run(
            "peg_insert",
            [
                f"cell.teleop={OPERATORS[operator]}",
                f"run.seed={self._seed}",
                "run.algorithm.name=bc",
                "run.algorithm.settings.actor_tau=0.005",
                "run.training.max_episodes=1",
                *self._overrides,
                f"run.training.demos={demos}",
                *more,
            ],
        )

    def record(self) -> tuple[Path, set[str]]:
        """Record the skilled demonstrations, then the clumsy ones behind them, and fit the encoder on all.

        Returns:
            The folder with demonstrations and encoder, and the episode ids of the clumsy ones.
        """
        skilled, mixed = self._work / "skilled", self._work / "mixed"
        quick = ("run.algorithm.settings.pretrain_updates=1", *QUICK_REWARD)
        first = self._resolve(SKILLED, self._demos - self.clumsy, *quick, "run.encoder.settings.steps=5")
        self._keep(first, skilled)
        RunPaths(skilled).trunk.unlink()
        shutil.copytree(skilled, self._recording)
        self._keep(self._resolve(CLUMSY, self._demos, *quick), mixed)
        before, after = ({path.stem for path in RunPaths(each).store.episodes.iterdir()} for each in (skilled, mixed))
        return mixed, after - before

    @property
    def _recording(self) -> Path:
        return self._work / "recording"

    def _keep(self, resolved: ResolvedRun, shared: Path) -> None:
        """Run in the folder of recordings until its one episode behind the demonstrations is over."""
        train_online(resolved, self._recording)
        keep_demonstrations(self._recording, shared)
        shutil.rmtree(self._recording)

    def clone(self, weights: str, recorded: Path, clumsy: set[str], resets: int) -> Cloned:
        """Clone the demonstrations with one kind of weights, and evaluate the clone."""
        quick = QUICK_REWARD if weights == "equal" else ()
        resolved = self._resolve(SKILLED, self._demos, f"run.imitation.weights={weights}", *quick)
        folder = self._work / weights
        replay = imitate(resolved, recorded, folder)
        result = evaluate(resolved, load_params(RunPaths(folder).policy("policy")), resets)
        share = share_of(replay, clumsy, seed=self._seed)
        return Cloned(success=sum(result.successes), resets=len(result.successes), clumsy=share)

    def measure(self, resets: int) -> dict[str, Cloned]:
        """Record and clone; the figures by kind of weights."""
        recorded, clumsy = self.record()
        return {weights: self.clone(weights, recorded, clumsy, resets) for weights in WEIGHTS}


def share_of(replay: Replay, episodes: set[str], *, seed: int) -> float:
    """The share of some episodes in what is imitated, by weight."""
    draw = replay.draw(np.random.default_rng(seed), LOOKED_AT, gamma=0.97, expert_fraction=1.0)
    ids = np.array(replay.frames.episode_ids)[replay.frames.column("episode")[draw.rows]]
    return float(draw.imitation[np.isin(ids, sorted(episodes))].sum() / draw.imitation.sum())


def row(seed: int, skilled: int, clumsy: int, found: dict[str, Cloned]) -> str:
    """A row of the table."""
    equal, progress = (found[weights] for weights in WEIGHTS)
    return (
        f"| {seed} | {skilled} + {clumsy} | {equal.clumsy:.1%} | {progress.clumsy:.1%} | {equal.words} | "
        f"{progress.words} |"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resets", type=int, default=EVAL_EPISODES, help="held-out resets of each clone")
    parser.add_argument("--demos", type=int, default=DEMOS, help="demonstrations, a third of them clumsy")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="of every run")
    options = parser.parse_args()
    if options.resets < 1 or options.demos < 3:
        parser.error(f"resets and demos are {options.resets} and {options.demos}, must be 1 or more and 3 or more")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        mixed = MixedDemos(Path(work), options.seed, demos=options.demos, overrides=options.set)
        found = mixed.measure(options.resets)
    print(HEADER)
    print(row(options.seed, options.demos - mixed.clumsy, mixed.clumsy, found))


if __name__ == "__main__":
    main()
