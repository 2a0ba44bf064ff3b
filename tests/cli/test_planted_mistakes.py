"""Mistakes that people make in their files, one at a time: `show` refuses each where it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from robot_stack.cli import show
from robot_stack.config.files.library import config_root

PEG, FR3, UR5E, TWO, PICK = "peg_insert", "fr3_table", "ur5e_table", "two_arm_insert", "pick_insert"
RUN, TASK, CELL = "runs/peg_insert.yaml", "tasks/peg_insert.yaml", "cells/sim.yaml"
TABLE, PLUG = "cells/fr3_table.yaml", "tasks/plug_insert.yaml"
DESK, SAFETY, ARM, UR = "cells/ur5e_table.yaml", "safety/table.yaml", "robots/fr3.yaml", "robots/ur5e.yaml"
WRIST, PAD, ARMS = "cameras/sim_wrist.yaml", "teleop/gamepad.yaml", "cells/sim_two_arms.yaml"
LIMITS_1, LIMITS_DEG = "min_rad: -2.7437, max_rad: 2.7437", "min_rad: -157.2, max_rad: 157.2"
HOME = "home_rad: [0, -0.785, 0, -2.356, 0, 1.571, 0.785]"
ABOVE = "poses: {above: {joints_rad: [0, -0.785, 0, -2.356, 0, 1.571, 0.785], position_m: [0.5, 0, 0.2], "
WHOLE = ""
"""What stands in a file that is replaced as a whole."""
WRENCH = """\
wrench:                          # in the frame of the TCP as set on the pendant; here none is set there
  topic: /force_torque_sensor_broadcaster/ft_data
  acts: on_tool                  # as URScript's get_tcp_force
  frame: tool0_controller
  tcp_in_frame: {position_m: [0, 0, 0]}
