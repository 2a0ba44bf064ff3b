"""The project's own files and their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("robot_stack", "policies", "reward_models", "sim")
CODE = (*PACKAGES, "benchmarks", "launch", "tests")
WRITTEN = (*CODE, "docs", "hardware_configs", "ros", ".ci")
TEXT = {".py", ".pyi", ".md", ".toml", ".yaml", ".yml", ".json", ".xml", ".proto", ".txt", ".html", ".js", ".css", ""}


def python_files(*folders: str) -> list[Path]:
    """All modules under these folders of the project."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def written_files() -> Iterator[Path]:
    """All text files that belong to the project, this folder's tests of text aside."""
    tops = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # one in a worktree
    below = [path for folder in WRITTEN for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in (*tops, *below):
        if path.suffix in TEXT and "__pycache__" not in path.parts and path.parent != Path(__file__).parent:
            yield path


@cache
def tree(path: Path) -> ast.Module:
    """Syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


def calls(module: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with its dotted name, as written: "torch.load"."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imported(module: ast.AST) -> Iterator[str]:
    """Every imported module, as written."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
