"""The live view of a run in the terminal. Text is made by pure functions; only `LiveView` touches the screen."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

PHASES = (
    ("collecting_demos", "demonstrations"),
    ("fitting", "encoder and reward model"),
    ("training", "online training"),
    ("cloning", "behaviour cloning"),
    ("evaluating", "evaluation"),
    ("report", "report"),
)
"""Phases in their order, with the words that an operator reads. "done" comes after the last."""
_AFTER_TRAINING = ("cloning", "evaluating", "report")
PLAIN_EVERY_S = 5.0
MIN_SHARE = 0.02
"""No time left is guessed from less than this share of a phase."""
DEMO_S, FITTING_S, EPISODE_S, CLONING_S, RESET_S, REPORT_S = 12.0, 240.0, 15.0, 60.0, 2.0, 15.0
"""How long a demonstration, an episode of online training, a held-out reset and the other phases take: as the dry run
of peg insertion on two cores, for phases that have not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """Limits of a run, against which its progress is shown.

    Attributes:
        demos: Wanted demonstrations.
        max_episodes: Most training episodes.
        max_robot_minutes: Longest robot time in training.
        eval_episodes: Held-out resets of the evaluation.
        rate_hz: Control rate.
    """

    demos: int
    max_episodes: int
    max_robot_minutes: float
    eval_episodes: int
    rate_hz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """State of a run at one moment.

    Attributes:
        phase: As in `LearnerStatus`, or a later one of `PHASES`.
        message: One sentence, may be empty.
        counters: As in `LearnerStatus`. Any phase may add `share`, in [0, 1], to say how far it is.
        elapsed_s: That the run has worked, over all its starts.
        phase_s: Since this phase was first seen.
        began_at: Share that was done when this phase was first seen: not 0 after a resume.
    """

    phase: str
    message: str = ""
    counters: Mapping[str, float] = field(default_factory=dict)
    elapsed_s: float = 0.0
    phase_s: float = 0.0
    began_at: float = 0.0


def phase_share(phase: str, counters: Mapping[str, float], budget: RunBudget) -> float | None:
    """Return how much of a phase is done, in [0, 1]; None if nobody can know.

    Online training may end earlier.
    """
    if "share" in counters:
        return min(1.0, max(0.0, counters["share"]))
    if phase == "collecting_demos":
        return min(1.0, counters.get("demos", 0.0) / max(1, budget.demos))
    if phase == "training":
        minutes = counters.get("env_steps", 0.0) / budget.rate_hz / 60
        return min(1.0, max(counters.get("episodes", 0.0) / budget.max_episodes, minutes / budget.max_robot_minutes))
    return None


def time_left_s(snapshot: Snapshot, budget: RunBudget) -> float | None:
    """Return the seconds left in this phase at the pace so far; None while there is too little to tell."""
    share = phase_share(snapshot.phase, snapshot.counters, budget)
    if share is None or share - snapshot.began_at < MIN_SHARE:
        return None
    return snapshot.phase_s * (1 - share) / (share - snapshot.began_at)


def total_left_s(snapshot: Snapshot, budget: RunBudget) -> float | None:
    """Return about how many seconds are left until the report, or None in a phase that is none of `PHASES`.

    What has begun goes on at its pace; what has not takes its usual time, and online training as long as it may.
    """
    expected = {
        "collecting_demos": DEMO_S * budget.demos,
        "fitting": FITTING_S,
        "training": min(60 * budget.max_robot_minutes, EPISODE_S * budget.max_episodes),
        "cloning": CLONING_S,
        "evaluating": RESET_S * budget.eval_episodes,
        "report": REPORT_S,
    }
    names = [name for name, _ in PHASES]
    if snapshot.phase not in names:
        return None
    now = time_left_s(snapshot, budget)
    if now is None:
        now = max(0.0, expected[snapshot.phase] - snapshot.phase_s)
    return now + sum(expected[name] for name in names[names.index(snapshot.phase) + 1 :])


