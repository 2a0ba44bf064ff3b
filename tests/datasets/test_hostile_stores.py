"""Folders of episodes from elsewhere: what they name stays inside, and what they say of their sizes is looked at."""

from __future__ import annotations

import io
import json
import os
import shutil
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from robot_stack.datasets.check import last_success
from robot_stack.datasets.edit import Changes, edit, merge
from robot_stack.datasets.store_view import open_store
from robot_stack.replay.manifest import FILE_NAME
from robot_stack.replay.stored_episode import read_episode, read_frames
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Verdict
from tests.datasets.data_rig import contents, label, made_episode, write_folder

NAME = "000001-demo-a"
EPISODE = f"episodes/{NAME}.zarr"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stores") / "good"
    write_folder(root, [made_episode(f"00000{n}-demo-a", steps=6) for n in range(2)], [label(NAME, Verdict.SUCCESS)])
    return root


@pytest.fixture
def store(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "store"))


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def seal_names(*names: str) -> Callable[[Path], None]:
    """A manifest that lists these files, with the checksums that they have."""
    import hashlib

    def spoil(episode: Path) -> None:
        def add(raw: dict[str, Any]) -> None:
            for name in names:
                content = (episode / name).read_bytes() if (episode / name).exists() else b""
                raw["sha256"][name] = hashlib.sha256(content).hexdigest()

        rewrite(episode / FILE_NAME, add)

    return spoil


def array(name: str, **changes: object) -> Callable[[Path], None]:
    return lambda episode: rewrite(episode / name / "zarr.json", lambda raw: raw.update(changes))


def seal_again(episode: Path) -> None:
    """Checksums of what is there now, as who spoils a file would write them."""
    names = [str(path.relative_to(episode)) for path in episode.rglob("*") if path.is_file() and path.name != FILE_NAME]
    if not (episode / FILE_NAME).is_symlink() and (episode / FILE_NAME).read_text()[:1] == "{":
        seal_names(*names)(episode)


def link(name: str, target: str) -> Callable[[Path], None]:
    def spoil(episode: Path) -> None:
        (episode / name).unlink(missing_ok=True)
        (episode / name).symlink_to(target)

    return spoil


def bomb(episode: Path) -> None:
    """A chunk of half a kilobyte that unpacks to a gigabyte."""
    from numcodecs.zstd import Zstd

    chunk = next((episode / "image_front").glob("c.*"))
    head = bytearray(Zstd(level=1).encode(bytes(1 << 20)))
    assert head[4] >> 6 == 2, "the frame says its size in four bytes"
    at = 5 + (not head[4] & 0x20)
    head[at : at + 4] = (1 << 30).to_bytes(4, "little")
    chunk.write_bytes(head)


def consolidate(episode: Path) -> None:
    """A group that says of its arrays what their own files do not: one of 391 GiB."""
    arrays = {path.parent.name: json.loads(path.read_text()) for path in episode.glob("*/zarr.json")}
    shape = [7, 200_000, 100_000, 3]
    arrays["image_front"] |= {
        "shape": shape,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
    }
    said = {"kind": "inline", "must_understand": False, "metadata": arrays}
    rewrite(episode / "zarr.json", lambda raw: raw.update(consolidated_metadata=said))


def folders_of_chunks(episode: Path) -> None:
    """Chunks `c/0/0/0/0`, one of which has 19 KB that unpack to 600 MB."""
    import google_crc32c
    from numcodecs.zstd import Zstd

    encoding = {"name": "default", "configuration": {"separator": "/"}}
    array("image_front", chunk_key_encoding=encoding)(episode)
    packed = bytes(Zstd(level=1).encode(bytes(600 << 20)))
    folder = episode / "image_front/c/0/0/0"
    folder.mkdir(parents=True)
    (folder / "0").write_bytes(packed + google_crc32c.value(packed).to_bytes(4, "little"))


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "name that climbs": (seal_names("../../../secret/key"), "path is '../../../secret/key', must be inside"),
    "absolute name": (seal_names("/etc/hostname"), "path is '/etc/hostname', must be inside"),
    "link out": (link("image_front/c.0.0.0.0", "/etc/hostname"), "link .*image_front/c.0.0.0.0 leads out of"),
    "endless link": (link(FILE_NAME, "/dev/zero"), "leads out of"),
    "rows without end": (array("proprio", shape=[10**12, 7]), "array proprio of .* is \\[1000000000000, 7\\] float32"),
    "other type": (array("proprio", data_type="float64"), "array proprio of .* is \\[7, 7\\] float64 .* must be"),
    "other codec": (array("proprio", codecs=[{"name": "bytes"}, {"name": "gzip"}]), "by \\['bytes', 'gzip'\\]"),
    "huge chunk": (
        lambda e: rewrite(
            e / "image_front/zarr.json",
            lambda raw: raw["chunk_grid"]["configuration"].update(chunk_shape=[10**9, 16, 16, 3]),
        ),
        "in chunks of \\[1000000000, 16, 16, 3\\], must be",
    ),
    "consolidated metadata": (consolidate, "consolidated_metadata of .*demo-a.* is there, must not be"),
    "chunks in folders": (folders_of_chunks, "chunk keys of array image_front of .* are .*'/'.*, must be .*'\\.'"),
    "length without end": (
        lambda e: rewrite(e / FILE_NAME, lambda raw: raw.update(length=10**15)),
        "length of .* is 1000000000000000 in",
    ),
    "chunk that unpacks to much": (bomb, "unpacked size of .*image_front/c.* is 1073741824 bytes, must be 7680"),
    "deep manifest": (lambda e: (e / FILE_NAME).write_text("[" * 100_000), "unreadable"),
    "camera that climbs": (
        lambda e: rewrite(
            e / "zarr.json",
            lambda raw: raw["attributes"]["spec"]["cameras"][0].update(name="../../../../escaped"),
        ),
        "name in cameras is|unreadable",
    ),
}


