"""The names of what lies in a run's folder are written down once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import robot_stack
from robot_stack.runs.paths import RunPaths

ROOT = Path(robot_stack.__file__).parent
HOMES = {ROOT / "runs" / "paths.py", ROOT / "replay" / "layout.py"}
PATHS = RunPaths(Path("run"))
NAMES = {path.name for part in (PATHS, PATHS.store) for path in vars(part).values() if isinstance(path, Path)} - {"run"}


def _joined_to_a_path(source: Path) -> list[str]:
    """Return the names that a module joins to a path by `/`."""
    divisions = [node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.BinOp)]
    return [
        str(node.right.value)
        for node in divisions
        if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant)
    ]


@pytest.mark.long
def test_no_other_module_joins_a_name_of_the_run_folder_to_a_path() -> None:
    assert {"store", "metrics.jsonl", "run.yaml", "labels.jsonl"} <= NAMES
    found = {
        f"{source.relative_to(ROOT)}: {name}"
        for source in ROOT.rglob("*.py")
        if source not in HOMES
        for name in _joined_to_a_path(source)
        if name in NAMES
    }
    assert found == set()


def test_policies_evaluations_and_reward_models_go_by_name() -> None:
    assert PATHS.policy("best") == Path("run/best.safetensors")
    assert PATHS.evaluation("bc") == Path("run/eval_bc.json")
    assert PATHS.reward("v1") == Path("run/progress_v1.safetensors")
    assert PATHS.store.episode("000001-online-a") == Path("run/store/episodes/000001-online-a.zarr")
