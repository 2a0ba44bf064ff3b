"""A robot's PC needs neither torch nor a simulator: what its processes import when those are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BIG = ("torch", "mujoco", "wandb", "matplotlib")
BLOCKED = f"import sys, importlib; sys.modules.update(dict.fromkeys({BIG!r})); "
HIDE = """
from importlib.abc import MetaPathFinder
class Lacking(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if (library := name.split(".")[0]) in LACKING:
            raise ModuleNotFoundError(f"No module named {library!r}", name=library)
sys.meta_path.insert(0, Lacking())
"""
ROBOT = [
    "nodes.robot.node",
    "nodes.robot.driven",
    "nodes.safety.node",
    "nodes.camera.node",
    "nodes.teleop.node",
    "nodes.tools.console",
    "nodes.tools.command_recorder",
    "nodes.tools.bring_up",
    "nodes.tools.doctor",
    "nodes.tools.topic_recorder",
    "processes.prepared_run",
    "cli.up",
    "cli.cell.doctor",
    "cli.cell.calibrate",
    "cli.check_log",
    "cli.init",
    "cli.data.look",
]


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)


def test_what_runs_on_a_robots_pc_loads_neither_torch_nor_a_simulator() -> None:
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    names = [f"robot_stack.{name}" for name in ROBOT]
    done = run(f"{BLOCKED}[importlib.import_module(name) for name in {names!r}]")
    assert done.returncode == 0, done.stderr
    assert "torch" in run(f"{BLOCKED}import robot_stack.learner.process").stderr


@pytest.mark.parametrize(
    ("lacking", "verb", "extra"),
    [
        ("torch", "sim", "dry-run"),
        ("mujoco", "sim", "dry-run"),
        ("torch", "up peg_insert", "learner"),
        ("torch", "act peg_insert", "learner"),
        ("torch", "deploy first", "learner"),
    ],
)
def test_a_verb_that_needs_more_says_what_to_install(tmp_path: Path, lacking: str, verb: str, extra: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); LACKING = {(lacking,)!r}{HIDE}"
    code += f"from robot_stack.cli.main import main\nsys.exit(main({verb.split()!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()
    assert said[-1].startswith(f"{lacking} is missing, must be there for `{verb.split()[0]}`")
    assert said[-1].endswith(f"; pip install 'robot-stack[{extra}]'")
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


def test_a_report_without_what_draws_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); LACKING = ('matplotlib', 'PIL'){HIDE}"
    code += f"from robot_stack.cli.main import main\nsys.exit(main(['report', {str(tmp_path)!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("must be there for `report`; pip install 'robot-stack[learner]'\n")


WITHOUT_TORCH = (
    f"import sys; LACKING = ('torch',){HIDE}"
    + """
from robot_stack.cli.checked_run import load_checked
from robot_stack.types.errors import ConfigError
for name in sys.argv[1:]:
    load_checked(name)
for mistake in ("algorithm.settings.batch_sise=3", "encoder.settings.stepz=3", "reward.settings.steps=0"):
    try:
        load_checked("peg_insert", [mistake])
    except ConfigError as error:
        print(error)
"""
)


def test_every_setting_of_a_run_is_checked_without_torch() -> None:
    names = sorted(path.stem for path in (ROOT / "hardware_configs" / "runs").glob("*.yaml"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITHOUT_TORCH, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stderr) == (0, ""), "nothing is said to be missing"
    typed, stepped, none = done.stdout.strip().splitlines()
    assert typed.endswith("did you mean 'batch_size'?")
    assert stepped.endswith("did you mean 'steps'?")
    assert "reward.settings.steps" in none
