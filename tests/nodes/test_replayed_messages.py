"""A recording that is played again: its seals are true, its stamps are not, and nothing is led by it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.qos import QoSProfile
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState

from robot_stack.control.safety.admission import FaultRecord
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.actor.cell_link import CellLink
from robot_stack.nodes.conversion import fault_to_msg, header_of, state_to_msg
from robot_stack.nodes.qos import EVERY, LATCHED
from robot_stack.nodes.sealed_text import listen_to_text
from robot_stack.nodes.sealing import Sealer
from robot_stack.nodes.state_admission import StateAdmission
from robot_stack.nodes.teleop.source import show_robot
from robot_stack.teleop.robot_view import RobotView
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind, RefusalKind
from tests.control.filter_rig import Rig

KEY = WireKey.random()
ROBOT, HERE = Sealer(KEY, "robot-1"), Sealer(KEY, "here-1")
LONG_S = 30.0
"""Less than the machine has been up, whose clock began at 0."""
EMERGENCY = Fault(kind=FaultKind.EMERGENCY_STOP, text="emergency stop is pressed")


def state(age_s: float, x: float = 0.0, sealer: Sealer = ROBOT) -> JointState:
    pose = Pose.from_rotation(np.array([x, 0.0, 0.1]), Rotation.identity())
    stamp_ns = time.monotonic_ns() - round(age_s * 1e9)
    return sealer.seal(topics.state("arm"), state_to_msg(replace(Rig().state(), T_base_tcp=pose, stamp_ns=stamp_ns)))


def test_each_state_counts_once_while_it_is_young_and_of_this_run():
    admission, first = StateAdmission(HERE, "arm"), state(0.01)
    assert admission.refusal(first) is None
    kinds = {
        name: str(refusal.kind)
        for name, msg in {
            "again": first,
            "earlier": state(0.05),
            "of long ago": state(LONG_S),
            "to come": state(-LONG_S),
            "of a stranger": state(0.0, sealer=Sealer(WireKey.random(), "robot-1")),
        }.items()
        if (refusal := admission.refusal(msg)) is not None
    }
    assert kinds == {
        "again": RefusalKind.REPEATED,
        "earlier": RefusalKind.REPEATED,
        "of long ago": RefusalKind.STALE,
        "to come": RefusalKind.FUTURE,
        "of a stranger": RefusalKind.FOREIGN,
    }
    assert admission.refusal(state(0.0)) is None


def test_a_teleop_device_sees_the_robot_where_it_is_and_not_where_it_was_recorded():
    """A clutch drives by what it believes the tool's pose to be: whoever plays an old one steers the arm."""
    view = RobotView()
    see = show_robot(SimpleNamespace(sealer=HERE), "arm", SimpleNamespace(chosen="arm"), view)
    see(state(0.01, x=0.1))
    see(state(LONG_S, x=-0.1))
    assert view.pose(time.monotonic_ns()).position_m[0] == pytest.approx(0.1)


class Link:
    """What of the actor's link takes states and faults."""

    def __init__(self) -> None:
        self.sealer = HERE
        self.states: dict = {}
        self.stamps_ns: dict = {}
        self.turns = {"arm": SimpleNamespace(watch=lambda quaternion: None)}
        self.sync = SimpleNamespace(offer_state=lambda state, now_ns: None)
        self._changed = threading.Condition()
        self._refused: dict = {}
        self._faults = {"arm": FaultRecord()}
        self._admitted = {"arm": StateAdmission(HERE, "arm")}

    on_state, on_fault = CellLink._on_state, CellLink._on_fault

    @property
    def fault(self) -> Fault | None:
        return self._faults["arm"].fault


def test_an_actor_is_not_led_by_states_of_a_recording():
    link = Link()
    link.on_state("arm", state(0.01, x=0.1))
    link.on_state("arm", state(LONG_S, x=-0.1))
    assert link.states["arm"].T_base_tcp.position_m[0] == pytest.approx(0.1)
    assert "old" in link._refused[topics.state("arm")]


def test_an_actors_fault_is_not_ended_by_a_recorded_ok():
    link, now_ns = Link(), time.monotonic_ns()
    for fault, stamp_ns in ((EMERGENCY, now_ns), (None, now_ns - round(LONG_S * 1e9))):
        link.on_fault("arm", ROBOT.seal(topics.fault("arm"), fault_to_msg(fault, "arm", stamp_ns)))
    assert link.fault == EMERGENCY


