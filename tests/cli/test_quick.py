"""`sim --quick` makes a run short by settings that its algorithm and its encoder have."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.sim import QUICK_CLONE, QUICK_ENCODER, DryRun, _Say, quick_settings, report
from robot_stack.config.resolve import load_run
from tests.report.fake_run import write_evaluation, write_run


@pytest.mark.parametrize(
    ("task", "asked", "has"),
    [
        ("peg_insert", [], [QUICK_ENCODER]),
        ("peg_insert", ["algorithm.name=residual"], [QUICK_ENCODER, QUICK_CLONE["residual"]]),
        ("mountain_car", [], []),
        ("peg_two_sockets", [], [QUICK_ENCODER]),
        ("peg_in_and_out", [], [QUICK_ENCODER]),
        ("peg_insert", ["reward.name=otr"], [QUICK_ENCODER]),
    ],
)
def test_quick_names_what_the_run_has_and_the_run_is_accepted(task: str, asked: list[str], has: list[str]) -> None:
    settings = quick_settings(task, asked, (), None)
    assert {QUICK_ENCODER, *QUICK_CLONE.values()} & set(settings) == set(has)
    assert load_checked(task, settings, None).run.training.max_episodes == 6


def test_a_policy_without_a_success_has_no_cycle_to_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "peg"
    write_run(folder, online=2, stored=2)
    write_evaluation(folder / "eval_policy.json", [False] * 4)
    dry_run = DryRun(folder=folder, resolved=load_run("peg_insert"), plain=True)
    told = report(dry_run, _Say(dry_run))
    assert told[0] == "policy: 0 of 4 held-out resets (95 % interval 0 to 49 %)"
    assert told[1].endswith(", cycle 4.5 s")
    assert "None" not in capsys.readouterr().out
