"""The page of a dry run stays up when the cell has stopped, and says how the run ended; the work is faked."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
pytest.importorskip("websockets", reason="no WebSockets on this machine")

from safetensors.numpy import save_file
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from robot_stack.cli import sim
from robot_stack.console.access import ADDRESS_FILE
from robot_stack.console.web import build_digest
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.stage import Stage, StageName
from robot_stack.types.errors import StackError

WAIT_S = 90.0


class Watcher(threading.Thread):
    """A page that only looks: the words of its banner, one after the other, and the server's last word."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._url = folder / ADDRESS_FILE
        self.opened = threading.Event()
        self.evaluating = threading.Event()
        self.words: list[str] = []
        self.bye: dict = {}
        self.start()

    def run(self) -> None:
        while not self._url.exists():
            time.sleep(0.05)
        address = f"ws://{self._url.read_text().strip().removeprefix('http://').rstrip('/')}/ws"
        with connect(address, max_size=None) as socket:
            socket.send(json.dumps({"k": "hello", "token": "", "page": "end", "build": build_digest()}))
            try:
                while True:
                    self._hear(socket)
            except ConnectionClosed:
                pass

    def _hear(self, socket) -> None:
        message = json.loads(socket.recv(WAIT_S))
        if message["k"] == "bye":
            self.bye = message
        if message["k"] != "state":
            return
        socket.send(json.dumps({"k": "seen", "state": message["n"], "image": 0}))
        if "now" in message["parts"]:
            word = message["parts"]["now"]["banner"]["word"]
            if self.words[-1:] != [word]:
                self.words.append(word)
            self.opened.set()
            if word == "EVALUATION":
                self.evaluating.set()


@pytest.mark.parametrize("fails", [False, True])
def test_the_page_stays_up_through_evaluation_and_report(monkeypatch, tmp_path: Path, fails: bool) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MAKELEVEL", raising=False)
    folder = tmp_path / "runs" / "sim"
    watcher = Watcher(folder)

    def train(dry_run: sim.DryRun, *_: object) -> None:
        assert watcher.opened.wait(WAIT_S)
        Stage(name=StageName.CLOSING, text="online training is over").write(folder)
        for name in ("policy", "bc"):
            save_file({"a": np.zeros(1, np.float32)}, RunPaths(folder).policy(name), {"version": "7"})

    def work(folder: Path, log: str, module: str, *more: str):
        """Work that is done when a line says so, which is when the page has shown that it goes on."""
        process = subprocess.Popen(
            [sys.executable, "-c", f"input(); raise SystemExit({int(fails)})"], stdin=subprocess.PIPE, text=True
        )

        def end() -> None:
            watcher.evaluating.wait(WAIT_S)
            process.communicate("done\n")

        threading.Thread(target=end, daemon=True).start()
        return process

    def report(dry_run: sim.DryRun, say: object) -> tuple[str, ...]:
        return ("policy: 19 of 20",)

    monkeypatch.setattr(sim, "train_online", train)
    monkeypatch.setattr(sim, "_python", work)
    monkeypatch.setattr(sim, "report", report)
    if fails:
        with pytest.raises(StackError, match="evaluation ended with exit codes"):
            sim.run("sim", plain=True)
    else:
        assert sim.run("sim", plain=True) == 0
    watcher.join(WAIT_S)
    assert watcher.words[0] == "NO WORD FROM THE CELL", "this test starts no cell"
    assert "EVALUATION" in watcher.words
    said = watcher.bye["banner"]
    if fails:
        assert said["word"] == "RUN FAILED"
        assert said["now"] == "Next: robot-stack sim --name sim"
    else:
        assert said["word"] == "RUN ENDED"
        assert "Policy: 19 of 20." in said["why"]
        assert said["now"] == "Next: robot-stack eval sim --episodes 200"
