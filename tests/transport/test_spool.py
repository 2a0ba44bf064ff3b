from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_stack.disk.durable import write_durable
from robot_stack.transport import spool as spool_files
from robot_stack.transport.spool import Spool
from robot_stack.types.errors import TransportError
from tests.transport.fake_learner import wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    spool = Spool(folder, segment_bytes=100)
    spool.open()
    yield spool
    spool.close()


def contents(spool: Spool) -> list[bytes | None]:
    return [spool.read(p, 5.0) for p in range(spool.released, spool.end)]


def fill(spool: Spool, count: int) -> list[bytes]:
    records = [b"%03d" % i * 10 for i in range(count)]
    assert all(map(spool.put, records))
    assert spool.read(spool.end - 1, 5.0) is not None
    return records


def test_records_come_out_in_order_across_segments(spool: Spool, folder: Path) -> None:
    records = fill(spool, 20)
    assert contents(spool) == records
    assert len(list(folder.glob("*.spool"))) > 3


def test_read_gives_up_when_there_is_no_record(spool: Spool) -> None:
    assert spool.read(0, 0.05) is None


def test_release_deletes_whole_segments_only(spool: Spool, folder: Path) -> None:
    records = fill(spool, 20)
    before = len(list(folder.glob("*.spool")))
    spool.release(2)
    assert len(list(folder.glob("*.spool"))) == before
    spool.release(11)
    assert len(list(folder.glob("*.spool"))) < before
    assert contents(spool) == records[11:]


def test_unreleased_records_are_there_after_a_restart(spool: Spool, folder: Path) -> None:
    records = fill(spool, 20)
    spool.release(11)
    spool.close()
    again = Spool(folder)
    again.open()
    assert again.released == 11
    assert contents(again) == records[11:]
    again.put(b"new")
    assert contents(again) == [*records[11:], b"new"]
    again.close()
    third = Spool(folder)
    third.open()
    assert contents(third) == [*records[11:], b"new"]
    third.close()


@pytest.mark.parametrize("starts_without_a_record", [1, 2, 3])
def test_starts_that_recorded_nothing_cost_nothing_of_what_comes_later(
    spool: Spool, folder: Path, starts_without_a_record: int
) -> None:
    """The file that was being written was taken for an old one, and deleted once the old records were acked."""
    old = fill(spool, 3)
    spool.close()
    for _ in range(starts_without_a_record):
        idle = Spool(folder)
        idle.open()
        idle.close()
    again = Spool(folder)
    again.open()
    new = [b"%03d" % i * 10 for i in range(3, 6)]
    assert all(map(again.put, new))
    assert contents(again) == old + new
    again.release(3)
    assert contents(again) == new
    again.close()
    last = Spool(folder)
    last.open()
    assert contents(last) == new
    last.close()


def test_nothing_is_left_once_all_is_released(spool: Spool, folder: Path) -> None:
    fill(spool, 20)
    spool.release(20)
    spool.close()
    again = Spool(folder)
    again.open()
    assert contents(again) == []
    again.close()


@pytest.mark.parametrize("cut", [1, 9, 33, 37])
def test_a_torn_tail_costs_only_the_torn_record(folder: Path, cut: int) -> None:
    spool = Spool(folder)
    spool.open()
    records = fill(spool, 5)
    spool.close()
    path = next(folder.glob("*.spool"))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - cut)
    again = Spool(folder)
    again.open()
    assert contents(again) == records[:4]
    again.put(b"new")
    assert contents(again) == [*records[:4], b"new"]
    again.close()


def test_a_lost_release_mark_means_twice_and_never_lost(spool: Spool, folder: Path) -> None:
    records = fill(spool, 3)
    spool.release(2)
    spool.close()
    (folder / "released").unlink()
    again = Spool(folder)
    again.open()
    assert contents(again) == records
    again.close()


def test_a_release_mark_ahead_of_the_file_does_not_swallow_new_records(spool: Spool, folder: Path) -> None:
    fill(spool, 3)
    spool.release(3)
    spool.close()
    path = next(folder.glob("*.spool"))
    with path.open("r+b") as file:
        file.truncate(10)
    again = Spool(folder)
    again.open()
    again.put(b"new")
    assert contents(again) == [b"new"]
    again.close()


def test_damage_in_the_middle_is_named_and_not_skipped(spool: Spool, folder: Path) -> None:
    fill(spool, 20)
    spool.close()
    first = min(folder.glob("*.spool"))
    raw = bytearray(first.read_bytes())
    raw[10] ^= 1
    first.write_bytes(raw)
    with pytest.raises(TransportError, match=f"{first.name} ends at record 0, must reach"):
        Spool(folder).open()


@pytest.mark.parametrize("byte", [0, 1, 4, 8, 20], ids=["length", "length beyond", "checksum", "content", "more of it"])
def test_damage_in_the_last_file_is_named_kept_aside_and_costs_only_its_record(folder: Path, byte: int) -> None:
    """It was taken for a torn tail, and all behind it was lost in silence."""
    spool = Spool(folder)
    spool.open()
    records = fill(spool, 6)
    spool.release(1)
    spool.close()
    path = next(folder.glob("*.spool"))
    damaged = bytearray(path.read_bytes())
    damaged[3 * 38 + byte] ^= 1 + byte
    path.write_bytes(damaged)
    again = Spool(folder)
    again.open()
    assert contents(again) == [*records[1:3], *records[4:]]
    aside = path.with_name(path.name + ".damaged")
    assert again.damage.startswith(f"record 3 of {path} is not what was written, must be; 4 whole ones are delivered")
    assert aside.name in again.damage
    assert aside.read_bytes() == damaged
    again.put(b"new")
    assert contents(again) == [*records[1:3], *records[4:], b"new"]
    again.close()
    third = Spool(folder)
    third.open()
    assert (contents(third), third.damage) == ([*records[1:3], *records[4:], b"new"], "")
    third.close()


