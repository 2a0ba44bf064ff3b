"""Turn learner.proto into learner_pb2*.py: `python -m robot_stack.transport.generate`. Needs the dev extra."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PROTO = HERE / "learner.proto"


def generate(folder: Path) -> None:
    """Write learner_pb2.py, learner_pb2.pyi and learner_pb2_grpc.py into `folder`.

    Raises:
        RuntimeError: If protoc refuses the file.
    """
    from grpc_tools import protoc

    command = ["protoc", f"-I{HERE}"]
    command += [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
    code = protoc.main([*command, str(PROTO)])
    if code != 0:
        raise RuntimeError(f"exit status of protoc is {code}, must be 0; read its message above")
    stub = folder / "learner_pb2_grpc.py"
    # protoc writes an import that only works with this folder on sys.path.
    stub.write_text(
        stub.read_text().replace("import learner_pb2 as", "from robot_stack.transport import learner_pb2 as")
    )
    typing = folder / "learner_pb2.pyi"
    typing.write_text("# ruff: noqa\n" + typing.read_text())


if __name__ == "__main__":
    generate(HERE)
