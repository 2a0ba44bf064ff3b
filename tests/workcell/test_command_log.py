"""A log of commands: written, read back, proven, and told apart from what is none."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.cli import check_log, main
from robot_stack.control.safety.limits import JointLimit
from robot_stack.types.errors import StoreError
from robot_stack.workcell.command_log import CommandLog, read_log
from tests.control.filter_rig import LIMITS, Rig, twist
from tests.control.test_replay_links import two_logs

ROOT = Path(__file__).parents[2]
JOINTED = replace(LIMITS, joints=(JointLimit(name="a", min_rad=-9.0, max_rad=9.0, max_speed_rad_s=9.0),) * 7)


def recorded(path: Path, *, applied_factor: float = 1.0, rig: Rig | None = None) -> Rig:
    """A second of driving and a silent policy, as the recorder stores it."""
    rig = Rig(JOINTED) if rig is None else rig
    log = CommandLog(path, arm="arm", run="r")
    log.limits(rig.limits, 1)
    log.fault(None, 1)
    log.mode("DISARMED", 1)
    rig.armed()
    rig.policy = twist(x=0.1, rz=0.2)
    rig.run(0.5)
    rig.policy = None
    rig.run(0.5)
    for tick in rig.log:
        assert tick.state is not None
        log.state(replace(tick.state, stamp_ns=tick.stamp_ns))
        log.decision(tick.decision)
        log.applied(applied_factor * tick.decision.command.twist, tick.stamp_ns + 2_000_000)
    log.close()
    return rig


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    rig = recorded(tmp_path / "log.jsonl.gz")
    log = read_log(tmp_path / "log.jsonl.gz")
    assert log.whole
    assert (log.arm, log.limits, log.faults, log.modes) == ("arm", [(1, JOINTED)], [(1, None)], [(1, "DISARMED")])
    for found, wanted in zip(log.ticks(), rig.log, strict=True):
        assert found.stamp_ns == wanted.stamp_ns
        np.testing.assert_allclose(found.decision.command.twist, wanted.decision.command.twist, atol=1e-7)
        np.testing.assert_allclose(found.decision.requested, wanted.decision.requested, atol=1e-7)
        assert (found.decision.mode, found.decision.source, found.decision.clamped) == (
            wanted.decision.mode, wanted.decision.source, wanted.decision.clamped,
        )  # fmt: skip
        assert found.state is not None
        assert wanted.state is not None
        np.testing.assert_allclose(found.state.T_base_tcp.position_m, wanted.state.T_base_tcp.position_m, atol=1e-6)


def test_a_decision_has_the_newest_state_before_it_and_the_newest_that_had_surely_arrived(tmp_path: Path) -> None:
    recorded(tmp_path / "log.jsonl.gz")
    log = read_log(tmp_path / "log.jsonl.gz")
    log.states = [replace(state, stamp_ns=state.stamp_ns - 1) for state in log.states]  # each just missed its decision
    ticks, states = log.ticks(), log.states
    assert [tick.state for tick in ticks] == states
    assert [tick.heard for tick in ticks[2:]] == states[:-2]
    assert [tick.heard for tick in ticks[:2]] == [None, None]


def test_a_safe_log_passes_and_says_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "log.jsonl.gz")
    assert main.main(["check-log", str(tmp_path / "log.jsonl.gz")]) == 0
    said = capsys.readouterr().out
    assert "decisions: 100\n" in said
    assert "violations: 0\n" in said
    assert check_log.run([tmp_path / "log.jsonl.gz"], as_json=True) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["violations"], figures["modes"]["POLICY"], figures["late_or_missing_decisions"]) == (0, 65, 0)


def test_an_unsafe_log_fails_with_the_rule_and_the_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(tmp_path / "log.jsonl.gz", applied_factor=1.5)
    assert main.main(["check-log", str(tmp_path / "log.jsonl.gz")]) == 1
    said = capsys.readouterr().out
    assert "applied: motors got" in said
    assert "and " in said  # more than are shown


@pytest.mark.long
def test_logs_of_two_arms_are_judged_against_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs, limits = two_logs(watched=False)
    files = []
    for arm, ticks in logs.items():
        files.append(tmp_path / f"{arm}.jsonl.gz")
        log = CommandLog(files[-1], arm=arm, run="r")
        log.limits(limits[arm], 1)
        for tick in ticks:
            assert tick.state is not None
            log.state(replace(tick.state, stamp_ns=tick.stamp_ns))
            log.decision(tick.decision)
        log.close()
    main.main(["check-log", str(files[0])])
    said = capsys.readouterr().out
    assert "clearance" not in said
    assert "beside" not in said
    assert main.main(["check-log", *map(str, files)]) == 1
    said = capsys.readouterr().out
    assert "clearance: left and right: arms are" in said
    assert "clearance: right and left: arms are" in said
    assert "seconds beside: {'right': 3.0}" in said


def test_each_span_is_judged_by_the_limits_that_were_in_force(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    rig = recorded(path)
    with gzip.open(path, "rt") as file:
        lines = [json.loads(line) for line in file]
    later = ["l", rig.log[20].stamp_ns, json.loads(json.dumps(lines[1][2] | {"max_speed_m_s": 0.05}))]
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in [*lines, later])
    broken = check_log.violations(read_log(path))
    assert {violation.rule for violation in broken} == {"speed"}
    assert min(violation.stamp_ns for violation in broken) > rig.log[20].stamp_ns


@pytest.mark.long
def test_a_log_whose_writer_was_killed_is_read_up_to_there(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal; from pathlib import Path\n"
        "from tests.workcell.test_command_log import *\n"
        "log = CommandLog(Path(sys.argv[1]), arm='arm', run='r'); log.limits(LIMITS, 1)\n"
        "rig = Rig().armed(); rig.policy = twist(x=0.1); rig.run(0.5)\n"
        "[log.decision(tick.decision) for tick in rig.log[:40]]; log.flush()\n"
        "[log.decision(tick.decision) for tick in rig.log[40:]]; os.kill(os.getpid(), signal.SIGKILL)"
    )
    file = tmp_path / "log.jsonl.gz"
    words = [sys.executable, "-c", code, str(file)]
    assert subprocess.run(words, cwd=ROOT, check=False).returncode == -9
    log = read_log(file)
    assert not log.whole
    assert len(log.decisions) >= 40
    assert check_log.violations(log) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no gzip", "is unreadable"),
        (gzip.compress(b'{"format": 99}\n', mtime=0), "is no command log of format 3"),
        (gzip.compress(b"", mtime=0), "is no command log"),
        (gzip.compress(b'{"format": 3, "arm": "a"}\n["d", 1]\n["a", 1, [0,0,0,0,0,0]]\n', mtime=0), ":2 is damaged"),
        (gzip.compress(b'{"format": 3, "arm": "a"}\n["x", 1, 2]\n', mtime=0), ":2 is damaged"),
        (gzip.compress(b'{"format": 3, "arm": "a"}\n', mtime=0), "holds no limits"),
    ],
)
def test_what_is_no_log_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(StoreError, match=words):
        read_log(tmp_path / "x")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["check-log", str(tmp_path / "none")]) == 1
    assert "is unreadable" in capsys.readouterr().err
