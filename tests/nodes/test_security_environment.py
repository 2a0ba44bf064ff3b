"""SROS2: what a shell says of keystore and enclave reaches rcl in every process of a cell, unchanged."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from robot_stack.config.resolve import load_run
from robot_stack.processes.prepared_run import choose_table, prepared


@pytest.fixture
def security(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A shell with SROS2 switched on, and a keystore that does not have the enclave."""
    variables = {
        "ROS_SECURITY_ENABLE": "true",
        "ROS_SECURITY_STRATEGY": "Enforce",
        "ROS_SECURITY_KEYSTORE": str(tmp_path / "keystore"),
        "ROS_SECURITY_ENCLAVE_OVERRIDE": "/peg_cell",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.mark.parametrize("reach", ["host", "network", "environment"])
def test_every_process_of_a_cell_has_what_the_shell_says(tmp_path: Path, security: dict[str, str], reach: str) -> None:
    run, folder = load_run("peg_insert", [f"cell.dds_reach={reach}"]), tmp_path / "run"
    with prepared(run, folder) as ready:
        table = choose_table(run, folder, cell_only=False, remote_learner=False)
        environments = {spec.name: {**ready.environment, **spec.env} for spec in table}
    assert {name for name, each in environments.items() if not security.items() <= each.items()} == set()


def test_a_process_looks_for_the_enclave_that_the_shell_names_and_ends_without(
    tmp_path: Path, security: dict[str, str]
) -> None:
    run, folder = load_run("peg_insert"), tmp_path / "run"
    with prepared(run, folder) as ready:
        safety = next(spec for spec in choose_table(run, folder, cell_only=True, remote_learner=False)
                      if spec.name == "safety")  # fmt: skip
        environment = {**ready.environment, **safety.env}
        ended = subprocess.run(safety.argv, env=environment, capture_output=True, text=True)
    assert ended.returncode != 0, "it must not run unprotected"
    assert f"'{security['ROS_SECURITY_KEYSTORE']}/enclaves/peg_cell' does not exist" in ended.stderr
