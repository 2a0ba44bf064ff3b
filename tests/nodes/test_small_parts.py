"""Stamp join, due times, rates, episode status, the scripted operator, the last watchdog."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from geometry_msgs.msg import TwistStamped

from robot_stack.config.resolve import load_run
from robot_stack.control.safety.output_watchdog import OutputWatchdog
from robot_stack.nodes.conversion import header_of, vector_to_msg
from robot_stack.nodes.diagnostics import Due, RateMeter
from robot_stack.nodes.episode_status import EpisodeStatus, Phase, ResetRequest
from robot_stack.nodes.safety.wires import PolicyCommands, StampJoin
from robot_stack.nodes.teleop.scripted_operator import OperatorRoutine
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.pixels import jpeg_of
from robot_stack.types.command import Command, Mode
from robot_stack.types.errors import SpecError
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_operator

MS = 1_000_000
FROM = {"session": "safety-1", "mode": Mode.POLICY}


def test_only_parts_of_one_stamp_are_joined():
    join: StampJoin[str] = StampJoin(["motion", "gripper"])
    assert join.add("motion", 1, "a") is None
    assert join.add("gripper", 2, "late") is None
    assert join.add("motion", 2, "b") == {"motion": "b", "gripper": "late"}
    assert join.add("gripper", 3, "c") is None


def test_a_part_that_stands_alone_is_complete_at_once():
    assert StampJoin[str](["motion"]).add("motion", 5, "a") == {"motion": "a"}


class Offered:
    """A filter that keeps what it is offered."""

    def __init__(self) -> None:
        self.whole: list[int] = []
        self.missing: list[list[str]] = []

    def offer(self, commands: list[Command], now_ns: int) -> None:
        self.whole.append(len(commands))

    def offer_incomplete(self, missing: list[str], now_ns: int) -> None:
        self.missing.append(missing)


def test_of_a_policys_commands_without_a_gripper_the_filter_hears_what_is_missing() -> None:
    there = Offered()
    policy = PolicyCommands(load_run("pick_insert").arms.values(), there)

    def move(stamp_ns: int) -> None:
        policy.take("fr3", TwistStamped(header=header_of(stamp_ns, "tcp")))

    move(1 * MS)
    policy.take_gripper("fr3", vector_to_msg(np.array([0.5]), 1 * MS))
    move(2 * MS)
    assert (there.whole, there.missing) == ([1], []), "the gripper may be on its way"
    move(3 * MS)
    assert there.missing == [["fr3/policy/gripper"]]
    policy.take_gripper("fr3", vector_to_msg(np.array([0.5]), 3 * MS))
    assert (there.whole, there.missing) == ([1, 1], [["fr3/policy/gripper"]])


def test_of_arms_with_unequal_stamps_the_filter_hears_it() -> None:
    there = Offered()
    policy = PolicyCommands(load_run("two_arm_insert").arms.values(), there)
    for stamp_ns in (1 * MS, 2 * MS):
        for arm, late_ns in (("left", 0), ("right", 1)):
            policy.take(arm, TwistStamped(header=header_of(stamp_ns + late_ns, "tcp")))
    assert (there.whole, there.missing) == ([], [["right/policy/cmd"], ["left/policy/cmd"]])


def test_due_follows_the_rate_under_jitter_and_never_bursts():
    due = Due(20.0)
    rng = np.random.default_rng(0)
    times = [tick * 10 * MS + int(rng.integers(0, 2 * MS)) for tick in range(1000)]
    assert 198 <= sum(due.now(now_ns) for now_ns in times) <= 202
    assert [due.now(60_000 * MS + tick * 10 * MS) for tick in range(5)] == [True, False, False, False, False]


def test_rate_meter_reports_frequency_and_age():
    meter = RateMeter(100.0)
    assert meter.age_s(5) == float("inf")
    for tick in range(50):
        meter.tick(tick * 10 * MS)
    values = meter.values(500 * MS)
    assert values["frequency_hz"] == pytest.approx(100.0)
    assert values["age_ms"] == pytest.approx(10.0)


@pytest.mark.parametrize("kind", [None, *EpisodeKind])
@pytest.mark.parametrize("phase", list(Phase))
def test_episode_status_survives_the_wire(phase, kind):
    status = EpisodeStatus(phase=phase, kind=kind, episode_id="000001-demo-a" if kind else "")
    assert EpisodeStatus.from_text(status.to_text()) == status


@pytest.mark.parametrize("text", ["", "phase=dancing", "kind=demo"])
def test_a_broken_episode_status_is_refused(text):
    with pytest.raises(SpecError, match="must name a phase"):
        EpisodeStatus.from_text(text)


@pytest.fixture
def operator(run) -> OperatorRoutine:
    return OperatorRoutine(build_operator(run, 0))


def test_the_person_keeps_hands_off_before_the_banner_is_readable(operator):
    (sample,) = operator.sample(1).values()
    assert not sample.deadman
    assert sample.events == ()


@pytest.mark.parametrize(("mode", "patience_ms"), [(Mode.DISARMED, 300), (Mode.HOLD, 1000)])
def test_the_person_arms_and_resumes_with_the_deadman_released(operator, mode, patience_ms):
    operator.follow(EpisodeStatus(phase=Phase.RUNNING, kind=EpisodeKind.DEMO, episode_id="d"))
    operator.read_banner(mode, 0)
    samples = [operator.sample(tick * 20 * MS)["fr3"] for tick in range(1, 151)]
    pressed = [s.stamp_ns // MS for s in samples if s.events == ("arm",)]
    assert pressed[0] == patience_ms
    assert np.diff(pressed).min() >= patience_ms
    assert not any(s.deadman for s in samples)


def test_the_person_never_clears_a_stop(operator):
    operator.read_banner(Mode.STOP, 0)
    assert not any(operator.sample(tick * 20 * MS)["fr3"].events for tick in range(1, 500))


def test_the_person_drives_demos_until_the_reset(operator):
    operator.read_banner(Mode.READY, 0)
    assert not operator.sample(1)["fr3"].deadman
    operator.follow(EpisodeStatus(phase=Phase.RUNNING, kind=EpisodeKind.DEMO, episode_id="d"))
    assert operator.sample(2)["fr3"].deadman
    operator.follow(EpisodeStatus(phase=Phase.RESETTING))
    assert not operator.sample(3)["fr3"].deadman


def test_watchdog_passes_fresh_commands_and_zeroes_old_ones():
    watchdog = OutputWatchdog(0.05)
    assert watchdog.offer(np.full(6, 0.1), 100 * MS, 101 * MS, **FROM) is None
    assert watchdog.twist(150 * MS)[0] == 0.1
    assert not watchdog.twist(150 * MS + 1).any()
    assert watchdog.counters["timeout"] == 1


@pytest.mark.parametrize(
    ("twist", "stamp_ms", "text"),
    [
        (np.full(6, np.nan), 100, "finite"),
        (np.zeros(3), 100, "shape"),
        (np.zeros(6), 40, "old"),
        (np.zeros(6), 200, "ahead"),
    ],
)
def test_watchdog_refuses_broken_and_badly_stamped_commands(twist, stamp_ms, text):
    watchdog = OutputWatchdog(0.05)
    assert text in str(watchdog.offer(twist, stamp_ms * MS, 100 * MS, **FROM))
    assert not watchdog.twist(100 * MS).any()


def test_watchdog_refuses_a_repeated_command():
    watchdog = OutputWatchdog(0.05)
    watchdog.offer(np.full(6, 0.1), 100 * MS, 100 * MS, **FROM)
    assert "second safety process" in str(watchdog.offer(np.full(6, 0.2), 100 * MS, 101 * MS, **FROM))
    assert watchdog.twist(102 * MS)[0] == 0.1


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (ResetRequest(seed=12), "12"),
        (ResetRequest(seed=12, task_id="peg_insert_back", scene=False), "12 task=peg_insert_back as_it_is"),
        (ResetRequest(seed=0, scene=False), "0 as_it_is"),
    ],
)
def test_a_reset_request_is_read_as_it_was_written(asked: ResetRequest, text: str) -> None:
    assert asked.to_text() == text
    assert ResetRequest.from_text(text) == asked


@pytest.mark.parametrize("text", ["", "task=a", "12 forth", "12 task=a task=b", "-1", "1.5"])
def test_a_text_that_is_no_reset_request_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="must be a seed, then task=ID or as_it_is"):
        ResetRequest.from_text(text)


def test_the_status_says_which_task_it_is() -> None:
    status = EpisodeStatus(phase=Phase.RUNNING, kind=EpisodeKind.DEMO, episode_id="e", task_id="peg_insert_back")
    assert EpisodeStatus.from_text(status.to_text()) == status
    assert EpisodeStatus.from_text("phase=running kind=demo episode=e").task_id is None


def test_a_file_of_another_size_than_the_cameras_is_refused_before_it_is_decoded(monkeypatch) -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    from sensor_msgs.msg import CompressedImage

    from robot_stack.nodes.camera import node as camera

    refused: list[str] = []
    monkeypatch.setattr(camera, "decode", lambda *_: pytest.fail("it was decoded"))
    there = SimpleNamespace(
        _take=lambda _: 1,
        framing=Framing(height_px=60, width_px=80, policy_height_px=16, policy_width_px=24),
        watch=SimpleNamespace(refuse=lambda cause, text, now_ns: refused.append(text)),
    )
    msg = CompressedImage(format="jpeg", data=jpeg_of(np.zeros((4000, 6000, 3), np.uint8)))
    camera.TopicCameraNode._on_file(there, msg)
    assert [text.partition(",")[0] for text in refused] == ["image is 6000x4000"]
