"""A lock holds for the file that has the name, not for one that had it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from robot_stack.disk.lock import take_lock
from robot_stack.types.errors import StoreError


@pytest.mark.parametrize("followed", [False, True])
def test_file_that_lost_its_name_before_the_lock_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, followed: bool
) -> None:
    """Its writer was done between the opening and the locking; a third one may have begun since."""
    path = tmp_path / "writer.lock"
    path.write_text("7\n")

    def late(fd: int, how: int) -> None:
        path.rename(tmp_path / "elsewhere")
        if followed:
            path.write_text("8\n")

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(StoreError, match=r"^owner 7$"):
        take_lock(path, lambda owner: StoreError(f"owner {owner}"))
    assert (tmp_path / "elsewhere").read_text() == "7\n"
