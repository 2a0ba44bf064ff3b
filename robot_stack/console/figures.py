"""Rates, ages, counts: what an operator looks at when something seems slow, and which of it is over its limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from robot_stack.transport.backend import LearnerStatus

SILENT_NS = 3_000_000_000
"""A process says something each second."""
LEAST_FREE_GB = 5.0
OLD_PARAMS_SHARE = 0.5
"""Of the age at which the policy stops acting."""
JITTER_SHARE = 0.25
"""Of a control period: a loop that is later than this is not steady."""
ERROR = 2
"""Level of a diagnosis, as in diagnostic_msgs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the figures on the page.

    Attributes:
        over: Whether a limit is not kept; then `text` says which.
    """

    name: str
    text: str
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    """The newest diagnosis that a process sent of one of its tasks, and when it was heard."""

    level: int
    message: str
    values: Mapping[str, str]
    heard_ns: int


@dataclass(slots=True, kw_only=True)
class Facts:
    """State of a run, as it was heard, from which its figures are made.

    Attributes:
        rate_hz: Control rate.
        max_params_age_s: At which the policy stops acting.
        safety_hz: Ticks of the safety filter per second.
        diagnoses: (process, task) -> the newest word.
        learner: What the learner does, or None.
        learner_error: Why it does not answer, or "".
        learner_asked: Whether this session has a learner at all.
        score_ns: When the newest score arrived; 0 for never.
        score_behind: Frames from it to the newest one.
        free_gb: On the disk of the run.
        clips: What the filter had clamped when the episode began.
        stop_wired: Whether the cell's file names a wired emergency stop.
        stop_input: What the wired emergency stop says; None if none was heard.
        estop: Whether STOP is latched.
        cell: What the bring-up says of the nodes, or "".
    """

    rate_hz: float
    max_params_age_s: float
    safety_hz: float
    diagnoses: dict[tuple[str, str], Diagnosed] = field(default_factory=dict)
    learner: LearnerStatus | None = None
    learner_error: str = ""
    learner_asked: bool = True
    score_ns: int = 0
    score_behind: int = 0
    free_gb: float | None = None
    clips: dict[str, float] = field(default_factory=dict)
    stop_wired: bool = False
    stop_input: bool | None = None
    estop: bool = False
    cell: str = ""

    def value(self, process: str, task: str, key: str) -> float | None:
        """Return a number from a task's newest diagnosis, or None."""
        said = self.diagnoses.get((process, task))
        try:
            return float(said.values[key]) if said is not None else None
        except (KeyError, ValueError):
            return None

    def clamped(self) -> dict[str, float]:
        """Return, per limit, in how many ticks the safety filter clamped a command since it began."""
        said = self.diagnoses.get(("safety", "filter"))
        keys = [key for key in said.values if "clamped_" in key] if said is not None else []
        counts = {key.replace("clamped_", ""): self.value("safety", "filter", key) for key in keys}
        return {name: count for name, count in counts.items() if count is not None}


def figures(facts: Facts, now_ns: int) -> list[Figure]:
    """Return all lines in the order in which they are shown."""
    return [
        _loop(facts),
        _params(facts),
        _learner(facts),
        _replay(facts),
        _link(facts),
        _reward(facts, now_ns),
        _safety(facts),
        _disk(facts),
        _processes(facts, now_ns),
    ]


def estop_words(facts: Facts) -> tuple[str, bool]:
    """Return the emergency stop in words, and whether it is pressed or STOP is latched."""
    if facts.stop_input:
        return "pressed", True
    if facts.stop_input is None:
        words = "wired, but not heard" if facts.stop_wired else "none wired to this computer"
    else:
        words = "released"
    return (f"{words}; STOP is latched" if facts.estop else words), facts.estop


def _loop(facts: Facts) -> Figure:
    jitter_ms, act_ms = (facts.value("actor", "policy", key) for key in ("jitter_p99_ms", "act_ms"))
    period_ms = 1e3 / facts.rate_hz
    if jitter_ms is None:
        return Figure(name="loop", text=f"{facts.rate_hz:g} Hz; no actor is heard")
    late, slow = jitter_ms > JITTER_SHARE * period_ms, act_ms is not None and act_ms > period_ms
    text = f"{facts.rate_hz:g} Hz, jitter p99 {jitter_ms:.1f} ms"
    if act_ms is not None:
        text += f", policy {act_ms:.1f} ms"
    if late or slow:
        text += f"; must be at most {JITTER_SHARE * period_ms:.0f} and {period_ms:.0f} ms, is the machine busy?"
    return Figure(name="loop", text=text, over=late or slow)


