"""Facts about a run and everything it names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from robot_stack.config.files.library import shipped_with
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.config.section import Section
from robot_stack.types.errors import ConfigError

Edit = Callable[[str, str, str], None]


class Algorithm(Section):
    batch_size: int = 256


def refusal(root: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_run("peg_insert", overrides, root)
    return [line.replace(str(root.resolve()), "mine") for line in str(caught.value).splitlines()]


def test_mistakes_in_different_files_are_reported_together(root: Path, edit: Edit) -> None:
    edit("runs/peg_insert.yaml", "seed: 0", "sed: 0")
    edit("robots/fr3.yaml", "backend: sim", "backend: sin")
    edit("safety/table.yaml", "hard_force_n: 35", "hard_force_n: 10")
    edit("tasks/peg_insert.yaml", "[null, null, 0.06, null, null, null]", "[0.06]")
    edit("cells/sim.yaml", "teleop: scripted", "teleop: scriptd")
    places = [line.split(": ", 2)[:2] for line in refusal(root)]
    assert places == [
        ["mine/cells/sim.yaml:9:9", "teleop"],
        ["mine/robots/fr3.yaml:4:10", "backend"],
        ["mine/runs/peg_insert.yaml:5:6", "sed"],
        ["mine/safety/table.yaml:13:15", "hard_force_n"],
        ["mine/tasks/peg_insert.yaml:22:21", "success.gate.tcp_pose.min"],
    ]


def test_a_name_that_does_not_exist_lists_those_that_do(root: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "robot: fr3", "robot: fr4")
    (line,) = refusal(root)
    assert line.startswith("mine/cells/sim.yaml:3:8: robot: input should be one of fr3, fr3_franka, kinova_gen3, ")
    assert line.endswith("(got 'fr4'); did you mean 'fr3'?")


@pytest.mark.parametrize("name", ["../peg_insert", "", "peg-insert"])
def test_a_reference_is_a_name_and_never_a_path(name: str, root: Path, edit: Edit) -> None:
    edit("runs/peg_insert.yaml", "task: peg_insert", f"task: '{name}'")
    (line,) = refusal(root)
    assert "task: input should be one of cable_plug, cube_in_bowl, drawer, mountain_car, peg_blue, peg_green, " in line


def test_an_unknown_run_lists_the_runs(root: Path) -> None:
    runs = "cable_plug, drawer, fr3_table, mountain_car, peg_in_and_out, peg_insert, peg_two_sockets, pick_insert, "
    runs += "so101_table, two_arm_insert, ur5e_table, ur5e_twin"
    with pytest.raises(ConfigError, match=rf"input should be one of {runs} in .*did you mean 'peg_insert'"):
        load_run("peg_inset", root=root)


def test_a_run_given_by_path_finds_its_neighbours(root: Path, edit: Edit) -> None:
    edit("safety/table.yaml", "max_speed_m_s: 0.25", "max_speed_m_s: 0.2")
    assert load_run("mine/runs/peg_insert.yaml").safety.max_speed_m_s == 0.2


def test_ones_own_folder_comes_before_the_shipped_one(root: Path, edit: Edit) -> None:
    edit("tasks/peg_insert.yaml", "episode_steps: 80", "episode_steps: 60")
    (root / "cells" / "sim.yaml").unlink()  # taken from the shipped folder then
    resolved = load_run("peg_insert", root=root)
    assert resolved.task.episode_steps == 60
    assert resolved.cell.robot == "fr3"


def test_overrides_reach_every_part(root: Path) -> None:
    resolved = load_run(
        "peg_insert",
        ["seed=7", "run.training.demos=3", "task.episode_steps=50", "cameras.wrist.rate_hz=25", "teleop.rate_hz=100"],
        root,
    )
    assert (resolved.run.seed, resolved.run.training.demos, resolved.task.episode_steps) == (7, 3, 50)
    assert (resolved.cameras["wrist"].rate_hz, resolved.cameras["front"].rate_hz) == (25.0, 30.0)
    assert resolved.teleop.rate_hz == 100.0


def test_an_override_of_a_camera_that_is_not_there_is_refused(root: Path) -> None:
    (line,) = refusal(root, "cameras.wirst.rate_hz=30")
    assert line.endswith("there is no 'cameras.wirst' in this run; did you mean 'cameras.wrist'?")


def test_a_task_makes_limits_tighter(root: Path, edit: Edit) -> None:
    edit("tasks/peg_insert.yaml", "sim:\n", "safety: {max_speed_m_s: 0.15}\nsim:\n")
    resolved = load_run("peg_insert", root=root)
    assert resolved.safety.max_speed_m_s == 0.15
    origins = {key: origin for key, _, origin in resolved.values()}
    assert origins["safety.max_speed_m_s"] == "mine/tasks/peg_insert.yaml:24"
    assert origins["safety.soft_force_n"] == "mine/safety/table.yaml:12"


def test_a_task_that_loosens_a_limit_is_refused_with_both_values_and_both_places(root: Path, edit: Edit) -> None:
    edit("tasks/peg_insert.yaml", "sim:\n", "safety: {hard_force_n: 36}\nsim:\n")
    (line,) = refusal(root)
    assert line.startswith(
        "mine/tasks/peg_insert.yaml:24:24: safety.hard_force_n: "
        "input should be at most 35, the limit at mine/safety/table.yaml:13:15 (got 36);"
    )


def test_a_task_cannot_name_a_limit_that_does_not_exist(root: Path, edit: Edit) -> None:
    edit("tasks/peg_insert.yaml", "sim:\n", "safety: {max_sped_m_s: 0.1}\nsim:\n")
    (line,) = refusal(root)
    assert "safety.max_sped_m_s" in line
    assert line.endswith("did you mean 'max_speed_m_s'?")


def test_the_command_line_makes_limits_tighter_and_never_looser(root: Path, edit: Edit) -> None:
    edit("tasks/peg_insert.yaml", "sim:\n", "safety: {max_speed_m_s: 0.15}\nsim:\n")
    assert load_run("peg_insert", ["safety.max_speed_m_s=0.12"], root).safety.max_speed_m_s == 0.12
    (line,) = refusal(root, "safety.max_speed_m_s=0.2")
    assert "input should be at most 0.15, the limit at mine/tasks/peg_insert.yaml:24:25 (got 0.2)" in line


def test_a_limit_that_the_safety_file_leaves_out_is_tightened_like_any_other(root: Path, edit: Edit) -> None:
    safety = root / "safety" / "table.yaml"
    lines = safety.read_text().splitlines(keepends=True)
    safety.write_text("".join(line for line in lines if not line.startswith("yaw_range_rad")))
    assert load_run("peg_insert", ["safety.yaw_range_rad=2.0"], root).safety.yaw_range_rad == 2.0
    edit("tasks/peg_insert.yaml", "sim:\n", "safety: {yaw_range_rad: 1.5}\nsim:\n")
    assert load_run("peg_insert", root=root).safety.yaw_range_rad == 1.5
    (line,) = refusal(root, "safety.yaw_range_rad=2.0")
    assert "input should be at most 1.5, the limit at mine/tasks/peg_insert.yaml:24:25 (got 2.0)" in line


@pytest.mark.parametrize("value", ["fast", ".nan", "-1", "0", "true", "[0.1]", "null"])
def test_a_limit_that_is_no_positive_number_is_refused_from_the_command_line(value: str, root: Path) -> None:
    assert any("max_speed_m_s: input should be" in line for line in refusal(root, f"safety.max_speed_m_s={value}"))


@pytest.mark.parametrize(
    "override",
    [
        "cell.workspace.max_m=[1, 1, 1]",
        "task.safety={}",
        "robot.joints=[]",
        "task.safety.soft_force_n=1",
        "safety.braking_m_s2=1",
        "cell.safety=so101",
        "cell.surroundings={}",
        "cell.surroundings.table_z_m=null",
        "cell.held=null",
        "cell.stop_inputs={}",
        "cell.teleop_silence_s=null",
        "robot.collision=null",
        "robot.kinematics=null",
        "robot.max_tcp_speed_m_s=1",
        "robot.max_tcp_rotation_speed_rad_s=3",
    ],
)
def test_limits_that_only_a_file_can_hold_are_refused_from_the_command_line(override: str, root: Path) -> None:
    assert any("cannot be set on the command line" in line for line in refusal(root, override))


def test_neither_can_what_a_real_arm_feels(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"robot\.wrench is a limit and cannot be set on the command line"):
        load_run("fr3_table", ["robot.wrench.acts=on_tool"], root)


@pytest.mark.parametrize("written", ["null", "~", "Null"])
def test_a_watch_is_left_out_by_a_null_that_is_written_and_not_by_an_empty_value(
    written: str, root: Path, edit: Edit
) -> None:
    edit("cells/sim.yaml", "safety: table\n", f"safety: table\nteleop_silence_s: {written}   # 0.5\n")
    assert load_run("peg_insert", root=root).cell.teleop_silence_s is None
    edit("cells/sim.yaml", f"teleop_silence_s: {written} ", "teleop_silence_s:")
    (line,) = refusal(root)
    assert line == "mine/cells/sim.yaml:11:1: teleop_silence_s: value is empty, must be given; write a value, or null"


def test_a_saved_run_is_read_with_its_nulls(root: Path, tmp_path: Path) -> None:
    saved = tmp_path / "run.yaml"
    saved.write_text(load_run("peg_insert", root=root).to_yaml())
    assert "    roi_px:\n" in saved.read_text()
    assert load_resolved(saved).cameras["wrist"].roi_px is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["rate_hz=15", "task.arm.translation_m=0.02"], "at 15.0 Hz is 0.3 m/s, must be at most the safety limit 0.25"),
        (
            ["rate_hz=5"],
            "run.rate_hz: 5.0 Hz is an action every 0.2 s, must be less than policy_timeout_s (0.15 s",
        ),
        (["cameras.front.rate_hz=8"], "cameras.front.rate_hz: input should be at least run.rate_hz (10.0)"),
        (["teleop.rate_hz=10", "safety.teleop_timeout_s=0.1"], "more than one sample of the device"),
        (["robot.base_frame=world"], "cell.workspace.frame: input should be the robot's base frame 'world'"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(overrides: list[str], message: str, root: Path) -> None:
    assert any(message in line for line in refusal(root, *overrides))


def test_a_cells_crop_replaces_the_cameras_and_must_lie_in_its_image(root: Path, edit: Edit) -> None:
    edit("cells/sim.yaml", "{model: sim_wrist}", "{model: sim_wrist, roi_px: {top: 8, left: 4, height: 40, width: 60}}")
    roi = load_run("peg_insert", root=root).cameras["wrist"].roi_px
    assert roi is not None
    assert (roi.top, roi.left, roi.height, roi.width) == (8, 4, 40, 60)
    edit("cells/sim.yaml", "width: 60", "width: 189")
    (line,) = refusal(root)
    assert line.startswith("mine/cells/sim.yaml:5:")
    assert "roi_px ends at row 48 and column 193, must be within 192 rows and 192 columns" in line


def test_the_spec_has_the_shapes_of_the_files(root: Path) -> None:
    spec = load_run("peg_insert", root=root).spec()
    assert (spec.action_size, spec.rate_hz, spec.arms[0].name) == (4, 10.0, "fr3")
    assert {camera.name: camera.shape for camera in spec.cameras} == {"wrist": (64, 64, 3), "front": (64, 64, 3)}
    assert spec.proprio_size == sum(field.size for field in spec.proprio)


def test_the_spec_changes_with_the_action_scale_but_not_with_the_seed(root: Path) -> None:
    digest = load_run("peg_insert", root=root).spec().digest
    assert load_run("peg_insert", ["seed=9"], root).spec().digest == digest
    assert load_run("peg_insert", ["task.arm.translation_m=0.02"], root).spec().digest != digest


def test_a_saved_run_reads_back_the_same_without_any_other_file(root: Path, tmp_path: Path) -> None:
    overrides = [
        "seed=3",
        "safety.soft_force_n=10",
        "algorithm.settings={name: 'no', sizes: [1, 2], empty: '', n: 1e-7}",
    ]
    resolved = load_run("peg_insert", overrides, root)
    path = tmp_path / "resolved.yaml"
    path.write_text(resolved.to_yaml())
    again = load_resolved(path)
    assert again.parts() == resolved.parts()
    assert again.name == "peg_insert"
    assert again.to_yaml() == resolved.to_yaml()


def test_a_saved_run_with_an_unknown_part_is_refused(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "resolved.yaml"
    path.write_text(load_run("peg_insert", root=root).to_yaml() + "saftey: {}\n")
    with pytest.raises(ConfigError, match="saftey: extra inputs are not permitted; did you mean 'safety'"):
        load_resolved(path)


def test_settings_of_another_package_are_checked_with_their_place(root: Path, edit: Edit) -> None:
    key = "run.algorithm.settings"
    assert load_run("peg_insert", root=root).section(key, Algorithm).batch_size == 256
    edit("runs/peg_insert.yaml", "{name: rlpd}", "{name: rlpd, settings: {batch_sise: 64}}")
    with pytest.raises(ConfigError) as caught:
        load_run("peg_insert", root=root).section(key, Algorithm)
    assert str(caught.value) == (
        "mine/runs/peg_insert.yaml:7:48: algorithm.settings.batch_sise: "
        "extra inputs are not permitted (got 64); did you mean 'batch_size'?"
    )
    resolved = load_run("peg_insert", ["algorithm.settings={batch_size: 32}"], root)
    assert resolved.section(key, Algorithm).batch_size == 32


def test_the_shipped_folder_is_found_under_an_install_prefix(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "python3.11" / "site-packages" / "robot_stack"
    shared = tmp_path / "share" / "robot_stack" / "hardware_configs"
    (shared / "robots").mkdir(parents=True)
    assert shipped_with(package) == shared
    (shared / "robots").rmdir()
    with pytest.raises(ConfigError, match="reinstall"):
        shipped_with(package)


@pytest.mark.parametrize(
    ("run", "override", "said"),
    [
        ("peg_in_and_out", "training.protocol.max_level=2", "max_level: input should be 0 with task.backward"),
        ("peg_in_and_out", "training.demos=1", "training.demos: input should be 4 at least with task.backward (got 1)"),
        ("peg_in_and_out", "reward.rescore={name: clip}", "a large model is told one task only"),
        (
            "peg_in_and_out",
            "task.backward=null",
            "backward is missing, must be there for the proprio field 'direction'",
        ),
        ("peg_in_and_out", "task.backward.success.gate={force: {}}", "gate names the field 'force', must be one of"),
        ("peg_insert", "task.backward={text: back, success: {threshold: 0.5, n_of_m: {n: 1, m: 1}}}", "proprio lacks"),
    ],
)
def test_what_cannot_go_with_a_way_back_is_refused(run: str, override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_run(run, [override])
    assert said in str(caught.value)


def test_a_setting_of_the_default_encoder_needs_no_name(root: Path, edit: Edit) -> None:
    edit("runs/peg_insert.yaml", "encoder: {name: embedded}", "# none")
    encoder = load_run("peg_insert", ["encoder.settings.steps=40"], root).run.encoder
    assert (encoder.name, encoder.settings) == ("embedded", {"steps": 40})


@pytest.mark.parametrize("port", [0, 9, 9999, 59_999, 64_999, 65_499, 65_529, 65_535])
def test_a_port_may_be_any_that_there_is(port: int) -> None:
    assert load_run("peg_insert", [f"cell.learner_address=gpu:{port}"]).cell.learner_address == f"gpu:{port}"


@pytest.mark.parametrize("port", [65_536, 66_000, 70_000, 100_000])
def test_a_port_that_there_is_not_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match="the port up to 65535"):
        load_run("peg_insert", [f"cell.learner_address=gpu:{port}"])
