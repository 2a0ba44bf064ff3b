"""The comparison of weights on mixed demonstrations, for real, with tiny networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.learning.mixed_demos import Cloned, MixedDemos, row
from robot_stack.replay.stored_episode import read_episode
from robot_stack.runs.paths import RunPaths
from robot_stack.types.transition import EndReason
from tests.benchmarks.test_evidence_runs import TINY


@pytest.mark.slow
def test_both_clones_learn_from_the_same_mixed_demonstrations(tmp_path: Path) -> None:
    mixed = MixedDemos(tmp_path, 0, demos=3, overrides=(*TINY, "task.episode_steps=80"))
    assert mixed.clumsy == 1
    recorded, clumsy = mixed.record()
    names = sorted(path.stem for path in RunPaths(recorded).store.episodes.iterdir())
    assert names[-1] in clumsy
    assert len(names) - len(clumsy) >= 2
    read = {name: read_episode(RunPaths(recorded).store.episode(name), images=False) for name in names}
    steps = {name: episode.length for name, episode in read.items() if episode.end is EndReason.SUCCESS}
    shown = steps.keys() & clumsy
    assert len(shown) == 1
    equal, progress = (mixed.clone(weights, recorded, clumsy, 2) for weights in ("equal", "progress"))
    assert equal.resets == progress.resets == 2
    assert equal.clumsy == pytest.approx(sum(steps[name] for name in shown) / sum(steps.values()), abs=0.05)
    assert 0.0 <= progress.clumsy < 1.0
    assert progress.clumsy != equal.clumsy


def test_a_row_has_both_clones_with_their_intervals() -> None:
    found = {
        "equal": Cloned(success=50, resets=100, clumsy=0.4),
        "progress": Cloned(success=90, resets=100, clumsy=0.25),
    }
    assert row(3, 13, 7, found) == "| 3 | 13 + 7 | 40.0% | 25.0% | 50/100 [40%, 60%] | 90/100 [83%, 94%] |"
