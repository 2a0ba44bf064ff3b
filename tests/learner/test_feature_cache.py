"""Features are computed once per frame, survive a restart, and are never trusted when anything about them is wrong."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from robot_stack.learner.data.feature_cache import FeatureCache
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.runs.statistics import EpisodeAccount, EpisodeStatistics
from robot_stack.types.command import Source
from robot_stack.types.spec import CameraSpec
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.learner.bench import SPEC, Bench, header_of, steps_of

pytestmark = pytest.mark.long

P, H, IDLE = Source.POLICY, Source.HUMAN, Source.IDLE
NAME = "000000-online-a"


def _kept(bench: Bench, name: str = NAME) -> Path:
    """One finished episode in store and cache; returns the cache's file."""
    bench.send(name, [P, H, IDLE, H], EndReason.SUCCESS)
    bench.take()
    bench.cache.stop()
    (path,) = bench.folder.glob(f"features/*/{name}.safetensors")
    return path


def _again(bench: Bench, *, trunk: str | None = None) -> FeatureCache:
    return FeatureCache(bench.folder / "features", bench.store, trunk=trunk or bench.trunk.identity, spec=SPEC)


def test_episode_comes_back_without_its_images_and_with_the_very_features(bench: Bench) -> None:
    _kept(bench)
    found = _again(bench).read(NAME)
    assert found is not None
    stored = bench.store.read(NAME)
    assert (found.episode.header, found.episode.end, found.episode.length) == (stored.header, stored.end, 4)
    assert set(stored.arrays) - set(found.episode.arrays) == {"image_front"}
    for name, array in found.episode.arrays.items():
        np.testing.assert_array_equal(array, stored.arrays[name])
        assert array.dtype == stored.arrays[name].dtype
    rows = bench.replay.frames.episode(NAME).rows
    np.testing.assert_array_equal(found.features, bench.replay.frames.column("features")[rows])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)


def _forge(path: Path) -> None:
    content = path.read_bytes()
    assert content.count(b"success") == 1
    path.write_bytes(content.replace(b"success", b"failure"))


@pytest.mark.parametrize(
    "damage",
    [
        _flip,
        _forge,
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: os.truncate(path, path.stat().st_size - 1),
        lambda path: path.write_bytes(b""),
    ],
    ids=["bit flip", "another end", "half", "a byte short", "empty"],
)
def test_damaged_file_is_not_trusted_and_counted(bench: Bench, damage: Callable[[Path], None]) -> None:
    damage(_kept(bench))
    cache = _again(bench)
    assert cache.read(NAME) is None
    assert cache.damaged == 1
    assert not cache.holds(NAME)


def test_features_of_another_recording_are_not_trusted(bench: Bench) -> None:
    path = _kept(bench)
    other = bench.store._path(NAME) / "manifest.json"
    other.write_text(other.read_text() + " ")
    assert _again(bench).read(NAME) is None
    other.write_text(other.read_text()[:-1])
    bench.send("000001-online-a", [P, H, IDLE, H], EndReason.SUCCESS)
    path.with_name("000001-online-a.safetensors").write_bytes(path.read_bytes())
    cache = _again(bench)
    assert cache.read(NAME) is not None
    assert cache.read("000001-online-a") is None
    assert cache.damaged == 1


def test_another_trunk_or_camera_size_finds_nothing_and_nothing_is_damaged(bench: Bench) -> None:
    _kept(bench)
    larger = dataclasses.replace(SPEC, cameras=(CameraSpec(name="front", height_px=9, width_px=8),))
    for cache in (
        _again(bench, trunk="another"),
        FeatureCache(bench.folder / "features", bench.store, trunk=bench.trunk.identity, spec=larger),
    ):
        assert cache.read(NAME) is None
        assert cache.damaged == 0


def test_episode_that_is_not_closed_is_not_kept(bench: Bench) -> None:
    bench.send(NAME, [P] * 3, None)
    bench.take()
    bench.store.flush()
    bench.cache.offer(NAME, np.zeros((3, bench.trunk.feature_size), np.float16))
    bench.cache.stop()
    assert not bench.cache.holds(NAME)
    assert _again(bench).read(NAME) is None


def test_cut_episode_is_kept_as_it_was_cut(bench: Bench) -> None:
    bench.send(NAME, [P] * 4, None)
    bench.send("000001-online-a", [P] * 2)
    bench.take()
    bench.cache.stop()
    found = _again(bench).read(NAME)
    assert found is not None
    assert (found.episode.length, found.episode.end, len(found.features)) == (3, EndReason.FAULT, 4)


