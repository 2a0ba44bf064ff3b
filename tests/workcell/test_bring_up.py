"""Order, patience and sentences of a bring-up, with nodes that are lines of a script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.types.errors import SpecError
from robot_stack.workcell.bring_up import PATIENCE_S, RETRY_S, Ask, BringUp, Heard, Stage

NODES = ("robot", "safety", "camera_wrist", "teleop")
REQUIRED = ("robot", "safety")
UNCONFIGURED, INACTIVE, ACTIVE, DEACTIVATED = (
    Heard(stage=stage) for stage in (Stage.UNCONFIGURED, Stage.INACTIVE, Stage.ACTIVE, Stage.DEACTIVATED)
)
REACHED = {"configure": INACTIVE, "activate": ACTIVE}


def plan() -> BringUp:
    return BringUp(NODES, REQUIRED)


def obey(up: BringUp, now_s: float, *, except_for: str = "") -> list[Ask]:
    """Every node does what it is asked, but one, which refuses; returns what was asked, in order."""
    asked = []
    for _ in range(4 * len(NODES)):
        ask = up.next(now_s)
        if ask is None:
            break
        asked.append(ask)
        up.answered(ask, success=ask.node != except_for, now_s=now_s)
        if ask.node != except_for:
            up.heard(ask.node, REACHED[ask.transition])
    return asked


def test_nodes_come_up_in_their_order_one_after_the_other() -> None:
    up = plan()
    assert up.next(0.5) is None
    for name in reversed(NODES):
        up.heard(name, UNCONFIGURED)
    wanted = [(name, step) for name in NODES for step in ("configure", "activate")]
    assert [(ask.node, ask.transition) for ask in obey(up, 1.0)] == wanted
    assert up.next(1.5) is None
    assert up.words() == ("all 4 nodes are active after 0.5 s",)
    assert up.status() == "active"
    assert up.words() == ()


def test_a_node_that_has_not_spoken_is_waited_for() -> None:
    up = plan()
    up.heard("safety", UNCONFIGURED)
    assert up.next(0.0) is None
    up.heard("robot", UNCONFIGURED)
    assert up.next(0.1) == Ask(node="robot", transition="configure")


def test_an_unanswered_request_is_not_repeated_at_once_but_later() -> None:
    up = plan()
    up.heard("robot", UNCONFIGURED)
    assert up.next(0.0) is not None
    assert up.next(1.0) is None
    assert up.next(11.0) == Ask(node="robot", transition="configure")


def test_a_required_node_that_fails_holds_up_the_rest_and_says_why() -> None:
    up = plan()
    for name in NODES:
        up.heard(name, UNCONFIGURED)
    obey(up, 0.0, except_for="robot")
    up.heard("robot", Heard(stage=Stage.UNCONFIGURED, reason="driver of fr3 is silent"))
    assert up.next(0.1) is None
    assert up.words() == ("robot did not reach active: driver of fr3 is silent; what comes after it waits",)
    assert all(ask.node == "robot" for ask in obey(up, PATIENCE_S + 5.0, except_for="robot"))
    assert up.words() == (), "said once"
    assert up.status().startswith("robot is not active: driver of fr3 is silent; safety is not active")


def test_a_failed_step_is_tried_again_later() -> None:
    up = plan()
    up.heard("robot", UNCONFIGURED)
    ask = up.next(0.0)
    up.answered(ask, success=False, now_s=0.0)
    assert up.next(RETRY_S / 2) is None
    assert up.next(RETRY_S) == ask


def test_an_optional_node_is_passed_over_after_a_while_and_follows_when_it_can() -> None:
    up = plan()
    for name in NODES:
        if name != "camera_wrist":
            up.heard(name, UNCONFIGURED)
    assert {ask.node for ask in obey(up, 0.0)} == {"robot", "safety"}
    assert {ask.node for ask in obey(up, PATIENCE_S + 1.0)} == {"teleop"}
    assert up.words() == ("camera_wrist did not reach active: its process says nothing; read its log",)
    up.heard("camera_wrist", UNCONFIGURED)
    assert {ask.node for ask in obey(up, PATIENCE_S + 2.0)} == {"camera_wrist"}
    assert up.status() == "active"


def test_a_node_that_was_started_again_is_brought_up_again() -> None:
    up = plan()
    for name in NODES:
        up.heard(name, UNCONFIGURED)
    obey(up, 0.0)
    up.words()
    up.heard("camera_wrist", UNCONFIGURED)
    assert [ask.transition for ask in obey(up, 60.0)] == ["configure", "activate"]
    assert up.words() == ("camera_wrist is unconfigured", "all 4 nodes are active after 0.0 s")


def test_a_node_that_somebody_deactivated_is_left_alone() -> None:
    up = plan()
    for name in NODES:
        up.heard(name, UNCONFIGURED)
    obey(up, 0.0)
    up.words()
    up.heard("safety", DEACTIVATED)
    assert up.next(60.0) is None
    why = "somebody took it out of active; ros2 lifecycle set brings it back"
    assert up.words() == (
        "safety is deactivated", f"safety did not reach active: {why}; what comes after it waits"
    )  # fmt: skip
    assert "somebody took it out of active" in up.status()


def test_a_bring_up_that_is_started_again_goes_on_where_it_was() -> None:
    up = plan()
    for name, heard in zip(NODES, (ACTIVE, INACTIVE, UNCONFIGURED, UNCONFIGURED), strict=True):
        up.heard(name, heard)
    assert [ask.node for ask in obey(up, 0.0)] == ["safety", *2 * ["camera_wrist"], *2 * ["teleop"]]
    assert up.status() == "active"


def test_a_bring_up_that_is_started_again_leaves_alone_what_somebody_took_out() -> None:
    up = plan()
    for name, heard in zip(NODES, (ACTIVE, ACTIVE, DEACTIVATED, UNCONFIGURED), strict=True):
        up.heard(name, heard)
    assert [ask.node for ask in obey(up, 0.0)] == 2 * ["teleop"]
    assert up.status().startswith("camera_wrist is not active: somebody took it out of active")
    up.heard("robot", DEACTIVATED)
    up.heard("teleop", UNCONFIGURED)
    assert obey(up, PATIENCE_S + 1.0) == [], "what comes after a required node waits"


def test_a_late_word_about_an_earlier_stage_asks_for_nothing_twice() -> None:
    up = plan()
    up.heard("robot", UNCONFIGURED)
    ask = up.next(0.0)
    assert ask is not None
    up.answered(ask, success=True, now_s=0.1)
    assert up.next(0.2) is None
    up.heard("robot", INACTIVE)
    assert up.next(0.3) == Ask(node="robot", transition="activate")


@given(st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(list(Stage))), max_size=40))
def test_whatever_nodes_say_nobody_is_asked_before_those_it_needs(said: list[tuple[str, Stage]]) -> None:
    up = plan()
    stages: dict[str, Stage] = {}
    for second, (name, stage) in enumerate(said):
        up.heard(name, Heard(stage=stage))
        stages[name] = stage
        ask = up.next(second * 0.01)
        if ask is not None and ask.node != "robot":
            assert all(stages.get(name) is Stage.ACTIVE for name in REQUIRED[: NODES.index(ask.node)])
            assert stages[ask.node] in (Stage.UNCONFIGURED, Stage.INACTIVE)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("reason", ["", "camera 127: no such device; replug it"])
def test_what_a_node_says_survives_the_wire(stage: Stage, reason: str) -> None:
    heard = Heard(stage=stage, reason=reason)
    assert Heard.from_text(heard.to_text()) == heard


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(SpecError, match="must be one of"):
        Heard.from_text("dancing: why not")