"""
ALGORITHM = "algorithm: {name: rlpd}"
BESIDE = {"robot: so101"}
"""What does not fit another line of its file, which is the one that is named."""
OF_THE_TEXT = {"not valid YAML", "file is empty"}
"""What is wrong with the text itself, at whatever sign of it."""
ELSEWHERE = {"cameras.wrist.rate_hz": "cameras/sim_wrist.yaml", "task.proprio.2.name": PLUG}
"""Where a mistake is said that two files make together, by its key."""


def algorithm(settings: str, name: str = "rlpd") -> str:
    return f"algorithm: {{name: {name}, settings: {{{settings}}}}}"


LENS = "lens: {width_px: 640, height_px: 360, focal_px: [600.0, 600.0], centre_px: [320.0, 180.0]}"
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
    (PEG, RUN, "name: progress,", "name: clip,", "reward.name", "must be one of expression, otr, progress"),
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


SHAPES: list[tuple[str, str, str, str, str, str]] = [
    # what is no YAML, or YAML of another shape
    (PEG, RUN, "  demos: 6", "\tdemos: 6", "not valid YAML", "spaces, never with a tab"),
    (PEG, RUN, "seed: 0", "seed 0", "not valid YAML", "look for a colon"),
    (PEG, TASK, "text: insert the", "text: insert: the", "not valid YAML", "a colon in it needs quotes"),
    (PEG, RUN, "seed: 0", "seed: 0\nseed: 1", "seed", "remove one of them"),
    (PEG, CELL, "front: {model: sim_front}", "wrist: {model: sim_front}", "cameras.wrist", "remove one of them"),
    (TWO, ARMS, "  right:\n", "  left:\n", "arms.left", "remove one of them"),
    (PEG, RUN, "{labels: distance}", "&mine {labels: distance, more: *mine}", "settings.more", "repeat the value"),
    (PEG, TASK, WHOLE, "", "file is empty", "copy a shipped one"),
    (PEG, CELL, WHOLE, "- robot: fr3\n", "file holds a list", "write 'key: value' lines"),
    (PEG, RUN, "reward: {name: progress, settings: {labels: distance}}", "reward: [progress]", "reward", "its keys"),
    (PEG, TASK, "n_of_m: {n: 2, m: 3}", "n_of_m: 2 of 3", "success.n_of_m", "each with a colon: n, m"),
    (PEG, TASK, "axes: [x, y, z, rz]", "axes: xyz", "arm.axes", "in brackets"),
    (PEG, CELL, "{model: sim_front}", "{}", "cameras.front.model", "add 'model'"),
    (PEG, CELL, "min_m: [0.40, -0.12, 0.03]", "min_m: [0.40, -0.12]", "workspace.min_m.2", "add it"),
    (
        UR5E,
        PAD,
        "gains: [-1, -1, -1, 1, 1, -1]",
        "gains: [-1, -1, -1, 1, 1, -1, 1]",
        "gains",
        "remove what is too much",
    ),
    (PEG, RUN, "seed: 0", "seed:", "seed", "write a value, or null"),
]
UNITS: list[tuple[str, str, str, str, str, str]] = [
    # what is no number, or one in another unit
    (PEG, RUN, ALGORITHM, algorithm("batch_size: large"), "algorithm.settings.batch_size", "write a whole number"),
    (PEG, RUN, ALGORITHM, algorithm("batch_size: '256'"), "algorithm.settings.batch_size", "remove the quotes"),
    (
        PEG,
        RUN,
        ALGORITHM,
        "algorithm: {name: rlpd, batch_size: 128}",
        "algorithm.batch_size",
        "put it under 'settings'",
    ),
    (PEG, TASK, "translation_m: 0.01 ", "translation_m: 0,01 ", "arm.translation_m", "write 0.01, with a point"),
    (PEG, SAFETY, "max_speed_m_s: 0.25", "max_speed_m_s: 0.25 m/s", "max_speed_m_s", "without its unit"),
    (PEG, TASK, "threshold: 0.8 ", "threshold: 80% ", "success.threshold", "write 0.8 for 80%"),
    (PEG, RUN, "max_robot_minutes: 25", "max_robot_minutes: .nan", "training.max_robot_minutes", "write a number"),
    (PEG, SAFETY, "max_jerk_m_s3: 300", "max_jerk_m_s3: .inf", "max_jerk_m_s3", "write a number"),
    (
        PEG,
        TASK,
        "rotation_rad: 0.06",
        "rotation_rad: 3.4",
        "arm.rotation_rad",
        "write 0.05934 if 3.4 degrees are meant",
    ),
    (PEG, ARM, LIMITS_1, LIMITS_DEG, "joints.0.max_rad", "write 2.744 if 157.2 degrees are meant"),
    (PEG, ARM, HOME, "home_rad: [0, -45, 0, -135, 0, 90, 45]", "home_rad.1", "inside the joint limits"),
    (PEG, SAFETY, "tilt_cone_rad: 0.35", "tilt_cone_rad: 20", "tilt_cone_rad", "write 0.3491 if 20 degrees are meant"),
    (PEG, CELL, "min_m: [0.40, -0.12, 0.03]", "min_m: [400, -120, 30]", "min_m.0", "write 0.4 if 400 mm are meant"),
    (PEG, SAFETY, "max_speed_m_s: 0.25", "max_speed_m_s: 250", "max_speed_m_s", "write 0.25 if 250 mm/s are meant"),
    (PEG, TASK, "clearance_m: 0.002", "clearance_m: 2", "sim.clearance_m", "write 0.002 if 2 mm are meant"),
    (UR5E, UR, "d_m: 0.1625", "d_m: 162.5", "kinematics.links.0.d_m", "write 0.1625 if 162.5 mm are meant"),
    (PEG, WRIST, "max_age_s: 0.15", "max_age_s: 150", "max_age_s", "write 0.15 if 150 ms are meant"),
    (PEG, CELL, "table_z_m: 0.0", "table_z_m: 0.75", "cell.surroundings.table_z_m", "its height above the base"),
    (PEG, RUN, "  demos: 6", "  demos: 6\n  enough: {success: 97.5}", "enough.success", "write 0.975 if 97.5 percent"),
    (PEG, RUN, "seed: 0", "seed: 0\noperator_required: yes", "operator_required", "did you mean 'true'"),
    (UR5E, DESK, '"A1B2C3D4"', "12345678", "cameras.front.serial", "put it in quotes"),
    (PEG, TASK, "name: peg_insert", "name: Peg Insert", "name", "write e.g. "),
]
BETWEEN: list[tuple[str, str, str, str, str, str]] = [
    # what is no name, and values that do not fit each other
    (FR3, TABLE, "/camera/front/color/image_raw ", "/camera/front/color image_raw ", "source_topic", "e.g. /camera/"),
    (FR3, "robots/fr3_franka.yaml", "command: /target_pose", "command: /target_pose/", "command", "write e.g. /"),
    (
        PEG,
        CELL,
        "learner_address: 127.0.0.1:50051",
        "learner_address: gpu-1",
        "learner_address",
        "e.g. 192.168.1.20:50051",
    ),
    (PEG, CELL, "dds_domain: 0", "namespace: /lab\ndds_domain: 0", "namespace", "write e.g. lab/cell_a"),
    (PEG, CELL, "dds_domain: 0", "dds_domain: 300", "dds_domain", "lower it"),
    (PEG, RUN, "seed: 0", "seed: 0\ndevice: gpu", "device", "did you mean 'cpu'"),
    (PEG, RUN, "seed: 0", "seed: 0\nbase: {kind: saved, policy: a.safetensors}", "base.policy", "write e.g. ~/"),
    (PEG, RUN, "seed: 0", "seed: 0\nstart_from: {run: /nowhere/peg}", "run.start_from.run", "correct the path"),
    (PEG, RUN, "name: progress,", "name: progres,", "reward.name", "did you mean 'progress'"),
    (PEG, RUN, "name: progress,", "name: progress, failure: 1,", "reward.failure", "lower it"),
    (PEG, RUN, "rate_hz: 10", "rate_hz: 5", "run.rate_hz", "raise run.rate_hz"),
    (
        PEG,
        RUN,
        "  demos: 6",
        "  demos: 6\n  protocol: {lowest: 0.7, highest: 0.6}",
        "protocol.highest",
        "swap or correct",
    ),
    (PEG, TASK, "scene: peg_insert", "scene: peg_insrt", "task.scene", "did you mean 'peg_insert'"),
    (PEG, TASK, "{name: tcp_twist, size: 6}", "{name: tcp_pose, size: 6}", "proprio.1.name", "remove the repeat"),
    (PEG, TASK, "    tcp_pose: {min", "    tcp_pos: {min", "success.gate.tcp_pos", "correct the name"),
    (
        PICK,
        "tasks/pick_insert.yaml",
        "{min: [0.15], max: [0.5]}",
        "{min: [0.5], max: [0.15]}",
        "max.0",
        "swap or correct",
    ),
    (FR3, PLUG, "  timeout_s: 120", "  timeout_s: 120\n  start: {pose: above}", "reset.start.pose", "calibrate pose"),
    (FR3, PLUG, "  max_speed_m_s: 0.1", "  max_speed: 0.1", "safety.max_speed", "did you mean 'max_speed_m_s'"),
    (PEG, CELL, "safety: table", "safety: tabel", "safety", "did you mean 'table'"),
    (PEG, CELL, "robot: fr3\n", "", "robot", "add 'robot'"),
    (PEG, CELL, "front: {model: sim_front}", "side: {model: sim_front}", "cell.cameras.side", "rename it in the cell"),
    (FR3, TABLE, "model: realsense_d405", "model: sim_wrist", "cell.cameras.wrist.model", "name another model"),
    (FR3, TABLE, "left: 128, height", "left: 328, height", "roi_px", "make it smaller or move it"),
    (FR3, TABLE, "model: realsense_d405", f"model: realsense_d405\n    {LENS}", "cameras.wrist.lens", "at that size"),
    (
        FR3,
        TABLE,
        "model: realsense_d405",
        f"model: realsense_d405\n    {LENS.replace('360', '480')[:-1]}, flip: rotate_180}}",
        "cameras.wrist.lens",
        "calibrate anew",
    ),
    (PEG, CELL, "{model: sim_front}", f"{{model: sim_front, {LENS}}}", "cell.cameras.front.lens", "delete it"),
    (UR5E, DESK, '"A1B2C3D4"', '"5D3C1B6F"', "cameras.front.serial", "give each camera its own"),
    (
        PEG,
        CELL,
        "robot: fr3\n",
        f"robot: fr3\n{ABOVE}quaternion_xyzw: [0, 0, 0, 0]}}}}\n",
        "above.quaternion_xyzw",
        "copy all",
    ),
    (TWO, ARMS, "apart_m: 0.12", "robot: fr3\napart_m: 0.12", "robot", "move it to its arm"),
    (PEG, ARM, LIMITS_1, "min_rad: 2.7437, max_rad: -2.7437", "joints.0.max_rad", "swap or correct them"),
    (PEG, ARM, "backend: sim ", "backend: simulator ", "backend", "write one of them"),
    (UR5E, UR, "closed: 0.7929 ", "closed: 0 ", "gripper.open", "give the joint's two ends"),
    (UR5E, UR, "{name: palm, link: 6", "{name: palm, link: 16", "collision.capsules.8.link", "correct it"),
    (PEG, WRIST, "max_age_s: 0.15", "max_age_s: 0.02", "max_age_s", "raise it"),
    (PEG, SAFETY, "hard_force_n: 35", "hard_force_n: 10", "hard_force_n", "correct one of them"),
]
MISTAKES += SHAPES + UNITS + BETWEEN


def points_at(line: str, column: int, key: str) -> bool:
    """Whether a column of a line, from 1 on, is where a key or its value begins."""
    name, before, rest = key.rsplit(".", 1)[-1], line[: column - 1], line[column - 1 :]
    if re.search(rf"(?<![\w-]){re.escape(name)}:", line) is None:  # the place of an entry, or of what holds the key
        return re.fullmatch(r"(.*[\s{\[:,-])?", before) is not None and re.match(r"[^\s,:]", rest) is not None
    return rest.startswith(f"{name}:") or re.search(rf"(?<![\w-]){re.escape(name)}:\s*$", before) is not None


@pytest.mark.parametrize(
    ("run", "file", "right", "wrong", "key", "remedy"), MISTAKES, ids=lambda text: text.strip()[:40] or "any"
)
def test_show_refuses_a_mistake_where_it_stands_and_says_what_to_do(
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
    before, _, after = text.partition(right) if right is not WHOLE else ("", "", "")
    (root / file).write_text(before + wrong + after)
    assert show.run(run, root=root) == 1
    said = capsys.readouterr().err.splitlines()
    written = root / ELSEWHERE.get(key, file)
    place = re.compile(rf"{re.escape(str(written))}:(\d+):(\d+): ")
    found = [(place.match(line), line) for line in said if key in line and remedy in line]
    places = [(int(match[1]), int(match[2])) for match, line in found if match is not None and "; " in line]
    assert places, said
    lines = [line for line, _ in places]
    for line, column in places:
        text = [*written.read_text().splitlines(), ""][line - 1]
        assert key in OF_THE_TEXT or points_at(text, column, key), (said, line, column)
    if key not in ELSEWHERE and wrong and wrong not in BESIDE:
        first = before.count("\n") + 1
        assert any(first <= line <= first + wrong.count("\n") + 1 for line in lines), said


def test_there_are_twice_forty_of_them_and_none_twice() -> None:
    assert len(set(MISTAKES)) == len(MISTAKES) >= 80
