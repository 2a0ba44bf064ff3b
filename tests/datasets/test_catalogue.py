"""The catalogue of a folder that is written to meanwhile."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from robot_stack.datasets import catalogue as module
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.datasets.comparing import Comparing
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.datasets.summary import summarize
from robot_stack.disk.jsonl import append_row
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.episode_writer import write_whole
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Further, Moment, Preference
from robot_stack.types.transition import EpisodeKind
from tests.datasets.data_rig import TASK, changed, label, made_episode, made_spec, write_folder


def opened(view: StoreView) -> Catalogue:
    catalogue = Catalogue(view)
    catalogue.refresh()
    return catalogue


def test_entries_say_what_the_summary_says(view: StoreView) -> None:
    catalogue = opened(view)
    lines, _ = summarize(view)
    assert len(lines) == 5
    for entry, line in zip(catalogue.entries(), lines, strict=True):
        catalogue.read_course(line.episode_id)
        course = catalogue.course(line.episode_id)
        assert course is not None
        assert (entry.header.episode_id, entry.header.kind, entry.steps) == (line.episode_id, line.kind, line.steps)
        said = (entry.end, entry.outcome, entry.said_by, entry.truth, entry.note)
        assert said == (line.end, line.outcome, line.said_by, line.truth, line.note)
        assert course.seconds == pytest.approx(line.seconds)
        held = sum(count for source, count in course.spans if source in (Source.HUMAN, Source.IDLE))
        assert held / line.steps == pytest.approx(line.human_share)
    assert not list(catalogue.unread())


def test_a_list_reads_no_array(view: StoreView, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("an array was read")

    monkeypatch.setattr(module, "read_episode", never)
    assert len(opened(view).entries()) == 5


def test_spans_and_takeovers_are_those_of_the_steps(tmp_path: Path) -> None:
    who = [Source.POLICY] * 3 + [Source.HUMAN] * 2 + [Source.IDLE] + [Source.HOLD] * 2 + [Source.HUMAN] * 2
    source = np.array(who, np.uint8)
    online = changed(made_episode("000001-online-a", steps=10, kind=EpisodeKind.ONLINE), source=source)
    demo = changed(made_episode("000002-demo-a", steps=10), source=source)
    catalogue = opened(write_folder(tmp_path / "d", [online, demo]))
    for episode_id, takeovers in (("000001-online-a", 2), ("000002-demo-a", 0)):
        catalogue.read_course(episode_id)
        course = catalogue.course(episode_id)
        assert course is not None
        assert course.spans == ((0, 3), (1, 2), (3, 1), (2, 2), (1, 2))
        assert course.takeovers == takeovers


def test_a_label_that_is_appended_is_seen_and_nothing_else_is_read_again(tmp_path: Path) -> None:
    catalogue = opened(write_folder(tmp_path / "d", [made_episode("000001-demo-a")]))
    before = catalogue.version
    catalogue.refresh()
    assert catalogue.version == before, "nothing was written"
    append_row(catalogue.view.paths.labels, asdict(label("000001-demo-a", Verdict.FAILURE)))
    catalogue.refresh()
    assert catalogue.version > before
    assert [entry.outcome for entry in catalogue.entries()] == ["failure"]


def test_an_episode_is_running_until_it_has_ended(tmp_path: Path) -> None:
    spec = made_spec()
    episode = made_episode("000001-demo-a", spec, steps=12)
    with EpisodeStore(tmp_path / "store", spec, TASK) as store:
        store.begin(episode.header)
        *steps, last = episode.steps()
        for step in steps:
            store.append(step)
        store.flush()
        catalogue = Catalogue(open_store(tmp_path / "store"))
        catalogue.refresh()
        assert (catalogue.entries(), catalogue.view.unfinished) == ([], ("000001-demo-a",))
        with pytest.raises(StoreError, match="unfinished, let the run close it first"):
            catalogue.whole("000001-demo-a")
        store.append(last)
        store.flush()
        catalogue.refresh()
        assert [entry.steps for entry in catalogue.entries()] == [12]
        assert catalogue.view.unfinished == ()


def test_what_is_written_while_the_folder_is_read_is_seen_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = write_folder(tmp_path / "d", [made_episode("000001-demo-a")])

    def slow(*args: object) -> StoreView:
        found = open_store(*args)  # type: ignore[arg-type]
        monkeypatch.undo()
        append_row(view.paths.labels, asdict(label("000001-demo-a", Verdict.DISCARD)))
        return found

    monkeypatch.setattr(module, "open_store", slow)
    catalogue = opened(view)
    assert [entry.outcome for entry in catalogue.entries()] == ["success"]
    catalogue.refresh()
    assert [entry.outcome for entry in catalogue.entries()] == ["discard"]


def test_an_answer_to_which_got_further_is_in_the_view(tmp_path: Path) -> None:
    catalogue = opened(write_folder(tmp_path / "d", [made_episode("000001-demo-a"), made_episode("000002-demo-a")]))
    first, second = (Moment(episode_id=f"00000{number}-demo-a", frame=3) for number in (1, 2))
    said = Preference(
        first=first, second=second, further=Further.SECOND, source=LabelSource.OPERATOR, by="a", stamp_unix_s=1.0
    )
    Comparing(catalogue).say(said)
    catalogue.refresh()
    assert catalogue.view.preferences == (said,)


def test_a_damaged_episode_is_refused_and_listed_with_the_reason(tmp_path: Path) -> None:
    catalogue = opened(write_folder(tmp_path / "d", [made_episode("000001-demo-a"), made_episode("000002-demo-a")]))
    chunk = next((catalogue.view.path("000001-demo-a") / "executed").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="is broken, must be whole: checksum of"):
        catalogue.whole("000001-demo-a")
    assert "checksum of" in catalogue.bad["000001-demo-a"]
    assert [entry.header.episode_id for entry in catalogue.entries()] == ["000002-demo-a"]
    assert catalogue.whole("000002-demo-a").is_dir()


def test_a_source_that_nobody_is_makes_an_episode_bad(tmp_path: Path) -> None:
    written = [made_episode(f"00000{number}-demo-a") for number in (1, 2)]
    view = write_folder(tmp_path / "d", written)
    strange = changed(written[0], source=np.full(written[0].length, 77, np.uint8))
    shutil.rmtree(view.path("000001-demo-a"))
    write_whole(view.path("000001-demo-a"), strange)
    catalogue = opened(view)
    with pytest.raises(StoreError, match=r"source of 000001-demo-a is 77, must be one of \[0, 1, 2, 3\]"):
        catalogue.whole("000001-demo-a")
    assert [entry.header.episode_id for entry in catalogue.entries()] == ["000002-demo-a"]


def test_an_episode_of_one_frame_has_a_course(tmp_path: Path) -> None:
    episode = made_episode("000001-demo-a")
    short = {name: rows[: len(rows) - episode.length] for name, rows in episode.arrays.items()}
    catalogue = opened(write_folder(tmp_path / "d", [changed(episode, **short)]))
    catalogue.read_course("000001-demo-a")
    assert catalogue.course("000001-demo-a") == module.Course(seconds=0.0, spans=(), takeovers=0)


def test_an_episode_without_a_header_is_bad_and_no_reason_to_list_nothing(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "d", [made_episode("000001-demo-a"), made_episode("000002-demo-a")])
    (view.path("000001-demo-a") / "zarr.json").write_text("{")
    catalogue = opened(view)
    assert "unreadable" in catalogue.bad["000001-demo-a"]
    assert [entry.header.episode_id for entry in catalogue.entries()] == ["000002-demo-a"]
    assert list(catalogue.unread()) == ["000002-demo-a"]
