"""On a real cell a page holds, labels and resets, and never moves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_stack.config.asking import AskingConfig
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.console.messages import PRESSES
from robot_stack.console.rights import ENABLING, Rights
from robot_stack.console.shown import keys
from robot_stack.teleop.bindings import CONTROLS, MOTIONS
from robot_stack.types.errors import ConfigError
from tests.console.page_rig import sim_run


def real_run() -> ResolvedRun:
    """The dry run's cell with an arm that is no simulator's, past the checks of the files."""
    run = sim_run()
    robots = {name: robot.model_copy(update={"backend": "servo"}) for name, robot in run.robots.items()}
    return replace(run, robots=robots)


def test_in_simulation_a_page_may_do_everything():
    rights = Rights.of(sim_run())
    assert rights.enable
    assert rights.drive
    assert not any(map(rights.refuse_press, PRESSES))
    assert rights.refuse_move() == ""


def test_on_a_real_cell_it_moves_nothing_even_if_the_device_would_take_it():
    rights = Rights.of(real_run())
    assert "a page can hold, label and reset" in rights.refuse_move()
    assert [what for what in PRESSES if rights.refuse_press(what)] == list(ENABLING)


def test_a_page_lets_a_policy_go_on_unless_a_real_arm_is_kept_still_for_it():
    asking = AskingConfig()
    for hold, refused in ((False, False), (True, True)):
        run = real_run()
        held = replace(run, run=run.run.model_copy(update={"asking": asking.model_copy(update={"hold": hold})}))
        assert bool(Rights.of(held).refuse_press("dismiss")) is refused
    assert Rights.of(sim_run("run.asking.hold=true")).refuse_press("dismiss") == ""


def test_a_device_that_takes_no_page_is_told_apart():
    assert "set cell.teleop=browser" in Rights.of(sim_run("teleop.page=null")).refuse_move()


def test_a_pages_keys_on_a_real_cell_move_nothing_and_enable_nothing():
    shown = keys(Rights.of(real_run()))
    assert not set(shown) & {*CONTROLS, *MOTIONS, *ENABLING}
    assert shown["hold"] == "esc"
    assert set(keys(Rights.of(sim_run()))) >= {*MOTIONS, "deadman", "arm"}


@pytest.mark.parametrize("teleop", ["browser", "scripted"])
def test_files_that_would_let_a_page_move_a_real_arm_are_refused(tmp_path, teleop):
    for folder in ("robots", "cells", "runs", "tasks"):
        (tmp_path / folder).mkdir()
    cell = (config_root() / "cells" / "sim.yaml").read_text()
    cell = cell.replace("robot: fr3", "robot: fr3_franka").replace("teleop: scripted", f"teleop: {teleop}")
    (tmp_path / "cells" / "sim.yaml").write_text(cell)
    task = (config_root() / "tasks" / "peg_insert.yaml").read_text().replace("by: sim", "by: operator")
    (tmp_path / "tasks" / "peg_insert.yaml").write_text(task)
    (tmp_path / "runs" / "peg_insert.yaml").write_text((config_root() / "runs" / "peg_insert.yaml").read_text())
    with pytest.raises(ConfigError, match=r"a page moves simulated arms only, and \w+ is a real one"):
        load_run(tmp_path / "runs" / "peg_insert.yaml")
