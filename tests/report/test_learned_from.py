"""The report says from the critic's figures whether a policy learned from reward or from corrections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robot_stack.disk.jsonl import mapping, read_jsonl
from robot_stack.report.learned_from import LearnedFrom, judge, learned_from, q_share
from robot_stack.report.run_folder import read_run
from robot_stack.report.summary import build_summary
from robot_stack.report.targets import figures
from robot_stack.runs.critic import NEWEST, Preference, critic_figures
from robot_stack.runs.rows import CriticRow, UpdateRow


def ranked(preferred: int, asked: int) -> Preference:
    return Preference(preferred=preferred, asked=asked)


GOOD, GUESS, NONE, FEW = ranked(80, 100), ranked(55, 100), ranked(0, 0), ranked(3, 29)


@pytest.mark.parametrize(
    ("share", "corrections", "own", "wanted"),
    [
        (0.5, GOOD, GOOD, LearnedFrom.REWARD),
        (0.9, NONE, GOOD, LearnedFrom.REWARD),
        (0.9, FEW, GOOD, LearnedFrom.REWARD),
        (0.49, GOOD, GOOD, LearnedFrom.BOTH),
        (0.1, GOOD, NONE, LearnedFrom.BOTH),
        (0.09, GOOD, GOOD, LearnedFrom.IMITATION),
        (0.0, NONE, NONE, LearnedFrom.IMITATION),
        (0.9, GUESS, GOOD, LearnedFrom.GUESSES),
        (0.2, GOOD, GUESS, LearnedFrom.GUESSES),
        (0.9, NONE, NONE, LearnedFrom.UNKNOWN),
        (0.9, FEW, FEW, LearnedFrom.UNKNOWN),
        (None, GOOD, GOOD, LearnedFrom.UNKNOWN),
    ],
)
def test_each_verdict_follows_from_the_share_of_q_and_from_what_the_critic_knew(
    share: float | None, corrections: Preference, own: Preference, wanted: LearnedFrom
) -> None:
    assert learned_from(share, corrections, own) is wanted


def update(updates: int, **metrics: float) -> UpdateRow:
    return UpdateRow(updates=updates, env_steps=updates, metrics=metrics)


def test_the_share_of_q_is_that_of_the_second_half_of_the_updates() -> None:
    rows = [update(200 * n, q=0.1, q_gradient=float(n > 4), imitation_gradient=3.0) for n in range(1, 9)]
    assert q_share(rows) == pytest.approx(0.25)
    assert q_share([]) is None
    assert q_share([update(200, q=0.1, critic_loss=1.0)]) is None  # written before gradients were told
    assert q_share([update(200, actor_loss=1.0)]) == 0.0  # an algorithm without a critic
    assert q_share([update(200, q=0.1, q_gradient=0.0, imitation_gradient=0.0)]) is None


def critic_row(number: int, **values: Any) -> CriticRow:
    return CriticRow(episode_id=f"{number:06d}-online-a", updates=number, steps=10, **values)


def test_figures_cover_the_newest_episodes_and_weigh_them_by_their_steps() -> None:
    old = [critic_row(n, corrections=9, own_steps=9, td_error=9.0) for n in range(4)]
    new = [critic_row(n, returns=n % 2, q_mean=0.5 if n % 2 else None, return_mean=0.25) for n in range(4, NEWEST + 2)]
    last = [
        critic_row(98, corrections=10, corrections_preferred=9, td_error=0.3, returns=25, q_mean=1.5, return_mean=1.0),
        critic_row(
            99, corrections=30, corrections_preferred=11, td_error=0.4, own_steps=4, own_preferred=3, ask_ms=5.0
        ),
    ]
    found = critic_figures([*old, *new, *last])
    assert found.episodes == NEWEST
    assert (found.corrections, found.own) == (ranked(20, 40), ranked(3, 4))
    assert found.td_error == pytest.approx(((0.09 + 0.16) / 2) ** 0.5)
    odd = sum(n % 2 for n in range(4, NEWEST + 2))
    assert found.q_mean == pytest.approx((25 * 1.5 + odd * 0.5) / (25 + odd))
    assert found.ask_ms == 5.0
    assert critic_figures([]).corrections.share is None


def test_the_sentence_names_verdict_share_and_counts() -> None:
    rows = [update(200, q=0.1, q_gradient=3.0, imitation_gradient=1.0)]
    said = judge(rows, critic_figures([critic_row(1, corrections=177, corrections_preferred=142)])).sentence
    assert said.startswith("The policy learned from reward: Q made 75 % of the actor's gradient")
    assert "80 % of 177 corrections" in said
    assert judge([], critic_figures([])).sentence.startswith("It cannot be said")


def test_a_run_reports_its_verdict_and_judges_both_shares_by_their_targets(own_run: Path) -> None:
    summary = build_summary(own_run)
    assert summary["critic"]["learned_from"] == "reward"
    met = {figure.name: figure for figure in figures(summary, read_run(own_run))}
    assert met["corrections that Q ranks above the proposal"].target == "at least 80 %"
    assert met["own successful actions that Q ranks above random ones"].met is False
    assert (
        f"of {summary['critic']['own_steps']} steps"
        in met["own successful actions that Q ranks above random ones"].value
    )


def test_without_critic_rows_nothing_is_said_and_the_reason_is_named(own_run: Path) -> None:
    path = own_run / "metrics.jsonl"
    rows = [row for row in read_jsonl(path, mapping).rows if row["kind"] != "critic"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = build_summary(own_run)
    assert summary["critic"]["learned_from"] == "unknown"
    lines = {figure.name: figure for figure in figures(summary, read_run(own_run))}
    line = lines["corrections that Q ranks above the proposal"]
    assert (line.value, line.target, line.met) == ("-", "", None)
    assert "critic.corrections_share: metrics.jsonl: critic rows" in summary["missing"]
