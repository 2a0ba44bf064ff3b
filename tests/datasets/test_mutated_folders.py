"""Folders of episodes with a wrong value in them: each reader names what is broken, and none ends with a traceback."""

from __future__ import annotations

import copy
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="no server on this machine: pip install 'robot-stack[console]'")

from robot_stack.console.browser.listed import listed
from robot_stack.console.browser.played import played
from robot_stack.console.browser.relabels import Relabels
from robot_stack.console.web import json_of
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.datasets.check import check
from robot_stack.datasets.edit import Changes, edit
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.datasets.summary import summarize
from robot_stack.replay.manifest import FILE_NAME
from robot_stack.replay.stored_episode import read_episode
from robot_stack.types.errors import StackError, StoreError
from robot_stack.types.event import Verdict
from tests.datasets.data_rig import label, made_episode, made_spec, write_folder
from tests.datasets.test_hostile_stores import seal_again

GOOD, NAME = "000000-demo-a", "000001-demo-a"
EPISODE = f"episodes/{NAME}.zarr"
TOLD = {"episode_id": NAME, "verdict": "success", "source": "operator", "stamp_unix_s": 1.0, "note": ""}
MARK = {"episode_id": NAME, "stage": 1, "frame": 2, "source": "operator", "stamp_unix_s": 1.0, "name": "x"}
TEXTS = {
    f"{EPISODE}/zarr.json": None,
    f"{EPISODE}/manifest.json": None,
    f"{EPISODE}/source/zarr.json": None,
    "store.json": None,
    "origin.json": None,
    "labels.jsonl": TOLD,
    "stages.jsonl": {**MARK, "removed": False},
    "notes.jsonl": {"episode_id": NAME, "text": "hello", "stamp_unix_s": 1.0},
    "relabels.jsonl": TOLD,
}
WRONG: list[Any] = [
    None, True, -1, 0, 1.5, 10**30, float("nan"), "", "x", "../../x", [], [1], {}, {"a": 1}, "\u2028", "9" * 5000,
]  # fmt: skip
Path_ = tuple[str | int, ...]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stores") / "good"
    spec = made_spec(side_px=8, cameras=["front"])
    write_folder(root, [made_episode(name, spec, steps=6) for name in (GOOD, NAME)], [label(NAME, Verdict.SUCCESS)])
    for name, row in TEXTS.items():
        if row is not None:
            (root / name).write_text(json.dumps(row) + "\n")
    return root


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Every place in a JSON value, of lists the first entry."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def spoil(root: Path, name: str, path: Path_, wrong: Any) -> None:
    """Put another value there, and write the checksums of the episode anew, as who spoils a file would."""
    raw = changed = json.loads((root / name).read_text())
    if path:
        for key in path[:-1]:
            changed = changed[key]
        changed[path[-1]] = wrong
    else:
        raw = wrong
    (root / name).write_text(json.dumps(raw) + "\n")
    if name.startswith(EPISODE) and not name.endswith(FILE_NAME):
        seal_again(root / EPISODE)


def read_by_all(root: Path) -> None:
    """Open a folder as `data list`, `check`, `edit` and `view` do."""
    view = open_store(root)
    catalogue = Catalogue(view)
    relabels = Relabels(view.paths)
    readers: list[Callable[[], object]] = [
        lambda: summarize(view),
        lambda: _listed(catalogue),
        lambda: [_play(catalogue, each) for each in view.episodes],
        lambda: check(view),
        lambda: edit(view, root.with_name("edited"), Changes(trims={NAME: (1, 5)}), now_unix_s=1.0),
        relabels.open,
        lambda: relabels.bring(time.monotonic_ns(), all_of_them=True),
    ]
    for read in readers:
        with suppress(StackError):
            read()
    shutil.rmtree(root.with_name("edited"), ignore_errors=True)


def _listed(catalogue: Catalogue) -> None:
    catalogue.refresh()
    for episode_id in list(catalogue.unread()):
        catalogue.read_course(episode_id)
    json_of(listed(catalogue))


