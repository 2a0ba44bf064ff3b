"""What lands where under the prefix, with pip and with colcon."""

from __future__ import annotations

import ast
import ensurepip
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from email import message_from_string
from pathlib import Path
from xml.etree import ElementTree

import pytest

from robot_stack.processes.table import module_of
from tests.launch.conftest import PACKAGES, ROOT

NODES = ("robot", "camera", "safety", "teleop", "actor", "learner", "bring_up", "console")


def check_prefix(prefix: Path) -> None:
    share = prefix / "share"
    assert (share / "ament_index/resource_index/packages/robot_stack").is_file()
    assert (share / "robot_stack/package.xml").is_file()
    launch_files = {path.name for path in (share / "robot_stack/launch").glob("*.py")}
    assert launch_files == {"sim.launch.py", "workcell.launch.py", "learner.launch.py", "table_launch.py"}
    for path in (ROOT / "hardware_configs").rglob("*.*"):
        assert (share / "robot_stack/hardware_configs" / path.relative_to(ROOT / "hardware_configs")).is_file()
    for node in NODES:
        assert os.access(prefix / "lib/robot_stack" / node, os.X_OK)


def test_pip_puts_every_file_where_ros_looks_for_it(source, prefix):
    check_prefix(prefix)
    packages = next(prefix.glob("lib/python*/site-packages"))
    beside_code = [
        path.relative_to(source)
        for package in PACKAGES
        for path in (source / package).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    assert {path.parent.name for path in beside_code} >= {"static", "models", "transport"}
    assert [path for path in beside_code if not (packages / path).is_file()] == [], "not in the wheel"
    assert not (packages / "launch").exists()
    metadata = message_from_string(next(packages.glob("robot_stack-*/METADATA")).read_text())
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")


def test_an_editable_install_does_so_too(source, tmp_path):
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--ignore-installed",
    ]
    subprocess.run([*install, "--prefix", tmp_path, "-e", source], check=True, capture_output=True)
    check_prefix(tmp_path)
    assert not list(tmp_path.glob("lib/python*/site-packages/robot_stack/nodes")), "the code stays where it is"


@pytest.mark.parametrize("old", [False, True], ids=["own setuptools", "setuptools of ensurepip"])
def test_colcon_builds_the_overlay_as_documented(source, tmp_path, old):
    """The commands of docs/launch.md, in a workspace that holds nothing else.

    colcon builds with the setuptools that is there, whatever pyproject.toml requires: in Ubuntu 24.04 68.1.2. Python
    3.11 brings one of that kind, 65.5, which knows of no licence expressions either.
    """
    pytest.importorskip("colcon_ros", reason="colcon is not installed")
    pytest.importorskip("colcon_package_selection", reason="colcon-package-selection is not installed")
    page = (ROOT / "docs/launch.md").read_text()
    documented = re.search(r"^(colcon build.*\n)(\..*\n)(\. \.venv.*\n)ros2 launch", page, flags=re.MULTILINE)
    assert documented is not None
    venv.create(tmp_path / ".venv")
    if old:
        wheels = list((Path(ensurepip.__file__).parent / "_bundled").glob("setuptools-6*.whl"))
        if not wheels:
            pytest.skip("this Python brings no old setuptools")
        zipfile.ZipFile(wheels[0]).extractall(tmp_path / "old")
    (tmp_path / "src").mkdir()
    shutil.copytree(source, tmp_path / "src/robot_stack")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    python_path = str(tmp_path / "old") if old else ""
    environment = {**os.environ, "PATH": path, "PYTHONPATH": python_path, "AMENT_PREFIX_PATH": ""}
    script = "".join(documented.groups()) + "echo prefix $AMENT_PREFIX_PATH\n"
    script += "python3 -c 'import sys, robot_stack; print(sys.prefix, robot_stack.__path__)'\n"
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    prefix = tmp_path / "install/robot_stack"
    assert f"prefix {prefix}" in done.stdout
    (code,) = prefix.glob("lib/python*/site-packages/robot_stack")
    assert f"{tmp_path}/.venv ['{code}']" in done.stdout, "the overlay's code in the environment's Python"
    check_prefix(prefix)
    (metadata,) = prefix.glob("lib/python*/site-packages/robot_stack-*/PKG-INFO")
    assert message_from_string(metadata.read_text())["License" if old else "License-Expression"] == "Apache-2.0"


def test_package_xml_is_valid_down_to_the_address():
    catkin = pytest.importorskip("catkin_pkg.package", reason="catkin_pkg is not installed")
    warnings: list[str] = []
    package = catkin.parse_package(str(ROOT / "package.xml"), warnings=warnings)
    package.validate(warnings=warnings)
    assert warnings == []
    assert package.name == "robot_stack"
    assert package.get_build_type() == "ament_python"


def test_package_xml_names_every_package_of_ros_that_is_imported():
    """And none else: what is imported under another name, or only in the `ros2` command, is ros2launch alone."""
    imported = set()
    for path in [*(ROOT / "robot_stack/nodes").rglob("*.py"), *(ROOT / "launch").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            imported |= {name.partition(".")[0] for name in names}
    imported = {"tf2_ros_py" if name == "tf2_ros" else name for name in imported}  # package tf2_ros is of C++ alone
    of_ros = {name for name in imported if re.search(r"_(msgs|srvs|interfaces)$", name) or name.startswith("tf2")}
    of_ros |= imported & {"rclpy", "launch", "launch_ros", "ament_index_python", "cv_bridge", "message_filters"}
    named = [each.text for each in ElementTree.parse(ROOT / "package.xml").iter("exec_depend")]
    assert len(set(named)) == len(named)
    assert set(named) == {*of_ros, "ros2launch"}


def test_package_xml_and_pyproject_name_one_maintainer():
    authors = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["authors"]
    named = ElementTree.parse(ROOT / "package.xml").iter("maintainer")
    assert [{"name": each.text, "email": each.get("email")} for each in named] == authors


@pytest.mark.parametrize("node", NODES)
def test_each_executable_starts_its_module(node):
    shim = (ROOT / "ros/bin" / node).read_text()
    module = "robot_stack.learner.process" if node == "learner" else module_of(node)
    assert f'-m {module} "$@"' in shim
    assert importlib.util.find_spec(module) is not None
