"""The figures of simulated tasks: what is written of runs, and one run for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.evidence.runs import EvidenceRuns, resolve
from benchmarks.evidence.table import MixedSettings
from benchmarks.learning.tasks import ALGORITHMS, TASKS, conditions, document, keep, measure_missing, read, table
from tests.benchmarks.test_evidence_runs import TINY


def run(condition: str, seed: int, success: int, **more: Any) -> dict[str, Any]:
    algorithm = conditions()[condition].algorithm
    return {
        "condition": condition,
        "seed": seed,
        "commit": "abc",
        "minutes": 5.0,
        "defaults": {},
        "settings": {"algorithm": algorithm, "imitates": conditions()[condition].imitates},
        "success": success,
        "resets": 100,
        "cycles_s": [2.0] * success,
        "demonstration_cycle_s": 4.0,
        "human_share_last20": 0.02,
        "episodes": 50,
        "operator_s": 60.0,
        "robot_s": 400.0,
        **more,
    }


def test_each_task_has_a_list_with_an_entry_a_seed_and_the_others_beside(tmp_path: Path) -> None:
    for result in (run("drawer.bc", 0, 3), run("drawer.rlpd", 1, 90), run("drawer.rlpd", 0, 100)):
        keep(result, tmp_path)
    found = document(read(tmp_path))
    assert found["drawer"]["success"] == [1.0, 0.9]
    assert found["drawer"]["seeds"] == [0, 1]
    assert found["drawer"]["human_share_last20"] == [0.02, 0.02]
    assert found["drawer"]["wilson95"] == [0.9104, 0.9726]
    assert found["drawer"]["bc"]["success"] == [0.03]
    assert set(found) == {"drawer", "runs"}
    row = next(line for line in (tmp_path / "TASKS.md").read_text().splitlines() if line.startswith("| drawer | rlpd"))
    assert "| 100%, 90% | 91% to 97% | 2.0 s, 2.0 s |" in row


class Refusing:
    """Knows what a run would be, and must not be asked to measure it."""

    def __init__(self, identity: dict[str, Any]) -> None:
        self._identity = identity

    def identity(self, name: str, seed: int) -> dict[str, Any]:
        return self._identity

    def measure(self, name: str, seed: int) -> dict[str, Any]:
        raise AssertionError(f"{name} was measured")


def test_a_run_of_another_length_is_refused_before_it_is_measured(tmp_path: Path) -> None:
    keep(run("drawer.rlpd", 0, 90), tmp_path)
    with pytest.raises(MixedSettings, match=r"minutes of drawer.rlpd are 5.0 \| 20.0"):
        measure_missing(Refusing(run("drawer.rlpd", 1, 0, minutes=20.0)), [1], ["drawer.rlpd"], tmp_path)


def test_algorithms_that_had_other_time_to_learn_do_not_stand_side_by_side(tmp_path: Path) -> None:
    keep(run("drawer.rlpd", 0, 90, minutes=12.1), tmp_path)
    with pytest.raises(MixedSettings, match=r"minutes of drawer.rlpd are 12.1, must be 5.0 as those of drawer.bc"):
        measure_missing(Refusing(run("drawer.bc", 0, 0)), [0], ["drawer.bc"], tmp_path)


def test_a_run_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    keep(run("drawer.rlpd", 0, 90), tmp_path)
    measure_missing(Refusing({}), [0], ["drawer.rlpd"], tmp_path)


def test_a_score_and_milestones_stand_below_the_table() -> None:
    score = {"mean": 98.5, "most": 99.0, "parts": {"insertion": 75.0}, "touched": 1, "forced": 0}
    text = table([run("cable_plug.rlpd", 0, 99, score=score), run("drawer.bc", 0, 0, reached={"opened": 40})])
    assert "- rlpd, seed 0: mean score 98.5 of 99.0 (insertion 75.0), 1 touched" in text
    assert "- bc, seed 0: opened 40" in text


def test_every_task_has_a_row_of_every_algorithm_with_its_own_operator_and_settings() -> None:
    for name, condition in conditions().items():
        task, algorithm = name.split(".")
        assert task in TASKS
        assert algorithm in ALGORITHMS
        resolved = resolve(condition, 3, 1.0)
        assert resolved.name == task
        assert resolved.teleop.device == "scripted"
        assert resolved.run.algorithm.name == condition.algorithm
    drawer = conditions()["drawer.rlpd"]
    assert resolve(drawer, 0, 1.0).run.algorithm.settings["discount"] == 0.99


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cable_plug.rlpd", "cable_plug.bc"])
def test_a_task_is_measured_for_real(name: str, tmp_path: Path) -> None:
    tiny = [text for text in TINY if not text.startswith("task.sim")]
    result = EvidenceRuns(tmp_path / "work", 0.05, conditions=conditions(), overrides=tiny, resets=2).measure(name, 0)
    assert result["resets"] == 2
    assert result["score"]["most"] == 99.0
    assert "reached" not in result
    keep(result, tmp_path)
    assert document(read(tmp_path))["cable_plug"]
