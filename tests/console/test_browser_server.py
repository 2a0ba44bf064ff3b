"""The episode browser's server: what it tells of a real store, what it writes, and whom it refuses."""

from __future__ import annotations

import io
import json
import struct
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from robot_stack.console.browser.staging import Staging
from robot_stack.console.browser.viewer import RerunViewer
from robot_stack.datasets.store_view import open_store
from robot_stack.replay.durable import WriterLock
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.stages import StageMark
from tests.console.browser_store import (
    ALONE,
    DEMO,
    HELPED,
    LONG_STEPS,
    Served,
    browsing,
    fetch,
    recorded,
    write_recorded,
)
from tests.datasets.data_rig import TASK, contents

TOKEN = "a-token-of-enough-characters"
LATER_NS = 11_000_000_000
WAIT_S = 20.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("browser") / "monday"
    write_recorded(root)
    return root


@pytest.fixture(scope="module")
def looked_at(made: Path) -> Iterator[Served]:
    """A server of episodes that no test changes."""
    with browsing(made) as served:
        yield served


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A server of episodes of the test's own."""
    write_recorded(tmp_path / "monday")
    with browsing(tmp_path / "monday") as served:
        yield served


def until(fits: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not fits():
        assert time.monotonic() < deadline_s, f"{what} not within {WAIT_S:g} s"
        time.sleep(0.02)


def rows(served: Served) -> dict[str, dict]:
    return {row["id"]: row for row in served.json("api/list")["episodes"]}


def verdicts(root: Path, episode_id: str) -> list[tuple[Verdict, LabelSource]]:
    return [(each.verdict, each.source) for each in open_store(root).labels_of(episode_id)]


def later(served: Served) -> None:
    """Ten seconds have passed."""
    served.relabels.bring(time.monotonic_ns() + LATER_NS)


# what is told --------------------------------------------------------------------------------------------------------
def test_the_list_tells_how_each_episode_went_and_who_was_in_control(looked_at: Served) -> None:
    until(lambda: all(row["course"] for row in rows(looked_at).values()), "the courses")
    said = rows(looked_at)
    assert [(row["kind"], row["outcome"], row["by"], row["truth"]) for row in said.values()] == [
        ("demo", "success", "recorded", None),
        ("online", "success", "model", "success"),
        ("online", "failure", "operator", None),
    ]
    assert said[HELPED]["course"]["spans"] == [["policy", 8], ["human", 8], ["idle", 2], ["hold", 2]]
    assert (said[HELPED]["course"]["takeovers"], said[HELPED]["course"]["human"]) == (1, 0.5)
    assert [(each["verdict"], each["source"]) for each in said[HELPED]["labels"]] == [
        ("success", "model"),
        ("success", "truth"),
    ]
    assert (said[ALONE]["steps"], said[ALONE]["actor"]) == (LONG_STEPS, "b")


def test_a_list_that_has_not_changed_is_not_sent_again(looked_at: Served) -> None:
    until(lambda: all(row["course"] for row in rows(looked_at).values()), "the courses")
    known = looked_at.json("api/list")["version"]
    assert looked_at.get(f"api/list?known={known}") == (204, b"")
    assert looked_at.get("api/list?known=other.1")[0] == 200


def test_an_episode_is_told_as_it_was_recorded(looked_at: Served) -> None:
    episode = recorded()[1]
    told = looked_at.json(f"api/episodes/{HELPED}")
    arrays = episode.arrays
    np.testing.assert_allclose(told["executed"], arrays["executed"].T, atol=1e-4)
    np.testing.assert_allclose(told["proposed"], arrays["proposed"].T, atol=1e-4)
    np.testing.assert_allclose(told["t"], (arrays["stamp_ns"] - arrays["stamp_ns"][0]) * 1e-9, atol=1e-4)
    assert told["source"] == ["policy"] * 8 + ["human"] * 8 + ["idle"] * 2 + ["hold"] * 2
    assert told["clipped"] == np.flatnonzero(arrays["clipped"]).tolist()
    assert [group["name"] for group in told["actions"]] == ["translation", "rotation", "gripper"]
    assert [group["entries"] for group in told["actions"]] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [signal["name"] for signal in told["signals"] if signal["first"]] == ["gripper opening"]
    pose = next(signal for signal in told["signals"] if signal["name"] == "tcp_pose")
    np.testing.assert_allclose(pose["values"], arrays["proprio"].T[:6], atol=1e-4)
    assert told["end"] == "success"
    assert [each["version"] for each in told["scores"]] == ["bb-new", "aa-old"], "the newest model first"
    np.testing.assert_allclose(told["scores"][0]["progress"], np.linspace(0, 0.9, 21), atol=1e-4)


def test_frames_come_a_second_at_a_time_and_are_those_of_the_store(looked_at: Served) -> None:
    images = [recorded()[2].arrays[f"image_{camera}"] for camera in ("front", "wrist")]
    seen = []
    for number in range(5):  # 46 frames at 10 Hz
        code, raw = looked_at.get(f"api/episodes/{ALONE}/frames/{number}")
        assert code == 200
        while raw:
            (length,) = struct.unpack_from("<I", raw)
            jpeg = np.frombuffer(raw[4 : 4 + length], np.uint8)
            seen.append(cv2.cvtColor(cv2.imdecode(jpeg, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB))
            raw = raw[4 + length :]
    assert len(seen) == 2 * (LONG_STEPS + 1)
    for camera in range(2):
        error = np.abs(np.stack(seen[camera::2]).astype(int) - images[camera])
        assert error.mean() < 6
    code, said = looked_at.get(f"api/episodes/{ALONE}/frames/5")
    assert (code, b"must have frames" in said) == (409, True)


def test_running_broken_and_quarantined_episodes_are_named_and_refused(tmp_path: Path) -> None:
    root = tmp_path / "monday"
    write_recorded(root)
    chunk = next((root / "episodes" / f"{DEMO}.zarr" / "executed").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    aside = root / "quarantine" / "000009-online-a"
    aside.mkdir(parents=True)
    (aside / "reason.txt").write_text("the disk was full")
    (root / "episodes" / f"{ALONE}.zarr" / "manifest.json").unlink()
    with browsing(root) as served:
        code, why = served.get(f"api/episodes/{DEMO}")
        assert (code, b"checksum of" in why) == (409, True)
        assert served.get(f"api/episodes/{DEMO}/frames/0")[0] == 409
        code, why = served.get(f"api/episodes/{ALONE}")
        assert (code, b"unfinished, let the run close it first" in why) == (409, True)
        assert served.post("api/label", {"episode": ALONE, "verdict": "success"})[0] == 409
        said = served.json("api/list")
        assert [row["id"] for row in said["episodes"]] == [HELPED]
        assert said["running"] == [ALONE]
        assert said["broken"]["000009-online-a"] == "the disk was full"
        assert "checksum of" in said["broken"][DEMO]


def test_an_episode_appears_when_the_run_closes_it(tmp_path: Path) -> None:
    episode = recorded()[0]
    *steps, last = episode.steps()
    with EpisodeStore(tmp_path / "store", episode.spec, TASK) as store:
        store.begin(episode.header)
        for step in steps:
            store.append(step)
        store.flush()
        with browsing(tmp_path / "store") as served:
            said = served.json("api/list")
            assert (said["episodes"], said["running"]) == ([], [DEMO])
            store.append(last)
            store.flush()
            until(lambda: list(rows(served)) == [DEMO], "the episode")
            assert served.json(f"api/episodes/{DEMO}")["end"] == "success"


# what is done --------------------------------------------------------------------------------------------------------
def test_a_verdict_is_kept_back_for_undo_and_then_appended(own: Served) -> None:
    before = own.catalogue.view.paths.labels.read_bytes()
    code, body = own.post("api/label", {"episode": HELPED, "verdict": "failure"})
    said = json.loads(body)
    assert (code, said["waiting"], said["undo"]["id"]) == (200, {HELPED: "failure"}, HELPED)
    assert 0 < said["undo"]["left_s"] <= 10
    own.relabels.bring(time.monotonic_ns())
    assert own.catalogue.view.paths.labels.read_bytes() == before, "nothing is written while it can be undone"
    later(own)
    assert own.catalogue.view.paths.labels.read_bytes().startswith(before)
    assert verdicts(own.root, HELPED)[-1] == (Verdict.FAILURE, LabelSource.OPERATOR)
    until(lambda: rows(own)[HELPED]["outcome"] == "failure", "the verdict")
    assert own.json("api/list")["waiting"] == {}


def test_a_full_disk_takes_no_verdict_back(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    own.post("api/label", {"episode": HELPED, "verdict": "discard"})
    with monkeypatch.context() as disk:
        disk.setattr("robot_stack.console.journal.append_row", full)
        assert own.post("api/undo", {})[0] >= 400
    said = own.json("api/list")
    assert (said["waiting"], said["undo"]["id"]) == ({HELPED: "discard"}, HELPED)
    later(own)
    assert verdicts(own.root, HELPED)[-1] == (Verdict.DISCARD, LabelSource.OPERATOR)


def test_a_verdict_that_is_undone_is_never_written(own: Served) -> None:
    before = contents(own.root)
    own.post("api/label", {"episode": HELPED, "verdict": "discard"})
    assert own.post("api/undo", {})[0] == 200
    later(own)
    assert contents(own.root) == before
    code, why = own.post("api/undo", {})
    assert (code, b"nothing was said" in why) == (400, True)


def test_only_the_newest_verdict_is_kept_back(own: Served) -> None:
    own.post("api/label", {"episode": DEMO, "verdict": "discard"})
    own.post("api/label", {"episode": HELPED, "verdict": "discard"})
    own.relabels.bring(time.monotonic_ns())
    assert verdicts(own.root, DEMO) == [(Verdict.DISCARD, LabelSource.OPERATOR)]
    own.post("api/undo", {})
    later(own)
    assert (Verdict.DISCARD, LabelSource.OPERATOR) not in verdicts(own.root, HELPED)


def test_what_is_kept_back_is_written_when_the_page_closes(tmp_path: Path) -> None:
    write_recorded(tmp_path / "monday")
    with browsing(tmp_path / "monday") as served:
        served.post("api/label", {"episode": DEMO, "verdict": "failure"})
    assert verdicts(served.root, DEMO) == [(Verdict.FAILURE, LabelSource.OPERATOR)]


def test_a_store_that_is_written_to_is_labelled_by_its_learner(tmp_path: Path) -> None:
    root, told = tmp_path / "monday", []
    write_recorded(root)
    lock = WriterLock(root / "writer.lock")
    lock.acquire()
    with browsing(root, tell=told.append) as served:
        served.post("api/label", {"episode": DEMO, "verdict": "failure"})
        later(served)
        assert [(each.episode_id, each.verdict) for each in told] == [(DEMO, Verdict.FAILURE)]
        assert verdicts(root, DEMO) == [], "the log is the learner's"
    lock.release()


def test_a_verdict_that_cannot_be_written_says_why_and_is_tried_again(own: Served) -> None:
    lock = WriterLock(own.root / "writer.lock")
    lock.acquire()
    own.post("api/label", {"episode": DEMO, "verdict": "failure"})
    later(own)
    said = own.json("api/list")
    assert (said["waiting"], "must be this one" in said["error"]) == ({DEMO: "failure"}, True)
    lock.release()
    later(own)
    assert own.json("api/list")["error"] == ""
    assert verdicts(own.root, DEMO) == [(Verdict.FAILURE, LabelSource.OPERATOR)]


def test_a_trim_writes_a_new_dataset_and_leaves_the_old_one(own: Served) -> None:
    before = contents(own.root)
    for name in ("trimmed", "trimmed-2"):
        code, body = own.post("api/trim", {"trims": {HELPED: {"first": 2, "last": 9}}})
        made = json.loads(body)
        assert (code, made["folder"]) == (200, str(own.out / name))
        assert made["command"] == f"robot-stack data view {own.out / name}"
    assert contents(own.root) == before
    view = open_store(own.out / "trimmed")
    assert view.read(HELPED, images=False).length == 7
    assert view.episodes == own.catalogue.view.episodes
    code, why = own.post("api/trim", {"trims": {HELPED: {"first": 9, "last": 2}}})
    assert (code, b"the first before the last" in why) == (409, True)


def test_a_copy_has_the_verdicts_that_the_page_shows_also_while_they_can_be_undone(own: Served) -> None:
    own.post("api/label", {"episode": DEMO, "verdict": "discard"})
    assert not open_store(own.root).labels_of(DEMO)
    code, body = own.post("api/trim", {"trims": {HELPED: {"first": 2, "last": 9}}})
    assert code == 200
    assert [verdict for verdict, _ in verdicts(Path(json.loads(body)["folder"]), DEMO)] == [Verdict.DISCARD]


@pytest.mark.parametrize(
    ("format", "library", "file", "command"),
    [
        ("rerun", "rerun", f"{DEMO}.rrd", "rerun "),
        ("mcap", "mcap_ros2", f"{DEMO}.mcap", "ros2 bag info "),
        ("lerobot", "av", "meta/info.json", "lerobot-dataset-viz "),
    ],
)
@pytest.mark.long
def test_an_export_is_written_beside_and_says_how_it_is_opened(own, format, library, file, command) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    before = contents(own.root)
    code, body = own.post("api/export", {"episode": DEMO, "format": format})
    made = json.loads(body)
    assert code == 200
    assert made["folder"] == str(own.out / f"{format}-{DEMO}")
    assert (Path(made["folder"]) / file).is_file()
    assert made["command"].startswith(command)
    assert contents(own.root) == before


@pytest.mark.long
def test_what_is_lent_to_foxglove_is_a_whole_bag_in_ranges_for_whoever_has_its_address(own: Served) -> None:
    reader = pytest.importorskip("mcap.reader", reason="mcap is not installed")
    pytest.importorskip("mcap_ros2", reason="mcap is not installed")
    code, body = own.post("api/export", {"episode": DEMO, "format": "mcap"})
    assert code == 200
    opens = json.loads(body)["opens"]
    assert opens["address"].startswith("https://app.foxglove.dev/~/view?ds=remote-file&ds.url=")
    (lent,) = urllib.parse.parse_qs(urllib.parse.urlsplit(opens["address"]).query)["ds.url"]
    assert lent.startswith(own.url.rstrip("/") + "/lent/")
    path = lent.removeprefix(own.url)
    assert reader.make_reader(io.BytesIO(own.get(path)[1])).get_summary().statistics.message_count > 0
    assert own.get(path, Range="bytes=2-5") == (206, own.get(path)[1][2:6])
    assert own.get(path, Range="bytes=99999999-")[0] == 416
    assert own.get(path, Host="evil.example")[0] == 403
    secret, name = path.split("/")[-2:]
    for other in (f"lent/{'x' * len(secret)}/{name}", f"lent/{secret}/manifest.json", f"lent/{secret}/..%2f..%2fetc"):
        assert own.get(other)[0] == 404, other


@pytest.mark.long
def test_a_page_for_other_machines_opens_nothing(made: Path, tmp_path: Path) -> None:
    """What is opened would be reached from its server's machine only."""
    pytest.importorskip("mcap_ros2", reason="mcap is not installed")
    pytest.importorskip("rerun", reason="rerun is not installed")
    write_recorded(tmp_path / "monday")
    with browsing(tmp_path / "monday", TOKEN, viewer=RerunViewer(["false"], tmp_path / "rerun.log")) as served:
        for format in ("mcap", "rerun"):
            words = {"Authorization": f"Bearer {TOKEN}"}
            code, body = served.post("api/export", {"episode": DEMO, "format": format}, **words)
            assert code == 200
            assert "opens" not in json.loads(body)
    assert not (tmp_path / "rerun.log").exists()


# who is refused ------------------------------------------------------------------------------------------------------
DOINGS = {
    "api/label": {"episode": DEMO, "verdict": "failure"},
    "api/undo": {},
    "api/prefer": {
        "first": {"episode": DEMO, "frame": 3},
        "second": {"episode": HELPED, "frame": 5},
        "further": "second",
        "session": "0123456789abcdef",
    },
    "api/trim": {"trims": {HELPED: {"first": 2, "last": 9}}},
    "api/export": {"episode": DEMO, "format": "rerun"},
}


PREFERRED = DOINGS["api/prefer"]


@pytest.mark.parametrize("path", DOINGS)
def test_nothing_is_done_for_another_origin_or_by_other_means(looked_at: Served, path: str) -> None:
    before = contents(looked_at.root)
    port = looked_at.url.rstrip("/").rpartition(":")[2]
    for headers, code in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"http://127.0.0.1:{int(port) + 1}"}, 403),
        ({"Host": f"evil.example:{port}"}, 403),
        ({"Content-Type": "text/plain"}, 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 400),
    ):
        assert looked_at.post(path, DOINGS[path], **headers)[0] == code, headers
    assert looked_at.get(path)[0] == 405
    assert contents(looked_at.root) == before
    assert not looked_at.out.exists()
    assert looked_at.json("api/list")["waiting"] == {}


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("api/label", b"", "request is not as it must be"),
        ("api/label", b"[" * 50_000, "request is not as it must be"),
        ("api/label", {"episode": DEMO}, "verdict is not as it must be"),
        ("api/label", {"episode": DEMO, "verdict": "maybe"}, "verdict is not as it must be"),
        ("api/label", {"episode": 3, "verdict": "success"}, "episode is not as it must be"),
        ("api/label", {"episode": DEMO, "verdict": "success", "more": 1}, "more is not as it must be"),
        ("api/label", {"episode": "x" * 200, "verdict": "success"}, "episode is not as it must be"),
        ("api/trim", {"trims": {}}, "trims is not as it must be"),
        ("api/trim", {"trims": {DEMO: {"first": -1, "last": 3}}}, "is not as it must be"),
        ("api/trim", {"trims": {DEMO: {"first": 0, "last": 1e30}}}, "is not as it must be"),
        ("api/export", {"episode": DEMO, "format": "csv"}, "format is not as it must be"),
        ("api/prefer", {**PREFERRED, "further": "left"}, "further is not as it must be"),
        ("api/prefer", {**PREFERRED, "first": {"episode": DEMO}}, "first.frame is not as it must be"),
        ("api/prefer", {**PREFERRED, "second": {"episode": DEMO, "frame": -1}}, "second.frame is not as it must be"),
        ("api/prefer", {**PREFERRED, "session": "../../etc"}, "session is not as it must be"),
        ("api/export", b"x" * 70_000, "request is longer than"),
    ],
)
def test_bad_requests_are_refused_in_words(looked_at: Served, path: str, body: object, says: str) -> None:
    code, why = looked_at.post(path, body)
    assert (code, says in why.decode()) == (400, True), why


