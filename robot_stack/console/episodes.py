"""The newest episodes of a run as an operator reads them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from robot_stack.console.messages import PageError
from robot_stack.console.verdicts import Verdicts
from robot_stack.runs import rows as logged
from robot_stack.types.command import Mode
from robot_stack.types.event import Verdict

KEPT, SHOWN = 500, 50


@dataclass(slots=True, kw_only=True)
class EpisodeRow:
    """One episode in the page's list.

    Attributes:
        episode_id: Its name; begins with its number.
        kind: demo, online or eval.
        started_unix_s: Seconds since the epoch; 0 if that is not known.
        duration_s: Robot time, once it has ended.
        end: Why it ended, as the actor says; "" until then.
        human_s: For how long an operator drove.
        interventions: How often an operator took over.
        holds: Steps in HOLD.
        note: What an operator wrote.
        open: Whether it still runs.
    """

    episode_id: str
    kind: str
    started_unix_s: float = 0.0
    duration_s: float = 0.0
    end: str = ""
    human_s: float = 0.0
    interventions: int = 0
    holds: int = 0
    note: str = ""
    open: bool = False

    @property
    def number(self) -> str:
        """Return the episode's number, as in its name but without leading zeros."""
        head = self.episode_id.partition("-")[0]
        return head.lstrip("0") or "0" if head.isdecimal() else head


class EpisodeList:
    """The newest `KEPT` episodes, in the order of their start."""

    def __init__(self, rate_hz: float) -> None:
        self._rate_hz = rate_hz
        self._rows: OrderedDict[str, EpisodeRow] = OrderedDict()
        self._open: EpisodeRow | None = None
        self._begun_ns = 0
        self._mode: Mode | None = None
        self._since_ns = 0
        self.version = 0
        """Counts up at each change."""

    @property
    def running(self) -> str:
        """Return the id of the episode that runs now, or ""."""
        return self._open.episode_id if self._open is not None else ""

    def elapsed_s(self, now_ns: int) -> float:
        """Return the seconds since the running episode began; 0 if none runs."""
        return (now_ns - self._begun_ns) / 1e9 if self._open is not None else 0.0

    def begin(self, episode_id: str, kind: str, mode: Mode | None, now_ns: int, now_unix_s: float) -> None:
        """Begin an episode and end the one before; if it runs already, change nothing."""
        if episode_id == self.running:
            return
        self.end(now_ns)
        row = self._row(episode_id, kind)
        row.started_unix_s, row.open = now_unix_s, True
        self._open, self._begun_ns = row, now_ns
        self._mode, self._since_ns = None, now_ns
        self.drives(mode, now_ns)
        self.version += 1

    def drives(self, mode: Mode | None, now_ns: int) -> None:
        """Take in who is in control now, and count operator time and interventions of the running episode."""
        row = self._open
        if row is None or mode is self._mode:
            return
        if self._mode is Mode.HUMAN:
            row.human_s += (now_ns - self._since_ns) / 1e9
        if mode is Mode.HUMAN and row.kind != "demo":
            row.interventions += 1
            self.version += 1
        self._mode, self._since_ns = mode, now_ns

    def end(self, now_ns: int) -> None:
        """End the episode that runs, if one does."""
        row = self._open
        if row is None:
            return
        self.drives(None, now_ns)
        row.open, row.duration_s = False, (now_ns - self._begun_ns) / 1e9
        self._open = None
        self.version += 1

    def told(self, said: logged.EpisodeRow | logged.ControlRow) -> None:
        """Take in what learner or actor wrote about an episode; a count of 0 changes nothing."""
        row = self._row(said.episode_id, said.episode_kind.value)
        if said.end is not None:
            row.end = said.end.value
        if said.steps:
            row.duration_s = said.steps / self._rate_hz
        if isinstance(said, logged.ControlRow):
            row.holds = said.holds or row.holds
            row.started_unix_s = row.started_unix_s or said.t
        else:
            row.human_s = said.human_steps / self._rate_hz
            row.interventions = said.interventions if row.kind != "demo" else 0
            row.started_unix_s = said.started_unix_s or row.started_unix_s or said.t
        self.version += 1

    def note(self, episode_id: str, text: str) -> None:
        """Set an operator's note on an episode of the list."""
        self.check(episode_id).note = text
        self.version += 1

    def holds(self, episode_id: str) -> bool:
        """Return whether an episode is in the list."""
        return episode_id in self._rows

    def check(self, episode_id: str) -> EpisodeRow:
        """Return the row of an episode.

        Raises:
            PageError: If it is not, or no longer, in the list.
        """
        row = self._rows.get(episode_id)
        if row is None:
            raise PageError(
                f"episode is {episode_id[:60]!r}, must be one of the {len(self._rows)} in the list; it is gone, or of "
                "another run: see robot-stack data"
            )
        return row

    def to_json(self, verdicts: Verdicts, state_of: Callable[[str], str], pictures: Callable[[str], bool]) -> list[Any]:
        """Return the newest `SHOWN` episodes as they are sent to the page, the newest first.

        Args:
            verdicts: What counts.
            state_of: What is still to happen with an episode's verdict, in words, or "".
            pictures: Whether there are pictures of an episode.
        """
        shown = list(self._rows.values())[-SHOWN:][::-1]
        return [self._to_json(row, verdicts, state_of, pictures) for row in shown]

    def _to_json(
        self, row: EpisodeRow, verdicts: Verdicts, state_of: Callable[[str], str], pictures: Callable[[str], bool]
    ) -> dict[str, Any]:
        said = verdicts.counts(row.episode_id)
        verdict = said.verdict.value if said is not None else ""
        return {
            "id": row.episode_id,
            "number": row.number,
            "kind": row.kind,
            "at": row.started_unix_s,
            "s": round(row.duration_s, 1),
            "end": row.end,
            "open": row.open,
            "verdict": verdict,
            "by": said.source.value if said is not None else "",
            "success": verdict == Verdict.SUCCESS or (not verdict and row.end == "success"),
            "human": round(row.human_s / row.duration_s, 2) if row.duration_s else 0.0,
            "interventions": row.interventions,
            "holds": row.holds,
            "note": row.note,
            "state": state_of(row.episode_id),
            "pictures": pictures(row.episode_id),
        }

    def _row(self, episode_id: str, kind: str) -> EpisodeRow:
        row = self._rows.setdefault(episode_id, EpisodeRow(episode_id=episode_id, kind=kind))
        while len(self._rows) > KEPT:
            self._rows.popitem(last=False)
        return row
