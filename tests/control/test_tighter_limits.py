"""Limits that change while the process runs: tighter than the files, never looser, and only at rest."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.safety.limits import TIGHTENABLE, SafetyLimits, tightened
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import Refusal, RefusalKind
from tests.control.filter_rig import LIMITS, Rig, twist
from tests.examples import examples


@pytest.mark.parametrize("name", TIGHTENABLE)
@pytest.mark.parametrize("factor", [1.0 + 1e-6, 10.0, -1.0, math.nan, math.inf])
def test_no_limit_becomes_looser_than_the_file(name: str, factor: float):
    value = (getattr(LIMITS, name) or 1e-3) * factor
    with pytest.raises(
        ConfigError, match=rf"{name} is {value}, must be .* and at most .*, the limit of the safety file"
    ):
        tightened(LIMITS, LIMITS, {name: value})


@pytest.mark.parametrize("name", [n for n in TIGHTENABLE if n not in ("retract_m_s", "hard_force_n")])
def test_every_limit_can_be_made_tighter_and_set_back(name: str):
    half = tightened(LIMITS, LIMITS, {name: getattr(LIMITS, name) / 2})
    assert getattr(half, name) == getattr(LIMITS, name) / 2
    assert tightened(LIMITS, half, {name: getattr(LIMITS, name)}) == LIMITS


@pytest.mark.parametrize(
    "name",
    ["braking_m_s2", "rotation_braking_rad_s2", "policy_timeout_s", "output_timeout_s", "box_min_m", "no_such_limit"],
)
def test_what_the_start_fixed_stays(name: str):
    with pytest.raises(ConfigError, match=f"{name} is fixed while the process runs"):
        tightened(LIMITS, LIMITS, {name: 0.01})


def test_limits_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError, match=r"soft_force_n is 15\.0, must be below hard_force_n 10\.0"):
        tightened(LIMITS, LIMITS, {"hard_force_n": 10.0})


def test_a_limit_changes_only_at_rest_and_then_holds():
    rig = Rig().armed()
    rig.policy = twist(x=0.2)
    rig.run(0.5)
    slower = tightened(LIMITS, LIMITS, {"max_speed_m_s": 0.03})
    assert "must be standing to change a limit" in str(rig.filter.limit({"arm": slower}))
    rig.filter.end_episode()
    rig.run(0.3)
    assert rig.filter.limit({"arm": slower}) is None
    begin = len(rig.log)
    assert rig.filter.start(rig.now_ns) is None
    assert rig.run(0.5)[-1].command.twist[0] == pytest.approx(0.03)
    assert check_log(rig.log[begin:], slower) == []


GENTLE = {
    "max_acceleration_m_s2": 0.1,
    "max_rotation_acceleration_rad_s2": 0.4,
    "max_jerk_m_s3": 1.0,
    "max_rotation_jerk_rad_s3": 4.0,
}


@pytest.mark.parametrize("end", ["stop", "hold", "release"])
def test_a_gentle_acceleration_stops_as_soon_as_any(end: str):
    rig = Rig(LIMITS)
    gentle = tightened(LIMITS, LIMITS, GENTLE)
    assert rig.filter.limit({"arm": gentle}) is None
    rig.armed(policy_expected=False)
    rig.hand, rig.deadman = twist(x=0.5, rz=1.0), True
    before = rig.run(1.5)[-1].command.twist
    assert before[0] > 0.03
    assert before[5] > 0.12
    asked = Refusal(kind=RefusalKind.KEY, text="asked")
    if end == "stop":
        rig.filter.stop(asked, who="test")
    elif end == "hold":
        rig.filter.hold(asked)
    rig.deadman = False
    decisions = rig.run(0.15)
    assert not decisions[-1].command.twist.any()
    assert check_log(rig.log, gentle) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"braking_m_s2": 1.0}, r"braking_m_s2 is 1\.0, must be at least 2\.5, max_acceleration_m_s2; raise it"),
        ({"max_speed_m_s": 0.9}, r"must be at least 6, to stop from max_speed_m_s \(0\.9\) within 0\.15 s; raise it"),
        ({"max_rotation_speed_rad_s": 3.0}, r"rotation_braking_rad_s2 is 10\.0, must be at least 20, to stop from"),
    ],
)
def test_brakes_must_stop_the_arm_in_time(changes: dict[str, float], text: str):
    with pytest.raises(ConfigError, match=text):
        replace(LIMITS, **changes)


@pytest.mark.long
@settings(max_examples=examples(8), deadline=None)
@given(share=st.floats(0.05, 1.0), push=st.lists(st.floats(-1, 1), min_size=6, max_size=6).map(np.array))
def test_under_any_tighter_limits_the_log_proves_them(share: float, push: np.ndarray):
    names = ("max_speed_m_s", "max_rotation_speed_rad_s", "max_acceleration_m_s2", "tilt_cone_rad")
    tighter: SafetyLimits = tightened(LIMITS, LIMITS, {name: share * getattr(LIMITS, name) for name in names})
    rig = Rig()
    assert rig.filter.limit({"arm": tighter}) is None
    rig.armed()
    rig.policy = push
    rig.run(1.0)
    assert check_log(rig.log, tighter) == []
