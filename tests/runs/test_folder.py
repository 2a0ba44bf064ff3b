"""The folder of a run: each part of it goes on once, and a killed process holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from robot_stack.cli import train
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.learner import process
from robot_stack.runs.folder import Part, begun, holding
from robot_stack.runs.paths import RunPaths
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
        "from robot_stack.runs.folder import Part, begun, holding\n"
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


def test_of_two_runs_that_begin_in_a_folder_at_once_one_is_refused(tmp_path: Path) -> None:
    """Each part is begun by a process of its own, and neither finds whose the folder is."""
    runs = {part: load_run("peg_insert", [f"seed={seed}"]) for seed, part in enumerate(Part)}
    for number in range(20):
        folder, together = tmp_path / str(number), threading.Barrier(len(runs), timeout=60.0)

        def begin(part: Part, folder: Path = folder, together: threading.Barrier = together) -> int | None:
            together.wait()
            try:
                with begun(runs[part], folder, part):
                    return runs[part].run.seed
            except ConfigError:
                return None

        with ThreadPoolExecutor(len(runs)) as threads:
            seeds = [seed for seed in threads.map(begin, runs) if seed is not None]
        assert seeds == [load_resolved(RunPaths(folder).resolved).run.seed]


def test_a_folder_that_another_run_began_in_since_it_was_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = load_run("peg_insert", ["seed=7"]).to_yaml()

    def looked_at(*_: object) -> Path:
        RunPaths(tmp_path).resolved.write_text(other)
        return tmp_path

    monkeypatch.setattr(train, "own_folder", looked_at)
    monkeypatch.setattr(process, "main", lambda _: 0)
    with pytest.raises(ConfigError, match=r"run.seed = 7, asked for is 8"):
        train.run("peg_insert", ["seed=8"])
    assert RunPaths(tmp_path).resolved.read_text() == other
