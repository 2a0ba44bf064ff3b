"""Turns learner.proto into learner_pb2.py and learner_pb2.pyi: `python -m robot_stack.transport.generate`.

It needs the dev extra.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PROTO = HERE / "learner.proto"


def generate(folder: Path) -> None:
    """Write learner_pb2.py and learner_pb2.pyi into `folder`.

    Raises:
        RuntimeError: If protoc refuses the file.
    """
    from grpc_tools import protoc

    command = ["protoc", f"-I{HERE}"]
    command += [f"--{kind}_out={folder}" for kind in ("python", "pyi")]
    code = protoc.main([*command, str(PROTO)])
    if code != 0:
        raise RuntimeError(f"exit status of protoc is {code}, must be 0; read its message above")
    typing = folder / "learner_pb2.pyi"
    typing.write_text("# ruff: noqa\n" + typing.read_text())


if __name__ == "__main__":
    generate(HERE)