@pytest.mark.parametrize("verb", ["api/label", "api/export", "api/trim"])
@pytest.mark.parametrize("name", ["../secret", "..", f"../episodes/{DEMO}", "/etc/passwd", "000001-demo"])
def test_no_request_names_a_path(looked_at: Served, verb: str, name: str) -> None:
    bodies = {
        "api/label": {"episode": name, "verdict": "failure"},
        "api/export": {"episode": name, "format": "rerun"},
        "api/trim": {"trims": {name: {"first": 0, "last": 3}}},
    }
    code, why = looked_at.post(verb, bodies[verb])
    assert (code, b"must be one of the 3 in" in why) == (409, True)
    assert not looked_at.out.exists()


def test_files_are_served_and_nothing_else_is(looked_at: Served) -> None:
    for path in ("static/browser.js", "static/base.css", "static/uPlot.iife.min.js", "static/icon.svg"):
        assert looked_at.get(path)[0] == 200
    for path in (
        "static/../app.py", "static/%2e%2e%2fapp.py", "static/..%2f..%2fapp.py", "static/nothing.js",
        "static/index.html",
        "api/episodes/..%2f..%2fstore.json", "api/episodes/%2e%2e/frames/0", "store.json",
    ):  # fmt: skip
        assert looked_at.get(path)[0] in (404, 409), path
    assert looked_at.get(f"api/episodes/{DEMO}/frames/-1")[0] == 404
    assert looked_at.get(f"api/episodes/{DEMO}/frames/99999999999999999999")[0] == 409
    assert looked_at.get("api/list", Host="evil.example")[0] == 403


