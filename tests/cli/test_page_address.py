"""What a run tells of its page, the address when the console says it, and what it tells the page: how it ended."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from dataclasses import replace

import pytest

from robot_stack.cli.supervise import PageAddress, supervise
from robot_stack.config.resolve import load_run
from robot_stack.console.access import ADDRESS_FILE, write_address
from robot_stack.console.banner import farewell
from robot_stack.processes.prepared_run import PreparedRun
from robot_stack.processes.table import ProcessSpec
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.stage import Stage, StageName
from robot_stack.types.transition import EndReason
from tests.datasets.data_rig import made_episode, write_folder


def begun(episode: StoredEpisode, after_s: float) -> StoredEpisode:
    """An episode that began so long after now."""
    return replace(episode, header=replace(episode.header, started_unix_s=time.time() + after_s))


def test_an_address_of_an_earlier_start_is_not_told_and_a_new_one_once(tmp_path):
    path = tmp_path / ADDRESS_FILE
    write_address(path, "http://127.0.0.1:1/")
    os.utime(path, (1.0, 1.0))
    said: list[str] = []
    address = PageAddress(tmp_path, said.append)
    address.look()
    assert said == []
    write_address(path, "http://127.0.0.1:8642/")
    os.utime(path, (2e9, 2e9))
    address.look()
    address.look()
    assert said == ["page: http://127.0.0.1:8642/"]
    write_address(path, "http://127.0.0.1:8643/")
    os.utime(path, (2e9, 2e9))
    address.look()
    assert said[-1] == "page: http://127.0.0.1:8643/"


def test_without_a_console_nothing_is_told(tmp_path):
    said: list[str] = []
    PageAddress(tmp_path, said.append).look()
    assert said == []


@pytest.mark.parametrize(("code", "name"), [(0, StageName.ENDED), (3, StageName.FAILED)])
def test_how_a_run_ended_is_written_for_its_page(tmp_path, capsys, code, name):
    run = load_run("peg_insert")
    ready = PreparedRun(folder=tmp_path, domain=run.cell.dds_domain, environment=dict(os.environ))
    actor = ProcessSpec(name="actor", argv=(sys.executable, "-c", f"raise SystemExit({code})"), required=True)
    store = RunPaths(tmp_path).store.root
    ends = [EndReason.SUCCESS, EndReason.SUCCESS, EndReason.FAILURE, EndReason.TIMEOUT]
    here = [begun(made_episode(f"00000{at}-demo-a", steps=3, end=end), 3600) for at, end in enumerate(ends)]
    write_folder(store, [*here, begun(made_episode("000009-demo-a", steps=3), -1)])

    def onward(code: int) -> str:
        return "look" if code else "go on"

    assert supervise(run, ready, (actor,), store=store, onward=onward) == (code != 0)
    stage = Stage.read(tmp_path)
    assert stage is not None
    assert stage.name is name
    assert stage.text.startswith("actor ended")
    counted = "4 demonstrations: 2 successes, 1 failure, 1 without a verdict"
    assert stage.result == (counted,), "of this start alone"
    assert stage.next_step == onward(code != 0)
    banner = farewell(stage)
    assert counted in banner.why, "what stays on the page"
    assert banner.now == f"Next: {stage.next_step}"
    assert capsys.readouterr().out.splitlines()[-2:] == [counted, f"Next: {stage.next_step}"]


class Full(io.StringIO):
    """An output on a disk that has room for one line."""

    def write(self, text: str) -> int:
        if self.getvalue().endswith("\n"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_full_disk_under_its_output_ends_no_run(tmp_path, monkeypatch):
    run = load_run("peg_insert")
    ready = PreparedRun(folder=tmp_path, domain=run.cell.dds_domain, environment=dict(os.environ))
    again = f"test -e {tmp_path}/once || {{ touch {tmp_path}/once; exit 1; }}; touch {tmp_path}/twice; sleep 60"
    camera = ProcessSpec(name="camera", argv=("/bin/sh", "-c", again), respawn=True)
    waits = f"until test -e {tmp_path}/twice; do sleep 0.05; done"
    actor = ProcessSpec(name="actor", argv=("/bin/sh", "-c", waits), required=True)
    monkeypatch.setattr(sys, "stdout", Full())
    assert supervise(run, ready, (camera, actor), 60.0, store=None, onward=lambda code: "go on") == 0
    stage = Stage.read(tmp_path)
    assert stage is not None
    assert (stage.name, stage.text) == (StageName.ENDED, "actor ended cleanly")
