"""A writable copy of the shipped configuration, to make mistakes in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from robot_stack.config.files.library import config_root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the shipped folder; the working directory is its parent."""
    copy = tmp_path / "mine"
    shutil.copytree(config_root(), copy)
    monkeypatch.chdir(tmp_path)
    return copy


@pytest.fixture
def edit(root: Path) -> Callable[[str, str, str], None]:
    """Replaces a piece of text, which must be there, in a file of `root`."""

    def replace(name: str, old: str, new: str) -> None:
        path = root / name
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    return replace
