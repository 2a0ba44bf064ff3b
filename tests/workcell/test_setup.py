"""A planned cell and its files: what the copies keep, and what is beside them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from robot_stack.config.camera import Roi
from robot_stack.config.files.library import config_root, search_path
from robot_stack.config.resolve import load_run
from robot_stack.disk.durable import write_durable
from robot_stack.disk.lock import take_lock
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.setup import own_files
from robot_stack.workcell.setup.choices import Choices
from robot_stack.workcell.setup.own_files import check_together, write_together
from robot_stack.workcell.setup.plan import PlannedCamera, PlannedCell, PlannedPort, texts_of
from robot_stack.workcell.setup.ports import calibration_files, serial_ports


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(**other: object) -> PlannedCell:
    fields: dict[str, object] = dict(
        name="bench", example="ur5e_table", robot="ur5e", base_frame="base",
        box_m=((-0.6, -0.3, 0.35), (-0.3, 0.1, 0.6)),
        table_z_m=0.0, cameras={"wrist": PlannedCamera(model="generic_v4l2", serial="A1")}, teleop="spacemouse",
        safety="table", dds_domain=9,
    )  # fmt: skip
    return PlannedCell(**{**fields, **other})  # type: ignore[arg-type]


def test_a_copy_keeps_the_comments_of_its_example() -> None:
    texts = texts_of(planned(teleop="gamepad", found={("match",): "054c:0ce6"}), search_path())
    assert set(texts) == {("runs", "bench"), ("tasks", "bench"), ("teleop", "bench"), ("cells", "bench")}
    device = texts["teleop", "bench"]
    assert "# Copied from gamepad by robot-stack init." in device.splitlines()[1]
    assert "left shoulder button is the deadman" in device
    assert "match: {usb: 054c:0ce6}" in device or "match: {usb: '054c:0ce6'}" in device


def test_the_table_and_the_crop_are_said_only_where_there_are_some() -> None:
    cropped = PlannedCamera(
        model="generic_v4l2", device="/dev/v4l/by-path/a", roi=Roi(top=1, left=2, height=64, width=64)
    )
    write_together(texts_of(planned(table_z_m=None, cameras={"wrist": cropped}), search_path()))
    run = load_run("bench")
    assert (run.cell.surroundings.table_z_m, run.cell.cameras["wrist"].device) == (None, "/dev/v4l/by-path/a")
    assert run.cameras["wrist"].roi_px == cropped.roi


def test_what_is_refused_is_told_by_the_names_that_the_files_would_have(tmp_path: Path) -> None:
    port = PlannedPort(port="COM3", calibration="~/a.json")
    texts = texts_of(planned(robot="so101_bus", base_frame="base_link", arm_port=port), search_path())
    with pytest.raises(ConfigError) as refused:
        check_together(texts, "bench", lambda run, root: load_run(run, root=root))
    assert "hardware_configs/robots/bench.yaml:" in str(refused.value)
    assert "got 'COM3'" in str(refused.value)
    assert "/tmp/" not in str(refused.value).replace(str(tmp_path), "")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    texts = texts_of(planned(), search_path())
    (tmp_path / "hardware_configs").write_text("a file in the folder's place")
    with pytest.raises(ConfigError, match="hardware_configs cannot be written"):
        write_together(texts)


def test_of_two_that_write_one_name_the_second_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    write_together(texts_of(planned(), search_path()))
    before = {path: path.read_text() for path in tmp_path.rglob("*.yaml")}
    with pytest.raises(ConfigError, match="name 'bench' is taken by"):
        write_together({key: "other: text\n" for key in texts_of(planned(), (config_root(),))})
    assert {path: path.read_text() for path in tmp_path.rglob("*.yaml")} == before


def test_one_process_at_a_time_writes_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "hardware_configs").mkdir()
    texts = texts_of(planned(), search_path())
    held = take_lock(tmp_path / "hardware_configs/.lock", ConfigError)
    with pytest.raises(ConfigError, match=f"being written by process {os.getpid()}, must be by one at a time"):
        write_together(texts)
    os.close(held)
    assert not list(tmp_path.rglob("*.yaml"))


@pytest.mark.parametrize("full_after", [0, 2, 4])
def test_a_full_disk_is_said_by_the_file_and_leaves_no_half_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_after: int
) -> None:
    written: list[Path] = []

    def fill(path: Path, text: str) -> None:
        if len(written) == full_after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # by write(2), which knows no name
        written.append(path)
        write_durable(path, text)

    texts = texts_of(planned(), search_path())
    monkeypatch.setattr(own_files, "write_durable", fill)
    with pytest.raises(ConfigError, match=r"hardware_configs/\w+/[\w.]+ cannot be written \(No space left on device\)"):
        write_together(texts)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "hardware_configs/.lock"]
    monkeypatch.setattr(own_files, "write_durable", write_durable)
    assert len(write_together(texts)) == len(texts)


@pytest.mark.long
def test_a_broken_file_of_ones_own_takes_nothing_from_the_choices(tmp_path: Path) -> None:
    whole = Choices.of(search_path())
    for kind in ("robots", "teleop", "runs"):
        (tmp_path / "hardware_configs" / kind).mkdir(parents=True)
        (tmp_path / "hardware_configs" / kind / "broken.yaml").write_text("name: [")
    assert Choices.of(search_path()) == whole


@pytest.mark.long
def test_simulated_arms_tasks_and_operators_are_not_offered() -> None:
    choices = Choices.of(search_path())
    assert not [arm for arm in choices.arms if arm.backend == "sim"]
    assert {task.run for task in choices.tasks} == {"fr3_table", "so101_table"}
    assert not [device for device in choices.devices if device.kind in ("scripted", "browser", "expert")]


def test_ports_and_calibrations_are_listed_where_they_are(tmp_path: Path) -> None:
    assert (serial_ports(tmp_path / "none"), calibration_files(tmp_path, {})) == ([], [])
    port = tmp_path / "by-id" / "usb-1a86_USB_Single_Serial_5A68-if00"
    port.parent.mkdir()
    port.touch()
    assert serial_ports(port.parent) == [str(port)]
    own = tmp_path / ".cache/huggingface/lerobot/calibration/robots/so_follower/mine.json"
    other = tmp_path / "elsewhere/teleoperators/so_leader/mine.json"
    for path in (own, other):
        path.parent.mkdir(parents=True)
        path.touch()
    assert calibration_files(tmp_path, {}) == [str(own)]
    assert calibration_files(tmp_path, {"HF_LEROBOT_CALIBRATION": str(tmp_path / "elsewhere")}) == [str(other)]
