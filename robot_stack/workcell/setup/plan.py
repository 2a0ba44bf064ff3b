"""A planned cell, as an operator has chosen its parts, and the texts of the files that say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robot_stack.config.camera import Roi
from robot_stack.config.cell import Point, TaughtPose
from robot_stack.config.files.edit import edited
from robot_stack.config.files.library import find
from robot_stack.config.files.loader import load_located
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.setup.own_files import headed, renamed

ORIGIN = "Written by robot-stack init; every line is yours to correct."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCamera:
    """A camera of a planned cell.

    Attributes:
        model: Name of its file in cameras/.
        serial: Serial number; of a camera without a ROS driver.
        device: Path, where the serial number does not tell it from others.
        topic: Where its ROS driver publishes.
        size_px: Columns and rows that its driver sends, where they are not the model's.
        roi: Crop, in the image as it is captured; None keeps all of it.
    """

    model: str
    serial: str | None = None
    device: str | None = None
    topic: str | None = None
    size_px: tuple[int, int] | None = None
    roi: Roi | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPort:
    """The serial port of an arm's servos, and its calibration file."""

    port: str
    calibration: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """A cell of one's own, with its task and run.

    Attributes:
        name: Of cell, task and run, and of copies of a robot's and a device's file.
        example: Run whose task and settings are copied.
        robot: Name of the arm's file in robots/.
        base_frame: Frame of the arm's base.
        box_m: Lower and upper corner of the box in which the tool may be.
        table_z_m: Height of the table's top above the base; None without a table.
        cameras: By the name that observations use.
        teleop: Name of the device's file in teleop/.
        safety: Name of the limits' file in safety/.
        dds_domain: ROS domain.
        arm_port: Of an arm without a ROS driver.
        leader_port: Of a leader arm without a ROS driver.
        found: Keys in the device's file -> "vendor:product" of what is meant there.
        poses: Name -> a pose that the arm was in.
        start: The one of them at which episodes begin; None leaves the arm where it is.
    """

    name: str
    example: str
    robot: str
    base_frame: str
    box_m: tuple[Point, Point]
    table_z_m: float | None
    cameras: Mapping[str, PlannedCamera]
    teleop: str
    safety: str
    dds_domain: int
    arm_port: PlannedPort | None = None
    leader_port: PlannedPort | None = None
    found: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    poses: Mapping[str, TaughtPose] = field(default_factory=dict)
    start: str | None = None


def texts_of(plan: PlannedCell, roots: tuple[Path, ...]) -> dict[tuple[str, str], str]:
    """Return kind and name -> text of all files of a planned cell; copies keep the comments of their examples.

    Args:
        plan: What is planned.
        roots: Folders of the files that it names.

    Raises:
        ConfigError: If it names a file that is not there.
    """
    texts: dict[tuple[str, str], str] = {}
    task = load_located(_file("runs", plan.example, roots)).get("task")
    for kind, old in (("runs", plan.example), ("tasks", str(task.value) if task is not None else "")):
        text = renamed(_file(kind, old, roots).read_text(), kind, plan.name)
        if kind == "tasks" and plan.start is not None:
            text = edited(text, {("reset", "start"): {"pose": plan.start}})
        texts[kind, plan.name] = headed(text, f"Copied from {old} by robot-stack init.")
    robot = plan.robot
    if plan.arm_port is not None:
        robot = plan.name
        texts["robots", robot] = _copy("robots", plan.robot, roots, _port_edits(plan.arm_port))
    teleop, changes = plan.teleop, {keys: {"usb": usb} for keys, usb in plan.found.items()}
    if plan.leader_port is not None or changes:
        teleop = plan.name
        ported = _port_edits(plan.leader_port) if plan.leader_port is not None else {}
        texts["teleop", teleop] = _copy("teleop", plan.teleop, roots, {**ported, **changes})
    models = {}
    for name, camera in plan.cameras.items():
        models[name] = camera.model
        if camera.size_px is not None:
            models[name] = f"{plan.name}_{name}"
            sized: dict[tuple[str, ...], Any] = {("width_px",): camera.size_px[0], ("height_px",): camera.size_px[1]}
            texts["cameras", models[name]] = _copy("cameras", camera.model, roots, sized)
    texts["cells", plan.name] = "\n".join(_cell_lines(plan, robot, teleop, models)) + "\n"
    return texts


def _cell_lines(plan: PlannedCell, robot: str, teleop: str, models: Mapping[str, str]) -> Iterator[str]:
    low, high = plan.box_m
    yield "# yaml-language-server: $schema=../schema/cells.schema.json"
    yield f"# {ORIGIN}"
    yield _line("robot", robot)
    box = {"frame": plan.base_frame, "min_m": list(low), "max_m": list(high)}
    yield _line("workspace", box) + "   # of the tool; home is in it"
    yield "cameras:"
    for name, camera in plan.cameras.items():
        said = {"serial": camera.serial, "device": camera.device, "source_topic": camera.topic}
        entry: dict[str, Any] = {
            "model": models[name],
            **{key: value for key, value in said.items() if value is not None},
        }
        if camera.roi is not None:
            entry["roi_px"] = camera.roi.model_dump()
        yield "  " + _line(name, entry)
    if plan.table_z_m is not None:
        yield _line("surroundings", {"table_z_m": plan.table_z_m}) + "   # no part of the arm goes below"
    if plan.poses:
        yield "poses:   # as the arm stood"
    for name, pose in plan.poses.items():
        yield "  " + _line(name, {key: list(value) for key, value in pose.model_dump().items()})
    yield _line("teleop", teleop)
    yield _line("safety", plan.safety)
    yield _line("dds_domain", plan.dds_domain) + "   # of the drivers' shells too"


def _line(key: str, value: Any) -> str:
    return edited(f"{key}: 0\n", {(key,): value}).rstrip()


def _port_edits(port: PlannedPort) -> dict[tuple[str, ...], Any]:
    return {("servos", "port"): port.port, ("servos", "calibration"): port.calibration}


def _copy(kind: str, name: str, roots: tuple[Path, ...], edits: Mapping[tuple[str, ...], Any]) -> str:
    return headed(edited(_file(kind, name, roots).read_text(), edits), f"Copied from {name} by robot-stack init.")


def _file(kind: str, name: str, roots: tuple[Path, ...]) -> Path:
    path = find(kind, name, roots)
    if path is None:
        raise ConfigError(f"{name!r} is not in {kind}/, must be one of the files there; choose it again")
    return path
