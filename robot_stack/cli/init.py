"""`robot-stack init [NAME]`: a cell, a task and a run of one's own.

With a name they are copied from a shipped example, with its comments. Without one, a page shows what is connected to
this machine and makes the files from what an operator chooses there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.page import serve_page
from robot_stack.config.camera import V4l2CameraConfig
from robot_stack.config.files.edit import Edits, edited
from robot_stack.config.files.library import config_root, find, names, run_file, search_path
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import CAMERAS
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.profile import IMAGES_FILE, ros_environment, write_profiles
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.types.surveyed import Surveyed, SurveyedServo
from robot_stack.workcell.setup.own_files import (
    check_together,
    headed,
    refuse_name,
    refuse_taken,
    renamed,
    write_together,
)

if TYPE_CHECKING:
    from robot_stack.sensing.connected import ConnectedCamera

LIKE = "fr3_table"
LOOK_S = 20.0
"""Another process that looks at drivers or servos is given up after this."""


def run(name: str = "", like: str = "", host: str = "127.0.0.1", port: int = 0) -> int:
    """Write hardware_configs/{cells,tasks,runs}/NAME.yaml here, or serve the page that writes them.

    Raises:
        ConfigError: If the name cannot be one, is taken, or no such run is shipped; nothing is written.
    """
    if name:
        return _copy(name, like or LIKE)
    if like:
        raise ConfigError(f"--like is {like!r} without a NAME, must have one; robot-stack init NAME --like {like}")
    return _serve(host, port)


def _copy(name: str, like: str) -> int:
    shipped = config_root()
    refuse_name(name)
    refuse_taken(name, [(kind, name) for kind in ("cells", "tasks", "runs")], shipped)
    shipped_runs = {each: load_run(run_file(each, (shipped,)), root=shipped) for each in names("runs", (shipped,))}
    examples = {each: run for each, run in shipped_runs.items() if run.run.task is not None}
    if like not in examples:
        raise ConfigError(
            f"--like is {like!r}, must be one of {', '.join(examples)}, runs of one task; copy others by hand"
        )
    example = examples[like]
    origin = f"Made by robot-stack init {name} --like {like}."
    sources = {"cells": example.run.cell, "tasks": str(example.run.task), "runs": like}
    texts = {
        (kind, name): headed(renamed((shipped / kind / f"{old}.yaml").read_text(), kind, name), origin)
        for kind, old in sources.items()
    }
    cameras = _cameras_here(example)
    if cameras:
        edits: Edits = {("cameras", camera, "serial"): there.serial for camera, there in cameras.items()}
        texts["cells", name] = edited(texts["cells", name], edits)
    check_together(texts, name, lambda run, root: load_run(run, root=root))
    for path in write_together(texts, shipped):
        print(f"Written: {path}")
    others = ", ".join(other for other in examples if other not in (like, name))
    print(f"Every line of them is an example, of {like}; {name} is yours to correct. Others, for --like: {others}")
    if cameras:
        found = " and ".join(f"{there.name} as {camera}" for camera, there in cameras.items())
        print(
            f"Cameras here: {found}; robot-stack camera {name} {next(iter(cameras))} shows whether that is the one. "
            f"If not, exchange or correct the serial numbers in cells/{name}.yaml"
        )
    start = f"robot-stack sim --task {name}" if example.simulated else f"robot-stack doctor {name}"
    print(f"Next: edit them, then robot-stack show {name}, then {start}")
    return 0


def _cameras_here(example: ResolvedRun) -> dict[str, ConnectedCamera]:
    """Return camera of the example -> one that is connected, where just as many are and each has a serial number."""
    asked = [name for name, camera in example.cameras.items() if isinstance(camera, V4l2CameraConfig) and camera.serial]
    if not asked:
        return {}
    from robot_stack.sensing.connected import connected_cameras

    found = connected_cameras()
    return dict(zip(asked, found)) if len(found) == len(asked) and all(each.serial for each in found) else {}


def _serve(host: str, port: int) -> int:
    try:
        from robot_stack.console.setup.app import Looks, SetupPage
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is missing, must be there for the page; pip install 'robot-stack[console]', or give a NAME"
        ) from error
    from robot_stack.sensing.connected import connected_cameras, picture_of
    from robot_stack.teleop.connected import connected_devices
    from robot_stack.workcell.setup.ports import calibration_files, serial_ports

    def picture(camera: ConnectedCamera, model: str) -> bytes:
        path = find("cameras", model, search_path())
        config = load(path, CAMERAS) if path is not None else None
        if not isinstance(config, V4l2CameraConfig):
            raise ConfigError(f"camera model {model!r} is missing, must be a file in cameras/; reinstall robot-stack")
        return picture_of(config.model_copy(update={"device": camera.path}))

    looks = Looks(
        cameras=connected_cameras,
        picture=picture,
        devices=connected_devices,
        ports=serial_ports,
        calibrations=calibration_files,
        ros=survey,
        servos=survey_servos,
        check=lambda run, root: load_checked(run, root=root),
    )
    serve_page(host, port, lambda gate: SetupPage(looks, gate))
    return 0


def survey(domain: int) -> Surveyed:
    """Listen to a ROS domain for some seconds, as the processes of a cell there would, in a process of its own.

    Raises:
        RobotError: If it cannot be listened to.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_profiles(Path(folder))
        ros = ros_environment(Path(folder) / IMAGES_FILE, domain)
        said = _ask(["robot_stack.nodes.tools.survey"], {**os.environ, **ros}, f"ROS domain {domain}")
    try:
        return TypeAdapter(Surveyed).validate_json(said)
    except ValidationError as error:
        raise RobotError(f"ROS domain {domain} cannot be listened to ({error}); report this") from error


def survey_servos(port: str) -> dict[str, SurveyedServo]:
    """Ask the servos at a serial port where they stand and how they are calibrated; return id -> servo that answers.

    Raises:
        RobotError: If the port cannot be asked.
    """
    said = _ask(["robot_stack.nodes.tools.servos", port], dict(os.environ), port)
    try:
        return TypeAdapter(dict[str, SurveyedServo]).validate_json(said)
    except ValidationError as error:
        raise RobotError(f"servos at {port} cannot be asked ({error}); report this") from error


def _ask(words: list[str], environment: dict[str, str], what: str) -> str:
    try:
        done = subprocess.run(
            [sys.executable, "-m", *words], env=environment, capture_output=True, text=True, timeout=LOOK_S
        )
    except subprocess.TimeoutExpired as error:
        raise RobotError(f"{what} has not answered within {LOOK_S:g} s, must; try again") from error
    if done.returncode != 0:
        raise RobotError(done.stderr.strip().rpartition("\n")[2] or f"{what} cannot be asked, must be; try again")
    return done.stdout