def _play(catalogue: Catalogue, episode_id: str) -> None:
    catalogue.whole(episode_id)
    json_of(played(catalogue.view, read_episode(catalogue.view.path(episode_id), images=False), ()))


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_no_value_of_a_text_ends_a_reader_with_a_traceback(name: str, good: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(good, root)
    raw = (root / name).read_text()
    found = [(path, wrong) for path in places(json.loads(raw)) for wrong in WRONG]
    for path, wrong in random.Random(0).sample(found, min(12, len(found))):
        spoil(root, name, path, copy.deepcopy(wrong))
        try:
            read_by_all(root)
        except StoreError:  # the folder as a whole is refused
            pass
        except Exception as error:
            raise AssertionError(f"{path} of {name} is {str(wrong)[:40]!r}") from error
        shutil.rmtree(root)
        shutil.copytree(good, root)


SPOILT = {
    "fill value": (f"{EPISODE}/source/zarr.json", ("fill_value",), -1),
    "chunk without size": (f"{EPISODE}/source/zarr.json", ("chunk_grid", "configuration", "chunk_shape"), []),
    "chunk of nothing": (f"{EPISODE}/source/zarr.json", ("chunk_grid", "configuration", "chunk_shape", 0), 0),
    "no shape": (f"{EPISODE}/source/zarr.json", ("shape",), []),
    "no array": (f"{EPISODE}/source/zarr.json", (), 7),
    "checksum": (f"{EPISODE}/manifest.json", ("sha256", "source/zarr.json"), 1.5),
    "actor": (f"{EPISODE}/zarr.json", ("attributes", "header", "actor"), float("nan")),
    "episode id": (f"{EPISODE}/zarr.json", ("attributes", "header", "episode_id"), 0),
    "other episode": (f"{EPISODE}/zarr.json", ("attributes", "header", "episode_id"), GOOD),
    "camera": (f"{EPISODE}/zarr.json", ("attributes", "spec", "cameras", 0, "name"), 0),
    "other camera": (f"{EPISODE}/zarr.json", ("attributes", "spec", "cameras", 0, "name"), "other"),
    "other rate": (f"{EPISODE}/zarr.json", ("attributes", "spec", "rate_hz"), 5.0),
    "field": (f"{EPISODE}/zarr.json", ("attributes", "spec", "proprio", 1, "name"), 1.5),
}


@pytest.mark.parametrize(("name", "path", "wrong"), SPOILT.values(), ids=SPOILT)
def test_a_broken_episode_is_named_and_the_others_are_listed_checked_and_shown(
    name: str, path: Path_, wrong: Any, good: Path, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(good, root)
    spoil(root, name, path, wrong)
    view = open_store(root)
    report = check(view)
    assert {each.episode_id for each in report.findings if each.check == "broken"} == {NAME}
    assert named_by_list(view) == ([GOOD], [NAME])
    edit(view, tmp_path / "edited", Changes(notes={GOOD: "seen"}), now_unix_s=1.0)
    assert open_store(tmp_path / "edited").episodes == (GOOD,)


def named_by_list(view: StoreView) -> tuple[list[str], list[str]]:
    """The episodes that the page lists as whole and as broken, once all are played."""
    catalogue = Catalogue(view)
    _listed(catalogue)
    for episode_id in view.episodes:
        with suppress(StoreError) if episode_id == NAME else nullcontext():
            _play(catalogue, episode_id)
    said = json.loads(json_of(listed(catalogue)))
    return [each["id"] for each in said["episodes"]], list(said["broken"])


@pytest.mark.parametrize("episode_id", ["../x", 7, "not-there"])
def test_a_verdict_on_no_episode_of_the_folder_is_passed_over_and_the_next_is_written(
    episode_id: object, good: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    shutil.copytree(good, root)
    rows = [{**TOLD, "episode_id": episode_id}, {**TOLD, "verdict": "failure", "stamp_unix_s": 2.0}]
    (root / "relabels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = open_store(root).labels
    relabels = Relabels(open_store(root).paths)
    relabels.open()
    relabels.bring(time.monotonic_ns(), all_of_them=True)
    assert [each.verdict.value for each in open_store(root).labels[len(before) :]] == ["failure"]
    assert not (root / "relabels.jsonl").exists()
    assert "relabels.jsonl line 1" in caplog.text or "must be one of" in caplog.text


def test_a_verdict_waits_while_the_episodes_are_away(good: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(good, root)
    (root / "relabels.jsonl").write_text(json.dumps({**TOLD, "stamp_unix_s": 2.0}) + "\n")
    before = open_store(root).labels
    relabels = Relabels(open_store(root).paths)
    relabels.open()
    (root / "episodes").rename(root / "away")
    relabels.bring(time.monotonic_ns(), all_of_them=True)
    assert "is away, must be there" in relabels.to_json(time.monotonic_ns())["error"]
    (root / "away").rename(root / "episodes")
    relabels.bring(time.monotonic_ns(), all_of_them=True)
    assert [each.verdict for each in open_store(root).labels[len(before) :]] == [Verdict.SUCCESS]


@pytest.mark.parametrize("name", ["labels.jsonl", "stages.jsonl", "preferences.jsonl", "notes.jsonl", "relabels.jsonl"])
def test_a_log_that_would_fill_the_memory_is_refused_by_its_size(name: str, good: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(good, root)
    with (root / name).open("wb") as file:
        file.truncate(6 << 30)
    with pytest.raises(StoreError, match=rf"{name} is 6442450944 bytes, must be at most 67108864"):
        Relabels(open_store(root).paths).open()


def test_why_an_episode_was_set_aside_is_told_in_as_many_words_as_a_note(good: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(good, root)
    aside = root / "quarantine" / "e"
    aside.mkdir(parents=True)
    with (aside / "reason.txt").open("wb") as file:
        file.write(b"torn ")
        file.truncate(6 << 30)
    (aside.parent / "no-folder").write_text("")
    told = open_store(root).quarantined
    assert (len(told["e"]), told["e"][:4], told["no-folder"]) == (2000, "torn", "unknown")
