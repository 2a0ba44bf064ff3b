"""The folder of a run: each part of it goes on once, and a killed process holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from robot_stack.runs.folder import Part, holding
from robot_stack.types.errors import ConfigError, StoreError


def test_a_part_goes_on_once_and_another_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "c1"
    with holding(folder, Part.CELL), holding(folder, Part.LEARNER):
        for part in Part:
            said = rf"run {folder} is going on \(process {os.getpid()}\), must have ended"
            with pytest.raises(ConfigError, match=said), holding(folder, part):
                pass
    with holding(folder, *Part):
        pass


def test_a_part_that_is_refused_leaves_the_others_free(tmp_path: Path) -> None:
    with holding(tmp_path, Part.LEARNER):
        with pytest.raises(ConfigError), holding(tmp_path, *Part):
            pass
        with holding(tmp_path, Part.CELL):
            pass


def test_a_killed_process_holds_nothing_though_its_child_lives(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, subprocess, sys\n"
        "from robot_stack.runs.folder import Part, holding\n"
        "with holding(pathlib.Path(sys.argv[1]), *Part):\n"
        "    subprocess.Popen([sys.executable, '-c', 'input()'], stdin=int(sys.argv[2]))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    read, write = os.pipe()  # the child waits until the second one is closed
    dying = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(read)], pass_fds=(read,), check=False)
    assert dying.returncode == -9
    with holding(tmp_path, *Part):
        pass
    os.close(read)
    os.close(write)


def test_a_folder_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"locking .* failed: Not a directory"), holding(tmp_path / "file" / "x"):
        pass
