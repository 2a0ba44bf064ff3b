"""An operator who looks on request sees nothing until called, then helps, or lets the policy go on."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.config import teleop
from robot_stack.types.command import Mode
from robot_stack.types.robot import TeleopSample
from sim.hands import Seen
from sim.operator import GLANCE_S, TURN_NS, Role, ScriptedOperator
from sim.peg_hands import PegHands

TICK_NS = 20_000_000
GOAL = np.array([0.5, 0.0, 0.053, 0.0])
SCALE = np.array([0.1, 0.1, 0.1, 0.6, 0.6, 0.6])
STUCK_S = 1.0


class Watch:
    """An operator before a scene, a sample at a time."""

    def __init__(self, attention: float | str = "on_request", role: Role = Role.ASSIST) -> None:
        rng = np.random.default_rng(0)
        config = teleop.OperatorConfig(attention=attention, reaction_s=0.1, stuck_s=STUCK_S, patience_s=600)
        self.operator = ScriptedOperator(config, rng, {"peg_insert": PegHands(config, rng, SCALE[None])}, ["arm"])
        self.operator.begin(role)
        self.tick = 0

    @property
    def now_ns(self) -> int:
        return self.tick * TICK_NS

    def go(
        self, seconds: float, *, above_m: float = 0.08, done: bool = False, sinking: bool = False
    ) -> list[TeleopSample]:
        samples = []
        for i in range(round(seconds * 1e9 / TICK_NS)):
            height = above_m - (0.0005 * i if sinking else 0.0)
            tcp = GOAL + np.array([0.03, 0, height, 0])
            seen = Seen(
                stamp_ns=self.now_ns, tcp=tcp[None], goal=GOAL[None], grasp=tcp[None], opening=np.zeros(1), force_n=0.0,
                done=done, lost=False,
            )  # fmt: skip
            self.operator.see(seen)
            samples.append(self.operator.sample(self.now_ns, Mode.POLICY)["arm"])
            self.tick += 1
        return samples

    def call(self, on: bool = True) -> None:
        self.operator.call(on, self.now_ns)


def took_over(samples: list[TeleopSample]) -> bool:
    return any(sample.deadman for sample in samples)


def said(samples: list[TeleopSample]) -> list[str]:
    return [event for sample in samples for event in sample.events]


def test_who_is_not_asked_neither_helps_nor_judges_nor_pays_attention() -> None:
    watch = Watch()
    samples = watch.go(20.0) + watch.go(5.0, done=True)
    assert not took_over(samples)
    assert said(samples) == []
    assert watch.operator.attended_s == 0.0
    assert took_over(Watch(1.0).go(20.0)), "one who always looks would have helped"


def test_who_is_asked_turns_round_looks_and_helps_a_policy_that_is_stuck() -> None:
    watch = Watch()
    watch.go(5.0)
    watch.call()
    turned_s = TURN_NS / 1e9
    assert not took_over(watch.go(turned_s + STUCK_S - 0.1))
    assert took_over(watch.go(0.5))
    assert watch.operator.attended_s == pytest.approx(STUCK_S + 0.4, abs=0.1)


def test_who_is_looking_looks_on_when_the_request_says_something_new() -> None:
    watch = Watch()
    watch.call()
    watch.go(TURN_NS / 1e9 + STUCK_S - 0.2)
    watch.call()
    assert took_over(watch.go(0.6)), "as late as without the second call"


def test_who_finds_nothing_wrong_lets_the_policy_go_on_and_looks_away() -> None:
    watch = Watch()
    watch.go(1.0)
    watch.call()
    samples = watch.go(TURN_NS / 1e9 + STUCK_S + GLANCE_S + 0.2, above_m=0.2, sinking=True)
    assert not took_over(samples)
    assert said(samples) == ["dismiss"]
    looked_s = watch.operator.attended_s
    assert looked_s == pytest.approx(STUCK_S + GLANCE_S, abs=0.1)
    watch.go(10.0)
    assert watch.operator.attended_s == looked_s


def test_a_request_that_is_withdrawn_is_looked_at_no_longer() -> None:
    watch = Watch()
    watch.call()
    watch.go(0.7, above_m=0.2, sinking=True)
    watch.call(False)
    looked_s = watch.operator.attended_s
    samples = watch.go(10.0)
    assert not took_over(samples)
    assert (said(samples), watch.operator.attended_s) == ([], looked_s)


def test_who_is_asked_says_what_they_see() -> None:
    watch = Watch()
    watch.go(1.0, done=True)
    watch.call()
    assert said(watch.go(2.0, done=True)) == ["success"]


def test_a_claim_is_checked_only_by_who_looks_anyway() -> None:
    watch = Watch()
    watch.go(1.0)
    watch.operator.audit(watch.now_ns)
    assert said(watch.go(1.0)) == []
    watch.call()
    watch.go(0.8, above_m=0.2, sinking=True)
    watch.operator.audit(watch.now_ns)
    assert said(watch.go(0.3)) == ["failure"]


def test_one_who_always_looks_pays_attention_all_the_time_and_may_dismiss_too() -> None:
    watch = Watch(1.0)
    watch.go(2.0, above_m=0.2, sinking=True)
    watch.call()
    assert "dismiss" in said(watch.go(TURN_NS / 1e9 + STUCK_S + GLANCE_S + 0.2, above_m=0.15, sinking=True))
    assert watch.operator.attended_s == pytest.approx(watch.now_ns / 1e9, abs=0.2)


def test_a_demonstration_and_a_watched_episode_count_as_no_attention_to_the_policy() -> None:
    for role in (Role.DEMO, Role.WATCH):
        watch = Watch(1.0, role)
        watch.go(2.0)
        assert watch.operator.attended_s == 0.0


def test_an_attention_that_is_no_share_and_no_word_is_refused() -> None:
    for wrong in ("always", 0.0, 1.5):
        with pytest.raises(ValueError, match="attention"):
            teleop.OperatorConfig(attention=wrong)
