"""One device, several arms: one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.teleop.selection import ArmSelector
from robot_stack.types.errors import ConfigError
from robot_stack.types.robot import TeleopSample


def sample(*events: str, deadman: bool = True, gripper: int = -1) -> TeleopSample:
    return TeleopSample(stamp_ns=5, twist=np.full(6, 0.3), gripper=gripper, deadman=deadman, events=events)


def driven(samples: dict[str, TeleopSample]) -> list[str]:
    return [arm for arm, one in samples.items() if one.deadman]


def test_the_first_arm_is_driven_and_the_others_are_let_go_of() -> None:
    samples = ArmSelector(["left", "right"]).route(sample("hold"))
    assert samples["left"].events == ("hold",)
    assert driven(samples) == ["left"]
    aside = samples["right"]
    assert (aside.deadman, aside.gripper, aside.events, aside.stamp_ns) == (False, 0, (), 5)
    assert not aside.twist.any()


def test_the_key_goes_round_the_arms() -> None:
    selector, seen = ArmSelector(["left", "middle", "right"]), []
    for _ in range(4):
        selector.route(sample("next_arm", deadman=False))
        seen.append(selector.chosen)
    assert seen == ["middle", "right", "left", "middle"]


def test_a_deadman_that_is_held_while_the_arm_changes_must_be_pressed_anew() -> None:
    selector = ArmSelector(["left", "right"])
    selector.route(sample())
    changed = selector.route(sample("next_arm"))
    assert changed["right"].events == ("next_arm",)
    for held in (changed, selector.route(sample())):
        assert driven(held) == ["right"]  # in the hand, since nobody has let go
        assert not held["right"].twist.any()
        assert held["right"].gripper == 0
    selector.route(sample(deadman=False))
    pressed = selector.route(sample())
    assert driven(pressed) == ["right"]
    assert pressed["right"].twist.all()


def test_of_one_arm_the_key_changes_nothing() -> None:
    selector = ArmSelector(["arm"])
    assert driven(selector.route(sample("next_arm"))) == ["arm"]


def test_a_device_without_an_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be at least 1"):
        ArmSelector([])


@pytest.mark.long
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_never_more_than_one_arm_is_in_the_hand_and_never_without_the_deadman(presses: list[tuple[bool, bool]]) -> None:
    selector = ArmSelector(["left", "right"])
    for held, change in presses:
        samples = selector.route(sample(*(("next_arm",) if change else ()), deadman=held))
        assert driven(samples) in ([], [selector.chosen])
        assert not driven(samples) or held