def test_beyond_this_machine_nothing_is_told_or_done_without_the_token(made: Path) -> None:
    with browsing(made, token=TOKEN) as served:
        url = served.url
        assert url.endswith(f"#{TOKEN}")
        assert fetch(url, "")[0] == 200, "the page itself tells nothing"
        for path in ("api/list", f"api/episodes/{DEMO}", f"api/episodes/{DEMO}/frames/0"):
            assert fetch(url, path)[0] == 401
            assert fetch(url, path, Authorization="Bearer wrong")[0] == 401
            assert fetch(url, path, Authorization=f"Bearer {TOKEN}")[0] == 200
        for path, body in DOINGS.items():
            assert served.post(path, body)[0] == 401
        assert not served.out.exists()


# stages --------------------------------------------------------------------------------------------------------------
def mark_of(episode_id: str, stage: int, frame: int, *, removed: bool = False) -> dict[str, object]:
    return {"episode": episode_id, "stage": stage, "frame": frame, "removed": removed}


def test_a_stage_is_marked_and_removed_and_nothing_of_the_episode_changes(tmp_path: Path) -> None:
    root = tmp_path / "monday"
    write_recorded(root)
    before = contents(root / "episodes")
    with browsing(root, stages=("open", "close")) as served:
        assert served.json("api/list")["stages"] == ["open", "close"]
        assert served.post("api/mark", mark_of(HELPED, 1, 7)) == (200, b"{}")
        assert rows(served)[HELPED]["stages"] == [{"stage": 1, "frame": 7, "name": "close"}]
        for wrong, words in (
            (mark_of(HELPED, 1, 9), "that one is at frame 7, remove it first"),
            (mark_of(HELPED, 2, 9), "must be of one from 1 to 1: the task has open, close"),
            (mark_of(ALONE, 1, LONG_STEPS + 1), f"must be within 1 and {LONG_STEPS}"),
            (mark_of("nobody", 1, 3), "episode is 'nobody', must be one of the 3"),
        ):
            code, said = served.post("api/mark", wrong)
            assert (code, words in said.decode()) == (409, True), said
        assert served.post("api/mark", {"episode": HELPED, "stage": "two", "frame": 1, "removed": False})[0] == 400
        assert served.post("api/mark", mark_of(HELPED, 1, 7, removed=True))[0] == 200
        assert rows(served)[HELPED]["stages"] == []
    assert [mark.removed for mark in open_store(root).marks] == [False, True]
    assert contents(root / "episodes") == before


