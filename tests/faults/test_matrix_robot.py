"""The fault matrix: what the robot feels and says, and what the actor is shown. A robot process without physics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.faults.matrix_rows import Measured

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.nodes.actor.cell import RosCell
from robot_stack.types.command import Mode
from robot_stack.types.transition import EndReason
from tests.faults.fault_actor import Cameras, Episode, joined
from tests.faults.fault_bench import Bench, bench_of, fault_run, heard
from tests.faults.fault_sink import MS, FaultSink

SLOWLY = [0.005, 0.0, 0.0, 0.0, 0.0, 0.0]
FREEZE_FRAMES = 30


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    run = fault_run(*(f"cameras.{name}.freeze_frames={FREEZE_FRAMES}" for name in ("wrist", "front")))
    with bench_of(run, tmp_path_factory.mktemp("faults")) as bench:
        bench.script("kinematic_robot")
        bench.node("safety")
        yield heard(bench)
        assert bench.sink.violations() == []


@pytest.fixture
def sink(bench: Bench) -> Iterator[FaultSink]:
    yield bench.sink
    bench.sink.order_robot(wrench=[0.0] * 6, fault="", mute=False)
    bench.sink.quiet()


@pytest.fixture(scope="module")
def cameras(bench: Bench) -> Cameras:
    return Cameras(bench)


@pytest.fixture(scope="module")
def cell(bench: Bench, cameras: Cameras) -> Iterator[RosCell]:
    with joined(bench) as cell:
        yield cell


@pytest.fixture
def episode(bench: Bench, cell: RosCell, cameras: Cameras, sink: FaultSink) -> Iterator[Episode]:
    sink.ready()
    episode = Episode(bench, cell)
    sink.until(sink.driven, "the actor's motion", 10.0)
    yield episode
    cameras.frozen, cameras.offset_ns = False, 0
    episode.end()


@pytest.mark.row(14)
def test_row_14_force_slows_then_holds_and_no_state_in_contact_holds(
    sink: FaultSink, bench: Bench, row: Measured
) -> None:
    limits = bench.run.safety

    def wrench(force_n: float) -> list[float]:
        return [-force_n, 0.0, 0.0, 0.0, 0.0, 0.0]  # against a motion along x

    sink.drive([0.04, 0.0, 0.0, 0.0, 0.0, 0.0])
    sink.order_robot(wrench=wrench((limits.soft_force_n + limits.hard_force_n) / 2))
    sink.until_stamp(sink.now_ns + 200 * MS)
    slowed = sink.ticks()[-1].decision
    assert "force" in slowed.clamped
    assert slowed.command.twist[0] == pytest.approx(0.02, rel=0.02)

    felt_ns = sink.order_robot(wrench=wrench(limits.hard_force_n + 5))
    sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
    first = next(t for t in sink.ticks() if t.stamp_ns > felt_ns and t.decision.mode is Mode.HOLD)
    row.took((first.stamp_ns - felt_ns) / 1e9)
    assert first.decision.command.twist[0] <= 0.0
    sink.until(lambda: "contact force 40 N (limit 35); free the arm, resume" in sink.banner, "the reason")
    assert "must be below 35 N; free the arm" in sink.ask("resume")

    sink.order_robot(wrench=wrench(limits.soft_force_n + 1))
    sink.drive(SLOWLY)
    muted_ns = sink.order_robot(mute=True)
    held_s = sink.mode_after_s(muted_ns, Mode.HOLD)
    assert held_s <= limits.state_timeout_s + 0.02
    sink.until(lambda: "fr3/state is" in sink.banner, "the reason")
    row.saw(f"{held_s * 1e3:.0f} ms without a state")


@pytest.mark.row(29)
def test_row_29_a_protective_stop_holds_and_cuts_the_episode_short(
    sink: FaultSink, episode: Episode, row: Measured
) -> None:
    fault_ns = sink.order_robot(fault="protective stop")
    row.took(sink.mode_after_s(fault_ns, Mode.HOLD))
    sink.until(episode.ended, "the end of the episode")
    outcome = episode.end()
    assert outcome.end is EndReason.FAULT
    assert not outcome.end.terminal
    assert any("protective stop" in reason for reason in outcome.ticks.hold_reasons)
    assert episode.sink.steps[-1].end is EndReason.FAULT
    assert "fr3/fault says: protective stop of the rig; recover the robot" in sink.ask("resume")
    sink.order_robot(fault="")
    sink.until_stamp(sink.now_ns + 200 * MS)
    assert sink.mode is Mode.HOLD  # recovering alone resumes nothing
    assert sink.ask("resume") == ""
    sink.order_robot(fault="emergency stop")
    sink.until(lambda: sink.mode is Mode.STOP, "STOP")
    sink.order_robot(fault="")


@pytest.mark.slow
@pytest.mark.row(8)
def test_row_8_a_camera_that_repeats_one_image_blinds_the_actor_by_name(
    sink: FaultSink, bench: Bench, cell: RosCell, cameras: Cameras, episode: Episode, row: Measured
) -> None:
    cameras.frozen = True
    frozen_ns = sink.now_ns
    row.took(sink.mode_after_s(frozen_ns, Mode.HOLD))
    sink.until(lambda: "is frozen: " in cell.problem(), "the reason")
    sink.until(lambda: "policy silent" in sink.banner, "the reason")
    sink.until(lambda: sink.said("actor: observation", "is frozen"), "a diagnosis")


@pytest.mark.slow
@pytest.mark.row(9)
def test_row_9_images_late_early_or_unstamped_are_refused_and_counted(
    sink: FaultSink, cell: RosCell, cameras: Cameras, episode: Episode, row: Measured
) -> None:
    for offset_ns, cause in ((-1000 * MS, "late"), (1000 * MS, "future stamp"), (None, "unset stamp")):
        cameras.offset_ns = 0
        sink.until(lambda: cell.observe() is not None, "images")
        if sink.mode is Mode.HOLD:
            assert sink.ask("resume") == ""
        sink.until(sink.moving, "motion")
        cameras.offset_ns = offset_ns
        sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
        held_ns = sink.now_ns
        assert cell.observe() is None
        sink.until(
            lambda cause=cause: int(sink.diagnostics["actor: observation"][2].get(f"wrist: {cause}", "0")) > 0, cause
        )
        sink.until(lambda held_ns=held_ns: sink.commands[-1][0] > held_ns + 50 * MS, "commands during the hold")
        assert not any(np.any(twist) for stamp_ns, twist in sink.commands if stamp_ns > held_ns)
    row.saw("3 kinds, no command from them")