def text_msg(text: str, stamp_ns: int, number: int = 0) -> DiagnosticArray:
    return DiagnosticArray(header=header_of(stamp_ns), status=[DiagnosticStatus(name=str(number), message=text)])


class Listener:
    """What of a node listens to texts, and what it took and refused of one topic."""

    sealer = HERE

    def __init__(self, topic: str, profile: QoSProfile, *, repeats: bool = False) -> None:
        self.wire = topics.sealed(topic)
        self.taken, self.refused = [], []
        self._numbers = count(1)
        listen_to_text(self, topic, self._take, profile, self.refused.append, repeats=repeats)

    def create_subscription(self, kind: type, topic: str, callback: Callable, profile: QoSProfile) -> None:
        assert topic == self.wire
        self.hear = callback

    def _take(self, text: str) -> None:
        if text == "nonsense":
            raise SpecError("it is nonsense")
        self.taken.append(text)

    def hears(self, text: str, age_s: float, sealer: Sealer = ROBOT, number: int | None = None) -> None:
        number = next(self._numbers) if number is None else number
        self.hear(sealer.seal(self.wire, text_msg(text, time.monotonic_ns() - round(age_s * 1e9), number)))


@pytest.mark.parametrize(("topic", "profile"), [(topics.MODE, LATCHED), (topics.CLAIM, EVERY)])
def test_a_text_is_heard_from_a_process_of_the_run_and_never_turned_back(topic: str, profile: QoSProfile):
    listener = Listener(topic, profile)
    listener.hears("true", 0.1)
    listener.hear(text_msg("unsealed", time.monotonic_ns()))
    listener.hears("of a stranger", 0.0, Sealer(WireKey.random(), "safety-1"))
    listener.hears("recorded", LONG_S)
    listener.hears("nonsense", 0.05)
    listener.hears("later", 0.0)
    assert listener.taken == ["true", "later"]
    foreign = f"text on {listener.wire} is of no process of this run, must be; stop what else sends there"
    assert listener.refused[:2] == [foreign] * 2
    assert listener.refused[-1] == "it is nonsense"


def test_a_text_that_a_step_of_the_clock_hid_is_heard_by_its_repetition_and_once():
    listener = Listener(topics.MODE, LATCHED)
    listener.hears("POLICY", 0.0, number=1)
    listener.hears("HOLD", 5.0, number=2)  # the wall clock was set on while it was under way
    assert listener.taken == ["POLICY"]
    for _ in range(3):
        listener.hears("HOLD", 0.0, number=2)
    assert listener.taken == ["POLICY", "HOLD"]
    listener.hears("HOLD", 0.0, number=3)
    assert listener.taken == ["POLICY", "HOLD", "HOLD"]


def test_repetitions_are_signs_of_life_to_who_asks_for_them_and_a_recorded_one_is_none():
    listener = Listener(topics.MODE, LATCHED, repeats=True)
    for _ in range(3):
        listener.hears("HOLD", 0.0, number=2)
    listener.hears("HOLD", 5.0, number=2)
    listener.hears("HOLD", 0.0, Sealer(WireKey.random(), "safety-1"), number=2)
    assert listener.taken == ["HOLD"] * 3


def test_the_last_text_of_a_latched_topic_waits_for_its_listener_and_a_claim_does_not():
    mode, claim = Listener(topics.MODE, LATCHED), Listener(topics.CLAIM, EVERY)
    for listener in (mode, claim):
        listener.hears("said before", 60.0)
    assert (mode.taken, claim.taken) == (["said before"], [])
    assert "old" in claim.refused[0]


@pytest.mark.parametrize("set_back_s", [LONG_S, -LONG_S])
def test_a_fault_is_heard_whatever_was_done_to_the_clock_since_the_last_report(set_back_s: float):
    """The last report waits for its listener; when it comes, its stamp may be an hour off either way."""
    record, now_ns = FaultRecord(), 10**13
    record.hear(None, now_ns + round(set_back_s * 1e9), now_ns)
    record.hear(EMERGENCY, now_ns + 1, now_ns + 2)
    assert record.fault == EMERGENCY
    record.hear(None, now_ns, now_ns + 3)
    assert record.fault == EMERGENCY
    record.hear(None, now_ns + 4, now_ns + 5)
    assert record.fault is None


def test_a_first_report_counts_however_old_it_seems():
    record = FaultRecord()
    record.hear(EMERGENCY, -(10**13), 10**9)
    assert record.fault == EMERGENCY
