"""An operator at the page beside the scripted one: the page goes first, and never do both drive."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.nodes.episode_status import EpisodeStatus, Phase
from robot_stack.nodes.teleop.scripted_operator import OWNERLESS_NS, REST_NS, OperatorRoutine, PageFirst
from robot_stack.teleop.device import LOST_NS
from robot_stack.teleop.selection import ArmSelector
from robot_stack.types.command import Mode
from robot_stack.types.reason import RefusalKind
from robot_stack.types.robot import TeleopSample
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_operator

MS = 1_000_000
TICK_NS = 20 * MS
HELD = np.array([0.5, 0, 0, 0, 0, 0])


class FakePage:
    """A page's device that says what the test wants."""

    def __init__(self) -> None:
        self.deadman = False
        self.lost = True
        self.events: tuple[str, ...] = ()

    def sample(self, now_ns: int) -> TeleopSample:
        twist = HELD if self.deadman else np.zeros(6)
        events, self.events = self.events, ()
        return TeleopSample(stamp_ns=now_ns, twist=twist, deadman=self.deadman, lost=self.lost, events=events)


class Both:
    """Two hands and a clock."""

    def __init__(self, run) -> None:
        self.page = FakePage()
        self.operator = OperatorRoutine(build_operator(run, 0))
        self.hands = PageFirst(self.page, ArmSelector(list(run.robots)), self.operator)
        self.now_ns = 0

    def demo(self) -> None:
        """The scripted operator demonstrates."""
        self.operator.read_banner(Mode.HUMAN, self.now_ns)
        self.operator.follow(EpisodeStatus(phase=Phase.RUNNING, kind=EpisodeKind.DEMO, episode_id="d"))

    def run(self, seconds: float) -> list[TeleopSample]:
        samples = []
        for _ in range(round(seconds * 1e9 / TICK_NS)):
            self.now_ns += TICK_NS
            samples.append(self.hands.sample(self.now_ns)["fr3"])
        return samples


@pytest.fixture
def both(run) -> Both:
    return Both(run)


def test_without_a_page_the_scripted_person_drives_and_nothing_is_lost(both):
    both.demo()
    samples = both.run(1.0)
    assert all(sample.deadman and not sample.lost for sample in samples)


def test_a_page_takes_the_arm_from_the_scripted_person_and_gives_it_back_after_a_pause(both):
    both.demo()
    both.page.lost = False
    assert all(sample.deadman for sample in both.run(0.2)), "a page that is open takes nothing"
    both.page.deadman = True
    assert all(np.array_equal(sample.twist, HELD) for sample in both.run(0.5))
    both.page.deadman = False
    rest = both.run(REST_NS / 1e9 - 0.02)
    assert not any(sample.deadman or sample.lost for sample in rest)
    assert both.run(0.1)[-1].deadman


def test_a_page_that_vanishes_while_it_drives_is_a_lost_device(both):
    both.page.lost, both.page.deadman = False, True
    both.run(0.2)
    both.page.lost, both.page.deadman = True, False
    samples = both.run(LOST_NS / 1e9 - 0.02)
    assert all(sample.lost and not sample.deadman for sample in samples)
    assert not any(sample.lost for sample in both.run(1.0)[3:])


def test_a_page_that_vanishes_without_driving_is_nothing(both):
    both.page.lost = False
    both.run(0.2)
    both.page.lost = True
    assert not any(sample.lost for sample in both.run(1.0))


@pytest.mark.parametrize(
    ("reason", "theirs"),
    [
        (RefusalKind.KEY, True),
        (RefusalKind.TELEOP_LOST, True),
        (RefusalKind.POLICY_SILENT, False),
    ],
)
def test_a_hold_of_the_page_is_the_pages_to_end(both, reason, theirs):
    both.page.lost = False
    both.operator.read_banner(Mode.HOLD, both.now_ns, reason)
    pressed = [sample for sample in both.run(20.0) if "arm" in sample.events]
    assert bool(pressed) != theirs


def test_a_hold_of_a_page_that_has_gone_for_good_is_ended_by_the_scripted_person(both):
    both.page.lost = False
    both.operator.read_banner(Mode.HOLD, both.now_ns, RefusalKind.KEY)
    both.run(15.0)
    both.page.lost = True
    begun_ns = both.now_ns
    pressed = [sample.stamp_ns for sample in both.run(12.0) if "arm" in sample.events]
    assert pressed[0] - begun_ns == pytest.approx(OWNERLESS_NS, abs=2 * TICK_NS)


def test_a_cell_in_which_a_stop_was_cleared_is_armed_by_whoever_cleared_it(both):
    both.operator.read_banner(Mode.DISARMED, both.now_ns)
    assert any("arm" in sample.events for sample in both.run(1.0)), "at the start"
    both.demo()
    both.operator.read_banner(Mode.STOP, both.now_ns, RefusalKind.KEY)
    stopped = both.run(5.0)
    both.operator.read_banner(Mode.DISARMED, both.now_ns)
    for sample in (*stopped, *both.run(30.0)):
        assert sample.events == ()
        assert not sample.deadman, "it would keep the stop from being cleared"
    both.operator.read_banner(Mode.READY, both.now_ns)
    both.run(0.1)
    both.operator.read_banner(Mode.DISARMED, both.now_ns)
    assert any("arm" in sample.events for sample in both.run(1.0)), "after somebody has armed it"


def test_what_the_scripted_person_says_is_heard_while_the_page_drives(both):
    both.page.lost, both.page.deadman = False, True
    both.operator.read_banner(Mode.DISARMED, both.now_ns)
    assert any("arm" in sample.events for sample in both.run(1.0))
