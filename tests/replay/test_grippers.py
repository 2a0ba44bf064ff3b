from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from robot_stack.replay.grippers import DiscreteGrippers
from robot_stack.types.errors import SpecError
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from tests.replay.synthetic_episodes import two_handed_spec


def one_arm(kind: GripperKind, opening_size: int | None) -> Spec:
    return Spec(
        arms=(ArmSpec(name="arm", axes=("x",), translation_m=0.01, rotation_rad=0.06, gripper=kind),),
        cameras=(CameraSpec(name="front", height_px=8, width_px=8),),
        proprio=(
            ProprioField(name="pose", size=3),
            *([ProprioField(name="gripper", size=opening_size)] if opening_size else []),
        ),
        rate_hz=10.0,
    )


def changes(spec: Spec, entries: Sequence[float], opening: float | None) -> list[bool]:
    """Of one arm, whose action is (x, gripper)."""
    column = DiscreteGrippers(spec)
    is_open = column.at_start(np.array([0, 0, 0, *([] if opening is None else [opening])], np.float32))
    found = []
    for entry in entries:
        after = column.after(np.array([0.9, entry], np.float32), is_open)
        found.append(bool((after != is_open)[0]))
        is_open = after
    return found


def test_only_a_command_against_the_state_is_a_change() -> None:
    spec = one_arm(GripperKind.DISCRETE, None)
    assert changes(spec, [1, 0, -1, -1, 0, 0.5, 1, 1, -1], None) == [
        False, False, True, False, False, False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(("opening", "close", "open_"), [(0.5, True, False), (1.0, True, False), (0.49, False, True)])
def test_the_first_state_is_the_measured_opening(opening: float, close: bool, open_: bool) -> None:
    spec = one_arm(GripperKind.DISCRETE, 1)
    assert changes(spec, [-1], opening) == [close]
    assert changes(spec, [1], opening) == [open_]


def test_the_opening_is_found_behind_the_fields_before_it() -> None:
    assert two_handed_spec().openings == {"left": 3, "middle": 4, "right": 5}
    assert two_handed_spec(openings=False).openings == {}
    assert one_arm(GripperKind.DISCRETE, 1).openings == {"arm": 3}


def test_of_several_arms_an_opening_that_is_not_recorded_counts_as_open() -> None:
    spec = two_handed_spec()
    spec = replace(spec, proprio=(*spec.proprio[:1], *spec.proprio[2:]))  # without that of the left one
    assert DiscreteGrippers(spec).at_start(np.zeros(5, np.float32)).tolist() == [True, False]


def test_only_discrete_grippers_count() -> None:
    assert len(DiscreteGrippers(two_handed_spec())) == 2
    assert len(DiscreteGrippers(one_arm(GripperKind.CONTINUOUS, 1))) == 0
    assert len(DiscreteGrippers(one_arm(GripperKind.NONE, 1))) == 0


def test_an_opening_that_is_not_one_number_is_refused() -> None:
    with pytest.raises(SpecError, match="size of proprio field 'gripper' is 2, must be 1; record the opening of each"):
        DiscreteGrippers(one_arm(GripperKind.DISCRETE, 2))