def duration_words(seconds: float) -> str:
    """Return a duration as minutes and seconds, with hours from one hour on: 4:05, 1:02:00."""
    total = round(seconds)
    hours, minutes = divmod(total // 60, 60)
    return f"{hours}:{minutes:02d}:{total % 60:02d}" if hours else f"{minutes}:{total % 60:02d}"


def plain_line(snapshot: Snapshot, budget: RunBudget) -> str:
    """Return the state of a run as one line, for a log or a terminal without a cursor."""
    counters = snapshot.counters
    parts = [duration_words(snapshot.elapsed_s), _phase_words(snapshot.phase)]
    if snapshot.phase == "training":
        parts += [f"{name} {value}" for name, value in training_figures(counters, budget)]
    elif snapshot.message:
        parts.append(snapshot.message)
    left = left_words(snapshot, budget)
    return " | ".join([*parts, left] if left else parts)


def left_words(snapshot: Snapshot, budget: RunBudget) -> str:
    """Return the time left in words, empty if nobody can know; until online training has ended it is a bound."""
    left = {"in this phase": time_left_s(snapshot, budget), "in all": total_left_s(snapshot, budget)}
    parts = ", ".join(f"{duration_words(seconds)} {of}" for of, seconds in left.items() if seconds is not None)
    if not parts:
        return ""
    return f"left {'about' if snapshot.phase in _AFTER_TRAINING else 'at most'} {parts}"


def training_figures(counters: Mapping[str, float], budget: RunBudget) -> list[tuple[str, str]]:
    """Return name and value of each figure that an operator watches during online training."""

    def percent(key: str) -> str:
        return f"{100 * counters.get(key, 0.0):.0f} %"

    def known(key: str) -> str:
        return percent(key) if key in counters else "-"

    minutes = counters.get("env_steps", 0.0) / budget.rate_hz / 60
    return [
        ("episodes", f"{counters.get('episodes', 0):.0f} of {budget.max_episodes}"),
        ("robot time", f"{minutes:.1f} min"),
        ("success", percent("success_last20")),
        ("alone", percent("autonomous_last20")),
        ("human steps", percent("human_share_last20")),
        ("Φ", f"{counters.get('progress', 0.0):.2f}"),
        ("updates", f"{counters.get('updates', 0):.0f}, {counters.get('updates_per_s', 0.0):.0f}/s"),
        ("params", f"v{counters.get('params_version', 0):.0f}"),
        ("Q: correction above proposal", known("q_correction_share")),
        ("own above random", known("q_own_share")),
    ]


def render(snapshot: Snapshot, budget: RunBudget, *, title: str = "run") -> RenderableType:
    """Render the whole view of a run."""
    parts: list[RenderableType] = [_phase_list(snapshot)]
    share = phase_share(snapshot.phase, snapshot.counters, budget)
    if share is not None:
        parts += [Text(), ProgressBar(total=1.0, completed=share, width=56)]
    if snapshot.phase == "training":
        parts += [Text(), _figures_table(snapshot, budget)]
    if snapshot.message:
        parts += [Text(), Text(snapshot.message)]
    when, left = f"{duration_words(snapshot.elapsed_s)} so far", left_words(snapshot, budget)
    footer = f"{when}, {left}" if left else when
    return Panel(Group(*parts), title=title, subtitle=footer, title_align="left", subtitle_align="left", width=64)


def _phase_words(phase: str) -> str:
    return dict(PHASES).get(phase, phase.replace("_", " "))


def _phase_list(snapshot: Snapshot) -> RenderableType:
    names = [name for name, _ in PHASES]
    now = len(names) if snapshot.phase == "done" else names.index(snapshot.phase) if snapshot.phase in names else -1
    lines = []
    for number, (_, words) in enumerate(PHASES):
        mark, style = ("✓", "green") if number < now else ("▶", "bold blue") if number == now else ("·", "dim")
        lines.append(Text(f"{mark} {words}", style=style))
    if now < 0:
        lines.append(Text(f"▶ {_phase_words(snapshot.phase)}", style="bold blue"))
    return Group(*lines)


def _figures_table(snapshot: Snapshot, budget: RunBudget) -> Table:
    table = Table.grid(padding=(0, 2))
    figures = training_figures(snapshot.counters, budget)
    for left, right in zip(figures[::2], figures[1::2]):
        table.add_row(Text(left[0], style="dim"), left[1], Text(right[0], style="dim"), right[1])
    return table


class LiveView:
    """View of a run while it goes: in place on a terminal, else a line every few seconds and at each new phase.

    Args:
        budget: How much there is to do.
        title: Name of the run.
        plain: Lines only; None takes lines if `out` is no terminal.
        out: Where to; standard output unless told otherwise.
    """

    def __init__(
        self, budget: RunBudget, *, title: str = "run", plain: bool | None = None, out: TextIO | None = None
    ) -> None:
        self._budget = budget
        self._title = title
        self._out = out if out is not None else sys.stdout
        self._plain = plain if plain is not None else not self._out.isatty()
        self._live: Live | None = None
        self._phase: str | None = None
        self._phase_started_s = 0.0
        self._began_at = 0.0
        self._said_s = float("-inf")

    def __enter__(self) -> LiveView:
        if not self._plain:
            self._live = Live(console=Console(file=self._out), auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, status: Mapping[str, Any], elapsed_s: float) -> None:
        """Show a newer state of the run.

        Args:
            status: "phase", "message" and "counters", as in `LearnerStatus`.
            elapsed_s: That the run has worked, over all its starts.
        """
        phase, counters = str(status["phase"]), status.get("counters", {})
        new_phase = phase != self._phase
        if new_phase:
            self._phase, self._phase_started_s = phase, elapsed_s
            self._began_at = phase_share(phase, counters, self._budget) or 0.0
        snapshot = Snapshot(
            phase=phase,
            message=str(status.get("message", "")),
            counters=counters,
            elapsed_s=elapsed_s,
            phase_s=elapsed_s - self._phase_started_s,
            began_at=self._began_at,
        )
        if self._live is not None:
            self._live.update(render(snapshot, self._budget, title=self._title), refresh=True)
        elif self._plain and (new_phase or elapsed_s - self._said_s >= PLAIN_EVERY_S):
            self._said_s = elapsed_s
            print(plain_line(snapshot, self._budget), file=self._out, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays, e.g. one per episode or a warning."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=self._out, flush=True)
