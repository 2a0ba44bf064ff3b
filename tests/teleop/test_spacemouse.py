"""HID reports of 3Dconnexion devices, in both layouts."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.teleop.sources import SpaceMouseReports
from robot_stack.types.errors import RobotError

COUNTS = st.lists(st.integers(-350, 350), min_size=6, max_size=6)


def axes_of(*reports: bytes, full: int = 350) -> np.ndarray:
    decoder = SpaceMouseReports(full)
    for report in reports:
        decoder.push(report)
    return decoder.reading().axes


@given(counts=COUNTS)
def test_both_layouts_say_the_same(counts: list[int]):
    whole = b"\x01" + struct.pack("<6h", *counts)
    halves = b"\x01" + struct.pack("<3h", *counts[:3]), b"\x02" + struct.pack("<3h", *counts[3:])
    np.testing.assert_array_equal(axes_of(whole), axes_of(*halves))


@pytest.mark.parametrize(
    ("report", "axes"),
    [
        ("01 5e01 0000 0000", [0, -1, 0, 0, 0, 0]),  # pushed right: y counts left
        ("01 0000 a2fe 0000", [1, 0, 0, 0, 0, 0]),  # pushed away from the operator: forward
        ("01 0000 0000 a2fe", [0, 0, 1, 0, 0, 0]),  # pulled up
        ("02 af00 0000 0000", [0, 0, 0, 0, -0.5, 0]),  # half a turn of what it can about its right: nose up
        ("02 0000 51ff 0000", [0, 0, 0, 0.5, 0, 0]),
        ("02 0000 0000 5e01", [0, 0, 0, 0, 0, -1]),  # clockwise from above
    ],
)
def test_axes_are_forward_left_and_up(report: str, axes: list[float]):
    np.testing.assert_allclose(axes_of(bytes.fromhex(report)), axes)


def test_the_change_of_frame_is_a_proper_rotation():
    columns = [axes_of(b"\x01" + struct.pack("<3h", *(350 * row)))[:3] for row in np.eye(3, dtype=int)]
    assert np.linalg.det(np.array(columns)) == pytest.approx(1.0)


def test_a_report_of_one_half_keeps_the_other():
    axes = axes_of(bytes.fromhex("02 0000 51ff 0000"), bytes.fromhex("01 0000 a2fe 0000"))
    np.testing.assert_allclose(axes, [1, 0, 0, 0.5, 0, 0])


def test_full_deflection_of_another_model_is_given_in_counts():
    assert axes_of(b"\x01" + struct.pack("<3h", 0, -500, 0), full=500)[0] == 1.0


def test_buttons_are_held_and_tapped_as_the_key_table_says():
    decoder = SpaceMouseReports()
    decoder.push(bytes.fromhex("03 01 00"))
    reading = decoder.reading()
    assert reading.held == reading.tapped == {"gripper_close"}
    decoder.push(bytes.fromhex("03 02 00"))
    reading = decoder.reading()
    assert (reading.held, reading.tapped) == ({"gripper_open"}, {"gripper_open"})
    decoder.push(bytes.fromhex("03 00 00"))
    assert decoder.reading().held == frozenset()


@pytest.mark.parametrize(("bits", "action"), [(1 << 12, "success"), (1 << 22, "hold"), (1 << 25, "arm")])
def test_the_further_buttons_of_the_pro(bits: int, action: str):
    decoder = SpaceMouseReports()
    decoder.push(b"\x03" + struct.pack("<I", bits))
    assert decoder.reading().held == {action}


@pytest.mark.parametrize("report", ["17 64 01 00", "1c 00 00 00", "04 01", "ff"])
def test_reports_about_battery_light_and_the_like_say_nothing(report: str):
    assert not axes_of(bytes.fromhex("01 0000 0000 0000"), bytes.fromhex(report)).any()


@pytest.mark.parametrize("report", ["", "01", "01 00", "01 0000 0000", "02 0000 0000 0000 0000 0000 0000", "03"])
def test_a_report_of_an_impossible_length_is_refused(report: str):
    with pytest.raises(RobotError, match="must have"):
        axes_of(bytes.fromhex(report))


def test_counts_far_beyond_the_range_are_refused():
    with pytest.raises(RobotError, match="within"):
        axes_of(b"\x01" + struct.pack("<3h", 32767, 0, 0))


@given(report=st.binary(max_size=20))
def test_any_bytes_are_decoded_ignored_or_refused(report: bytes):
    with suppress(RobotError):
        assert np.abs(axes_of(report)).max() <= 2.0
