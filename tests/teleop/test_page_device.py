"""The console's page as a device, and beside the scripted operator."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.resolve import load_run
from robot_stack.config.teleop import ScriptedTeleop, TeleopConfig, page_hand
from robot_stack.teleop.build import build_page
from robot_stack.teleop.messages import JoyPacket
from robot_stack.teleop.page import PRESSED, TOPIC, PageMessages, page_packet
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.pose import Pose

MS = 1_000_000


def shipped(name: str) -> TeleopConfig:
    return load(config_root() / "teleop" / f"{name}.yaml", TELEOPS)


def test_a_packet_says_what_it_was_made_of():
    messages = PageMessages()
    messages.push(page_packet([0.0] * 6, ()))
    messages.push(page_packet([0.1, -0.2, 0.3, 0.0, 0.0, 1.0], ("deadman", "next_arm")))
    reading = messages.reading()
    assert reading.axes == pytest.approx([0.1, -0.2, 0.3, 0.0, 0.0, 1.0])
    assert reading.held == reading.tapped == {"deadman", "next_arm"}
    assert not messages.reading().tapped


@pytest.mark.parametrize(
    ("packet", "words"),
    [
        (page_packet([0.0] * 6, ("deadman",), gone=True), "the page is gone while it drove"),
        (JoyPacket(axes=[0.0] * 6, buttons=[0] * len(PRESSED)), "must have 5"),
        (JoyPacket(axes=[0.0] * 5, buttons=[0] * 5), "must have axis 5"),
        (page_packet([np.nan] * 6, ()), "must be six numbers"),
        (page_packet([3.0] * 6, ()), "must be six numbers"),
    ],
)
def test_what_a_page_cannot_mean_is_refused(packet: JoyPacket, words: str):
    with pytest.raises(RobotError, match=words):
        PageMessages().push(packet)


def test_a_hand_beside_the_scripted_person_drives_as_its_file_says():
    hand = page_hand(shipped("scripted"))
    assert hand is not None
    built = build_page(hand)
    assert list(built.joy) == [TOPIC]
    now_ns = 0

    def run(pressed: tuple[str, ...], axes: list[float]) -> np.ndarray:
        nonlocal now_ns
        for _ in range(40):
            now_ns += 20 * MS
            assert built.robot is not None
            built.robot.see(Pose.identity(), now_ns)
            built.joy[TOPIC].feed(page_packet(axes, pressed), now_ns)
            sample = built.device.sample(now_ns)
        assert sample.deadman == bool(pressed)
        return sample.twist

    rest = [0.0] * 6
    run((), rest)
    run(("deadman",), rest)
    away = run(("deadman",), [1.0, 0, 0, 0, 0, 0])
    assert away == pytest.approx([-0.5, 0, 0, 0, 0, 0], abs=1e-4), "from the operator, who faces the robot"
    now_ns += 300 * MS
    assert built.device.sample(now_ns).lost


def test_a_scripted_person_without_a_page_takes_none():
    config = shipped("scripted")
    assert isinstance(config, ScriptedTeleop)
    assert page_hand(config.model_copy(update={"page": None})) is None
    assert page_hand(shipped("keyboard")) is None
    assert page_hand(shipped("browser")) is not None


def test_a_cell_whose_arms_would_both_follow_one_page_is_refused(tmp_path):
    (tmp_path / "cells").mkdir()
    (tmp_path / "runs").mkdir()
    cell = (config_root() / "cells" / "sim_two_arms.yaml").read_text()
    cell = cell.replace("teleop: scripted\n", "").replace("    robot: fr3\n", "    robot: fr3\n    teleop: browser\n")
    (tmp_path / "cells" / "sim_two_arms.yaml").write_text(cell)
    (tmp_path / "runs" / "mine.yaml").write_text((config_root() / "runs" / "two_arm_insert.yaml").read_text())
    with pytest.raises(ConfigError, match="a page moves the cell already, as the device of left"):
        load_run(tmp_path / "runs" / "mine.yaml")
