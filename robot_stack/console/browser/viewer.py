"""Rerun's viewer beside the page, for what has just been written; it serves this machine only."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from robot_stack.types.errors import StackError

LOCAL = "127.0.0.1"
START_S, POLL_S, END_S = 20.0, 0.05, 5.0
LONGEST_SAID = 200


class ViewerError(StackError):
    """The viewer did not start."""


def rerun_program() -> str | None:
    """Return Rerun's program of this environment, or None where it is not installed.

    It is the program itself: the script of that name, here or in the shell's path, would leave it behind at its end.
    """
    package = importlib.util.find_spec("rerun_cli")
    own = None if package is None or package.origin is None else Path(package.origin).with_name("rerun")
    return str(own) if own is not None and own.is_file() else None


class RerunViewer:
    """Owner of the process of Rerun's viewer; each thing that is shown takes the place of the one before.

    Args:
        program: Command line of what `rerun_program` has found.
        log: Gets what the process prints; its folder is made.
    """

    def __init__(self, program: Sequence[str], log: Path) -> None:
        self._program = program
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def show(self, path: Path) -> str:
        """Serve a Rerun recording or a LeRobot dataset, and return the address of the page that shows it.

        Raises:
            ViewerError: If it ends, or does not answer in time.
        """
        with self._lock:
            self.close()
            return self._start(path)

    def _start(self, path: Path) -> str:
        page, data = _free_ports()
        command = [*self._program, str(path), "--serve-web", "--bind", LOCAL]
        command += ["--web-viewer-port", str(page), "--port", str(data)]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        address = f"http://{LOCAL}:{page}/"
        deadline_s = time.monotonic() + START_S
        while not _listens(page):
            if self._process.poll() is not None or time.monotonic() >= deadline_s:
                self.close()
                said = self._log.read_text(errors="replace").strip()[-LONGEST_SAID:]
                raise ViewerError(f"viewer of Rerun has not come up, must answer at {address}; it said: {said or '-'}")
            time.sleep(POLL_S)
        return f"{address}?url={quote(f'rerun+http://{LOCAL}:{data}/proxy', safe='')}"

    def close(self) -> None:
        """End the viewer, if there is one."""
        with self._lock:
            if self._process is None:
                return
            self._process.terminate()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind((LOCAL, 0))
        return one.getsockname()[1], other.getsockname()[1]


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((LOCAL, port), timeout=1.0):
        return True
    return False
