"""Who is in control and why, and what to do now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_stack.console.banner import SILENT, WORDS, Scene, banner, farewell
from robot_stack.console.rights import Rights
from robot_stack.runs.stage import Stage, StageName
from robot_stack.types.command import Mode
from robot_stack.types.help import HelpKind, HelpReason, HelpRequest, Meanwhile

SIM = Rights(enable=True, drive=True, arms=("fr3",), grips=False, device="The scripted operator")
REAL = Rights(enable=False, drive=False, arms=("fr3",), grips=False, device="The device at the robot")
SCENE = Scene(
    mode=Mode.POLICY, reason="", silent_s=0.5, kind="online", way="", resetting=False, prompt="", here=False,
    claim=None, learner="the learner is training", rights=SIM, stage=None,
)  # fmt: skip


@pytest.mark.parametrize("mode", list(Mode))
def test_every_mode_has_its_word_a_reason_and_something_to_do(mode):
    shown = banner(replace(SCENE, mode=mode, reason="camera wrist silent for 412 ms"))
    assert shown.mode == mode.value.lower()
    assert shown.word == WORDS[mode]
    assert shown.why.endswith(".")
    assert shown.now.endswith(".")


@pytest.mark.parametrize(
    ("changes", "why", "now"),
    [
        ({}, "It trains online.", "hold SPACE or a pad, and steer"),
        ({"kind": "eval"}, "evaluated", "hold SPACE"),
        ({"way": "take the peg out"}, "It trains online: Take the peg out.", "hold SPACE"),
        ({"mode": Mode.HUMAN, "kind": "demo", "way": "put it in"}, "a demonstration: Put it in.", "Watch."),
        ({"rights": REAL}, "trains online", "take the device"),
        ({"mode": Mode.HUMAN, "kind": "demo"}, "The scripted operator drives: a demonstration.", "hold SPACE or a pad"),
        ({"mode": Mode.HUMAN, "kind": "demo", "here": True}, "A page drives: a demonstration.", "Press S when it is"),
        ({"mode": Mode.HUMAN, "kind": "demo", "rights": REAL}, "at the robot drives", "Press S when it is"),
        ({"mode": Mode.HUMAN, "here": True}, "A page drives: a correction.", "then let go. Press S"),
        ({"mode": Mode.HOLD, "reason": "camera wrist silent for 412 ms (limit 200)"},
         "Camera wrist silent for 412 ms (limit 200).",
         "holds its pose. Once the cause is gone, press 'arm / resume' (ENTER)."),
        ({"mode": Mode.HOLD, "reason": "x", "rights": REAL}, "X.", "press arm on the device at the robot"),
        ({"mode": Mode.STOP, "reason": "stop pressed (joy)"}, "Stop pressed (joy).",
         "keep 'clear the stop' pressed for a second, then press 'arm / resume' (ENTER)."),
        ({"mode": Mode.STOP, "reason": "x", "rights": REAL}, "X.", "clear the stop at the robot"),
        ({"mode": Mode.DISARMED}, "Nothing can move.", "press 'arm / resume' (ENTER)"),
        ({"mode": Mode.READY, "prompt": "place the peg"}, "Nothing moves",
         "Place the peg. Then press 'reset done' (R)."),
        ({"mode": Mode.READY, "resetting": True}, "Nothing moves", "put back"),
        ({"mode": Mode.READY}, "Nothing moves", "The learner is training. The arm can be taken once an episode runs."),
        ({"mode": Mode.READY, "claim": 0.93}, "Nothing moves", "success (0.93). If that is wrong press 'REFUSE' (F)."),
        ({"mode": Mode.READY, "claim": float("nan")}, "Nothing moves", "The model says success. If that is wrong"),
    ],
)  # fmt: skip
def test_the_words_fit_the_scene(changes, why, now):
    shown = banner(replace(SCENE, **changes))
    assert why in shown.why
    assert now in shown.now


STUCK = HelpRequest(reason=HelpReason(kind=HelpKind.STALL, text="no progress for 2.1 s; see what it is stuck at"))


@pytest.mark.parametrize(
    ("changes", "why", "now"),
    [
        ({}, "The policy is stuck: No progress for 2.1 s; see what it is stuck at. It goes on meanwhile.",
         "hold SPACE or a pad, and steer, or let it go on: 'dismiss' (X)."),
        ({"help": replace(STUCK, meanwhile=Meanwhile.NOBODY)}, "It keeps the arm still meanwhile.", "'dismiss' (X)"),
        ({"help": replace(STUCK, meanwhile=Meanwhile.BASE)}, "so the base policy leads the arm meanwhile.",
         "back to the policy"),
        ({"rights": replace(REAL, dismiss=False)}, "is stuck", "take the device, or let it go on by that device."),
    ],
)  # fmt: skip
def test_a_policy_that_asks_for_help_says_why_and_what_can_be_done(changes, why, now):
    shown = banner(replace(SCENE, **{"help": STUCK, **changes}))
    assert (shown.mode, shown.word) == ("asks", "HELP WANTED")
    assert why in shown.why
    assert now in shown.now


@pytest.mark.parametrize("kind", list(HelpKind))
def test_every_kind_of_help_has_its_words(kind):
    request = HelpRequest(reason=HelpReason(kind=kind, text="x"))
    assert banner(replace(SCENE, help=request)).why.endswith(": X. It goes on meanwhile.")


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.POLICY])
def test_only_a_policy_in_control_asks(mode):
    assert banner(replace(SCENE, mode=mode, help=STUCK)) == banner(replace(SCENE, mode=mode))


@pytest.mark.parametrize("name", list(StageName))
def test_a_run_whose_cell_has_stopped_is_no_accident(name):
    stage = Stage(name=name, text="20 held-out resets", share=0.4, result=("policy: 19 of 20",), next_step="eval sim")
    shown = banner(replace(SCENE, mode=None, silent_s=60.0, stage=stage))
    assert shown.mode == (name.value if stage.final else "over")
    assert shown.why == "20 held-out resets. Policy: 19 of 20. 40 % are done."
    if stage.final:
        assert shown.now == "Next: eval sim"
    else:
        assert ("ends last" if name is StageName.CLOSING else "are stopped") in shown.now


def test_the_last_word_of_a_page_says_how_the_run_ended_only_if_that_is_known():
    assert farewell(Stage(name=StageName.FAILED, text="actor ended with exit code 1")).word == "RUN FAILED"
    for stage in (None, Stage(name=StageName.EVALUATING)):
        said = farewell(stage)
        assert (said.mode, said.word) == ("lost", "PAGE CLOSED")
        assert "not known here" in said.why


@pytest.mark.parametrize("changes", [{"mode": None}, {"silent_s": 3.5}])
def test_a_cell_that_is_not_heard_is_never_shown_as_if_it_were(changes):
    shown = banner(replace(SCENE, **changes))
    assert (shown.mode, shown.word) == ("silent", SILENT)
    assert "Look at the robot" in shown.now
