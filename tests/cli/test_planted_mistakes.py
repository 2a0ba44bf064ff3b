"""Mistakes that people make in their files, one at a time: `show` refuses each where it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from robot_stack.cli import show
from robot_stack.config.files.library import config_root

PEG, FR3, UR5E, TWO = "peg_insert", "fr3_table", "ur5e_table", "two_arm_insert"
RUN, TASK, CELL = "runs/peg_insert.yaml", "tasks/peg_insert.yaml", "cells/sim.yaml"
TABLE, PLUG = "cells/fr3_table.yaml", "tasks/plug_insert.yaml"
WRENCH = """\
wrench:                          # in the frame of the TCP as set on the pendant; here none is set there
  topic: /force_torque_sensor_broadcaster/ft_data
  frame: tool0_controller
  tcp_in_frame: {position_m: [0, 0, 0]}
"""
ALGORITHM = "algorithm: {name: rlpd}"
ELSEWHERE = {"cameras.wrist.rate_hz": "cameras/sim_wrist.yaml", "task.proprio.2.name": PLUG}
"""Where a mistake is said that two files make together, by its key."""


def algorithm(settings: str, name: str = "rlpd") -> str:
    return f"algorithm: {{name: {name}, settings: {{{settings}}}}}"


MISTAKES: list[tuple[str, str, str, str, str, str]] = [
    # run, file, what stands there, what a person writes, the key that is named, a part of what is to be done
    (PEG, RUN, ALGORITHM, algorithm("batchsize: 128"), "algorithm.settings.batchsize", "did you mean 'batch_size'"),
    (PEG, RUN, ALGORITHM, algorithm("batch_size: -128"), "algorithm.settings.batch_size", "greater than or equal to 2"),
    (PEG, RUN, ALGORITHM, algorithm("batch_size: 128.5"), "algorithm.settings.batch_size", "integer"),
    (PEG, RUN, ALGORITHM, algorithm("utd: fast"), "algorithm.settings.utd", "number"),
    (PEG, RUN, ALGORITHM, algorithm("discount: 1.0"), "algorithm.settings.discount", "less than 1"),
    (PEG, RUN, ALGORITHM, algorithm("critic_subset: 3"), "algorithm.settings.critic_subset", "at most critics (2)"),
    (PEG, RUN, ALGORITHM, algorithm("chunk: 4, n_step: 3"), "algorithm.settings.chunk", "must be 1 with chunk 4"),
    (PEG, RUN, ALGORITHM, algorithm("utd: 4", "bc"), "algorithm.settings.utd", "choose from"),
    (PEG, RUN, ALGORITHM, "algorithm: {name: rlpb}", "algorithm.name", "did you mean 'rlpd'"),
    (PEG, RUN, "encoder: {name: embedded}", "encoder: {name: embeded}", "encoder.name", "did you mean 'embedded'"),
    (
        PEG,
        RUN,
        "{name: embedded}",
        "{name: embedded, settings: {stepps: 9}}",
        "encoder.settings.stepps",
        "mean 'steps'",
    ),
    (PEG, RUN, "labels: distance", "labels: distances", "reward.settings.labels", "'distance'"),
    (PEG, RUN, "name: progress,", "name: clip,", "reward.name", "must be one of progress"),
    (PEG, RUN, "  demos: 6", "  demos: 0", "training.demos", "greater than or equal to 1"),
    (PEG, RUN, "  demos: 6", "  demo: 6", "training.demo", "did you mean 'demos'"),
    (PEG, RUN, "rate_hz: 10", "rate_hz: 0", "rate_hz", "greater than 0"),
    (PEG, RUN, "rate_hz: 10", "rate_hz: 100", "cameras.wrist.rate_hz", "lower run.rate_hz"),
    (PEG, RUN, "seed: 0", "seed: -1", "seed", "greater than or equal to 0"),
    (PEG, RUN, "task: peg_insert", "task: peg_inset", "task", "did you mean 'peg_insert'"),
    (PEG, RUN, "cell: sim", "cell: simm", "cell", "did you mean 'sim'"),
    (PEG, TASK, "{name: tcp_twist, size: 6}", "{name: tcp_twist, size: 5}", "task.proprio.1.size", "should be 6"),
    (PEG, TASK, "{name: tcp_twist, size: 6}", "{name: tcp_velocity, size: 6}", "task.proprio.1.name", "choose from"),
    (PEG, TASK, "{name: tcp_twist, size: 6}", "{name: joints, size: 6}", "task.proprio.1.size", "should be 7"),
    (PEG, TASK, "axes: [x, y, z, rz]", "axes: [x, y, rz, z]", "arm.axes", "write ['x', 'y', 'z', 'rz']"),
    (PEG, TASK, "axes: [x, y, z, rz]", "axes: [x, y, z, yaw]", "arm.axes.3", "'rz'"),
    (PEG, TASK, "translation_m: 0.01 ", "translation_m: 10 ", "arm.translation_m", "less than or equal to 0.2"),
    (PEG, TASK, "translation_m: 0.01 ", "translation_m: 0.1 ", "task.arm.translation_m", "at most the safety limit"),
    (PEG, TASK, "threshold: 0.8 ", "threshold: 80 ", "success.threshold", "less than 1"),
    (PEG, TASK, "n_of_m: {n: 2, m: 3}", "n_of_m: {n: 4, m: 3}", "success.n_of_m.m", "at least n (4)"),
    (PEG, TASK, "0.06, null, null, null]", "0.06, null, null]", "success", "must have 6"),
    (PEG, TASK, "clearance_m: 0.002", "clearence_m: 0.002", "sim.clearence_m", "did you mean 'clearance_m'"),
    (PEG, TASK, "clearance_m: 0.002", "clearance_m: -2", "sim.clearance_m", "greater than"),
    (
        PEG,
        CELL,
        "min_m: [0.40, -0.12, 0.03]",
        "min_m: [0.70, -0.12, 0.03]",
        "workspace.max_m",
        "must be above min_m (0.7)",
    ),
    (PEG, CELL, "frame: base,", "frame: world,", "cell.workspace.frame", "robot's base frame 'base'"),
    (PEG, CELL, "teleop: scripted", "teleop: spacemuse", "teleop", "did you mean 'spacemouse'"),
    (PEG, CELL, "robot: fr3", "robot: so101", "cell.workspace.frame", "base frame 'base_link'"),
    (PEG, CELL, "wrist: {model: sim_wrist}", "wrist: {modell: sim_wrist}", "cameras.wrist.modell", "mean 'model'"),
    (
        FR3,
        TABLE,
        "min_m: [0.25, -0.25, 0.05], max_m: [0.60, 0.25, 0.52]",
        "min_m: [-0.65, -0.35, 0.2], max_m: [-0.25, 0.15, 0.52]",
        "cell.workspace",
        "must be in the box",
    ),
    (FR3, PLUG, "by: operator", "by: sim", "task.reset.by", "should be 'operator'"),
    (FR3, PLUG, "gripper: none ", "gripper: binary ", "arm.gripper", "'discrete'"),
    (FR3, PLUG, "max_speed_m_s: 0.1", "max_speed_m_s: 0.5", "safety.max_speed_m_s", "at most"),
    (FR3, "robots/fr3_franka.yaml", "home_rad: [0,", "home_rad: [0, 0,", "home_rad", "7"),
    (UR5E, "robots/ur5e.yaml", WRENCH, "", "task.proprio.2.name", "give its file a 'wrench'"),
    (TWO, "tasks/two_arm_insert.yaml", "name: left.wrench", "name: wrench", "task.proprio.", "write left.wrench"),
    (
        TWO,
        "tasks/two_arm_insert.yaml",
        "name: left.wrench",
        "name: lefft.wrench",
        "task.proprio.",
        "did you mean 'left'",
    ),
]


@pytest.mark.parametrize(
    ("run", "file", "right", "wrong", "key", "remedy"), MISTAKES, ids=lambda text: text.strip()[:40] or "any"
)
def test_show_refuses_a_mistake_where_it_stands(
    run: str,
    file: str,
    right: str,
    wrong: str,
    key: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "mine"
    shutil.copytree(config_root(), root)
    text = (root / file).read_text()
    assert right in text
    (root / file).write_text(text.replace(right, wrong, 1))
    assert show.run(run, root=root) == 1
    said = capsys.readouterr().err.splitlines()
    place = re.escape(str(root / ELSEWHERE.get(key, file)))
    assert [line for line in said if re.match(rf"{place}:\d+:\d+: ", line) and key in line and remedy in line], said


def test_there_are_forty_of_them() -> None:
    assert len(MISTAKES) >= 40
