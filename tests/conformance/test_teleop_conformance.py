"""What every teleop device keeps, whatever it is: recorded reports go in, `TeleopSample`s come out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.config.resolve import load_run
from robot_stack.nodes.teleop.scripted_operator import OperatorRoutine
from robot_stack.teleop.input_events import KEYS
from robot_stack.types.command import Mode
from robot_stack.types.robot import EVENTS, TeleopSample
from robot_stack.types.spec import AXES
from robot_stack.workcell.build import build_operator
from tests.conformance.teleop_rigs import RIGS, STEP_NS, Rig
from tests.examples import examples

MESSAGE_TIMEOUT_S = 0.15


EXAMPLES = {name: make() for name, make in RIGS.items()}
"""Only to ask what they can do."""


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Rig:
    return RIGS[request.param]()


def every(fits=lambda rig: True):
    """Parametrises over the devices that can do what the fact is about."""
    return pytest.mark.parametrize("rig", [name for name, rig in EXAMPLES.items() if fits(rig)], indirect=True)


def in_control(rig: Rig) -> Rig:
    rig.ready()
    rig.take_control()
    assert rig.run(0.3)[-1].deadman
    return rig


def value(sample: TeleopSample, axis: str) -> float:
    return float(sample.twist[AXES.index(axis)])


def is_nothing(sample: TeleopSample) -> bool:
    return not sample.deadman and not sample.twist.any()


@every()
def test_deadman_is_false_at_the_start_until_everything_was_let_go(rig: Rig):
    rig.take_control()
    assert all(is_nothing(sample) for sample in rig.run(1.0))
    rig.give_back()
    rig.run(0.3)
    rig.take_control()
    assert rig.run(0.3)[-1].deadman


@every()
def test_a_device_that_is_there_and_let_go_is_not_lost_and_asks_for_nothing(rig: Rig):
    rig.ready()
    for sample in rig.run(0.5):
        assert is_nothing(sample)
        assert not sample.lost
        assert sample.gripper == 0
    assert rig.device.problem == ""


@every()
def test_taking_control_is_seen_at_the_next_reading_and_so_is_giving_it_back(rig: Rig):
    rig.ready()
    rig.take_control()
    assert rig.tick().deadman
    rig.run(0.2)
    rig.give_back()
    assert is_nothing(rig.tick())


@every()
def test_full_deflection_is_one_on_every_axis_both_ways_and_never_more(rig: Rig):
    in_control(rig)
    rig.give_back()
    for axis in rig.axes:
        for sign in (1.0, -1.0):
            rig.give_back()
            rig.run(0.1)
            rig.press()
            rig.tick()
            rig.push(axis, sign)
            samples = rig.run(0.4)
            assert value(samples[-1], axis) == pytest.approx(sign, abs=1e-3), axis
            assert max(np.abs(sample.twist).max() for sample in samples) <= 1.0
            rig.push(axis, 0.0)


@pytest.mark.parametrize("name", ["keyboard", "spacemouse with pedal"])
@pytest.mark.parametrize("shift", ["KEY_LEFTSHIFT", "KEY_RIGHTSHIFT"])
def test_with_shift_held_on_a_keyboard_it_is_a_quarter_as_fast(name: str, shift: str):
    """Also where the keyboard lies beside a device that has no such key."""
    rig = RIGS[name]()
    keyboard = getattr(rig, "keypad", None) or rig.thing
    in_control(rig)
    rig.push("x", 1.0)
    assert value(rig.run(0.4)[-1], "x") == pytest.approx(1.0, abs=1e-3)
    keyboard.key(KEYS[shift], 1)
    assert value(rig.run(0.1)[-1], "x") == pytest.approx(0.25, abs=1e-3)
    keyboard.key(KEYS[shift], 0)
    rising = [value(sample, "x") for sample in rig.run(0.4)]
    assert rising[-1] == pytest.approx(1.0, abs=1e-3)
    assert max(np.diff([0.25, *rising])) <= STEP_NS / 1e9 / rig.ramp_s + 1e-6, "no faster than from rest"


@every(lambda rig: rig.analog)
def test_an_overshoot_of_the_device_is_still_one(rig: Rig):
    in_control(rig)
    if not rig.by_motion:
        rig.push("x", 0.0)
        rig.tick()
    rig.push("x", 1.3)
    assert value(rig.run(1.0)[-1], "x") == pytest.approx(1.0)


@every(lambda rig: rig.analog)
def test_below_the_dead_zone_is_rest_and_above_it_starts_again_from_zero(rig: Rig):
    in_control(rig)
    axis = "y" if rig.by_motion else "x"
    rig.push(axis, 0.9 * rig.deadzone)
    assert value(rig.run(0.3)[-1], axis) == 0.0
    rig.push(axis, rig.deadzone + 0.03)
    assert 0.0 < value(rig.run(0.3)[-1], axis) < 0.06


@every()
def test_control_starts_at_rest_and_rises_no_faster_than_the_ramp(rig: Rig):
    rig.ready()
    rig.take_control()
    first = rig.tick()
    assert first.deadman
    assert not first.twist.any()
    rig.push("x", 1.0)
    twists = np.array([first.twist, *(sample.twist for sample in rig.run(0.8))])
    assert twists[-1][0] == pytest.approx(1.0, abs=1e-3)
    if rig.repeats and not rig.analog:
        return  # a handle moves by itself: the safety filter's blend and limits are its ramp
    assert np.diff(twists, axis=0).max() <= STEP_NS / 1e9 / rig.ramp_s + 1e-9


@every(lambda rig: not rig.by_motion)
def test_a_stick_that_is_out_at_the_press_moves_nothing_until_it_was_at_rest(rig: Rig):
    rig.ready()
    if rig.repeats and not rig.analog:
        rig.push("x", 1.0)
        rig.run(0.3)
        rig.push("x", 0.0)  # the handle is elsewhere now
    else:
        rig.push("x", 1.0)
    rig.run(0.1)
    rig.press()
    samples = rig.run(0.5)
    assert all(sample.deadman for sample in samples)
    assert not any(sample.twist.any() for sample in samples)
    rig.push("x", 0.0)
    rig.tick()
    rig.push("x", 1.0)
    assert value(rig.run(1.0)[-1], "x") == pytest.approx(1.0, abs=1e-3)


@every()
def test_gripper_keys_are_presses_while_they_are_held_and_a_moment_longer(rig: Rig):
    in_control(rig)
    for press in (-1, 1):
        rig.grip(press)
        assert {sample.gripper for sample in rig.run(0.3)} == {press}
        rig.grip(0)
        after = [sample.gripper for sample in rig.run(0.3)]
        assert after[10] == press
        assert after[-1] == 0


@every()
def test_a_gripper_key_that_is_up_again_before_the_next_reading_is_a_press_all_the_same(rig: Rig):
    in_control(rig)
    rig.grip(-1)
    rig.grip(0)
    presses = [sample.gripper for sample in rig.run(0.2)]
    assert presses[0] == -1
    assert presses[-1] == 0


@every(lambda rig: rig.by_motion)
def test_where_motion_takes_control_a_gripper_key_does_too(rig: Rig):
    rig.ready()
    rig.grip(-1)
    sample = rig.tick()
    assert sample.deadman
    assert sample.gripper == -1
    assert not sample.twist.any()


@every(lambda rig: bool(rig.events))
def test_every_key_is_told_once_also_if_it_is_up_again_before_the_next_reading(rig: Rig):
    rig.ready()
    for event in rig.events:
        rig.tap(event)
        told = [sample.events for sample in rig.run(0.1)]
        assert told[0] == (event,)
        assert not any(told[1:])


@every()
def test_unplugged_in_control_it_is_lost_at_once_and_not_given_back(rig: Rig):
    in_control(rig)
    rig.unplug()
    samples = rig.run(0.4)
    noticed = next(index for index, sample in enumerate(samples) if not sample.deadman)
    assert noticed * STEP_NS / 1e9 <= (MESSAGE_TIMEOUT_S if rig.repeats else 0.0) + STEP_NS / 1e9
    assert all(sample.lost and is_nothing(sample) and sample.gripper == 0 for sample in samples[noticed:])
    assert rig.device.problem


@every()
def test_plugged_in_again_with_the_deadman_held_it_needs_a_new_press(rig: Rig):
    in_control(rig)
    rig.unplug()
    rig.run(1.0)
    rig.plug()
    rig.take_control()
    samples = rig.run(3.0)
    assert all(is_nothing(sample) for sample in samples)
    assert not samples[-1].lost
    rig.give_back()
    rig.run(0.2)
    rig.take_control()
    assert rig.run(0.2)[-1].deadman


@every()
def test_absent_at_the_start_it_says_so_and_is_used_once_it_comes(rig: Rig):
    rig.unplug()
    samples = rig.run(2.0)
    assert all(sample.lost and is_nothing(sample) for sample in samples)
    assert rig.device.problem
    rig.plug()
    assert not rig.run(3.0)[-1].lost
    rig.take_control()
    assert rig.run(0.2)[-1].deadman


@every()
def test_nonsense_in_control_is_a_loss(rig: Rig):
    in_control(rig)
    rig.garbage()
    sample = rig.tick()
    assert sample.lost
    assert is_nothing(sample)
    assert all(sample.lost for sample in rig.run(0.3)), "a single message may be overtaken"


@every(lambda rig: rig.analog)
def test_nonsense_is_not_believed_even_if_sense_follows_in_the_same_breath(rig: Rig):
    in_control(rig)
    rig.garbage()
    rig.push("x", 0.9)
    assert all(is_nothing(sample) for sample in rig.run(0.4))


@every()
def test_a_device_that_floods_does_not_delay_what_is_newest(rig: Rig):
    in_control(rig)
    if not rig.by_motion:
        rig.push("x", 0.0)
        rig.run(0.1)
    rig.flood("x", 1.0)
    assert value(rig.tick(), "x") > 0.0
    assert value(rig.run(1.0)[-1], "x") == pytest.approx(1.0, abs=1e-3)


HANDS = st.one_of(
    st.tuples(st.just("press")), st.tuples(st.just("release")), st.tuples(st.just("take_control")),
    st.tuples(st.just("give_back")), st.tuples(st.just("garbage")), st.tuples(st.just("unplug")),
    st.tuples(st.just("plug")), st.tuples(st.just("grip"), st.sampled_from([-1, 0, 1])),
    st.tuples(st.just("push"), st.sampled_from(["x", "y", "rz"]), st.floats(-1.5, 1.5)),
    st.tuples(st.just("run"), st.sampled_from([0.004, 0.05, 0.6])),
)  # fmt: skip


@pytest.mark.parametrize("name", list(RIGS))
@settings(max_examples=examples(15), deadline=None)
@given(hands=st.lists(HANDS, max_size=12))
def test_whatever_is_done_to_it_what_it_says_makes_sense(name: str, hands: list[tuple]):
    rig = RIGS[name]()
    for action, *arguments in hands:
        if action == "push" and arguments[0] not in rig.axes:
            continue
        getattr(rig, action)(*arguments)
        for sample in rig.run(0.008):
            check(sample)


def check(sample: TeleopSample) -> None:
    assert sample.twist.shape == (6,)
    assert np.isfinite(sample.twist).all()
    assert np.abs(sample.twist).max() <= 1.0
    assert sample.gripper in (-1, 0, 1)
    assert set(sample.events) <= set(EVENTS)
    assert sample.deadman or not sample.twist.any()
    assert not (sample.lost and (sample.deadman or sample.gripper))


def test_the_scripted_person_is_a_device_like_any_other():
    run = load_run("peg_insert", [])
    operator = OperatorRoutine(build_operator(run, 0))
    samples = [sample for tick in range(100) for sample in operator.sample(tick * STEP_NS).values()]
    operator.read_banner(Mode.DISARMED, 101 * STEP_NS)
    samples += [sample for tick in range(101, 300) for sample in operator.sample(tick * STEP_NS).values()]
    for sample in samples:
        check(sample)
        assert not sample.deadman
    assert sum("arm" in sample.events for sample in samples) == 2