def test_damage_among_what_is_released_costs_nothing_that_is_not(folder: Path) -> None:
    spool = Spool(folder)
    spool.open()
    records = fill(spool, 6)
    spool.release(4)
    spool.close()
    path = next(folder.glob("*.spool"))
    damaged = bytearray(path.read_bytes())
    damaged[2 * 38 + 20] ^= 1
    path.write_bytes(damaged)
    again = Spool(folder)
    again.open()
    assert contents(again)[-2:] == records[4:], "those before them are sent twice"
    again.close()


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_spool_that_is_killed_while_it_is_mended_is_mended_at_the_next_start(
    folder: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(folder)
    spool.open()
    records = fill(spool, 6)
    spool.release(4)
    spool.close()
    path = next(folder.glob("*.spool"))
    damaged = bytearray(path.read_bytes())
    damaged[2 * 38 + 20] ^= 1
    path.write_bytes(damaged)
    steps = []

    class Killed(BaseException):
        pass

    def dies(target: Path, content: bytes) -> None:
        steps.append(target)
        if len(steps) == step:
            raise Killed
        write_durable(target, content)

    with monkeypatch.context() as patched:
        patched.setattr("robot_stack.transport.spool.write_durable", dies)
        with pytest.raises(Killed):
            Spool(folder).open()
    again = Spool(folder)
    again.open()
    assert contents(again)[-2:] == records[4:]
    again.close()


def test_a_tail_of_zeros_is_no_record(folder: Path) -> None:
    spool = Spool(folder)
    spool.open()
    records = fill(spool, 3)
    spool.close()
    with next(folder.glob("*.spool")).open("ab") as file:
        file.write(bytes(500))
    again = Spool(folder)
    again.open()
    assert (contents(again), again.damage) == (records, "")
    again.close()


@pytest.mark.parametrize("said", [b"00000100000000000003", b"00000000000000000003", b"\xff\xfe", b"", None])
def test_a_release_mark_that_is_not_what_was_written_means_twice_and_never_lost(
    folder: Path, said: bytes | None
) -> None:
    """The second is one of before marks had a checksum; None is one flipped bit."""
    spool = Spool(folder)
    spool.open()
    records = fill(spool, 5)
    spool.release(3)
    spool.close()
    mark = folder / "released"
    written = bytearray(mark.read_bytes())
    written[5] ^= 1
    mark.write_bytes(written if said is None else said)
    again = Spool(folder)
    again.open()
    assert contents(again) == records
    again.release(4)
    again.close()
    third = Spool(folder)
    third.open()
    assert contents(third) == records[4:]
    third.close()


def test_a_file_of_another_name_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.spool").write_text("mine")
    spool = Spool(folder)
    spool.open()
    fill(spool, 2)
    spool.close()
    assert (folder / "notes.spool").read_text() == "mine"


def test_a_folder_that_was_refused_can_be_opened_once_mended(spool: Spool, folder: Path) -> None:
    records = fill(spool, 20)
    spool.close()
    first = min(folder.glob("*.spool"))
    good = first.read_bytes()
    first.write_bytes(good[:-1])
    again = Spool(folder)
    with pytest.raises(TransportError, match="must reach"):
        again.open()
    first.write_bytes(good)
    again.open()
    assert contents(again) == records
    again.close()


def test_a_full_queue_refuses_and_keeps_what_it_has(folder: Path) -> None:
    spool = Spool(folder, queue_bytes=100)
    assert spool.put(b"x" * 60)  # not opened: nothing drains the queue
    assert not spool.put(b"y" * 60)
    spool.open()
    assert contents(spool) == [b"x" * 60]
    assert spool.put(b"y" * 60)
    spool.close()


def test_a_full_backlog_refuses(folder: Path) -> None:
    spool = Spool(folder, disk_bytes=100)
    spool.open()
    assert spool.put(b"x" * 60)
    assert spool.read(spool.end - 1, 5.0) is not None
    assert not spool.put(b"y" * 60)
    spool.close()


def test_a_full_disk_is_said_and_survived(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(spool_files.os, "pwrite", full)
        assert spool.put(b"kept")
        assert wait_until(lambda: "No space left" in spool.error)
    assert spool.read(0, 5.0) == b"kept"
    assert wait_until(lambda: spool.error == "")


def test_a_record_is_synced_without_being_asked(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(spool_files.os, "fsync", noted)
    spool.put(b"x")
    assert wait_until(lambda: synced)


def test_one_folder_serves_one_process(spool: Spool, folder: Path) -> None:
    with pytest.raises(TransportError, match="is in use by another actor"):
        Spool(folder).open()


def test_a_killed_process_loses_nothing_it_has_written(folder: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from robot_stack.transport.spool import Spool\n"
        f"s = Spool(Path({str(folder)!r})); s.open()\n"
        "for i in range(50): s.put(b'%d' % i * 100)\n"
        "assert s.read(49, 10) is not None; print('written', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)
    spool = Spool(folder)
    spool.open()
    assert contents(spool) == [b"%d" % i * 100 for i in range(50)]
    spool.close()


def test_a_file_that_could_not_be_begun_is_begun_once_the_disk_works(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(folder, segment_bytes=20, sync_s=0.02)
    spool.open()
    failures = iter([True])

    def sync(path: Path) -> None:
        if next(failures, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(spool_files, "sync_directory", sync)
    records = [b"%03d" % i * 10 for i in range(6)]
    assert all(map(spool.put, records))
    assert contents(spool) == records
    assert wait_until(lambda: spool.error == "")
    spool.close()