def test_disk_that_refuses_ends_nobody_and_says_so(bench: Bench) -> None:
    (bench.folder / "features").write_text("in the way")
    bench.send(NAME, [P] * 2)
    bench.take()
    bench.cache.stop()
    assert f"features of {NAME} are not kept" in bench.cache.failure
    assert bench.replay.frame_count(NAME) == 3


def test_episode_that_cannot_be_written_does_not_keep_later_ones_from_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = bench.store.read

    def failing(episode_id: str, *, images: bool = True) -> StoredEpisode:
        if episode_id == NAME:
            raise RuntimeError("nobody expected this")
        return read(episode_id, images=images)

    monkeypatch.setattr(bench.store, "read", failing)
    bench.send(NAME, [P] * 2)
    bench.take()
    deadline_s = time.monotonic() + 30.0
    while not bench.cache.failure and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert f"features of {NAME} are not kept: RuntimeError('nobody expected this')" in bench.cache.failure
    bench.send("000001-online-a", [P] * 2)
    bench.take()
    bench.cache.stop()
    assert bench.cache.holds("000001-online-a")


def test_restart_encodes_only_what_is_not_kept(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _kept(bench)
    bench.close()
    again = Bench(tmp_path)
    again.trunk.load_state_dict(bench.trunk.state_dict())
    again.cache = _again(again)
    encoded: list[int] = []
    encode = again.trunk.encode
    monkeypatch.setattr(again.trunk, "encode", lambda images: encoded.append(len(images["front"])) or encode(images))
    try:
        cached = again.cache.read(NAME)
        assert cached is not None
        again.ingest.load_cached(cached)
        assert encoded == []
        assert len(again.replay.pools.online) == 4
        assert again.statistics.episodes[NAME].human_steps == 3
        assert len(again.scorer.inputs(NAME)) == 5
    finally:
        again.close()
    path.unlink()


def test_known_features_of_a_running_episode_are_not_computed_again(bench: Bench) -> None:
    bench.send(NAME, [P] * 6, None)
    bench.store.flush()
    known = np.full((4, bench.trunk.feature_size), 0.25, np.float16)
    bench.ingest.load(bench.store.read(NAME), known)
    found = bench.replay.frames.column("features")
    assert len(found) == 6
    np.testing.assert_array_equal(found[:4], known)
    assert not (found[4:] == 0.25).all()


def test_features_of_frames_that_were_lost_are_dropped(bench: Bench) -> None:
    bench.send(NAME, [P] * 2, None)
    bench.store.flush()
    bench.ingest.load(bench.store.read(NAME), np.zeros((5, bench.trunk.feature_size), np.float16))
    assert bench.replay.frame_count(NAME) == 2


def test_what_is_in_no_file_goes_into_the_checkpoint(bench: Bench) -> None:
    _kept(bench)
    bench.send("000001-online-a", [P] * 3, None)
    bench.take()
    assert {name: len(f) for name, f in bench.ingest.uncached().items()} == {"000001-online-a": 3}


def test_account_from_disk_is_that_of_its_steps(bench: Bench) -> None:
    rng = np.random.default_rng(0)
    for number, length in enumerate((1, 7, 40)):
        name = f"{number:06d}-online-a"
        sources = [Source(int(s)) for s in rng.integers(0, 4, length)]
        bench.send(name, sources, EndReason.FAILURE if number else None)
        bench.store.flush()
        statistics = EpisodeStatistics(SPEC.rate_hz)
        account = statistics.begin(header_of(name))
        for step in steps_of(name, sources, EndReason.FAILURE if number else None):
            statistics.add(step)
        found = EpisodeAccount.of(bench.store.read(name, images=False))
        assert repr(found.row(10.0, "a")) == repr(account.row(10.0, "a"))  # a NaN equals none, not even itself
        assert found._source == account._source


def test_evaluation_is_counted_from_disk_and_never_encoded(bench: Bench) -> None:
    bench.send("000000-eval-a", [P] * 3, kind=EpisodeKind.EVAL)
    bench.take()
    assert bench.ingest.uncached() == {}
    assert EpisodeAccount.of(bench.store.read("000000-eval-a", images=False)).steps == 3
