from __future__ import annotations

import io

import pytest
from rich.console import Console

from robot_stack.report.live import (
    LiveView,
    RunBudget,
    Snapshot,
    duration_words,
    phase_share,
    plain_line,
    render,
    time_left_s,
    total_left_s,
)

BUDGET = RunBudget(demos=20, max_episodes=250, max_robot_minutes=25, eval_episodes=100, rate_hz=10)
COUNTERS = {
    "episodes": 50.0,
    "env_steps": 3000.0,
    "success_last20": 0.6,
    "autonomous_last20": 0.35,
    "human_share_last20": 0.14,
    "progress": 0.91,
    "updates": 16600.0,
    "updates_per_s": 41.3,
    "params_version": 332.0,
    "q_own_share": 0.968,
}


class Terminal(io.StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def drawn(snapshot: Snapshot) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(render(snapshot, BUDGET, title="peg"))
    return out.getvalue()


@pytest.mark.parametrize(("seconds", "words"), [(0, "0:00"), (245.4, "4:05"), (3599.6, "1:00:00"), (7322, "2:02:02")])
def test_durations_read_like_a_clock(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_online_training_is_as_far_as_the_budget_that_runs_out_first() -> None:
    assert phase_share("training", {"episodes": 50, "env_steps": 0}, BUDGET) == 0.2
    assert phase_share("training", {"episodes": 50, "env_steps": 7500}, BUDGET) == 0.5
    assert phase_share("collecting_demos", {"demos": 5}, BUDGET) == 0.25
    assert phase_share("evaluating", {"share": 0.3}, BUDGET) == 0.3
    assert phase_share("fitting", {}, BUDGET) is None


def test_time_left_follows_the_pace_of_this_phase() -> None:
    snapshot = Snapshot(phase="training", counters=COUNTERS, elapsed_s=900, phase_s=100)
    assert time_left_s(snapshot, BUDGET) == pytest.approx(400)


def test_a_resumed_phase_is_paced_by_what_was_done_since() -> None:
    snapshot = Snapshot(phase="training", counters=COUNTERS, elapsed_s=100, phase_s=100, began_at=0.1)
    assert time_left_s(snapshot, BUDGET) == pytest.approx(800)


def test_no_time_left_is_guessed_at_the_start() -> None:
    snapshot = Snapshot(phase="training", counters={"episodes": 2.0}, elapsed_s=60, phase_s=60)
    assert time_left_s(snapshot, BUDGET) is None


def test_the_whole_is_what_is_left_of_this_phase_and_the_usual_time_of_those_after_it() -> None:
    began = Snapshot(phase="collecting_demos", counters={"demos": 0.0})
    assert total_left_s(began, BUDGET) == 20 * 12 + 240 + 25 * 60 + 60 + 200 + 15
    paced = Snapshot(phase="training", counters=COUNTERS, elapsed_s=900, phase_s=100)
    assert total_left_s(paced, BUDGET) == pytest.approx(400 + 60 + 200 + 15)
    slow = Snapshot(phase="cloning", elapsed_s=2000, phase_s=500)
    assert total_left_s(slow, BUDGET) == 200 + 15
    assert total_left_s(Snapshot(phase="installing"), BUDGET) is None
    assert "left about 0:10 in this phase, 0:25 in all" in plain_line(
        Snapshot(phase="evaluating", counters={"share": 0.9}, elapsed_s=2000, phase_s=90), BUDGET
    )


def test_the_plain_line_tells_all_of_online_training() -> None:
    line = plain_line(Snapshot(phase="training", counters=COUNTERS, elapsed_s=900, phase_s=100), BUDGET)
    assert line == (
        "15:00 | online training | episodes 50 of 250 | robot time 5.0 min | success 60 % | alone 35 % | "
        "human steps 14 % | Φ 0.91 | updates 16600, 41/s | params v332 | "
        "Q: correction above proposal - | own above random 97 % | left at most 6:40 in this phase, 11:15 in all"
    )


def test_phases_behind_are_ticked_and_the_one_running_is_marked() -> None:
    text = drawn(Snapshot(phase="training", counters=COUNTERS, elapsed_s=900, phase_s=100))
    for words in (
        "✓ demonstrations",
        "✓ encoder and reward model",
        "▶ online training",
        "· evaluation",
        "50 of 250",
        "35 %",
    ):
        assert words in text
    cloning = drawn(Snapshot(phase="cloning", elapsed_s=1500, phase_s=3))
    assert "✓ online training" in cloning
    assert "· evaluation" in cloning, "the baseline is cloned before both are evaluated"
    assert "▶" not in drawn(Snapshot(phase="done"))
    assert "▶ installing" in drawn(Snapshot(phase="installing"))


def test_text_with_brackets_is_no_markup() -> None:
    assert "[red]oops[/]" in drawn(Snapshot(phase="fitting", message="[red]oops[/]"))


def test_without_a_terminal_a_line_comes_every_few_seconds_and_at_each_phase() -> None:
    out = io.StringIO()
    with LiveView(BUDGET, out=out) as view:
        for second in range(12):
            view.update({"phase": "fitting", "message": f"step {second}", "counters": {}}, float(second))
        view.update({"phase": "training", "counters": COUNTERS}, 12.0)
        view.say("episode 51: success")
    lines = out.getvalue().splitlines()
    assert [line.split(" | ")[0] for line in lines[:-1]] == ["0:00", "0:05", "0:10", "0:12"]
    assert lines[-1] == "episode 51: success"


def test_on_a_terminal_the_view_is_drawn_in_place() -> None:
    out = Terminal()
    with LiveView(BUDGET, title="peg", out=out) as view:
        view.update({"phase": "training", "message": "", "counters": COUNTERS}, 10.0)
    assert "▶ online training" in out.getvalue()
    assert "\x1b[" in out.getvalue()


def test_time_in_a_phase_starts_when_the_phase_does() -> None:
    out = io.StringIO()
    with LiveView(BUDGET, plain=True, out=out) as view:
        view.update({"phase": "collecting_demos", "counters": {"demos": 0.0}}, 0.0)
        view.update({"phase": "training", "counters": {"episodes": 100.0}}, 300.0)
        view.update({"phase": "training", "counters": {"episodes": 150.0}}, 400.0)
    assert out.getvalue().splitlines()[-1].endswith("left at most 3:20 in this phase, 7:55 in all")