def test_while_a_learner_writes_the_store_it_is_told_of_a_mark(tmp_path: Path) -> None:
    root = tmp_path / "monday"
    write_recorded(root)
    told: list[StageMark] = []
    staging = Staging(open_store(root).paths, (), told.append)
    lock = WriterLock(open_store(root).paths.lock)
    lock.acquire()
    try:
        staging.set(open_store(root), HELPED, 1, 5, removed=False, now_unix_s=1.0)
        with pytest.raises(SpecError, match="must be within 1 and 20"):
            staging.set(open_store(root), HELPED, 1, 21, removed=False, now_unix_s=1.0)
        with pytest.raises(StoreError, match="monday"):
            Staging(open_store(root).paths).set(open_store(root), HELPED, 1, 5, removed=False, now_unix_s=1.0)
    finally:
        lock.release()
    assert [(mark.episode_id, mark.stage, mark.frame) for mark in told] == [(HELPED, 1, 5)]
    assert not open_store(root).marks


# preferences ---------------------------------------------------------------------------------------------------------
def test_pairs_are_asked_about_and_answers_are_written_at_once_beside_a_learner(tmp_path: Path) -> None:
    root = tmp_path / "monday"
    write_recorded(root)
    before = contents(root / "episodes")
    lock = WriterLock(open_store(root).paths.lock)
    lock.acquire()
    try:
        with browsing(root) as served:
            first, second = (served.json("api/pair") for _ in range(2))
            assert first["answers"] == 0
            assert first["pair"] != second["pair"]
            one, other = first["pair"]
            assert one["episode"] != other["episode"]
            said = {"first": one, "second": other, "further": "second", "session": "0123456789abcdef"}
            assert served.post("api/prefer", said) == (200, b"{}")
            assert served.post("api/prefer", {**said, "further": "unknown"}) == (200, b"{}")
            assert served.json("api/pair")["answers"] == 2
            for wrong, words in (
                ({"first": other}, "compares a moment with itself"),
                ({"first": {"episode": DEMO, "frame": 21}}, "is at frame 21, must be within 0 and 20"),
                ({"first": {"episode": "nobody", "frame": 1}}, "must be of one of the 3 that have ended"),
            ):
                code, why = served.post("api/prefer", {**said, **wrong})
                assert (code, words in why.decode()) == (409, True), why
    finally:
        lock.release()
    found = open_store(root).preferences
    assert [(each.further.value, each.by, each.source.value) for each in found] == [
        ("second", "0123456789abcdef", "operator"), ("unknown", "0123456789abcdef", "operator"),
    ]  # fmt: skip
    assert (found[0].second.episode_id, found[0].second.frame) == (other["episode"], other["frame"])
    assert contents(root / "episodes") == before
