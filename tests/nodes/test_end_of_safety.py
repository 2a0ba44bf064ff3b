"""The end of the safety process: what it has latched in its last tick outlives it."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import pytest

from robot_stack.config.resolved import ResolvedRun

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from std_msgs.msg import Bool  # noqa: E402

from robot_stack.nodes import topics  # noqa: E402
from robot_stack.nodes.base import NodeSettings  # noqa: E402
from robot_stack.nodes.safety import stop_latch  # noqa: E402
from robot_stack.nodes.safety.node import SafetyNode  # noqa: E402
from robot_stack.processes.table import namespace_of  # noqa: E402

DOMAIN = 81


def test_a_stop_of_the_last_tick_is_in_its_file_when_the_process_ends(
    run: ResolvedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    options = argparse.Namespace(run=tmp_path / "run.yaml", state=None)
    rclpy.init()
    try:
        node = SafetyNode(NodeSettings(run=run, namespace=namespace_of(run), options=options))
        write = os.pwrite

        def write_slowly(*written: int | bytes) -> int:
            time.sleep(0.1)  # the disk's
            return write(*written)

        monkeypatch.setattr(stop_latch.os, "pwrite", write_slowly)
        node._on_stop_input(topics.STOP_INPUT, Bool(data=True))
        node.retire("over")
        kept = json.loads((tmp_path / "safety" / "stop.json").read_text())
        node.destroy_node()
    finally:
        rclpy.try_shutdown()
    assert (kept["state"], kept["reason"]) == ("stop", f"emergency stop pressed ({topics.STOP_INPUT})")
