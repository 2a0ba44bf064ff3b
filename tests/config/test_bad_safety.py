"""Safety settings that are missing, wrong or looser: refused before anything starts, by file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.types.errors import ConfigError

Edit = Callable[[str, str, str], None]
SAFETY = "safety/table.yaml"
SPEED = "max_speed_m_s: 0.25"
CAMERAS = ", ".join(sorted(path.stem for path in (config_root() / "cameras").glob("*.yaml")))


def refusal(root: Path, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_run("peg_insert", list(overrides), root)
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        (SAFETY, f"{SPEED}\n", "", "mine/safety/table.yaml:3:1: max_speed_m_s: field required; add 'max_speed_m_s'"),
        (SAFETY, SPEED, "max_speed_m_s: -0.25", ":3:16: max_speed_m_s: input should be greater than 0 (got -0.25)"),
        (SAFETY, SPEED, "max_speed_m_s: 2.5", "max_speed_m_s: input should be less than or equal to 1 (got 2.5)"),
        (SAFETY, SPEED, "max_speed_m_s: fast", ":3:16: max_speed_m_s: input should be a valid number (got 'fast')"),
        (SAFETY, SPEED, "max_speed_m_s: .nan", ":3:16: max_speed_m_s: input should be a finite number (got nan)"),
        (SAFETY, SPEED, "max_sped_m_s: 0.25", "; did you mean 'max_speed_m_s'?"),
        (SAFETY, "\nbraking_m_s2: 5", "\nbraking_m_s2: 4.9",
         "braking_m_s2 is 4.9, must be at least 5, max_acceleration_m_s2; raise it"),
        (SAFETY, SPEED, "max_speed_m_s: 0.9",
         "braking_m_s2 is 5.0, must be at least 6, to stop from max_speed_m_s (0.9) within 0.15 s; raise it"),
        ("tasks/peg_insert.yaml", "sim:\n", "safety: {braking_m_s2: 0.1}\nsim:\n", "braking_m_s2"),
        (SAFETY, "joint_range_share: 0.97", "joint_range_share: 1.1", "joint_range_share: input should be less than"),
        ("tasks/peg_insert.yaml", "sim:\n", "safety: {joint_range_share: 0.99}\nsim:\n",
         "input should be at most 0.97, the limit at mine/safety/table.yaml:22"),
        ("cells/sim.yaml", "model: sim_wrist", "model: sim_wrsit",
         f"mine/cells/sim.yaml:5:18: cameras.wrist.model: input should be one of {CAMERAS} in "),
        ("cells/sim.yaml", "dds_domain: 0", "teleop_silence_s: 0\ndds_domain: 0",
         "teleop_silence_s: input should be greater than 0 (got 0)"),
        ("robots/fr3.yaml", "name: joint2,", "name: joint1,", "joint names are ['joint1', 'joint1'"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_one_line_with_its_place(
    root: Path, edit: Edit, name: str, old: str, new: str, line: str
) -> None:
    edit(name, old, new)
    found = [each for each in refusal(root) if line in each]
    assert len(found) == 1
    assert found[0].startswith(f"mine/{name}:")


def test_a_home_that_the_joint_range_forbids_names_joint_and_both_ways_out(root: Path) -> None:
    lines = refusal(root, "safety.joint_range_share=0.3")
    assert len(lines) == 3
    assert lines[0].startswith("mine/robots/fr3.yaml:15:11: robot.home_rad: home of joint2 is -0.785, must be within")
    assert lines[0].endswith("choose another home or raise that")
