"""`robot-stack camera RUN NAME`: what one camera of a cell sees and what the policy gets of it.

It starts the very process that serves the camera in a run, so that what is shown is what will be. To choose a crop,
try it: `--set 'cameras.wrist.roi_px={top: 0, left: 80, height: 480, width: 480}'`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.cell.own_cell import say
from robot_stack.config.camera import CameraConfig
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.child import die_with_parent, terminate_as_interrupt
from robot_stack.processes.prepared_run import prepared
from robot_stack.runs.paths import RunPaths
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.sheet import read_rgb, sheet, write_rgb
from robot_stack.types.errors import ConfigError

PATIENCE_S = 20.0
"""A device may need seconds to open; exposure then settles for some frames."""
START_S = 60.0
"""A process that has said nothing yet is still starting, on a busy machine for longer than a device needs."""
LAST = "policy.png"


def run(
    name: str, camera: str, overrides: Sequence[str] = (), root: Path | None = None, out: Path = Path("views")
) -> int:
    """Take pictures of one camera; returns the exit code."""
    resolved = load_run(name, overrides, root)
    config = _camera(resolved, camera)
    say(f"waiting for camera {camera}, at most {PATIENCE_S:g} s once its process has started")
    with terminate_as_interrupt(), tempfile.TemporaryDirectory() as folder:
        said = _photograph(resolved, camera, Path(folder))
        if not (Path(folder) / LAST).exists():
            if said:
                say(said)
            say(f"camera {camera} has shown nothing; mend that, then the same again")
            return 1
        _write(out, camera, config, Path(folder))
    return 0


def _camera(resolved: ResolvedRun, camera: str) -> CameraConfig:
    if camera not in resolved.cameras:
        raise ConfigError(f"camera is {camera!r}, must be one of {', '.join(resolved.cameras)}; correct the name")
    config = resolved.cameras[camera]
    if config.backend == "sim":
        raise ConfigError(f"camera {camera} is simulated, must be a real one; what it sees is in the dry run's report")
    return config


def _photograph(resolved: ResolvedRun, camera: str, folder: Path) -> str:
    """Run the camera's process until its pictures are there; return what it said."""
    with prepared(resolved, folder / "run") as ready, (folder / "said").open("w+") as said:
        words = ["--run", str(RunPaths(ready.folder).resolved), "--camera", camera, "--pictures", str(folder)]
        command = [sys.executable, "-m", "robot_stack.nodes.camera.node", *words]
        with subprocess.Popen(command, env=ready.environment, stderr=said, preexec_fn=die_with_parent) as process:
            try:
                begun_s = time.monotonic()
                while not (folder / LAST).exists() and process.poll() is None:
                    has_spoken = (folder / "said").stat().st_size > 0
                    if time.monotonic() - begun_s > (PATIENCE_S if has_spoken else START_S):
                        break
                    time.sleep(0.05)
            finally:
                process.terminate()
        said.seek(0)
        return said.read().strip()


def _write(out: Path, camera: str, config: CameraConfig, folder: Path) -> None:
    framing = Framing.of(config)
    out.mkdir(parents=True, exist_ok=True)
    picture, view = out / f"{camera}.png", out / f"{camera}_view.png"
    captured, policy = read_rgb(str(folder / "captured.png")), read_rgb(str(folder / LAST))
    write_rgb(str(picture), sheet(captured, framing.roi, policy))
    shutil.copy(folder / "view.png", view)
    kept = "all" if config.roi_px is None else str(config.roi_px.model_dump()).replace("'", "")
    print(f"camera {camera}: captured {config.width_px}x{config.height_px}, kept {kept}, ", end="")
    print(f"policy {config.policy_width_px}x{config.policy_height_px}")
    print(f"wrote {picture} to look at, and {view}; in the cell: {{model: ..., reference: {view}, roi_px: {{...}}}}")
    print(f"Next: robot-stack camera RUN {camera} --set 'cameras.{camera}.roi_px={{top: .., left: .., ...}}'")
