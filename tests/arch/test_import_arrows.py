"""The arrows between packages, and what starts fast."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from tests.arch.source_tree import PACKAGES, ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def packages() -> set[str]:
    below = {f"robot_stack.{path.parent.name}" for path in (ROOT / "robot_stack").glob("*/__init__.py")}
    below |= {f"robot_stack.{path.stem}" for path in (ROOT / "robot_stack").glob("[a-z]*.py")}
    return below | (set(PACKAGES) - {"robot_stack"})


def test_all_contracts_are_kept() -> None:
    checker = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    result = subprocess.run([sys.executable, "-c", checker], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_package_has_its_place_among_the_layers() -> None:
    (layers,) = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    placed = [name.strip() for layer in layers for name in layer.split("|")]
    assert len(placed) == len(set(placed))
    assert set(placed) == packages()


def test_every_package_is_bound_by_the_contract_about_ros() -> None:
    (contract,) = [contract for contract in CONTRACTS if contract["name"] == "ROS only in nodes"]
    assert set(contract["source_modules"]) == packages() - {"robot_stack.nodes"}


def test_config_and_types_load_without_anything_heavy() -> None:
    heavy = ("torch", "rclpy", "mujoco", "zarr", "grpc", "cv2", "wandb", "matplotlib")
    code = f"import sys, robot_stack.config.resolve; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert result.stdout.strip() == "[]", result.stderr