def use(verb: str, store: Path, good: Path, out: Path) -> None:
    """Read, edit or merge; what a merge leaves out is raised, too."""
    view = open_store(store)
    if verb == "read":
        view.read(NAME)
    elif verb == "edit":
        edit(view, out, Changes(trims={NAME: (0, 3)}), now_unix_s=1.0)
    else:
        made = merge([view, open_store(good)], out)
        shutil.rmtree(out)
        raise StoreError("; ".join(made.left_out.values()))


@pytest.mark.parametrize("kind", SPOILT)
@pytest.mark.parametrize("verb", ["merge", "edit", "read"])
def test_hostile_episode_is_refused_or_left_out_by_name(
    store: Path, good: Path, tmp_path: Path, kind: str, verb: str
) -> None:
    spoil, words = SPOILT[kind]
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("secret")
    spoil(store / EPISODE)
    seal_again(store / EPISODE)
    before = {name: content for name, content in contents(tmp_path).items() if not name.startswith("store")}
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=words):
            use(verb, store, good, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    after = {name: content for name, content in contents(tmp_path).items() if not name.startswith("store")}
    assert after == before, "nothing was written anywhere"


def test_the_store_is_a_good_one(store: Path, good: Path, tmp_path: Path) -> None:
    """Else the refusals above would prove nothing."""
    made = merge([open_store(store), open_store(good)], tmp_path / "out")
    assert (made.left_out, len(made.taken)) == ({}, 2)


@pytest.mark.parametrize("read", [read_episode, lambda path: read_frames(path, [0])])
def test_episode_that_memory_does_not_hold_is_a_sentence(
    store: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(zarr, "open_group", full)
    with pytest.raises(StoreError, match=r"(episode|frames of) 000001-demo-a.* unreadable: MemoryError"):
        read(store / EPISODE)


def test_chunk_sizes_are_read_as_the_library_writes_them(tmp_path: Path) -> None:
    """All four widths of the field, against data of those sizes."""
    from robot_stack.datasets.declared import _unpacked_bytes

    for size in (1, 255, 256, 300, 65_791, 65_792, 70_000, 1 << 20):
        group = zarr.open_group(tmp_path / str(size), mode="w", zarr_format=3)
        found = group.create_array(
            "a", shape=(size,), chunks=(size,), dtype="uint8", compressors=(zarr.codecs.ZstdCodec(level=1),),
            chunk_key_encoding={"name": "default", "separator": "."},
        )  # fmt: skip
        found[:] = np.arange(size) % 251 + 1
        assert _unpacked_bytes(tmp_path / str(size) / "a" / "c.0") == size


def test_episode_whose_name_is_a_pattern_is_set_aside(store: Path) -> None:
    (store / EPISODE).rename(store / "episodes" / "[ab]*.zarr")
    view = open_store(store)
    assert view.episodes == ("000000-demo-a",)
    assert view.quarantined["[ab]*"].startswith("episode id is '[ab]*', must be 1 to 128")


def test_pipe_in_a_store_holds_nobody_up(store: Path) -> None:
    (store / "labels.jsonl").unlink()
    os.mkfifo(store / "labels.jsonl")
    with pytest.raises(StoreError, match=r"labels\.jsonl is no plain file, must be one"):
        open_store(store)


def test_identity_that_is_long_deep_or_climbs_is_refused(store: Path) -> None:
    good = (store / "store.json").read_text()
    (store / "store.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"is unreadable .*Recursion"):
        open_store(store)
    (store / "store.json").write_text(good.replace('"front"', '"../front"'))
    with pytest.raises(StoreError, match=r"name in cameras is '\.\./front'"):
        open_store(store)


def test_scores_that_say_they_are_larger_than_their_file_are_refused(store: Path) -> None:
    path = store / "scores" / "v1" / f"{NAME}.npz"
    path.parent.mkdir(parents=True)
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("progress.npy", "success.npy"):
            archive.writestr(name, head.getvalue())
    with pytest.raises(StoreError, match=r"shape of progress.npy in .* is \(1000000000000,\), must be one row"):
        last_success(open_store(store))
