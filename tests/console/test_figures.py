"""Which figure is over its limit, and that it says so in words."""

from __future__ import annotations

import pytest

from robot_stack.console.figures import Diagnosed, Facts, Figure, estop_words, figures
from robot_stack.transport.backend import LearnerStatus

S = 1_000_000_000


def facts(**actor: object) -> Facts:
    values = {"jitter_p99_ms": 1.2, "act_ms": 8, "params_version": 212, "params_age_s": 3.1, "link": "up", "spooled": 0}
    heard = Facts(rate_hz=10.0, max_params_age_s=300.0, safety_hz=100.0)
    tell(heard, "actor", "policy", **{**values, **actor})
    return heard


def tell(heard: Facts, process: str, task: str, level: int = 0, message: str = "ok", **values: object) -> None:
    words = {key: str(value) for key, value in values.items()}
    heard.diagnoses[process, task] = Diagnosed(level=level, message=message, values=words, heard_ns=10 * S)


def line(heard: Facts, name: str, now_ns: int = 10 * S) -> Figure:
    return next(figure for figure in figures(heard, now_ns) if figure.name == name)


def test_nothing_heard_is_nothing_claimed():
    heard = Facts(rate_hz=10.0, max_params_age_s=300.0, safety_hz=100.0)
    assert [figure.over for figure in figures(heard, 0)] == [False] * 9
    assert line(heard, "loop").text == "10 Hz; no actor is heard"


@pytest.mark.parametrize(
    ("name", "actor", "text", "over"),
    [
        ("loop", {}, "10 Hz, jitter p99 1.2 ms, policy 8.0 ms", False),
        ("loop", {"jitter_p99_ms": 26}, "must be at most 25 and 100 ms", True),
        ("loop", {"act_ms": 101}, "is the machine busy?", True),
        ("loop", {"act_ms": ""}, "10 Hz, jitter p99 1.2 ms", False),
        ("params", {}, "v212, 3.1 s old", False),
        ("params", {"params_age_s": 151}, "at 300 s the policy stops", True),
        ("params", {"params_version": 0, "params_age_s": ""}, "none yet", False),
        ("link", {}, "up, spool 0", False),
        ("link", {"link": "down", "spooled": 412}, "steps are kept on disk, spool 412", True),
        ("link", {"refused": 0, "refused_why": ""}, "up, spool 0", False),
        (
            "link",
            {"refused": 13, "refused_why": "use a new id"},
            "spool 0; 13 records refused, lost: use a new id",
            True,
        ),
    ],
)
def test_the_actors_figures(name, actor, text, over):
    shown = line(facts(**actor), name)
    assert text in shown.text
    assert shown.over == over


def test_a_learner_that_is_away_or_in_trouble_is_said():
    heard = facts()
    heard.learner_error = "learner at 127.0.0.1:5 is UNAVAILABLE, must answer; is it running there?"
    assert line(heard, "learner").over
    heard.learner = LearnerStatus(phase="collecting_demos", counters={"demos": 2.0, "env_steps": 0.0})
    assert line(heard, "learner") == Figure(name="learner", text="collecting demos", over=False)
    assert line(heard, "replay").text.startswith("2 demonstrations, 0 online steps")
    heard.learner = LearnerStatus(phase="fitting", message="reward model: step 3 of 120")
    assert not line(heard, "learner").over
    heard.learner = LearnerStatus(phase="training", message="disk is full", counters={"updates": 10.0})
    assert line(heard, "learner").over


def test_a_session_without_a_learner_is_nothing_wrong():
    heard = facts()
    heard.learner_asked = False
    assert line(heard, "learner").text.startswith("none in this session")
    assert not line(heard, "learner").over


def test_what_the_filter_cut_is_counted_from_the_start_of_the_episode():
    heard = facts()
    tell(heard, "safety", "filter", clamped_speed=40, clamped_workspace=5, hold=3)
    heard.clips = heard.clamped()
    assert line(heard, "safety").text == "nothing clamped this episode"
    tell(heard, "safety", "filter", clamped_speed=77, clamped_workspace=5, hold=4)
    assert line(heard, "safety").text == "clamped this episode: speed 0.37 s"
    tell(heard, "safety", "inputs", level=1, message="clocks differ")
    assert line(heard, "safety").over


def test_cuts_of_several_arms_are_named():
    heard = facts()
    tell(heard, "safety", "filter", **{"left.clamped_speed": 10, "right.clamped_tilt": 20})
    assert line(heard, "safety").text == "clamped this episode: left.speed 0.10 s, right.tilt 0.20 s"


def test_a_process_that_is_silent_or_complains_is_named():
    heard = facts()
    tell(heard, "camera_wrist", "frames", level=2, message="camera wrist: no device")
    assert "camera_wrist: camera wrist: no device" in line(heard, "processes").text
    assert line(heard, "processes", 14 * S).text == "actor silent for 4 s; camera_wrist silent for 4 s"
    heard.diagnoses.clear()
    heard.cell = "teleop is not active: no device"
    assert line(heard, "processes").over


@pytest.mark.parametrize(
    ("free", "text", "over"),
    [(212.4, "212 GB free", False), (4.0, "must be at least 5", True), (None, "unknown", False)],
)
def test_room_on_the_disk(free, text, over):
    heard = facts()
    heard.free_gb = free
    assert text in line(heard, "disk").text
    assert line(heard, "disk").over == over


@pytest.mark.parametrize(
    ("wired", "stop_input", "estop", "words", "on"),
    [
        (False, None, False, "none wired to this computer", False),
        (False, None, True, "none wired to this computer; STOP is latched", True),
        (True, None, False, "wired, but not heard", False),
        (True, False, False, "released", False),
        (True, False, True, "released; STOP is latched", True),
        (True, True, True, "pressed", True),
        (False, True, True, "pressed", True),
    ],
)
def test_the_emergency_stop_is_shown_as_it_is(wired, stop_input, estop, words, on):
    heard = facts()
    heard.stop_wired, heard.stop_input, heard.estop = wired, stop_input, estop
    assert estop_words(heard) == (words, on)
