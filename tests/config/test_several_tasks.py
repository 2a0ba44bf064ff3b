"""Several tasks of one run: what they share, what is refused, and where the message points."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.build import check_scene

RUN = "peg_two_sockets"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with copies of the run and its tasks, to be changed."""
    for kind, names in (("runs", [RUN]), ("tasks", ["peg_blue", "peg_green"])):
        (tmp_path / kind).mkdir()
        for name in names:
            (tmp_path / kind / f"{name}.yaml").write_text((config_root() / kind / f"{name}.yaml").read_text())
    return tmp_path


def change(root: Path, file: str, old: str, new: str) -> None:
    path = root / f"{file}.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_the_tasks_are_told_apart_by_a_field_that_nobody_declares() -> None:
    run = load_run(RUN)
    assert [(turn.id, turn.told) for turn in run.task.turns] == [("peg_blue", (1.0, 0.0)), ("peg_green", (0.0, 1.0))]
    assert [(field.name, field.size) for field in run.spec().proprio][-1] == ("task", 2)
    assert run.task.equal_ids == ("peg_blue", "peg_green")
    assert "task" not in [field.name for field in load_run("peg_insert").spec().proprio]


def test_a_saved_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = load_run(RUN)
    (tmp_path / "run.yaml").write_text(run.to_yaml())
    again = load_resolved(tmp_path / "run.yaml")
    assert (again.task, again.run, again.spec()) == (run.task, run.run, run.spec())


def test_a_setting_of_the_scene_is_set_for_all_tasks_at_once() -> None:
    run = load_run(RUN, ["task.sim.clearance_m=0.004"])
    assert [task.sim["clearance_m"] for task in (run.task, *run.task.others)] == [0.004, 0.004]
    check_scene(run)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rotation_rad: 0.06", "rotation_rad: 0.05", "arm.rotation_rad of task peg_green is 0.05, must be 0.06 as in"),
        ("axes: [x, y, z, rz]", "axes: [x, y, z]", "arm.axes of task peg_green is ['x', 'y', 'z'], must be"),
        ("episode_steps: 80", "episode_steps: 90", "episode_steps of task peg_green is 90, must be 80 as in peg_blue"),
        ("  timeout_s: 10", "  timeout_s: 11", "reset.timeout_s of task peg_green is 11.0, must be 10.0"),
        ("  - {name: wrench, size: 6}", "", "proprio of task peg_green is"),
        ("scene: peg_two_sockets", "scene: peg_insert", "scene of task peg_green is 'peg_insert', must be"),
        ("name: peg_green", "name: peg_blue", "name is 'peg_blue', must be another than that of the tasks before it"),
        ("name: peg_green", "name: peg_blue_back", "name is 'peg_blue_back', must not be that of a way back"),
        (
            "reset:",
            "others: []\nreset:",
            "others is given in one of several tasks: they are written by the tasks of a run",
        ),
        ("  socket: green", "  gymnasium: A-v0", "an environment is one task, must be the only one of a run"),
    ],
)
def test_what_does_not_go_together_is_refused_where_it_is_written(root: Path, old: str, new: str, said: str) -> None:
    change(root, "tasks/peg_green", old, new)
    with pytest.raises(ConfigError) as refused:
        load_run(RUN, root=root)
    (line,) = str(refused.value).splitlines()
    assert said in line
    assert "tasks/peg_green.yaml:" in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[peg_blue, peg_green]", "[peg_blue, peg_gren]", "did you mean 'peg_green'?"),
        ("[peg_blue, peg_green]", "[peg_blue, peg_blue]", "must be"),
        ("[peg_blue, peg_green]", "[peg_blue]", "tasks is ['peg_blue'], must be two or more; write task: peg_blue"),
        ("tasks: [", "task: peg_blue\ntasks: [", "task and tasks are both given, must be one of them; remove one"),
        ("tasks: [peg_blue, peg_green]\n", "", "task and tasks are both missing, must be one of them; add one"),
        ("demos: 12", "demos: 3", "input should be 4 at least with run.tasks (got 3), two for each task; raise it"),
        ("demos: 12", "protocol: {max_level: 1}\n  demos: 12", "input should be 0 with run.tasks"),
        ("reward: {name", "reward: {rescore: {name: vlac}, name", "must be left out with run.tasks"),
        ("seed: 0", "base: {backend: http, url: 'http://127.0.0.1:1', action: []}\nseed: 0", "base"),
    ],
)
def test_what_several_tasks_cannot_have_is_refused(root: Path, old: str, new: str, said: str) -> None:
    change(root, f"runs/{RUN}", old, new)
    with pytest.raises(ConfigError) as refused:
        load_run(RUN, root=root)
    assert said in str(refused.value)


def test_a_scene_may_differ_only_in_what_is_to_be_done(root: Path) -> None:
    change(root, "tasks/peg_green", "clearance_m: 0.002", "clearance_m: 0.003")
    with pytest.raises(ConfigError, match=r"clearance_m of task peg_green is 0.003, must be 0.002 as in peg_blue"):
        check_scene(load_run(RUN, root=root))
