"""Conditions measured for real, with tiny networks and six seconds of online training."""

from __future__ import annotations

import pytest

from benchmarks.evidence.runs import EvidenceRuns

pytestmark = pytest.mark.slow

TINY = (
    "training.demos=2",
    "encoder.settings.steps=10",
    "encoder.settings.batch=16",
    "reward.settings.steps=10",
    "reward.settings.batch=8",
    "algorithm.settings.batch_size=16",
    "algorithm.settings.hidden=[32, 32]",
    "algorithm.settings.head=8",
    "algorithm.settings.pretrain_updates=10",
    "task.episode_steps=45",
    "task.sim.clearance_m=0.008",
    "task.sim.socket_range_m=[0.02, 0.02]",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, few_ways: None) -> EvidenceRuns:
    return EvidenceRuns(tmp_path_factory.mktemp("work"), 0.1, overrides=TINY, resets=2, states=1)


@pytest.mark.parametrize("name", ["full", "qc"])
def test_online_training_is_measured_with_its_operators_time_and_its_critic(runs: EvidenceRuns, name: str) -> None:
    found = runs.measure(name, 0)
    assert found["resets"] == 2
    assert found["success"] == len(found["cycles_s"])
    assert found["episodes"] == len(found["steps"]) == len(found["alone"]) > 0
    assert found["operator_s"] == pytest.approx(found["demonstrations_s"] + found["corrections_s"])
    assert found["demonstrations_s"] >= 2 * (found["demonstration_cycle_s"] + 0.9) - 0.1
    assert found["robot_s"] >= found["demonstrations_s"] + 4.0
    assert found["advantage_rank_correlation"]["states"] == 1


def test_imitation_of_corrections_has_the_operators_time_of_the_run_that_recorded_them(runs: EvidenceRuns) -> None:
    corrected, imitated, cloned = (runs.measure(name, 0) for name in ("hg_dagger", "bc_plus_corrections", "bc"))
    assert imitated["operator_s"] == corrected["operator_s"]
    assert imitated["episodes"] == cloned["episodes"] == 0
    assert cloned["corrections_s"] == 0.0
    assert cloned["demonstrations_s"] == corrected["demonstrations_s"] == imitated["demonstrations_s"]
    assert imitated["settings"]["settings"]["utd"] == corrected["settings"]["settings"]["utd"]