def _params(facts: Facts) -> Figure:
    version, age_s = (facts.value("actor", "policy", key) for key in ("params_version", "params_age_s"))
    if not version or age_s is None:
        return Figure(name="params", text="none yet")
    limit_s = facts.max_params_age_s
    over = age_s > OLD_PARAMS_SHARE * limit_s
    text = f"v{version:.0f}, {age_s:.1f} s old"
    return Figure(name="params", text=f"{text}; at {limit_s:g} s the policy stops" if over else text, over=over)


def _learner(facts: Facts) -> Figure:
    if not facts.learner_asked:
        return Figure(name="learner", text="none in this session; verdicts from the list wait in the run's folder")
    if facts.learner is None:
        return Figure(name="learner", text=facts.learner_error or "not asked yet", over=bool(facts.learner_error))
    told, counters = facts.learner, facts.learner.counters
    text = told.phase.replace("_", " ")
    if counters.get("updates"):
        text += f", {counters['updates']:.0f} updates, {counters.get('updates_per_s', 0.0):.0f}/s"
    trouble = bool(told.message) and told.phase == "training"  # in other phases it says how far they are
    return Figure(name="learner", text=f"{text}; {told.message}" if told.message else text, over=trouble)


def _replay(facts: Facts) -> Figure:
    counters = facts.learner.counters if facts.learner is not None else {}
    if not counters:
        return Figure(name="replay", text="unknown")
    parts = [
        f"{counters.get('demos', 0.0):.0f} demonstrations",
        f"{counters.get('env_steps', 0.0):.0f} online steps",
        f"human {100 * counters.get('human_share_last20', 0.0):.0f} % of the last 20",
    ]
    return Figure(name="replay", text=", ".join(parts))


def _link(facts: Facts) -> Figure:
    said = facts.diagnoses.get(("actor", "policy"))
    if said is None or "link" not in said.values:
        return Figure(name="link", text="no actor is heard")
    up, spooled = said.values["link"] == "up", facts.value("actor", "policy", "spooled") or 0.0
    acks = [actor.ack_p50_ms for actor in facts.learner.actors if actor.connected] if facts.learner is not None else []
    safe = f", safe at the learner after {max(acks):.0f} ms" if acks else ""
    text = f"up{safe}" if up else "down: acting goes on, steps are kept on disk"
    text = f"{text}, spool {spooled:.0f}"
    if refused := facts.value("actor", "policy", "refused"):
        text += f"; {refused:.0f} records refused, lost: {said.values.get('refused_why', '')}"
    return Figure(name="link", text=text, over=not up or bool(refused))


def _reward(facts: Facts, now_ns: int) -> Figure:
    if not facts.score_ns:
        return Figure(name="reward", text="no score yet")
    age_s = (now_ns - facts.score_ns) / 1e9
    frames = "1 frame" if facts.score_behind == 1 else f"{facts.score_behind} frames"
    return Figure(name="reward", text=f"{frames} behind, last score {age_s:.1f} s ago")


def _safety(facts: Facts) -> Figure:
    cuts = {name: count - facts.clips.get(name, 0.0) for name, count in facts.clamped().items()}
    parts = [f"{name} {count / facts.safety_hz:.2f} s" for name, count in sorted(cuts.items()) if count > 0]
    said = facts.diagnoses.get(("safety", "inputs"))
    doubt = said.message if said is not None and said.level else ""
    text = f"clamped this episode: {', '.join(parts)}" if parts else "nothing clamped this episode"
    return Figure(name="safety", text=f"{text}; {doubt}" if doubt else text, over=bool(doubt))


def _disk(facts: Facts) -> Figure:
    if facts.free_gb is None:
        return Figure(name="disk", text="unknown")
    over = facts.free_gb < LEAST_FREE_GB
    text = f"{facts.free_gb:.0f} GB free" if facts.free_gb >= 10 else f"{facts.free_gb:.1f} GB free"
    return Figure(name="disk", text=f"{text}, must be at least {LEAST_FREE_GB:g}" if over else text, over=over)


def _processes(facts: Facts, now_ns: int) -> Figure:
    """Return the line about processes that are silent or report an error."""
    heard: dict[str, int] = {}
    for (process, _), said in facts.diagnoses.items():
        heard[process] = max(heard.get(process, 0), said.heard_ns)
    words = [
        f"{process} silent for {(now_ns - at) / 1e9:.0f} s" for process, at in heard.items() if now_ns - at > SILENT_NS
    ]
    silent = {process for process, at in heard.items() if now_ns - at > SILENT_NS}
    words += [
        f"{process}: {said.message}"
        for (process, task), said in facts.diagnoses.items()
        if said.level >= ERROR and process not in silent and (process, task) != ("safety", "filter")
    ]
    if facts.cell not in ("", "active"):
        words.append(facts.cell)
    return Figure(name="processes", text="; ".join(words) or f"{len(heard)} heard", over=bool(words))
