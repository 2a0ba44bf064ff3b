"""Encoded frames are kept in memory up to a bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.console.browser import films as module
from robot_stack.console.browser.films import Films
from robot_stack.types.errors import StoreError
from tests.datasets.data_rig import made_episode, made_spec, write_folder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    episode = made_episode("000001-demo-a", made_spec(side_px=32), steps=59)
    return write_folder(tmp_path_factory.mktemp("films") / "d", [episode]).path("000001-demo-a")


def test_no_more_than_the_bound_is_kept(path: Path) -> None:
    one = len(Films().get(path, 0))
    films = Films(most_bytes=int(2.5 * one))
    for number in range(6):
        films.get(path, number)
        assert films.held <= 2.5 * one
    assert films.held > one


def test_a_range_is_encoded_once_while_it_is_among_the_newest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    encoded = module._encoded
    monkeypatch.setattr(module, "_encoded", lambda path, number: made.append(number) or encoded(path, number))
    films = Films()
    assert films.get(path, 2) == films.get(path, 2)
    assert films.get(path, 3) != films.get(path, 2)
    assert made == [2, 3]


def test_a_range_behind_the_end_is_refused(path: Path) -> None:
    with pytest.raises(StoreError, match="range of 000001-demo-a is 6, must have frames"):
        Films().get(path, 6)
