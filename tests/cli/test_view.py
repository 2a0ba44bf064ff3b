"""`robot-stack data view`: serves until Ctrl-C, writes what is kept back, and tells what it cannot do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")

from robot_stack.cli.data.common import run_of
from robot_stack.cli.data.view import _tell
from robot_stack.cli.main import main
from robot_stack.console.browser.relabels import Relabels
from robot_stack.console.browser.staging import Staging
from robot_stack.datasets.store_view import open_store
from robot_stack.replay.durable import WriterLock
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.calls import send_label, send_mark
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import SpecError, TransportError
from robot_stack.types.event import Label, Verdict
from tests.console.browser_store import DEMO, fetch, write_recorded
from tests.datasets.data_rig import label
from tests.transport.fake_learner import FakeLearner

ROOT = Path(__file__).parents[2]
LATER_NS = 11_000_000_000


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a dataset and a run."""
    monkeypatch.chdir(tmp_path)
    write_recorded(tmp_path / "week")
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "killed"])
def test_the_page_is_served_until_it_is_ended_and_what_was_said_is_written(recorded: Path, ending) -> None:
    code, rest = said_and_ended(recorded, ending)
    assert (code, rest.splitlines()[-1]) == (0, "Next: robot-stack data list week")
    assert open_store(recorded / "week").labels_of(DEMO)[-1].verdict is Verdict.FAILURE


@pytest.mark.long
def test_what_was_said_to_a_page_that_is_killed_is_written_by_the_next(recorded: Path) -> None:
    before = open_store(recorded / "week").labels_of(DEMO)
    assert said_and_ended(recorded, signal.SIGKILL)[0] == -signal.SIGKILL
    assert open_store(recorded / "week").labels_of(DEMO) == before
    for _ in range(2):
        relabels = Relabels(open_store(recorded / "week").paths)
        relabels.open()
        relabels.bring(time.monotonic_ns())
        told = open_store(recorded / "week").labels_of(DEMO)
        assert [each.verdict for each in told[len(before) :]] == [Verdict.FAILURE]


def said_and_ended(recorded: Path, ending: signal.Signals) -> tuple[int, str]:
    """Serve the dataset, say of an episode that it failed, and end the page at once; its code and what it printed."""
    command = [sys.executable, "-m", "robot_stack.cli.main", "data", "view", "week", "--port", "0"]
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with subprocess.Popen(
        command, cwd=recorded, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0]
            code, body = fetch(url, "api/list")
            assert (code, len(json.loads(body)["episodes"])) == (200, 3)
            said = json.dumps({"episode": DEMO, "verdict": "failure"}).encode()
            assert fetch(url, "api/label", said, **{"Content-Type": "application/json"})[0] == 200
            process.send_signal(ending)
            rest, _ = process.communicate(timeout=240)
        finally:
            process.kill()
    return process.returncode, rest


def test_what_cannot_be_served_is_told(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "view", "nothing"]) == 1
    assert "run is 'nothing'" in capsys.readouterr().err
    (recorded / "empty").mkdir()
    assert main(["data", "view", "empty"]) == 1
    assert "must hold store.json" in capsys.readouterr().err
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["data", "view", "week", "--host", "0.0.0.0", "--port", str(port)]) == 1
        assert "choose another --host or --port" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["data", "view", "week", "--port", "99999"])
    assert "must be a whole number up to 65535" in capsys.readouterr().err


def test_only_the_episodes_of_a_run_have_a_learner(recorded: Path) -> None:
    assert run_of("week") is None
    write_recorded(recorded / "runs" / "monday" / "store")
    assert run_of("monday") is None, "there is no run.yaml"
    (recorded / "runs" / "monday" / "run.yaml").touch()
    assert run_of("monday") == Path("runs/monday")
    with pytest.raises(TransportError, match=r"learner\.address is unreadable"):
        _tell(Path("runs/monday"), None, send_label, label(DEMO, Verdict.FAILURE))


def test_a_learner_that_writes_to_the_store_is_told_and_may_refuse(recorded: Path) -> None:
    run, learner = recorded / "runs" / "monday", FakeLearner()
    write_recorded(run / "store")
    server = LearnerServer(learner, "127.0.0.1:0", LinkToken.keep(run))
    (run / "learner.address").write_text(server.start())
    lock = WriterLock(run / "store" / "writer.lock")
    lock.acquire()
    relabels = Relabels(open_store(run / "store").paths, partial(_tell, run, None, send_label))
    staging = Staging(open_store(run / "store").paths, (), partial(_tell, run, None, send_mark))
    try:
        staging.set(open_store(run / "store"), DEMO, 1, 3, removed=False, now_unix_s=5.0)
        assert [(each.episode_id, each.stage, each.frame) for each in learner.marks] == [(DEMO, 1, 3)]
        relabels.say(DEMO, Verdict.FAILURE, 0, 5.0)
        relabels.bring(LATER_NS)
        assert [(each.episode_id, each.verdict) for each in learner.labels.values()] == [(DEMO, Verdict.FAILURE)]
        assert relabels.to_json(LATER_NS) == {"undo": None, "waiting": {}, "error": ""}
        takes, learner.label = learner.label, broken  # type: ignore[method-assign]
        relabels.say(DEMO, Verdict.DISCARD, 0, 5.5)
        relabels.bring(LATER_NS)
        said = relabels.to_json(LATER_NS)
        assert (said["waiting"], "a defect of the learner" in said["error"]) == ({DEMO: "discard"}, True)
        learner.label = takes  # type: ignore[method-assign]
        relabels.bring(LATER_NS)
        assert relabels.to_json(LATER_NS) == {"undo": None, "waiting": {}, "error": ""}
        assert list(learner.labels.values())[-1].verdict is Verdict.DISCARD
        learner.label = refuse  # type: ignore[method-assign]
        relabels.say(DEMO, Verdict.SUCCESS, 0, 6.0)
        relabels.bring(LATER_NS)
        said = relabels.to_json(LATER_NS)
        assert (said["waiting"], said["error"]) == ({}, f"{DEMO}: episode is not one of this run")
    finally:
        server.stop(grace_s=0.0)
    relabels.say(DEMO, Verdict.SUCCESS, 0, 7.0)
    relabels.bring(LATER_NS)
    said = relabels.to_json(LATER_NS)
    assert (said["waiting"], "is it running there?" in said["error"]) == ({DEMO: "success"}, True)
    lock.release()
    relabels.bring(LATER_NS)
    assert relabels.to_json(LATER_NS) == {"undo": None, "waiting": {}, "error": ""}
    assert open_store(run / "store").labels_of(DEMO)[-1].verdict is Verdict.SUCCESS


def refuse(_: Label, *, by_actor: bool) -> None:
    assert not by_actor
    raise SpecError("episode is not one of this run")


def broken(_: Label, *, by_actor: bool) -> None:
    raise RuntimeError("a defect of the learner")
