"""The file of scores: kept over crashes, damaged lines are skipped and counted."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reward_models.interface import Score
from reward_models.score_cache import ScoreCache
from tests.disk.full import full_after
from tests.examples import examples


def key(number: int) -> str:
    return f"{number:032x}"


def opened(path: Path | None, memory: int = 100) -> ScoreCache:
    cache = ScoreCache(path, memory=memory)
    cache.open()
    return cache


def filled(path: Path, count: int) -> None:
    cache = opened(path)
    cache.store([(key(i), Score(value=i / 10, raw=f"words {i}")) for i in range(count)])
    cache.close()


def found(cache: ScoreCache, count: int) -> list[float | None]:
    scores = [cache.load(key(i)) for i in range(count)]
    return [None if score is None else score.value for score in scores]


def test_scores_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    filled(path, 3)
    cache = opened(path)
    score = cache.load(key(2))
    assert score is not None
    assert (score.value, score.raw, score.valid) == (0.2, "words 2", True)
    assert math.isnan(score.latency_s)
    assert cache.load(key(3)) is None
    assert cache.damaged == 0
    assert cache.recall(key(2)) is score  # from now on without the disk
    assert cache.recall(key(1)) is None


def test_words_of_any_kind_are_kept(tmp_path: Path) -> None:
    raw = "\n\r\x00\u2028 \ud83e" + "😀" * 190
    filled_one = opened(tmp_path / "scores")
    filled_one.store([(key(1), Score(value=-1.0, raw=raw))])
    filled_one.close()
    score = opened(tmp_path / "scores").load(key(1))
    assert score is not None
    assert score.raw == raw


def test_memory_holds_the_newest_and_the_file_all(tmp_path: Path) -> None:
    cache = opened(tmp_path / "scores", memory=2)
    cache.store([(key(i), Score(value=i / 10)) for i in range(4)])
    assert [cache.recall(key(i)) is not None for i in range(4)] == [False, False, True, True]
    assert found(cache, 4) == [0.0, 0.1, 0.2, 0.3]


def test_without_a_file_memory_is_all_there_is() -> None:
    cache = opened(None, memory=2)
    cache.store([(key(i), Score(value=i / 10)) for i in range(4)])
    assert found(cache, 4) == [None, None, 0.2, 0.3]


def test_a_score_that_is_not_valid_is_not_kept(tmp_path: Path) -> None:
    cache = opened(tmp_path / "scores")
    cache.store([(key(0), Score(value=math.nan, raw="prose")), (key(1), Score(value=0.1))])
    assert found(cache, 2) == [None, 0.1]
    cache.close()
    assert found(opened(tmp_path / "scores"), 2) == [None, 0.1]


def test_a_later_score_of_a_key_takes_the_place_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    cache = opened(path)
    cache.store([(key(0), Score(value=0.1))])
    cache.store([(key(0), Score(value=0.2))])
    cache.close()
    assert found(opened(path), 1) == [0.2]


@settings(max_examples=examples(40), deadline=None)
@given(cut=st.integers(0, 400))
def test_a_file_cut_anywhere_loses_the_last_line_at_most_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "scores"
    filled(path, 5)
    whole = path.read_bytes()
    path.write_bytes(whole[: max(0, len(whole) - cut)])
    lines = path.read_bytes().count(b"\n")
    cache = opened(path)
    assert found(cache, 5) == [i / 10 if i < lines else None for i in range(5)]
    cache.store([(key(9), Score(value=0.9))])
    cache.close()
    again = opened(path)
    assert found(again, 10)[9] == 0.9
    assert again.damaged <= cache.damaged <= 1  # a line that lacked its end alone is whole again


@settings(max_examples=examples(60), deadline=None)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255), garbage=st.binary(max_size=30))
def test_a_damaged_file_gives_right_scores_or_none(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("bad") / "scores"
    filled(path, 5)
    content = bytearray(path.read_bytes())
    at %= len(content)
    content[at : at + 1] = bytes([byte]) + garbage
    path.write_bytes(content)
    cache = opened(path)
    values = found(cache, 5)
    assert all(value in (None, i / 10) for i, value in enumerate(values))
    assert values.count(None) <= 2
    assert cache.damaged > 0 or None not in values


def test_damage_that_comes_while_it_is_open_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    filled(path, 2)
    cache = opened(path)
    path.write_bytes(path.read_bytes().replace(b"words 1", b"words X"))
    assert found(cache, 2) == [0.0, None]
    assert found(cache, 2) == [0.0, None]
    assert cache.damaged == 1


def test_two_writers_of_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    one, two = opened(path), opened(path)
    for i in range(10):
        (one, two)[i % 2].store([(key(i), Score(value=i / 10))])
    assert found(opened(path), 10) == [i / 10 for i in range(10)]


def test_a_full_disk_is_said_once_and_memory_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = opened(tmp_path / "scores")
    with full_after(20):
        for i in range(2):
            cache.store([(key(i), Score(value=i / 10))])
    assert found(cache, 2) == [0.0, 0.1]
    assert caplog.text.count("scores are not kept") == 1
    cache.close()
    assert (tmp_path / "scores").read_bytes() == b""


def test_a_disk_with_space_again_keeps_what_comes_then(tmp_path: Path) -> None:
    path = tmp_path / "scores"
    filled(path, 1)
    cache = opened(path)
    with full_after(path.stat().st_size + 7):
        cache.store([(key(1), Score(value=0.1))])
    cache.store([(key(2), Score(value=0.2))])
    cache.close()
    again = opened(path)
    assert found(again, 3) == [0.0, None, 0.2]
    assert again.damaged == 0


def test_a_line_that_the_disk_does_not_give_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores"
    filled(path, 2)
    cache = opened(path)

    def failing(*_: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("reward_models.score_cache.os.pread", failing)
        assert cache.load(key(1)) is None
    assert cache.damaged == 1
    cache.store([(key(1), Score(value=0.3))])
    assert found(cache, 2) == [0.0, 0.3]
