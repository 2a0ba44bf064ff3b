"""JSON that a page is sent, made from what has been heard. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.banner import SILENT_S, Scene, banner
from robot_stack.console.figures import estop_words, figures
from robot_stack.console.heard import CLAIM_NS, Heard
from robot_stack.console.messages import MAX_NOTE_CHARS
from robot_stack.console.rights import Rights
from robot_stack.console.verdicts import UNDO_NS
from robot_stack.runs.stage import StageName
from robot_stack.teleop.bindings import BINDINGS, MEANING, Device


def keys(rights: Rights) -> dict[str, str]:
    """Return the page's key for each action, from the one key table."""
    if rights.drive:
        return {**BINDINGS[Device.KEYBOARD], "next_arm": "", "fine": ""}  # a browser's own; the page sees to Shift
    enabling = ("arm", "stop") if rights.enable else ("stop",)
    return {**BINDINGS[Device.BROWSER], **{action: BINDINGS[Device.KEYBOARD][action] for action in enabling}}


def welcome(run: ResolvedRun, rights: Rights, heard: Heard) -> dict[str, Any]:
    """Return what does not change while the process lives."""
    return {
        "run": run.name,
        "task": run.task.text,
        "rights": {
            "enable": rights.enable,
            "drive": rights.drive,
            "dismiss": rights.dismiss,
            "arms": list(rights.arms),
            "grips": rights.grips,
        },
        "scene": f"robot-stack scene {shlex.quote(heard.folder)}" if heard.folder and not run.is_environment else "",
        "asks": run.run.asking is not None,
        "stages": list(run.task.stages),
        "keys": keys(rights),
        "gamepad": dict(BINDINGS[Device.GAMEPAD]) if rights.drive else {},
        "meaning": MEANING,
        "cameras": [view.layout() for view in heard.cameras.values()],
        "limit_s": run.task.episode_steps / run.run.rate_hz,
        "undo_s": UNDO_NS / 1e9,
        "claim_s": CLAIM_NS / 1e9,
        "note_chars": MAX_NOTE_CHARS,
    }


def now(heard: Heard, rights: Rights, now_ns: int, *, here: bool, pages: int) -> dict[str, Any]:
    """Return the part that changes all the time, without who holds the operator lock, which each page is told apart.

    Args:
        heard: Of the run.
        rights: Of a page.
        now_ns: On the monotonic clock.
        here: Whether a page's hand is on the arm.
        pages: How many are open.
    """
    words, on = estop_words(heard.facts)
    score = heard.curve.newest
    return {
        "banner": asdict(banner(_scene(heard, rights, now_ns, here=here))),
        "over": None if heard.stage is None else {"report": heard.stage.name is StageName.ENDED},
        "safety": _safety(heard, now_ns),
        "scene": heard.scene,
        "episode": _episode(heard, now_ns),
        "estop": {"text": words, "on": on},
        "cameras": [view.to_json(now_ns) for view in heard.cameras.values()],
        "score": None if score is None else {"progress": _plain(score.progress), "success": _plain(score.success)},
        "stage": heard.stage_words(),
        "claim": _claim(heard, now_ns),
        "undo": _undo(heard, now_ns),
        "figures": [] if heard.stage is not None else [asdict(figure) for figure in figures(heard.facts, now_ns)],
        "pages": pages,
    }


def versions(heard: Heard) -> dict[str, object]:
    """Return the version of each part that rarely changes; if it equals the last, the part need not be sent again."""
    return {
        "episodes": (heard.episodes.version, heard.version),
        "curve": heard.curve.version,
        "learning": heard.learning.version,
        "log": heard.logged,
    }


def part(heard: Heard, name: str, state_of: Callable[[str], str], pictures: Callable[[str], bool]) -> Any:
    """Return one of the parts in `versions`.

    Args:
        heard: Of the run.
        name: "episodes", "curve", "learning" or "log".
        state_of: What is still to happen with an episode's verdict, in words, or "".
        pictures: Whether there are pictures of an episode.
    """
    if name == "episodes":
        return heard.episodes.to_json(heard.verdicts, state_of, pictures)
    if name == "log":
        return list(heard.log)
    return heard.curve.to_json() if name == "curve" else heard.learning.to_json()


def _safety(heard: Heard, now_ns: int) -> str | None:
    """Return the mode of the safety process while it is heard, which ends last where a cell stops; else None."""
    if heard.mode is None or heard.safety_silent_s(now_ns) > SILENT_S:
        return None
    return str(heard.mode).lower()


def _scene(heard: Heard, rights: Rights, now_ns: int, *, here: bool) -> Scene:
    claim, learner = heard.claim(now_ns), heard.facts.learner
    busy = "" if learner is None else learner.message or f"the learner is {learner.phase.replace('_', ' ')}"
    return Scene(
        mode=heard.mode,
        reason=heard.reason,
        silent_s=heard.safety_silent_s(now_ns),
        kind=heard.kind,
        way=heard.way,
        resetting=heard.resetting,
        prompt=heard.prompt,
        here=here,
        claim=None if claim is None else claim.success,
        learner=busy,
        rights=rights,
        stage=heard.stage,
        help=heard.help,
    )


def _episode(heard: Heard, now_ns: int) -> dict[str, Any] | None:
    if not heard.episodes.running:
        return None
    row = heard.episodes.check(heard.episodes.running)
    elapsed_s = round(heard.episodes.elapsed_s(now_ns), 1)
    return {"id": row.episode_id, "number": row.number, "kind": row.kind, "s": elapsed_s}


def _claim(heard: Heard, now_ns: int) -> dict[str, Any] | None:
    claim = heard.claim(now_ns)
    if claim is None:
        return None
    left_s = round((CLAIM_NS - (now_ns - claim.since_ns)) / 1e9, 1)
    number = heard.episodes.check(claim.episode_id).number
    return {"id": claim.episode_id, "number": number, "success": _plain(claim.success), "left_s": left_s}


def _undo(heard: Heard, now_ns: int) -> dict[str, Any] | None:
    newest = heard.verdicts.undoable(now_ns)
    if newest is None:
        return None
    name, left_s = newest.label.episode_id, round((UNDO_NS - (now_ns - newest.said_ns)) / 1e9, 1)
    number = heard.episodes.check(name).number
    return {"id": name, "number": number, "verdict": newest.label.verdict.value, "left_s": left_s}


def _plain(value: float) -> float | None:
    """Round a value for JSON, which knows no NaN; NaN becomes None."""
    return round(value, 3) if value == value else None
