"""The banner of the page: who is in control and why, and what to do now, at one look. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from robot_stack.console.rights import Rights
from robot_stack.runs.stage import Stage, StageName
from robot_stack.teleop.bindings import Device, key_of
from robot_stack.types.command import Mode
from robot_stack.types.help import HelpKind, HelpRequest, Meanwhile

WORDS = {
    Mode.POLICY: "POLICY IN CONTROL",
    Mode.HUMAN: "HUMAN IN CONTROL",
    Mode.HOLD: "HOLD",
    Mode.STOP: "STOP",
    Mode.READY: "READY",
    Mode.DISARMED: "DISARMED",
}
SILENT = "NO WORD FROM THE CELL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """State of a run from which the banner is made.

    Attributes:
        mode: Of the safety filter; None before it has said anything.
        reason: Its own words for HOLD and STOP.
        silent_s: Since the safety process was last heard.
        kind: Of the running episode, or "".
        way: What is to be done in it, where the task and its way back are done in turn, else "".
        resetting: Whether the scene is being put back.
        prompt: What the cell asks an operator to do, or "".
        here: Whether a page's hand is on the arm.
        claim: Success probability of the episode that the model calls a success; None unless it can be refused now.
        learner: What the learner does between episodes, in words, or "".
        rights: Of a page.
        stage: Of the run once its cell has stopped, else None.
        help: What the policy asks an operator for help with, or None.
    """

    mode: Mode | None
    reason: str
    silent_s: float
    kind: str
    way: str
    resetting: bool
    prompt: str
    here: bool
    claim: float | None
    learner: str
    rights: Rights
    stage: Stage | None
    help: HelpRequest | None = None


SILENT_S = 3.0
"""The safety process says its mode each second, sealed; a diagnosis may be anybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """Banner as the page shows it.

    Attributes:
        mode: Colour, shape and tone go by it: a mode in lower case, "asks" where the policy in control asks for help,
            "silent", or once the cell has stopped "over", "ended" or "failed".
        word: In large letters.
        why: One sentence.
        now: What an operator is to do, one sentence.
    """

    mode: str
    word: str
    why: str
    now: str


def banner(scene: Scene) -> Banner:
    """Make the banner of a scene."""
    if scene.stage is not None:
        return after_cell(scene.stage)
    if scene.mode is None or scene.silent_s > SILENT_S:
        heard = "has not been heard yet" if scene.mode is None else f"has been silent for {scene.silent_s:.0f} s"
        return Banner(
            mode="silent",
            word=SILENT,
            why=f"The safety process {heard}. What is shown below may be old.",
            now="Look at the robot, not at the page. Is the run still going?",
        )
    if scene.mode is Mode.POLICY and scene.help is not None:
        return _asks(scene, scene.help)
    why = {
        Mode.POLICY: _policy_why(scene),
        Mode.HUMAN: _human_why(scene),
        Mode.READY: "Nothing moves until an episode begins.",
        Mode.DISARMED: "Nothing can move.",
    }.get(scene.mode) or _sentence(scene.reason)
    return Banner(mode=str(scene.mode).lower(), word=WORDS[scene.mode], why=why, now=_now(scene))


def _asks(scene: Scene, request: HelpRequest) -> Banner:
    key = key_of(Device.BROWSER, "dismiss").upper()
    go_on = "give it back to the policy" if request.meanwhile is Meanwhile.BASE else "let it go on"
    rest = f"or {go_on}: 'dismiss' ({key})" if scene.rights.dismiss else f"or {go_on} by that device"
    return Banner(
        mode="asks",
        word="HELP WANTED",
        why=f"{KINDS_OF_HELP[request.reason.kind]}: {_sentence(request.reason.text)} {LEADS[request.meanwhile]}",
        now=f"Look at the robot. If it needs you, {_take(scene)}, {rest}.",
    )


KINDS_OF_HELP = {
    HelpKind.STALL: "The policy is stuck",
    HelpKind.DISTANCE: "The policy does not know this scene",
    HelpKind.SAMPLES: "The policy is undecided",
    HelpKind.CRITICS: "The critics disagree",
}

LEADS = {
    Meanwhile.POLICY: "It goes on meanwhile.",
    Meanwhile.NOBODY: "It keeps the arm still meanwhile.",
    Meanwhile.BASE: "Nobody has answered, so the base policy leads the arm meanwhile.",
}

