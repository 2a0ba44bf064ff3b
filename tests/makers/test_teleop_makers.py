"""Our files of GELLO and the Quest against what their packages publish, as read in their sources (`teleop/*.yaml`)."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.robot import RobotConfig
from robot_stack.config.schema import MODELS
from robot_stack.config.teleop import JoyTeleop, LeaderTeleop, TeleopConfig
from robot_stack.teleop.build import BuiltTeleop, build_teleop
from robot_stack.teleop.input_events import KEYS
from robot_stack.teleop.messages import JointPacket, JoyPacket, quest_inputs
from robot_stack.types.pose import Pose
from robot_stack.types.robot import TeleopSample
from tests.makers.robot_facts import read

MAKERS = sorted((Path(__file__).parent / "teleop").glob("*.yaml"), key=lambda path: path.stem)
POSES = ("quest_pose", "quest2ros")
FULL = np.array([0.1, 0.1, 0.1, 0.6, 0.6, 0.6])
MS = 1_000_000


def facts(name: str) -> dict[str, Any]:
    return read(Path(__file__).parent / "teleop" / f"{name}.yaml")


def ours(name: str, *overrides: str) -> TeleopConfig:
    return load(config_root() / "teleop" / f"{name}.yaml", TELEOPS, overrides)


def leader(name: str, *overrides: str) -> LeaderTeleop:
    config = ours(name, *overrides)
    assert isinstance(config, LeaderTeleop)
    return config


@pytest.mark.parametrize("path", MAKERS, ids=lambda path: path.stem)
def test_the_fixture_says_where_it_is_from(path: Path):
    fact = facts(path.stem)
    assert fact["repository"].startswith("https://github.com/")
    assert re.fullmatch(r"[0-9a-f]{40}", fact["commit"])
    assert fact["distro"]
    assert fact["paths"]


@pytest.mark.parametrize("path", MAKERS, ids=lambda path: path.stem)
def test_silence_is_three_messages_or_more_and_no_more_than_a_fifth_of_a_second(path: Path):
    fact, config = facts(path.stem), ours(path.stem)
    assert isinstance(config, LeaderTeleop | JoyTeleop)
    assert 3.0 / fact["rate_hz"] < config.timeout_s <= 0.2


def test_gello_publishes_the_followers_own_joint_names():
    fact, config = facts("gello"), leader("gello")
    follower = load(config_root() / "robots" / "fr3_franka.yaml", MODELS["robots"])
    assert isinstance(follower, RobotConfig)
    assert [joint.name for joint in config.joints] == fact["joints"]["names"] == [j.name for j in follower.joints]
    assert config.topic == fact["joints"]["topic"]
    grip = config.gripper_topic
    assert grip is not None
    assert (grip.topic, grip.closed, grip.open) == tuple(fact["gripper"][key] for key in ("topic", "closed", "open"))


@pytest.mark.parametrize("name", POSES)
def test_the_quests_topics_types_axes_and_buttons_are_the_bridges(name: str):
    fact, config = facts(name), leader(name)
    assert config.joy is not None
    assert config.topic == fact["pose"]["topic"]
    assert config.axes == fact["pose"]["axes"]
    assert config.joy.topic == fact["inputs"]["topic"]
    assert config.joy.type == fact["inputs"]["type"].replace("/msg/", "/")
    axes, buttons = fact["inputs"]["axes"], fact["inputs"]["buttons"]
    assert {action: axes[trigger.axis] for action, trigger in config.joy.triggers.items()} == {
        "deadman": "grip", "gripper_close": "trigger",
    }  # fmt: skip
    named = {action: buttons[index] for action, index in config.joy.buttons.items()}
    assert named.get("success", "b") == "b"
    assert named.get("failure", "a") == "a"


def test_the_quests_stick_as_joy_is_its_nodes():
    fact, config = facts("quest_joy"), ours("quest_joy")
    assert isinstance(config, JoyTeleop)
    assert config.topic == fact["inputs"]["topic"]
    assert {axis: fact["inputs"]["axes"][index] for axis, index in config.axes.items()} == {
        "x": "stick_y", "y": "stick_x",
    }  # fmt: skip
    buttons = fact["inputs"]["buttons"]
    assert {action: buttons[index] for action, index in config.buttons.items()} == {
        "success": "b", "failure": "a", "gripper_open": "stick", "deadman": "grip", "gripper_close": "trigger",
    }  # fmt: skip


def test_a_quest_whose_cable_is_pulled_while_it_drives_is_lost_though_its_node_goes_on_sending():
    """The real node repeats its last buttons and its last pose for ever, stamped as if they were new."""
    fact, config = facts("quest_joy"), ours("quest_joy")
    assert isinstance(config, JoyTeleop)
    assert config.alive is not None
    assert config.alive.topic == fact["pose"]["topic"]
    built = build_teleop(config, FULL)
    assert built.alive is not None
    assert built.robot is not None
    held = [int(name == "grip") for name in fact["inputs"]["buttons"]]
    samples = []
    for tick in range(150):
        now_ns = (1_000 + 16 * tick) * MS
        deflected = {"stick_y": 0.4 if tick > 60 else 0.0}
        axes = tuple(deflected.get(name, 0.0) for name in fact["inputs"]["axes"])
        built.robot.see(Pose.identity(), now_ns)
        built.joy[config.topic].feed(JoyPacket(axes=axes, buttons=held if tick > 50 else [0] * len(held)), now_ns)
        trembles = 1e-6 * (tick % 2) if tick < 100 else 0.0
        built.alive.feed(Pose.from_rotation(np.array([0.1, 1.2 + trembles, -0.4]), Rotation.identity()), now_ns)
        samples.append(built.device.sample(now_ns))
    assert samples[99].deadman
    assert samples[99].twist[0] != 0.0
    first_lost = next(tick for tick, sample in enumerate(samples) if tick > 99 and sample.lost)
    assert (first_lost - 100) * 16 <= config.alive.freeze_s * 1e3 + 32
    assert all(sample.lost and not sample.deadman for sample in samples[first_lost:])


class Hand:
    """Sends messages as the fixture has them, into the device of the shipped file."""

    def __init__(self, name: str) -> None:
        self.fact = facts(name)
        overrides = ["keyboard=null"] if name == "quest2ros" else []
        config = leader(name, *overrides)
        self.built: BuiltTeleop = build_teleop(config, FULL)
        self.inputs_topic = self.fact["inputs"]["topic"]
        self.now_ns = 1_000 * MS
        self.handle = np.array([0.1, 1.2, -0.4])
        self.turn = Rotation.identity()
        self.still = False
        self.grip = self.trigger = 0.0
        self.sends = True
        self._trembles = 0

    def tick(self) -> TeleopSample:
        self.now_ns += 12 * MS
        assert self.built.robot is not None
        self.built.robot.see(Pose.identity(), self.now_ns)
        if self.sends:
            self.send()
        return self.built.device.sample(self.now_ns)

    def send(self) -> None:
        assert self.built.leader is not None
        self._trembles += not self.still
        tremor = 1e-6 * (self._trembles % 2)
        self.built.leader.feed(Pose.from_rotation(self.handle + tremor, self.turn), self.now_ns)
        values = {"stick_x": 0.0, "stick_y": 0.0, "grip": self.grip, "trigger": self.trigger}
        if "fields" in self.fact["inputs"]:
            packet = quest_inputs(
                SimpleNamespace(
                    button_upper=False, button_lower=False, thumb_stick_horizontal=0.0, thumb_stick_vertical=0.0,
                    press_index=self.trigger, press_middle=self.grip,
                )
            )  # fmt: skip
            assert list(self.fact["inputs"]["fields"]) == list(QUEST2ROS_FIELDS)
        else:
            packet = JoyPacket(axes=[values[axis] for axis in self.fact["inputs"]["axes"]], buttons=[0, 0, 0, 0])
        self.built.joy[self.inputs_topic].feed(packet, self.now_ns)

    def run(self, ticks: int) -> list[TeleopSample]:
        return [self.tick() for _ in range(ticks)]

    def engaged(self) -> Hand:
        self.run(60)
        self.grip = 0.9
        assert self.run(3)[-1].deadman
        return self


QUEST2ROS_FIELDS = (
    "button_upper", "button_lower", "thumb_stick_horizontal", "thumb_stick_vertical", "press_index", "press_middle",
)  # fmt: skip
ALONG = {
    "quest_pose": {"x": (0.0, 0.0, -1.0), "y": (-1.0, 0.0, 0.0), "z": (0.0, 1.0, 0.0)},
    "quest2ros": {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)},
}
"""Away from the operator, to the left and up, in the axes of each bridge."""


@pytest.mark.parametrize("name", POSES)
@pytest.mark.parametrize(("axis", "index"), [("x", 0), ("y", 1), ("z", 2)])
def test_the_tool_goes_where_the_hand_goes_while_the_grip_is_held(name: str, axis: str, index: int):
    hand = Hand(name).engaged()
    first = hand.tick()
    np.testing.assert_allclose(first.twist, 0.0, atol=1e-3)
    hand.handle = hand.handle + 0.01 * np.array(ALONG[name][axis])
    twist = hand.tick().twist
    assert twist[index] > 0.1
    np.testing.assert_allclose(np.delete(twist, index), 0.0, atol=1e-3)


@pytest.mark.parametrize("name", POSES)
def test_a_turn_about_the_vertical_turns_the_tool_about_z(name: str):
    hand = Hand(name).engaged()
    hand.turn = Rotation.from_rotvec(0.02 * np.array(ALONG[name]["z"]))
    twist = hand.tick().twist
    assert twist[5] > 0.05
    np.testing.assert_allclose(twist[:5], 0.0, atol=1e-3)


@pytest.mark.parametrize("name", POSES)
def test_motion_before_the_grip_is_pressed_moves_nothing(name: str):
    hand = Hand(name)
    hand.run(60)
    for _ in range(20):
        hand.handle = hand.handle + np.array([0.03, 0.0, 0.0])
        assert not hand.tick().deadman
    hand.grip = 0.9
    for sample in hand.run(5):
        assert sample.deadman
        np.testing.assert_allclose(sample.twist, 0.0, atol=1e-3)


@pytest.mark.parametrize("name", POSES)
def test_a_pose_that_jumps_is_a_loss(name: str):
    hand = Hand(name).engaged()
    hand.handle = hand.handle + np.array([0.2, 0.0, 0.0])
    assert hand.tick().lost


@pytest.mark.parametrize("name", POSES)
def test_a_pose_stream_that_stops_is_a_loss(name: str):
    hand = Hand(name).engaged()
    hand.sends = False
    samples = hand.run(20)
    assert samples[-1].lost
    assert sum(sample.deadman for sample in samples) * 12 <= 150


@pytest.mark.parametrize("name", POSES)
def test_a_bridge_that_repeats_an_old_pose_is_a_loss_and_stays_one_until_the_hand_is_seen(name: str):
    hand = Hand(name).engaged()
    hand.still = True
    samples = hand.run(40)
    assert sum(not sample.lost for sample in samples) * 12 <= 312
    assert samples[-1].lost
    assert all(sample.lost for sample in hand.run(60))
    hand.still, hand.grip = False, 0.0
    assert not hand.run(60)[-1].lost


@pytest.mark.parametrize("name", POSES)
def test_the_index_finger_closes_the_gripper_and_a_trembling_one_once(name: str):
    hand = Hand(name).engaged()
    hand.trigger = 0.7
    assert hand.tick().gripper == -1
    for pulled in (0.58, 0.62, 0.55):
        hand.trigger = pulled
        assert hand.tick().gripper == -1
    hand.trigger = 0.2
    assert hand.run(12)[-1].gripper == 0


def test_gellos_messages_move_the_tool_and_its_grip_is_a_press():
    fact = facts("gello")
    config = leader("gello", "deadman=joy", "pedal=null", "joy={topic: b, buttons: {deadman: 0}}")
    built = build_teleop(config, FULL)
    assert built.leader is not None
    assert built.grip is not None
    assert built.robot is not None
    names, angles = fact["joints"]["names"], np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.8])
    now_ns, samples = 1_000 * MS, []
    for message in range(40):
        now_ns += round(1e9 / fact["rate_hz"])
        pressed = message > 20
        if message == 30:
            angles = angles + np.array([0.03, 0, 0, 0, 0, 0, 0])
        built.robot.see(Pose.identity(), now_ns)
        built.leader.feed(JointPacket(names=names, positions=list(angles)), now_ns)
        built.grip.feed(0.1 if message >= 35 else 1.0, now_ns)
        built.joy["b"].feed(JoyPacket(axes=[], buttons=[int(pressed)]), now_ns)
        samples.append(built.device.sample(now_ns))
    assert samples[29].deadman
    np.testing.assert_allclose(samples[29].twist, 0.0, atol=1e-9)
    assert samples[30].twist[1] > 0.1, "the first joint turns the hand to the left"
    assert [samples[34].gripper, samples[35].gripper] == [0, -1]


def test_gello_without_its_grips_topic_is_lost():
    built = build_teleop(leader("gello", "deadman=joy", "pedal=null", "joy={topic: b, buttons: {deadman: 0}}"), FULL)
    assert built.leader is not None
    for message in range(40):
        now_ns = message * 40 * MS
        built.leader.feed(JointPacket(names=facts("gello")["joints"]["names"], positions=[0.1] * 7), now_ns)
        built.joy["b"].feed(JoyPacket(axes=[], buttons=[0]), now_ns)
        assert built.device.sample(now_ns).lost
    assert "grip on /gripper/gripper_client" in built.device.problem


def test_the_shipped_gello_needs_a_pedal_which_is_a_key_that_there_is():
    pedal = leader("gello").pedal
    assert pedal is not None
    assert set(pedal.keys.values()) <= set(KEYS)
