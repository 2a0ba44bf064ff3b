"""A base policy from a checkpoint of LeRobot, in a process and a Python environment of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue

import numpy as np

from robot_stack.config.base import LeRobotBase
from robot_stack.rollout.base.http import HttpConnection
from robot_stack.rollout.base.mapping import Question, Told
from robot_stack.types.errors import ConfigError, RobotError

SERVER = Path(__file__).with_name("lerobot_server.py")
LAST_WORDS = 400
POLL_S = 0.1


class LeRobotConnection:
    """A connection to a checkpoint's server, which it starts and ends; implements `Connection`.

    Args:
        config: Folder, interpreter and device.
        stopping: Asked while the checkpoint is loaded; True gives up.
    """

    def __init__(self, config: LeRobotBase, stopping: Callable[[], bool]) -> None:
        self._config, self._stopping = config, stopping
        self._closed = False
        self._lock = threading.RLock()
        self._process: subprocess.Popen[str] | None = None
        self._http: HttpConnection | None = None
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the connection

    def open(self) -> Told:
        """Start the server where none runs, and ask it what it wants and gives."""
        with self._lock:
            if self._http is None or self._process is None or self._process.poll() is not None:
                self._stop()
                self._http = HttpConnection(f"http://127.0.0.1:{self._start()}", timeout_s=self._config.timeout_s)
            return self._http.open()

    def ask(self, question: Question) -> np.ndarray:
        """Ask the server."""
        with self._lock:
            if self._http is None:
                self.open()
            assert self._http is not None
            return self._http.ask(question)

    def close(self) -> None:
        """End the server; whoever waits for it gives up."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._stop()
            self._log.close()

    def _start(self) -> int:
        """Start the server; returns its port once the policy is loaded."""
        python = Path(self._config.python).expanduser()
        folder = Path(self._config.checkpoint).expanduser()
        # -P: the folder of the script has names of the standard library
        words = [str(python), "-P", str(SERVER), str(folder), "--device", self._config.device]
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
            )
        except OSError as error:
            raise ConfigError(
                f"base.python is {python}, which does not start ({error}); name the interpreter that has lerobot"
            ) from error
        said: Queue[str] = Queue()
        assert self._process.stdout is not None
        threading.Thread(target=lambda out=self._process.stdout: said.put(out.readline()), daemon=True).start()
        deadline_s = time.monotonic() + self._config.start_s
        while True:
            try:
                line = said.get(timeout=POLL_S)
                break
            except Empty:
                late = time.monotonic() > deadline_s
                if late or self._closed or self._stopping():
                    self._stop()
                    why = f"after {self._config.start_s:g} s; raise base.start_s" if late else "and the run ends"
                    raise RobotError(f"checkpoint {folder} is not loaded {why}") from None
        if not line.strip().isdecimal():
            self._stop()
            raise ConfigError(f"checkpoint {folder} cannot be served: {self._last_words()}")
        return int(line)

    def _last_words(self) -> str:
        self._log.seek(0)
        return " ".join(self._log.read().split())[-LAST_WORDS:] or "its server ended without a word"

    def _stop(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()  # by which it ends
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
            self._process = None