AFTER = {
    StageName.CLOSING: "THE CELL STOPS",
    StageName.CLONING: "TRAINING IS OVER",
    StageName.EVALUATING: "EVALUATION",
    StageName.REPORT: "REPORT",
    StageName.ENDED: "RUN ENDED",
    StageName.FAILED: "RUN FAILED",
}


def after_cell(stage: Stage) -> Banner:
    """Make the banner of a run whose cell has stopped."""
    share = "" if stage.share is None else f" {100 * stage.share:.0f} % are done."
    why = " ".join(map(_sentence, (stage.text, *stage.result))) + share
    if stage.final:
        now = f"Next: {stage.next_step}" if stage.next_step else "The terminal of the run says what to do next."
        return Banner(mode=stage.name.value, word=AFTER[stage.name], why=why, now=now)
    now = "Nothing to do here: the arms of the cell are stopped. The page goes on to the result."
    if stage.name is StageName.CLOSING:
        now = "The cell is stopping, and what holds its arms ends last. The page goes on to the result."
    return Banner(mode="over", word=AFTER[stage.name], why=why, now=now)


def farewell(stage: Stage | None) -> Banner:
    """Make the banner that stays on a page once its server is gone."""
    if stage is not None and stage.final:
        return after_cell(stage)
    return Banner(
        mode="lost",
        word="PAGE CLOSED",
        why="The process of this page was ended. Whether the run goes on is not known here.",
        now="Look at the robot, not at the page. The terminal of the run says more.",
    )


def _policy_why(scene: Scene) -> str:
    return ("It is being evaluated" if scene.kind == "eval" else "It trains online") + _way(scene)


def _human_why(scene: Scene) -> str:
    hand = f"{'A page' if scene.here else scene.rights.device} drives"
    return f"{hand}: a {'demonstration' if scene.kind == 'demo' else 'correction'}{_way(scene)}"


def _way(scene: Scene) -> str:
    return f": {_sentence(scene.way)}" if scene.way else "."


def _now(scene: Scene) -> str:
    keys = {event: key_of(Device.BROWSER, event).upper() for event in ("success", "failure", "reset_done")}
    if scene.mode is Mode.STOP:
        clear = "keep 'clear the stop' pressed for a second" if scene.rights.enable else "clear the stop at the robot"
        return f"Make the cell safe and release the emergency stop, {clear}, then {_arm(scene)}."
    if scene.mode is Mode.HOLD:
        return f"The arm holds its pose. Once the cause is gone, {_arm(scene)}."
    if scene.claim is not None:
        sure = f" ({scene.claim:.2f})" if scene.claim == scene.claim else ""
        return f"The model says success{sure}. If that is wrong press 'REFUSE' ({keys['failure']})."
    if scene.prompt:
        return f"{_sentence(scene.prompt)} Then press 'reset done' ({keys['reset_done']})."
    if scene.mode is Mode.DISARMED:
        return f"If the cell is safe, {_arm(scene)}."
    if scene.mode is Mode.HUMAN and scene.rights.scripted and not scene.here:
        return f"Watch.{' To take the arm yourself, hold SPACE or a pad, and steer.' if scene.rights.drive else ''}"
    if scene.mode is Mode.HUMAN:
        end = f"Press {keys['success']} when it is done, {keys['failure']} when it has failed."
        return end if scene.kind == "demo" else f"Guide it back on course, then let go. {end}"
    if scene.mode is Mode.POLICY:
        return f"Watch. When it goes wrong, {_take(scene)}."
    if scene.resetting:
        return "The scene is being put back."
    then = " The arm can be taken once an episode runs." if scene.rights.drive else ""
    return f"{_sentence(scene.learner)}{then}" if scene.learner else f"Wait for an episode.{then}"


def _take(scene: Scene) -> str:
    return "hold SPACE or a pad, and steer" if scene.rights.drive else "take the device"


def _arm(scene: Scene) -> str:
    key = key_of(Device.KEYBOARD, "arm").upper()
    return f"press 'arm / resume' ({key})" if scene.rights.enable else "press arm on the device at the robot"


def _sentence(text: str) -> str:
    """Return a text with a capital at the start and a full stop at the end."""
    text = text.strip()
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")
