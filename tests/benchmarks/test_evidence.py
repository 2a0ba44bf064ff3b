"""The evidence table keeps each run at once, goes on where it stopped, and pools only what belongs together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.evidence import runs as runs_module
from benchmarks.evidence.conditions import CONDITIONS, FIRST, OPERATORS
from benchmarks.evidence.measure import measure_missing, read, wanted, write
from benchmarks.evidence.runs import EvidenceRuns, commit, defaults_of, resolve, said_after_s, settings_of
from benchmarks.evidence.table import MixedSettings, differences, document, pooled, refuse_mixed, seeds_interval, table
from benchmarks.evidence.targets import targets
from benchmarks.learning.comparison import FOLDER, Result
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun

SETTINGS = {"algorithm": "rlpd", "settings": {"utd": 8.0}}


def result(condition: str = "full", seed: int = 0, **other: Any) -> Result:
    made = {
        "condition": condition,
        "seed": seed,
        "minutes": 5.0,
        "commit": "abc",
        "settings": SETTINGS,
        "defaults": {"utd": 8.0},
        "success": 95,
        "resets": 100,
        "cycles_s": [3.0] * 90 + [4.0] * 5,
        "episodes": 70,
        "human_share_first20": 0.2,
        "human_share_last20": 0.04,
        "operator_s": 60.0,
        "robot_s": 330.0,
        "demonstration_cycle_s": 4.0,
        "advantage_rank_correlation": None,
    }
    return {**made, **other}


class Runs:
    """Measures nothing; remembers what was asked, and is killed at the run of that number."""

    def __init__(self, killed_at: int | None = None, settings: dict[str, Any] | None = None) -> None:
        self.asked: list[tuple[str, int]] = []
        self._killed_at = killed_at
        self._settings = SETTINGS if settings is None else settings

    def identity(self, name: str, seed: int) -> Result:
        shipped = "full" if name == "imitation_weight_30" else name
        return result(name, seed, settings={**self._settings, "of": shipped})

    def measure(self, name: str, seed: int) -> Result:
        if len(self.asked) == self._killed_at:
            raise KeyboardInterrupt
        self.asked.append((name, seed))
        return self.identity(name, seed)


def test_a_killed_benchmark_goes_on_after_the_runs_that_were_done(tmp_path: Path) -> None:
    first, then = Runs(killed_at=3), Runs()
    with pytest.raises(KeyboardInterrupt):
        measure_missing(first, [0, 1], ["full", "without_q", "bc"], tmp_path)
    assert [(r["condition"], r["seed"]) for r in read(tmp_path)] == [("full", 0), ("full", 1), ("without_q", 0)]
    measure_missing(then, [0, 1], ["full", "without_q", "bc"], tmp_path)
    assert then.asked == [("without_q", 1), ("bc", 0), ("bc", 1)]
    assert len(read(tmp_path)) == 6
    assert (tmp_path / "evidence.png").stat().st_size > 1000


def test_what_was_measured_under_another_name_is_not_measured_again(tmp_path: Path) -> None:
    runs = Runs()
    measure_missing(runs, [0, 1], ["full", "imitation_weight_30"], tmp_path)
    assert runs.asked == [("full", 0), ("full", 1)]
    assert [(r["condition"], r["seed"]) for r in read(tmp_path)][2:] == [
        ("imitation_weight_30", 0),
        ("imitation_weight_30", 1),
    ]


def test_the_most_telling_conditions_come_first_seed_after_seed() -> None:
    asked = list(wanted([0, 1], list(CONDITIONS)))
    assert asked[: len(FIRST)] == [(name, 0) for name in FIRST]
    assert asked[len(FIRST) : 2 * len(FIRST)] == [(name, 1) for name in FIRST]
    assert sorted(asked) == sorted((name, seed) for name in CONDITIONS for seed in (0, 1))


def test_a_run_of_other_settings_is_refused_before_it_is_measured(tmp_path: Path) -> None:
    measure_missing(Runs(), [0], ["full"], tmp_path)
    runs = Runs(settings={"algorithm": "rlpd", "settings": {"utd": 4.0}})
    with pytest.raises(MixedSettings, match=r"settings of full are settings.utd: 8.0 \| 4.0 in full, seed 0"):
        measure_missing(runs, [1], ["full"], tmp_path)
    assert not runs.asked


def test_a_run_from_before_a_setting_that_is_off_is_of_the_same_settings() -> None:
    before, off, on = (
        result(settings={"algorithm": "rlpd", "task": task}) for task in ({}, {"goal": None}, {"goal": "a"})
    )
    assert document([before, {**off, "seed": 1}])
    with pytest.raises(MixedSettings, match=r"task.goal: None \| 'a'"):
        document([before, {**on, "seed": 1}])


def test_runs_of_another_length_and_of_other_defaults_are_not_pooled() -> None:
    with pytest.raises(MixedSettings, match="minutes of full"):
        document([result(), result(seed=1, minutes=3.0)])
    with pytest.raises(MixedSettings, match="defaults of rlpd"):
        document([result(), result("without_q", defaults={"utd": 4.0})])
    assert document([result(), result("without_q", settings={"algorithm": "rlpd", "settings": {"q_weight": 0.0}})])


def test_successes_are_pooled_over_the_seeds_with_wilsons_interval() -> None:
    figures = pooled([result(success=95), result(seed=1, success=99, cycles_s=[5.0] * 95)])
    assert figures["success"] == 0.97
    assert figures["wilson95"] == [0.9361, 0.9862]
    assert figures["by_seed"] == [0.95, 0.99]
    assert figures["seeds"] == [0, 1]
    assert figures["cycle_s"] == pytest.approx((90 * 3 + 5 * 4 + 95 * 5) / 190, abs=1e-4)


def test_the_interval_of_a_cycle_is_that_of_its_seeds_by_students_t() -> None:
    assert seeds_interval([1.0, 2.0, 3.0, 4.0]) == [0.4457, 4.5543]  # t(3) = 3.1824
    assert seeds_interval([1.0, 2.0]) is None
    figures = pooled([result(seed=seed, cycles_s=[value] * 95) for seed, value in enumerate((1.0, 2.0, 3.0, 4.0))])
    assert figures["cycle95_s"] == [0.4457, 4.5543], "380 resets of four policies are four samples"


def test_a_cycle_of_two_seeds_stands_without_an_interval_and_meets_no_target_by_it() -> None:
    (row,) = [line for line in table([result(), result(seed=1)]).splitlines() if line.startswith("| full ")]
    assert "| 3.1 s |" in row
    assert not verdicts(result(success=95), result("without_q", success=94, cycles_s=[9.0] * 94))[
        "whole against without Q"
    ]


def test_a_condition_without_any_success_or_training_has_a_row() -> None:
    none = result("bc", success=0, cycles_s=[], human_share_first20=None, human_share_last20=None, episodes=0)
    (row,) = [line for line in table([none]).splitlines() if line.startswith("| bc ")]
    assert "0.0% (0.0% to 3.7%)" in row
    assert "| - | - |" in row


def test_the_document_has_conditions_by_operator_and_the_rank_correlation(tmp_path: Path) -> None:
    told = {"spearman": 0.5, "ceiling": 0.9, "states": 50, "states_that_differ": 40}
    runs = [
        result(advantage_rank_correlation=told),
        result(seed=1, advantage_rank_correlation={**told, "spearman": 0.7, "by_nearness": 0.3}),
        result("half_skilled.full", success=60),
    ]
    write(runs, tmp_path)
    assert "(evidence.png)" in (tmp_path / "EVIDENCE.md").read_text(), "the picture lies beside the table"
    found = json.loads((tmp_path / "evidence.json").read_text())
    assert found["advantage_rank_correlation"] == 0.6
    assert found["half_skilled"]["full"]["success"] == 0.6
    assert {"success", "wilson95", "cycle_s", "human_share_last20", "seeds"} <= found["full"].keys()
    text = (tmp_path / "EVIDENCE.md").read_text()
    assert "| full | 0.60 | 0.50 (seed 0), 0.70 (seed 1) | 0.30 | 0.90 |" in text  # the first was not asked


def verdicts(*runs: Result) -> dict[str, bool]:
    return {target.what: target.met for target in targets(document(runs))}


def test_reward_must_add_points_or_speed_with_intervals_apart() -> None:
    without = result("without_q", success=80, cycles_s=[3.3] * 40 + [3.5] * 40)
    assert verdicts(result(success=95), without)["whole against without Q"]
    assert not verdicts(result(success=89), without)["whole against without Q"]
    few = result("without_q", success=8, resets=10)
    assert not verdicts(result(success=95), few)["whole against without Q"]  # intervals overlap
    slow = [result("without_q", seed=seed, cycles_s=[4.9 + 0.1 * seed]) for seed in range(3)]
    assert verdicts(*(result(seed=seed, cycles_s=[3.2 + 0.1 * seed]) for seed in range(3)), *slow)[
        "whole against without Q"
    ]
    assert not verdicts(*(result(seed=seed, cycles_s=[3.4 + 0.1 * seed]) for seed in range(3)), *slow)[
        "whole against without Q"
    ]


def test_a_policy_that_fails_more_meets_no_target_by_being_quick() -> None:
    """Cycles are of successes: one that does only the easy resets is quick."""
    quick = [result(seed=seed, success=20, cycles_s=[1.0 + 0.01 * seed] * 20) for seed in range(3)]
    slow = [result("without_q", seed=seed, success=98, cycles_s=[3.6 + 0.01 * seed] * 98) for seed in range(3)]
    met = verdicts(*quick, *slow)
    assert not met["whole against without Q"]
    assert not met["cycle at the end"]


def test_runs_of_different_lengths_are_not_held_against_each_other() -> None:
    without = result("without_q", success=80, minutes=12.0)
    assert "whole against without Q" not in verdicts(result(success=95), without)
    assert "| full | RLPD as shipped, reward shaped by a potential | 5 | 1 | 95.0%" in table([result(), without])


def test_other_targets_have_their_thresholds() -> None:
    told = {"spearman": 0.61, "ceiling": 0.9, "states": 50, "states_that_differ": 40}
    good = verdicts(
        result(cycles_s=[2.3, 2.4], advantage_rank_correlation=told), result("imitation_weight_0", success=90)
    )
    assert list(good.values()) == [True, True, True]
    bad = verdicts(
        result(cycles_s=[2.5, 2.6], advantage_rank_correlation={**told, "spearman": 0.59}),
        result("imitation_weight_0", success=89),
    )
    assert list(bad.values()) == [False, False, False]
    half = "whole against without Q, operator half as skilled"
    poor = result("half_skilled.without_q", success=60, cycles_s=[6.0, 6.1])
    assert verdicts(result("half_skilled.full", success=85), poor)[half]
    assert not verdicts(result("half_skilled.full", success=79), poor)[half]


@pytest.mark.parametrize("name", CONDITIONS)
def test_each_condition_can_be_resolved_and_differs_from_the_others(name: str) -> None:
    condition = CONDITIONS[name]
    settings = settings_of(resolve(condition, 0, 5.0))
    assert settings["algorithm"] == condition.algorithm
    assert condition.operator in OPERATORS
    twins = [
        other
        for other, one in CONDITIONS.items()
        if (one.overrides, one.operator, one.algorithm, one.imitates)
        == (condition.overrides, condition.operator, condition.algorithm, condition.imitates)
    ]
    assert twins == [name]


def test_without_q_and_hg_dagger_have_the_updates_and_the_average_of_what_is_shipped() -> None:
    shipped = defaults_of("rlpd")
    without_q = settings_of(resolve(CONDITIONS["without_q"], 0, 5.0))["settings"]
    assert without_q["q_weight"] == 0.0 != shipped["q_weight"]
    assert without_q["bc_half_life"] == 0
    assert {key for key in shipped if shipped[key] != without_q[key]} <= {"q_weight", "bc_half_life"}
    hg_dagger = settings_of(resolve(CONDITIONS["hg_dagger"], 0, 5.0))["settings"]
    assert {key: hg_dagger[key] for key in ("utd", "actor_tau")} == {key: shipped[key] for key in ("utd", "actor_tau")}


def test_a_demonstration_ends_when_the_task_is_done_and_not_when_its_operator_says_so() -> None:
    assert said_after_s(resolve(CONDITIONS["full"], 0, 5.0)) == pytest.approx(0.3 + 0.6)
    assert said_after_s(resolve(CONDITIONS["half_skilled.full"], 0, 5.0)) == pytest.approx(0.45 + 0.6)
    assert said_after_s(load_run("mountain_car")) == 0.0, "an environment says itself that its task is done"


@pytest.mark.parametrize(
    "override",
    ["run.imitation.weights=progress", "run.training.protocol.max_level=3", "run.asking={}"],
)
def test_a_run_that_learns_otherwise_is_not_taken_for_another(override: str) -> None:
    plain, other = (settings_of(resolve(CONDITIONS["full"], 0, 5.0, more)) for more in ((), (override,)))
    assert differences(plain, other)


def test_demonstrations_of_other_settings_are_recorded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = []

    def record(resolved: ResolvedRun, folder: Path) -> None:
        recorded.append(resolved.run.encoder.settings.get("learning_rate"))
        folder.mkdir()

    monkeypatch.setattr(runs_module, "train_online", record)
    monkeypatch.setattr(runs_module, "keep_demonstrations", lambda _, shared: shared.mkdir())
    for rate in (0.001, 0.001, 0.002):
        EvidenceRuns(tmp_path, overrides=[f"encoder.settings.learning_rate={rate}"])._demonstrations(
            CONDITIONS["full"], 0
        )
    assert recorded == [0.001, 0.002]


def test_the_commit_is_named() -> None:
    assert len(commit().rstrip("+")) == 12


def test_a_later_setting_with_the_value_it_always_had_is_no_difference() -> None:
    before: dict[str, object] = {"settings": {"utd": 8.0}}
    assert not differences(before, {"settings": {"utd": 8.0, "layers": "hil_serl", "bf16": True}})
    assert differences(before, {"settings": {"utd": 8.0, "layers": "rlpd"}}) == "settings.layers: 'hil_serl' | 'rlpd'"
    assert differences({"settings": {"utd": 8.0, "layers": "rlpd"}}, before) == "settings.layers: 'rlpd' | 'hil_serl'"


def test_conditions_that_began_from_other_trunks_do_not_stand_side_by_side() -> None:
    def trained(name: str, **encoder: Any) -> Result:
        return result(name, settings={**SETTINGS, "task": {"name": "peg"}, "encoder": {"settings": encoder}})

    refuse_mixed([trained("full"), trained("bc", refit_at=[15])])
    with pytest.raises(MixedSettings, match=r"trunks of peg are settings.steps: 500 \| 800 in full, .* and bc"):
        refuse_mixed([trained("full", steps=500), trained("bc", steps=800)])


@pytest.mark.parametrize("name", ["full", "without_q", "half_skilled.full", "imitation_weight_0"])
def test_the_shipped_table_is_of_a_trunk_that_learned_slower_and_takes_no_run_of_the_present_one(
    name: str, tmp_path: Path
) -> None:
    present = EvidenceRuns(tmp_path).identity(name, seed=99)
    with pytest.raises(MixedSettings, match=r"settings.hidden: 0 \| None, .*learning_rate: 0.001 \| 0.003"):
        refuse_mixed([*read(FOLDER), present])
    present["settings"]["encoder"] = read(FOLDER)[0]["settings"]["encoder"]
    refuse_mixed([*read(FOLDER), present])
