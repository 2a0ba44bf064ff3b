"""What the graph says about publishers that cannot be heard."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.nodes.conversion import frame_and_session, frame_of_session
from robot_stack.nodes.safety.wiring import Input, problem_of
from robot_stack.workcell.qos import Endpoint, Qos

LATCHED = Qos(reliable=True, latched=True)
ASKED = Endpoint(node="/sim/safety", kind="sensor_msgs/msg/Joy", qos=Qos(reliable=True, latched=False))
WANTED = Input(topic="arm/teleop/cmd", asked=ASKED, needed=True)
GOOD = replace(ASKED, node="/sim/teleop")


def test_one_publisher_that_offers_enough_is_fine() -> None:
    assert problem_of(WANTED, [GOOD]) == ""
    assert problem_of(WANTED, [replace(GOOD, qos=LATCHED)]) == ""  # more than is asked for


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ([replace(GOOD, qos=Qos(reliable=False, latched=False))],
         "teleop/cmd from /sim/teleop is offered BEST_EFFORT VOLATILE, must be RELIABLE VOLATILE as /sim/safety asks"),
        ([replace(GOOD, kind="std_msgs/msg/String")], "is std_msgs/msg/String, must be sensor_msgs/msg/Joy"),
        ([GOOD, replace(GOOD, node="/sim/other")], "has 2 publishers (/sim/other, /sim/teleop), must have one"),
        ([], "arm/teleop/cmd has no publisher, must have one; start its process"),
    ],
)  # fmt: skip
def test_what_cannot_be_heard_is_named(offers: list[Endpoint], words: str) -> None:
    assert words in problem_of(WANTED, offers)


def test_a_latched_topic_asks_for_a_latched_publisher() -> None:
    latched = Input(topic="arm/fault", asked=replace(ASKED, qos=LATCHED))
    assert "must be RELIABLE TRANSIENT_LOCAL" in problem_of(latched, [GOOD])


def test_the_right_topic_in_another_namespace_is_told() -> None:
    said = problem_of(WANTED, [], ["/cell2/arm/teleop/cmd"])
    assert "there is /cell2/arm/teleop/cmd; start all with one namespace" in said
    assert problem_of(replace(WANTED, needed=False), [], []) == ""


@pytest.mark.parametrize(("frame", "session"), [("tcp", "actor-3f2a"), ("base", ""), ("", "x")])
def test_a_session_travels_in_the_frame(frame: str, session: str) -> None:
    assert frame_and_session(frame_of_session(frame, session)) == (frame, session)
