"""Two arms behind one filter: one state of control, one policy, limits for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.control.audit.replay_checker import check_log
from robot_stack.control.safety.arm_filter import GuardedArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.teleop.selection import ArmSelector
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import SpecError
from robot_stack.types.reason import Fault, FaultKind, RefusalKind
from robot_stack.types.robot import TeleopSample
from tests.control.filter_rig import LIMITS, MS, TICK_NS, TwoArmRig, twist
from tests.examples import examples

PUSH = {"left": twist(x=0.1), "right": twist(y=0.1)}


def driving() -> TwoArmRig:
    rig = TwoArmRig().armed()
    rig.policy = PUSH
    rig.run(0.5)
    assert rig.filter.mode is Mode.POLICY
    return rig


def taken(*arms: str) -> TwoArmRig:
    """The policy drives, then an operator takes some arms and moves the first."""
    rig = driving()
    rig.hands = {arm: np.zeros(6) for arm in rig.arms}
    rig.tick()
    rig.deadman = set(arms)
    rig.hands[arms[0]] = twist(z=-0.5)
    rig.run(0.5)
    return rig


def test_the_policy_moves_both_arms_at_one_stamp():
    decisions = driving().tick()
    for arm, push in PUSH.items():
        np.testing.assert_allclose(decisions[arm].command.twist, push, atol=1e-6)
        assert decisions[arm].source is Source.POLICY
    assert len({decision.command.stamp_ns for decision in decisions.values()}) == 1


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (["left"], "policy commands are for arms ['left'], must be one for each of left, right"),
        (["left", "left"], "must be one for each of left, right"),
        (["left", "right", "middle"], "must be one for each of left, right"),
        ([], "must be one for each of left, right"),
    ],
)
def test_a_policy_that_does_not_command_every_arm_once_is_refused(offered: list[str], words: str):
    rig = TwoArmRig().armed()
    refusal = rig.filter.offer([rig.command(arm, np.zeros(6)) for arm in offered], rig.now_ns)
    assert words in str(refusal)
    assert rig.filter.counters["rejected_policy"] == 1


def test_commands_of_two_instants_are_refused():
    rig = TwoArmRig().armed()
    late = replace(rig.command("right", np.zeros(6)), stamp_ns=rig.now_ns - MS)
    assert "must have one" in str(rig.filter.offer([rig.command("left", np.zeros(6)), late], rig.now_ns))


def test_a_broken_command_of_one_arm_moves_neither_and_is_named():
    rig = TwoArmRig().armed()
    commands = [rig.command("left", twist(x=0.1)), rig.command("right", np.full(6, np.nan))]
    rig.filter.offer(commands, rig.now_ns)
    assert rig.filter.last_rejection.startswith("right: twist of command is")
    assert not any(decision.command.twist.any() for decision in rig.tick().values())


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (
            lambda rig: rig.faults.update(right=Fault(kind=FaultKind.PROTECTIVE_STOP, text="protective stop")),
            "right/fault says: protective stop;",
        ),
        (lambda rig: rig.silent.add("left"), "left/state is 110 ms old (limit 100); check the robot process, resume"),
        (lambda rig: rig.wrenches.update(right=twist(x=-40.0)), "right: contact force 40 N (limit 35); free the arm"),
    ],
)
def test_what_is_wrong_with_one_arm_holds_both_and_names_it(break_it, reason: str):
    rig = driving()
    break_it(rig)
    decisions = rig.run(0.25)[-1]
    assert rig.filter.mode is Mode.HOLD
    assert str(rig.filter.reason).startswith(reason)
    assert {decision.mode for decision in decisions.values()} == {Mode.HOLD}
    assert not any(decision.command.twist.any() for decision in decisions.values())


def test_a_stop_stops_both():
    rig = driving()
    rig.filter.offer_teleop("right", rig.sample("right", events=("stop",)), rig.now_ns)
    assert rig.filter.mode is Mode.STOP
    assert not any(decision.command.twist.any() for decision in rig.run(0.2)[-1].values())
    rig.move_by["left"] = twist(x=0.05)
    rig.now_ns += MS
    rig.tell_states()
    assert str(rig.filter.clear_stop(rig.now_ns)).startswith("left moves at 0.050")


def test_arming_waits_for_the_states_and_the_released_deadmen_of_both():
    rig = TwoArmRig()
    rig.filter.offer_state(rig.state("left"), rig.now_ns)
    assert (
        str(rig.filter.arm(rig.now_ns)) == "right/state is missing, must say where the arm is; start the robot process"
    )
    rig.hands = {arm: np.zeros(6) for arm in rig.arms}
    rig.deadman = {"right"}
    rig.tick()
    assert str(rig.filter.arm(rig.now_ns)).startswith("right: deadman is held")


def test_a_person_who_takes_one_arm_takes_the_cell_and_the_other_stands_still():
    decisions = taken("left").tick()
    assert {decision.mode for decision in decisions.values()} == {Mode.HUMAN}
    np.testing.assert_allclose(decisions["left"].command.twist, twist(z=-0.1), atol=1e-6)
    assert decisions["left"].source is Source.HUMAN
    assert not decisions["right"].command.twist.any()
    assert decisions["right"].source is Source.HOLD


def test_control_goes_back_to_the_policy_with_both_arms_after_the_release_time():
    rig = taken("left")
    rig.deadman = set()
    waiting = rig.run(0.3)
    assert {(tick["left"].source, tick["right"].source) for tick in waiting} == {(Source.IDLE, Source.HOLD)}
    after = rig.tick()
    assert {decision.source for decision in after.values()} == {Source.POLICY}


def test_an_arm_in_the_hand_may_rest_while_the_other_is_moved_but_both_idle_together():
    rig = taken("left", "right")
    assert {decision.source for decision in rig.tick().values()} == {Source.HUMAN}
    rig.hands["left"] = np.zeros(6)
    assert {decision.source for decision in rig.run(0.5)[-1].values()} == {Source.IDLE}
    rig.hands["right"] = twist(x=0.5)
    assert {decision.source for decision in rig.tick().values()} == {Source.HUMAN}


def test_letting_go_of_one_of_two_arms_keeps_the_cell():
    rig = taken("left", "right")
    rig.deadman = {"left"}
    rig.run(0.5)
    decisions = rig.tick()
    assert (decisions["left"].source, decisions["right"].source) == (Source.HUMAN, Source.HOLD)
    assert rig.filter.mode is Mode.HUMAN


def test_in_a_demonstration_an_arm_out_of_hand_is_shown_to_stand_still():
    rig = TwoArmRig().armed(policy_expected=False)
    rig.hands = {arm: np.zeros(6) for arm in rig.arms}
    assert {decision.source for decision in rig.tick().values()} == {Source.HOLD}
    rig.deadman, rig.hands["right"] = {"right"}, twist(x=0.5)
    decisions = rig.run(0.3)[-1]
    assert {decision.source for decision in decisions.values()} == {Source.HUMAN}
    assert not decisions["left"].command.twist.any()


def test_a_device_that_dies_holds_only_if_its_arm_is_in_the_hand():
    rig = taken("left")
    rig.mute_hands.add("right")
    assert rig.run(0.5)[-1]["left"].mode is Mode.HUMAN
    rig.mute_hands.add("left")
    rig.run(0.2)
    assert rig.filter.mode is Mode.HOLD
    assert str(rig.filter.reason).startswith("left: teleop silent for")


def test_after_a_hold_both_deadmen_must_be_pressed_anew():
    rig = taken("left", "right")
    rig.filter.hold("test")
    assert "deadman is held" in str(rig.filter.resume(rig.now_ns))
    rig.deadman = {"right"}
    rig.run(0.2)
    assert str(rig.filter.resume(rig.now_ns)).startswith("right: deadman is held")


def test_cuts_are_counted_for_the_arm_that_was_cut():
    rig = TwoArmRig().armed()
    rig.policy = {"left": twist(x=0.1), "right": twist(x=2.0)}
    decisions = rig.run(0.6)[-1]
    assert "speed" in decisions["right"].clamped
    assert decisions["left"].clamped == ()
    assert rig.filter.counters["right.clamped_speed"] > 10
    assert not any(name.startswith("left.clamped_speed") for name in rig.filter.counters)


@pytest.mark.parametrize("arm", ["middle", ""])
def test_messages_of_an_arm_that_is_not_there_are_refused(arm: str):
    rig = TwoArmRig().armed()
    assert "must be one of 'left', 'right'" in str(rig.filter.offer_teleop(arm, rig.sample("left"), rig.now_ns))
    assert "must be one of 'left', 'right'" in str(
        rig.filter.offer_state(replace(rig.state("left"), arm=arm), rig.now_ns)
    )


def test_a_filter_without_arms_is_refused():
    with pytest.raises(SpecError, match="must be at least 1"):
        SafetyFilter({})


def test_the_strictest_timeout_holds_for_all():
    guarded = GuardedArm(limits=LIMITS, teleop_scale=np.full(6, 0.2))
    hasty = replace(guarded, limits=replace(LIMITS, state_timeout_s=0.05))
    rig = TwoArmRig(SafetyFilter({"left": guarded, "right": hasty})).armed()
    rig.policy = PUSH
    rig.run(0.1)
    rig.silent.add("left")
    rig.run(0.06)
    assert rig.filter.mode is Mode.HOLD


STEPS = st.one_of(
    st.tuples(st.just("policy"), st.lists(st.floats(-1, 1), min_size=12, max_size=12)),
    st.tuples(st.just("hand"), st.sampled_from(["left", "right"]), st.lists(st.floats(-1, 1), min_size=6, max_size=6)),
    st.tuples(st.just("deadman"), st.sets(st.sampled_from(["left", "right"]))),
    st.tuples(st.just("mute"), st.sampled_from(["left", "right"])),
    st.tuples(st.just("force"), st.sampled_from(["left", "right"]), st.floats(0, 60)),
    st.tuples(st.sampled_from(["hold", "resume", "end", "start", "heal"])),
)


def apply(rig: TwoArmRig, step: tuple) -> None:
    kind, *rest = step
    if kind == "policy":
        rig.policy = {"left": np.array(rest[0][:6]), "right": np.array(rest[0][6:])}
    elif kind == "hand":
        rig.hands[rest[0]] = np.array(rest[1])
    elif kind == "deadman":
        rig.deadman = rest[0]
    elif kind == "mute":
        rig.silent.add(rest[0])
    elif kind == "force":
        rig.wrenches[rest[0]] = twist(x=-rest[1])
    elif kind == "heal":
        rig.silent.clear()
        rig.wrenches = {arm: np.zeros(6) for arm in rig.arms}
    elif kind == "start":
        rig.filter.start(rig.now_ns)
    else:
        {"hold": lambda: rig.filter.hold("x"), "end": rig.filter.end_episode,
         "resume": lambda: rig.filter.resume(rig.now_ns)}[kind]()  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_whatever_happens_each_arm_is_within_its_limits_and_no_tick_mixes_policy_and_person(steps: list[tuple]):
    rig = TwoArmRig().armed()
    rig.hands = {arm: np.zeros(6) for arm in rig.arms}
    for step in steps:
        apply(rig, step)
        for tick in rig.run(0.05):
            sources = {decision.source for decision in tick.values()}
            assert not (Source.POLICY in sources and sources & {Source.HUMAN, Source.IDLE})
            assert len({decision.mode for decision in tick.values()}) == 1
    for arm in rig.arms:
        assert check_log(rig.logs[arm], LIMITS) == []


def one_device(rig: TwoArmRig) -> Callable[..., Mapping[str, Any]]:
    """A tick of two arms that one device drives in turn; returns what is decided for each."""
    selector = ArmSelector(rig.arms)
    rig.policy = {arm: np.full(6, 0.05) for arm in rig.arms}

    def tick(**says: Any) -> Mapping[str, Any]:
        rig.now_ns += TICK_NS
        rig.tell_states()
        rig.filter.offer([rig.command(arm, twist) for arm, twist in rig.policy.items()], rig.now_ns)
        sample = TeleopSample(**{"stamp_ns": rig.now_ns, "twist": np.zeros(6), **says})
        for arm, each in selector.route(sample).items():
            rig.filter.offer_teleop(arm, each, rig.now_ns)
        return rig.filter.decide(rig.now_ns)

    tick()
    return tick


def test_a_deadman_that_is_held_while_the_arm_changes_does_not_give_the_arms_to_the_policy():
    rig = TwoArmRig().armed()
    tick = one_device(rig)
    for _ in range(10):
        tick(twist=np.full(6, 0.3), deadman=True)
    assert rig.filter.mode is Mode.HUMAN
    tick(twist=np.full(6, 0.3), deadman=True, events=("next_arm",))
    for _ in range(100):
        decided = tick(twist=np.full(6, 0.3), deadman=True)
        assert rig.filter.mode is Mode.HUMAN
    assert not any(one.command.twist.any() for one in decided.values())
    for _ in range(35):
        tick()
    assert rig.filter.mode is Mode.POLICY


@pytest.mark.parametrize("events", [(), ("next_arm",)])
def test_a_device_that_is_lost_while_it_drives_is_a_hold_whatever_key_came_with_it(events: tuple[str, ...]):
    """The key of a second device changed the arm, and the one in the hand was only let go of: the policy took both."""
    rig = TwoArmRig().armed()
    tick = one_device(rig)
    for _ in range(10):
        tick(twist=np.full(6, 0.3), deadman=True)
    assert rig.filter.mode is Mode.HUMAN
    tick(lost=True, events=events)
    assert rig.filter.mode is Mode.HOLD
    assert rig.filter.reason is not None
    assert rig.filter.reason.kind is RefusalKind.TELEOP_LOST
