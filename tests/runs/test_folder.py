"""The folder of a run: each part of it goes on once, and a killed process holds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from robot_stack.cli import train
from robot_stack.cli.run_folder import run_and_policy
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.learner import process
from robot_stack.runs.folder import Part, begun, check_own, holding
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.fixture
def of_a_real_cell(tmp_path: Path) -> Path:
    """The folder of a run of a real arm, in a larger box than the cell has now."""
    folder = tmp_path / "runs" / "ur5e_table"
    folder.mkdir(parents=True)
    saved = load_run("ur5e_table").document()
    saved["cell"]["workspace"]["max_m"] = LARGER  # type: ignore[index]
    YAML().dump(saved, RunPaths(folder).resolved)
    RunPaths(folder).policy("policy").touch()
    return folder


LARGER, BOX = [-0.25, 0.15, 0.6], (-0.25, 0.15, 0.52)


def test_a_run_goes_on_in_a_cell_whose_box_is_smaller_and_says_so(of_a_real_cell: Path) -> None:
    wanted = load_run("ur5e_table", ["safety.soft_force_n=3"])
    with begun(wanted, of_a_real_cell, Part.CELL) as changed:
        box, force = changed
    assert box == f"cell.workspace.max_m is {list(BOX)} now, it was {LARGER}"
    assert force.startswith("safety.soft_force_n is 3.0 now, it was ")


@pytest.mark.parametrize("override", ["task.episode_steps=7", "seed=3", "algorithm.name=bc"])
def test_a_run_of_a_real_cell_goes_on_with_what_it_learned_with(of_a_real_cell: Path, override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        check_own(load_run("ur5e_table", [override]), of_a_real_cell)


def test_a_limit_of_a_run_is_not_loosened_on_the_way(of_a_real_cell: Path) -> None:
    path = RunPaths(of_a_real_cell).resolved
    path.write_text(load_run("ur5e_table", ["safety.soft_force_n=3"]).to_yaml())
    with pytest.raises(ConfigError, match=r"has safety.soft_force_n = 3.0, asked for is"):
        check_own(load_run("ur5e_table"), of_a_real_cell)


def test_in_simulation_a_run_goes_on_in_no_other_cell(tmp_path: Path) -> None:
    RunPaths(tmp_path).resolved.write_text(load_run("peg_insert").to_yaml())
    with pytest.raises(ConfigError, match=r"has teleop.operator.attention = 0.9, asked for is 0.5"):
        check_own(load_run("peg_insert", ["teleop.operator.attention=0.5"]), tmp_path)


def test_a_saved_policy_acts_in_the_cell_as_it_is_now_and_within_the_limits_of_its_run(
    of_a_real_cell: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(of_a_real_cell.parents[1])
    resolved, folder, _ = run_and_policy("ur5e_table", "policy")
    assert resolved.cell.workspace is not None
    assert resolved.cell.workspace.max_m == BOX
    assert f"{folder}: cell.workspace.max_m is {list(BOX)} now, it was {LARGER}" in capsys.readouterr().err
    tight = load_run("ur5e_table", ["safety.soft_force_n=3", "algorithm.settings.utd=2"])
    RunPaths(folder).resolved.write_text(tight.to_yaml())
    resolved, _, _ = run_and_policy("ur5e_table", "policy")
    assert resolved.safety == tight.safety
    assert resolved.run == tight.run


def test_a_policy_whose_cell_has_no_files_here_acts_within_what_was_saved(
    of_a_real_cell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(of_a_real_cell.parents[1])
    path = RunPaths(of_a_real_cell).resolved
    path.write_text(path.read_text().replace("name: ur5e_table", "name: elsewhere", 1))
    resolved, _, _ = run_and_policy("ur5e_table", "policy")
    assert resolved.cell.workspace is not None
    assert list(resolved.cell.workspace.max_m) == LARGER
