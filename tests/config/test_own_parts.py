"""An operator's own parts count in a shipped run, and what cannot be read never gives way to a wider limit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.types.errors import ConfigError

TIGHT_M_S = 0.2


@pytest.fixture
def safety(monkeypatch, tmp_path: Path) -> Path:
    """The safety folder of one's own, in an otherwise empty working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "hardware_configs" / "safety"
    folder.mkdir(parents=True)
    return folder


def write_tight(path: Path) -> None:
    shipped = (config_root() / "safety/table.yaml").read_text()
    limit = next(line for line in shipped.splitlines() if line.startswith("max_speed_m_s:"))
    path.write_text(shipped.replace(limit, f"max_speed_m_s: {TIGHT_M_S}"))


def test_a_tighter_limit_of_ones_own_is_in_force_in_a_shipped_run(safety: Path) -> None:
    assert load_run("peg_insert").safety.max_speed_m_s > TIGHT_M_S
    write_tight(safety / "table.yaml")
    assert load_run("peg_insert").safety.max_speed_m_s == TIGHT_M_S
    assert load_run(config_root() / "runs/peg_insert.yaml").safety.max_speed_m_s == TIGHT_M_S


def test_a_folder_that_is_given_comes_before_the_one_around_the_run_that_is_found(safety: Path, tmp_path: Path) -> None:
    shutil.copytree(config_root() / "runs", safety.parent / "runs")
    given = tmp_path / "given"
    (given / "safety").mkdir(parents=True)
    write_tight(given / "safety/table.yaml")
    assert load_run("peg_insert", root=given).safety.max_speed_m_s == TIGHT_M_S
    by_path = safety.parent / "runs/peg_insert.yaml"
    assert load_run(by_path, root=given).safety.max_speed_m_s == TIGHT_M_S


def test_a_run_by_path_in_another_folder_finds_its_neighbours_first(safety: Path, tmp_path: Path) -> None:
    write_tight(safety / "table.yaml")
    lab = tmp_path / "lab"
    shutil.copytree(config_root(), lab)
    wide = load_run(lab / "runs/peg_insert.yaml").safety.max_speed_m_s
    assert wide > TIGHT_M_S


def test_a_copy_with_another_ending_beside_the_file_is_nobodys_business(safety: Path) -> None:
    write_tight(safety / "table.yaml")
    (safety / "table.yml").write_text("as it was before")
    assert load_run("peg_insert").safety.max_speed_m_s == TIGHT_M_S


def hide(folder: Path) -> None:
    """Put a link to nothing in a folder's place."""
    shutil.rmtree(folder)
    folder.symlink_to("/nowhere/share")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.symlink_to("/nowhere/table.yaml"), r"table\.yaml: file does not exist"),
        (lambda path: path.symlink_to(path.name), r"table\.yaml: file cannot be read"),
        (lambda path: path.mkdir(), r"table\.yaml: this is a folder, must be a file"),
        (lambda path: write_tight(path.with_suffix(".yml")), r"table\.yml ends in \.yml, must end in \.yaml"),
        (lambda path: hide(path.parent), r"hardware_configs/safety cannot be read \(No such file or directory\)"),
        (lambda path: hide(path.parents[1]), r"hardware_configs cannot be read \(No such file or directory\)"),
    ],
    ids=["link to nothing", "link to itself", "folder", "other ending", "folder not mounted", "nor the whole"],
)
def test_limits_of_ones_own_that_cannot_be_read_are_refused_and_not_replaced(make, said: str, safety: Path) -> None:
    make(safety / "table.yaml")
    with pytest.raises(ConfigError, match=said):
        load_run("peg_insert")
