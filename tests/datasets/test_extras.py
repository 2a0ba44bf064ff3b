"""What is said of formats whose packages are not installed."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

from robot_stack.datasets import extras
from robot_stack.types.errors import StoreError

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PACKAGES = {"mcap": "mcap", "mcap_ros2": "mcap-ros2-support", "pyarrow": "pyarrow", "av": "av", "rerun": "rerun-sdk"}


@pytest.mark.parametrize("absent", PACKAGES)
def test_a_format_whose_package_is_missing_names_the_extra_that_brings_it(absent, monkeypatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else found("json"))
    (remedy,) = extras.remedies().values()
    extra = remedy.removeprefix("pip install 'robot-stack[").removesuffix("]'")
    assert any(line.split(">=")[0] == PACKAGES[absent] for line in EXTRAS[extra])


def test_a_package_that_is_missing_is_refused_with_the_same_command() -> None:
    with pytest.raises(StoreError, match=r"package none is missing, .*; pip install 'robot-stack\[rerun\]'"):
        extras.need("no_such_module", "none", "rerun")


def test_what_a_dry_run_installs_writes_for_foxglove() -> None:
    assert {line.split(">=")[0] for line in EXTRAS["console"]} >= {"mcap", "mcap-ros2-support"}
    assert "console" in EXTRAS["dry-run"][0]
