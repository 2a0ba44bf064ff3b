from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grpc

from robot_stack.transport import learner_pb2
from robot_stack.transport.generate import generate
from robot_stack.transport.service import LearnerStub


def test_the_committed_code_is_what_the_proto_says(tmp_path: Path) -> None:
    generate(tmp_path)
    # In its own process: one pool holds one file of a name.
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import learner_pb2; "
        "sys.stdout.buffer.write(learner_pb2.DESCRIPTOR.serialized_pb)"
    )
    fresh = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, timeout=240)
    assert fresh.stdout == learner_pb2.DESCRIPTOR.serialized_pb


def test_the_stub_declares_and_has_every_call_of_the_proto() -> None:
    calls = [method.name for method in learner_pb2.DESCRIPTOR.services_by_name["Learner"].methods]
    assert calls == ["Hello", "PushSteps", "WatchParams", "WatchScores", "Label", "Mark", "Status"]
    assert list(LearnerStub.__annotations__) == calls
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        stub = LearnerStub(channel)
        assert [type(getattr(stub, name)).__name__ for name in calls] == [
            "_UnaryUnaryMultiCallable", "_StreamStreamMultiCallable", "_UnaryStreamMultiCallable",
            "_UnaryStreamMultiCallable", *["_UnaryUnaryMultiCallable"] * 3,
        ]  # fmt: skip


def test_the_transport_loads_without_torch() -> None:
    script = "import sys; import robot_stack.transport.client, robot_stack.transport.server; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=240)
    modules = loaded.stdout.split()
    assert "robot_stack.transport.server" in modules
    assert not {"torch", "rclpy", "zarr"} & set(modules)
