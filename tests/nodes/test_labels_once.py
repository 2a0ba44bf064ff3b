"""What the arm did is recorded from decisions that a process of the run made now: of no stranger, and of no bag."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from errno import ENOSPC
from itertools import count
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from sensor_msgs.msg import Joy  # noqa: E402

from robot_stack.config.resolve import load_run  # noqa: E402
from robot_stack.control.safety.seal import WireKey  # noqa: E402
from robot_stack.nodes import topics  # noqa: E402
from robot_stack.nodes.actor.cell_link import CellLink  # noqa: E402
from robot_stack.nodes.base import StackNode  # noqa: E402
from robot_stack.nodes.conversion import decision_to_msg  # noqa: E402
from robot_stack.nodes.tools.command_recorder import RETRY_S, ArmRecorder  # noqa: E402
from robot_stack.processes.table import namespace_of  # noqa: E402
from robot_stack.types.command import Command, Decision, Mode, Source  # noqa: E402
from robot_stack.workcell.build_safety import limits_of  # noqa: E402
from robot_stack.workcell.command_log import CommandLog  # noqa: E402

DOMAIN, ARM = 90, "fr3"


class Rig:
    """The actor's link and the recorder, and a safety process that hands them labels."""

    def __init__(self, folder: Path) -> None:
        overrides = [f"cell.dds_domain={DOMAIN}", "cell.command_log.file_mb=1", "cell.command_log.files=2"]
        run, key = load_run("peg_insert", overrides), WireKey.of_folder(folder)
        self.limits = json.dumps({arm: asdict(limits) for arm, limits in limits_of(run).items()})
        self.safety = StackNode("safety", namespace_of(run), key=key)
        self.link = CellLink(run, namespace_of(run), key)
        self.recorder = ArmRecorder(self.link, ARM, "run", folder, run.cell.command_log)

    def heard(self, msg: Joy) -> tuple[bool, bool]:
        """Hand a label to both; return whether each took it."""
        before, refused = self.link.decisions.get(ARM), self.recorder.diagnose().values["refused"]
        self.link._on_label(ARM, msg)
        self.recorder._on_label(msg)
        return self.link.decisions.get(ARM) is not before, self.recorder.diagnose().values["refused"] == refused

    def sealed(self, stamp_ns: int) -> Joy:
        return self.safety.sealer.seal(topics.label(ARM), label(stamp_ns))


def label(stamp_ns: int) -> Joy:
    command = Command(arm=ARM, twist=np.zeros(6), frame="tcp", gripper=None, stamp_ns=stamp_ns, source=Source.POLICY)
    decision = Decision(command=command, mode=Mode.POLICY, source=Source.POLICY, requested=np.zeros(6), clamped=())
    return decision_to_msg(decision)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    rclpy.init()
    rig = Rig(tmp_path)
    yield rig
    rig.link.destroy_node()
    rig.safety.destroy_node()
    rclpy.try_shutdown()


def test_a_decision_counts_once(rig: Rig) -> None:
    msg = rig.sealed(time.monotonic_ns())
    assert rig.heard(msg) == (True, True)
    assert rig.link.decisions[ARM].command.frame == "tcp"
    assert rig.heard(msg) == (False, False)
    assert rig.heard(rig.sealed(time.monotonic_ns())) == (True, True)


def test_a_decision_of_a_stranger_does_not_count(rig: Rig) -> None:
    assert rig.heard(label(time.monotonic_ns())) == (False, False)


def test_an_old_decision_is_evidence_and_no_step(rig: Rig) -> None:
    assert rig.heard(rig.sealed(time.monotonic_ns() - 3_000_000_000)) == (False, True)


def test_a_large_file_is_ended_and_so_many_are_kept(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()
    monkeypatch.setattr("robot_stack.nodes.tools.command_recorder.time.strftime", lambda _: f"{next(numbers):06d}")
    rig.recorder._keep_newest(topics.LIMITS, rig.limits)
    for _ in range(3):
        rig.recorder.flush()
        assert rig.recorder._log is not None
        os.truncate(rig.recorder._path, (1 << 20) + 1)
        rig.recorder.flush()
        assert rig.recorder._log is None
    assert [path.name[:6] for path in sorted((tmp_path / ARM).iterdir())] == ["000001", "000002"]


def test_files_with_later_names_go_before_those_that_this_process_began(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = iter(("2001-01-03", "2001-01-02", "2001-01-01"))
    monkeypatch.setattr("robot_stack.nodes.tools.command_recorder.time.strftime", lambda _: next(days))
    (tmp_path / ARM).mkdir()
    for day in (1, 2):
        (tmp_path / ARM / f"2031-01-0{day}_120000-000.jsonl.gz").write_bytes(b"written before the clock was put right")
    rig.recorder._keep_newest(topics.LIMITS, rig.limits)
    for kept in (["2001-01-03", "2031-01-02"], ["2001-01-02", "2001-01-03"], ["2001-01-01", "2001-01-02"]):
        rig.recorder.flush()
        assert [path.name[:10] for path in sorted((tmp_path / ARM).iterdir())] == kept
        os.truncate(rig.recorder._path, (1 << 20) + 1)
        rig.recorder.flush()
        assert rig.recorder.diagnose().message == "ok"


def test_a_folder_that_is_taken_away_ends_no_process_and_is_made_again(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr("robot_stack.nodes.tools.command_recorder.time.monotonic", lambda: now_s)
    rig.recorder._keep_newest(topics.LIMITS, rig.limits)
    rig.recorder.flush()
    rmtree(tmp_path / ARM)
    rig.recorder.flush()
    assert "is not written (No such file or directory)" in rig.recorder.diagnose().message
    now_s += RETRY_S
    rig.recorder.flush()
    assert list((tmp_path / ARM).iterdir()) == [rig.recorder._path]
    assert rig.recorder.diagnose().message == "ok"


def _full(_: CommandLog) -> None:
    raise OSError(ENOSPC, os.strerror(ENOSPC))


def test_a_full_disk_costs_no_file_that_there_is(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ARM).mkdir()
    old = [tmp_path / ARM / f"2000-01-0{day}.jsonl.gz" for day in (1, 2)]
    for path in old:
        path.write_bytes(b"of an hour that counts")
    now_s = time.monotonic()
    monkeypatch.setattr("robot_stack.nodes.tools.command_recorder.time.monotonic", lambda: now_s)
    flush = CommandLog.flush
    monkeypatch.setattr(CommandLog, "flush", _full)
    rig.recorder._keep_newest(topics.LIMITS, rig.limits)
    for _ in range(3):
        rig.recorder.flush()
        assert sorted((tmp_path / ARM).iterdir()) == old
        assert "No space left on device" in rig.recorder.diagnose().message
    monkeypatch.setattr(CommandLog, "flush", flush)
    rig.recorder.flush()
    assert rig.recorder._log is None
    now_s += RETRY_S
    rig.recorder.flush()
    assert sorted((tmp_path / ARM).iterdir()) == [old[1], rig.recorder._path]
    assert rig.recorder.diagnose().message == "ok"


def test_a_file_that_the_disk_cuts_short_stays(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.recorder._keep_newest(topics.LIMITS, rig.limits)
    rig.recorder.flush()
    monkeypatch.setattr(CommandLog, "flush", _full)
    rig.recorder.flush()
    assert rig.recorder._log is None
    assert rig.recorder._path.exists()
