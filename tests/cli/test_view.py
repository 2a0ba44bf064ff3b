"""`robot-stack data view`: serves until Ctrl-C, writes what is kept back, and tells what it cannot do."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")

from robot_stack.cli.data.common import run_of
from robot_stack.cli.data.view import _tell
from robot_stack.cli.main import main
from robot_stack.datasets.store_view import open_store
from robot_stack.types.errors import TransportError
from robot_stack.types.event import Verdict
from tests.console.browser_store import DEMO, fetch, write_recorded
from tests.datasets.data_rig import label

ROOT = Path(__file__).parents[2]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a dataset and a run."""
    monkeypatch.chdir(tmp_path)
    write_recorded(tmp_path / "week")
    return tmp_path


@pytest.mark.long
def test_the_page_is_served_until_ctrl_c_and_what_was_said_is_written(recorded: Path) -> None:
    command = [sys.executable, "-m", "robot_stack.cli.main", "data", "view", "week", "--port", "0"]
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    with subprocess.Popen(
        command, cwd=recorded, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        code, body = fetch(url, "api/list")
        assert (code, len(json.loads(body)["episodes"])) == (200, 3)
        said = json.dumps({"episode": DEMO, "verdict": "failure"}).encode()
        assert fetch(url, "api/label", said, **{"Content-Type": "application/json"})[0] == 200
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
    assert (process.returncode, rest.splitlines()[-1]) == (0, "Next: robot-stack data list week")
    assert open_store(recorded / "week").labels_of(DEMO)[-1].verdict is Verdict.FAILURE


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
        _tell(Path("runs/monday"), None, label(DEMO, Verdict.FAILURE))
