from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.storage import LocalStore

from robot_stack.replay import durable, episode_writer
from robot_stack.replay.columns import columns
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.episode_writer import write_whole
from robot_stack.replay.stored_episode import read_episode
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeKind, Step
from tests.replay.recorded import TASK, assert_same_step, header_of, small_spec, steps_of

SPEC = small_spec()
MIXED = [Source.POLICY, Source.HUMAN, Source.IDLE, Source.HOLD]


def store_at(root: Path, spec: Spec = SPEC, task: str = TASK) -> EpisodeStore:
    return EpisodeStore(root, spec, task)


def record(store: EpisodeStore, episode_id: str, actions: int = 4, end: EndReason | None = EndReason.SUCCESS) -> list:
    store.begin(header_of(episode_id))
    steps = list(steps_of(SPEC, episode_id, [MIXED[t % 4] for t in range(actions)], end))
    for step in steps:
        store.append(step)
    return steps


def assert_holds(store: EpisodeStore, episode_id: str, wanted: list[Step]) -> None:
    found = list(store.read(episode_id).steps())
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert_same_step(a, b)


@pytest.mark.parametrize("actions", [0, 1, 9, 10, 11, 19, 20, 25])
def test_an_episode_reads_back_as_it_was_recorded(tmp_path: Path, actions: int) -> None:
    with store_at(tmp_path) as store:
        steps = record(store, "000001-a", actions)
    with store_at(tmp_path) as store:
        assert store.episodes == ("000001-a",)
        assert store.unfinished == ()
        assert store.durable("000001-a") == actions
        assert store.read("000001-a").header == header_of("000001-a")
        assert_holds(store, "000001-a", steps)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_as_by_zarr(episode: Path, place: Path) -> None:
    """Every file of every array is what zarr itself writes of such an array with such values."""
    group = zarr.open_group(LocalStore(episode, read_only=True), mode="r")
    names = [column.name for column in columns(SPEC)]
    assert {path.name for path in episode.iterdir() if path.is_dir()} == set(names)
    for name in names:
        array = group[name]
        assert isinstance(array, zarr.Array)
        again = zarr.create_array(
            LocalStore(place / name),
            shape=array.shape,
            chunks=array.chunks,
            dtype=array.dtype,
            fill_value=array.fill_value,
            compressors=array.compressors,
            chunk_key_encoding={"name": "default", "separator": "."},
            config={"write_empty_chunks": True},
        )
        again[:] = array[:]
        ours, wanted = files_below(episode / name), files_below(place / name)
        assert json.loads(ours.pop("zarr.json")) == json.loads(wanted.pop("zarr.json"))
        assert ours == wanted


@pytest.mark.long
@pytest.mark.parametrize("actions", [0, 1, 10, 25])
def test_what_is_written_is_what_zarr_writes_to_the_byte(tmp_path: Path, actions: int) -> None:
    with store_at(tmp_path / "store") as store:
        record(store, "a", actions)
        store.flush()
        whole = store.read("a")
    assert_as_by_zarr(tmp_path / "store/episodes/a.zarr", tmp_path / "zarr")
    write_whole(tmp_path / "whole.zarr", whole)
    assert_as_by_zarr(tmp_path / "whole.zarr", tmp_path / "zarr_whole")


def test_an_unfinished_episode_in_other_chunks_is_set_aside_and_not_written_over(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        record(store, "a", 12, end=None)
        store.flush()
    path = tmp_path / "episodes/a.zarr/proprio/zarr.json"
    told = json.loads(path.read_text())
    told["chunk_grid"]["configuration"]["chunk_shape"][0] = 5
    path.write_text(json.dumps(told))
    with store_at(tmp_path) as store:
        assert "chunks of proprio of a.zarr have 5 rows, must have 10" in store.quarantined["a"]


def test_a_reason_that_is_no_text_is_told_as_far_as_it_is(tmp_path: Path) -> None:
    aside = tmp_path / "quarantine" / "a"
    aside.mkdir(parents=True)
    (aside / "reason.txt").write_bytes(b"torn \xff")
    with store_at(tmp_path) as store:
        assert store.quarantined["a"].startswith("torn ")


def test_flushing_after_every_step_gives_the_same_episode(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        store.begin(header_of("a"))
        steps = list(steps_of(SPEC, "a", [Source.POLICY] * 23))
        for step in steps:
            store.append(step)
            store.flush()
            assert store.durable("a") == step.index
        assert_holds(store, "a", steps)


@pytest.mark.long
def test_an_episode_may_outgrow_its_first_allocation(tmp_path: Path) -> None:
    spec = small_spec(rate_hz=1.0)
    with store_at(tmp_path, spec) as store:
        store.begin(header_of("a"))
        steps = list(steps_of(spec, "a", [Source.POLICY] * 70))
        for step in steps:
            store.append(step)
        assert_holds(store, "a", steps)


def test_appending_touches_no_disk_and_flush_makes_it_durable(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        store.begin(header_of("a"))
        before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
        for step in steps_of(SPEC, "a", [Source.POLICY] * 12, None):
            assert store.append(step)
        assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before
        assert store.durable("a") == -1
        store.flush()
        assert store.durable("a") == 11
        assert read_episode(tmp_path / "episodes" / "a.zarr").length == 12


def test_a_flush_rewrites_no_finished_chunk(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        steps = list(steps_of(SPEC, "a", [Source.POLICY] * 15, None))
        store.begin(header_of("a"))
        for step in steps[:10]:
            store.append(step)
        store.flush()
        chunk = tmp_path / "episodes" / "a.zarr" / "image_front" / "c.0.0.0.0"
        first = chunk.stat().st_ino
        for step in steps[10:]:
            store.append(step)
        store.flush()
        assert chunk.stat().st_ino == first


def test_a_resend_is_harmless(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        steps = record(store, "a", 12)
        store.begin(header_of("a"))
        assert not any(store.append(step) for step in steps)
        assert_holds(store, "a", steps)


def test_a_gap_is_refused_with_the_index_to_resend_from(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        steps = list(steps_of(SPEC, "a", [Source.POLICY] * 5))
        store.begin(header_of("a"))
        store.append(steps[0])
        with pytest.raises(SpecError, match="is 2, must be 1"):
            store.append(steps[2])
        assert store.append(steps[1])


def test_a_taken_id_and_an_id_that_climbs_out_are_refused(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        store.begin(header_of("a"))
        with pytest.raises(SpecError, match="header of a"):
            store.begin(header_of("a", EpisodeKind.DEMO))
        with pytest.raises(SpecError, match="must be 1 to 128 letters"):
            store.begin(header_of("../../a"))
        with pytest.raises(SpecError, match="task of b is 'other', must be"):
            store.begin(dataclasses.replace(header_of("b"), task="other"))


def test_unfinished_episodes_continue_after_a_restart(tmp_path: Path) -> None:
    steps = list(steps_of(SPEC, "a", [Source.POLICY] * 27))
    with store_at(tmp_path) as store:
        store.begin(header_of("a"))
        for step in steps[:13]:
            store.append(step)
    with store_at(tmp_path) as store:
        assert store.unfinished == ("a",)
        assert store.durable("a") == 12
        assert [store.append(step) for step in steps] == [False] * 13 + [True] * 15
        assert_holds(store, "a", steps)


def test_a_crash_between_trim_and_manifest_is_repaired_by_the_resend(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        steps = record(store, "a", 20)
    (tmp_path / "episodes" / "a.zarr" / "manifest.json").unlink()
    with store_at(tmp_path) as store:
        assert store.unfinished == ("a",)
        store.append(steps[-1])
        assert store.episodes == ("a",)
        assert_holds(store, "a", steps)


def test_an_abandoned_episode_closes_as_a_fault_at_its_newest_frame(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        steps = record(store, "a", 12, None)
        store.begin(header_of("empty"))
        store.close_unfinished("a")
        store.close_unfinished("empty")
        assert not store.append(steps[-1])
    with store_at(tmp_path) as store:
        assert store.episodes == ("a",)
        episode = store.read("a")
        assert (episode.length, episode.end) == (11, EndReason.FAULT)
        assert_holds(store, "a", [*steps[:11], dataclasses.replace(steps[11], action=None, end=EndReason.FAULT)])
        assert (store.quarantined, store.unfinished) == ({}, ())
        record(store, "empty", 3, EndReason.SUCCESS)  # an actor that comes back after all begins it anew
        assert store.episodes == ("a", "empty")


def test_a_disk_that_refuses_to_remove_an_empty_episode_is_asked_again(tmp_path: Path, monkeypatch) -> None:
    def refuse(path: Path, _: Path) -> None:
        raise OSError(30, "Read-only file system", str(path))

    with store_at(tmp_path) as store:
        store.begin(header_of("empty"))
        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", refuse)
            with pytest.raises(StoreError, match="removing episode empty failed: Read-only"):
                store.close_unfinished("empty")
        assert store.unfinished == ("empty",)
        store.close_unfinished("empty")
        assert store.unfinished == ()
    assert not (tmp_path / "episodes" / "empty.zarr").exists()


def test_an_empty_episode_whose_removal_was_refused_half_way_is_gone_all_the_same(tmp_path: Path, monkeypatch) -> None:
    unlink, calls = os.unlink, []

    def refuses(*arguments, **more) -> None:
        calls.append(arguments)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        unlink(*arguments, **more)

    with store_at(tmp_path) as store:
        store.begin(header_of("e"))
        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", refuses)
            with pytest.raises(StoreError, match="removing episode e failed"):
                store.close_unfinished("e")
        assert store.unfinished == ()
        steps = record(store, "e", 5)
    with store_at(tmp_path) as store:
        assert store.quarantined == {}
        assert_holds(store, "e", steps)


def test_an_episode_whose_beginning_was_refused_last_of_all_can_be_begun_again(tmp_path: Path, monkeypatch) -> None:
    sync = episode_writer.sync_directory

    def refuses(path: Path) -> None:
        if path.name == "episodes":
            raise OSError(5, "Input/output error")
        sync(path)

    with store_at(tmp_path) as store:
        with monkeypatch.context() as patched:
            patched.setattr(episode_writer, "sync_directory", refuses)
            with pytest.raises(StoreError, match="beginning episode e failed"):
                store.begin(header_of("e"))
        assert_holds(store, "e", record(store, "e", 5))


def test_a_disk_that_is_full_when_the_lock_is_taken_leaves_it_free(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(StoreError, match="No space left"):
            store_at(tmp_path).open()
    with store_at(tmp_path) as store:
        assert store.episodes == ()


def test_ctrl_c_while_writes_are_handed_out_waits_for_those_that_were(tmp_path: Path, monkeypatch) -> None:
    submit, sync, handed = durable._disk.submit, os.fsync, []

    def slowly(file: int) -> None:
        time.sleep(0.2)
        sync(file)

    def interrupted(call, item):
        if len(handed) == 7:
            raise KeyboardInterrupt
        handed.append(item)
        return submit(call, item)

    with store_at(tmp_path) as store:
        steps = record(store, "a", 13, end=None)
        with monkeypatch.context() as patched:
            patched.setattr(durable._disk, "submit", interrupted)
            patched.setattr(os, "fsync", slowly)
            with pytest.raises(KeyboardInterrupt):
                store._writers["a"].flush()
        assert len(handed) == 7
        assert not list(tmp_path.rglob("*.partial"))
    with store_at(tmp_path) as store:
        assert store.durable("a") == len(steps) - 1


@pytest.mark.parametrize("name", ["image_wrist/c.1.0.0.0", "executed/c.0.0", "proprio/zarr.json", "manifest.json"])
def test_a_flipped_bit_quarantines_that_episode_only(tmp_path: Path, name: str) -> None:
    with store_at(tmp_path) as store:
        record(store, "bad", 14)
        good = record(store, "good", 14)
    file = tmp_path / "episodes" / "bad.zarr" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    with store_at(tmp_path) as store:
        assert list(store.quarantined) == ["bad"]
        assert "bad" in (tmp_path / "quarantine" / "bad" / "reason.txt").read_text()
        assert store.episodes == ("good",)
        assert_holds(store, "good", good)
    with store_at(tmp_path) as store:
        assert list(store.quarantined) == ["bad"]


def test_json_that_is_nested_too_deeply_is_damage_like_any_other(tmp_path: Path) -> None:
    deep = "[" * 100_000
    with store_at(tmp_path) as store:
        record(store, "bad", 3)
    (tmp_path / "episodes" / "bad.zarr" / "manifest.json").write_text(deep)
    with store_at(tmp_path) as store:
        assert list(store.quarantined) == ["bad"]
    (tmp_path / "store.json").write_text(deep)
    with pytest.raises(StoreError, match="must be JSON; restore it from a copy"), store_at(tmp_path):
        pass


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_a_truncated_or_missing_chunk_quarantines(tmp_path: Path, sealed: bool, damage: str) -> None:
    with store_at(tmp_path) as store:
        record(store, "bad", 14, EndReason.SUCCESS if sealed else None)
    chunk = tmp_path / "episodes" / "bad.zarr" / "image_front" / "c.0.0.0.0"
    if damage == "truncate":
        os.truncate(chunk, chunk.stat().st_size // 2)
    else:
        chunk.unlink()
    with store_at(tmp_path) as store:
        assert list(store.quarantined) == ["bad"]
        record(store, "bad", 3)
        assert store.episodes == ("bad",)


def test_rubbish_among_the_episodes_never_stops_the_start(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        record(store, "good")
    (tmp_path / "episodes" / "empty.zarr").mkdir()
    (tmp_path / "episodes" / "note.txt").write_text("hello")
    (tmp_path / "episodes" / ".new-half.zarr").mkdir()
    with store_at(tmp_path) as store:
        assert sorted(store.quarantined) == ["empty", "note.txt"]
        assert store.episodes == ("good",)


def test_a_store_of_another_spec_or_task_names_the_field(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        record(store, "a")
    with pytest.raises(StoreError, match=r"spec.cameras\[0\].height_px is 8, must be 16"):
        store_at(tmp_path, small_spec(16)).open()
    with pytest.raises(StoreError, match="task is 'insert', must be 'stack'"):
        store_at(tmp_path, task="stack").open()
    with store_at(tmp_path) as store:
        assert store.quarantined == {}


def test_a_second_writer_is_refused_in_words(tmp_path: Path) -> None:
    with store_at(tmp_path), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        store_at(tmp_path).open()
    with store_at(tmp_path) as store:
        assert store.episodes == ()


def test_a_full_disk_is_a_store_error_and_the_next_flush_loses_nothing(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    spec = small_spec(64)
    rng = np.random.default_rng(0)
    steps = list(steps_of(spec, "a", [Source.POLICY] * 25))
    for step in steps:
        step.observation.images["front"][:] = rng.integers(0, 256, (64, 64, 3))
    with store_at(tmp_path / "run", spec) as store:
        store.begin(header_of("a"))
        for step in steps[:12]:
            store.append(step)
        store.flush()
        for step in steps[12:-1]:
            store.append(step)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        try:
            with pytest.raises(StoreError, match="flushing episode a failed"):
                store.flush()
            with pytest.raises(StoreError, match="closing episode a failed"):
                store.append(steps[-1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert store.durable("a") == 11
        shutil.copytree(tmp_path / "run", tmp_path / "crashed")
        store.flush()
        assert store.episodes == ("a",)
        assert_holds(store, "a", steps)
    with store_at(tmp_path / "crashed", spec) as store:
        assert store.durable("a") == 11
        assert_holds(store, "a", steps[:12])


def test_a_directory_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="opening the store"):
        store_at(tmp_path / "file" / "run").open()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_directory_is_a_store_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied"):
        store_at(tmp_path / "run").open()
    tmp_path.chmod(0o700)


def test_the_manifest_lists_every_file_and_the_group_says_whose_it_is(tmp_path: Path) -> None:
    with store_at(tmp_path) as store:
        record(store, "a", 14)
    path = tmp_path / "episodes" / "a.zarr"
    manifest = json.loads((path / "manifest.json").read_text())
    files = {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()} - {"manifest.json"}
    assert set(manifest["sha256"]) == files
    assert (manifest["end"], manifest["length"]) == ("success", 14)
    attributes = json.loads((path / "zarr.json").read_text())["attributes"]
    assert attributes["spec_digest"] == SPEC.digest
