"""Finished episodes beside the live view: what the operator's page is told of them, and whom and what it waits for."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from robot_stack.console.browser.played import outlined
from robot_stack.datasets.store_view import open_store
from robot_stack.replay.annotations import MarkLog
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Mode
from robot_stack.types.event import LabelSource
from robot_stack.types.stages import StageMark
from tests.console.browser_store import ALONE, DEMO, HELPED, fetch, recorded, write_recorded
from tests.console.page_rig import FakeCell, served
from tests.console.test_page_server import tab
from tests.datasets.data_rig import TASK

TOKEN = "a-token-of-enough-characters"


@pytest.fixture
def recorded_cell(cell: FakeCell) -> FakeCell:
    """A cell whose run has recorded episodes."""
    write_recorded(cell.store)
    return cell


class Held:
    """Tells of episodes as the server does, once it is let; counts how often, and how many at once."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun = threading.Event()
        self.told: list[str] = []
        self.at_once = self.most_at_once = 0

    def __call__(self, view, episode, scores):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.told.append(episode.header.episode_id)
        self.begun.set()
        assert self.free.wait(20.0)
        self.at_once -= 1
        return outlined(view, episode, scores)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Every answer about an episode waits until the test lets it go."""
    made = Held()
    monkeypatch.setattr("robot_stack.console.app.outlined", made)
    return made


def test_an_episode_is_told_without_what_only_the_browser_draws(recorded_cell):
    log = MarkLog(open_store(recorded_cell.store).paths.stages)
    log.open()
    log.append(
        StageMark(episode_id=HELPED, stage=1, frame=7, source=LabelSource.OPERATOR, stamp_unix_s=1.0, name="fill")
    )
    with served(recorded_cell) as url:
        code, body = fetch(url, f"api/episodes/{HELPED}")
        told = json.loads(body)
        assert code == 200
        assert told["source"] == ["policy"] * 8 + ["human"] * 8 + ["idle"] * 2 + ["hold"] * 2
        arrays = recorded()[1].arrays
        np.testing.assert_allclose(told["t"], (arrays["stamp_ns"] - arrays["stamp_ns"][0]) * 1e-9, atol=1e-4)
        assert told["clipped"] == np.flatnonzero(arrays["clipped"]).tolist()
        assert [each["version"] for each in told["scores"]] == ["bb-new"], "the newest model alone"
        assert told["stages"] == [{"stage": 1, "frame": 7, "name": "fill"}]
        assert (told["actions"], told["signals"], "executed" in told) == ([], [], False)
        code, frames = fetch(url, f"api/episodes/{HELPED}/frames/0")
        assert (code, len(frames) > 1000) == (200, True)


def test_the_store_is_opened_once_it_is_there_and_followed_while_the_run_goes_on(cell):
    first, second, _ = recorded()
    with served(cell) as url:
        code, why = fetch(url, f"api/episodes/{DEMO}")
        assert (code, b"not on this machine" in why) == (409, True)
        with EpisodeStore(cell.store, first.spec, TASK) as store:
            for number, episode in enumerate((first, second)):
                *steps, last = episode.steps()
                store.begin(episode.header)
                for step in steps:
                    store.append(step)
                store.flush()
                code, why = fetch(url, f"api/episodes/{episode.header.episode_id}")
                assert (code, b"it is unfinished, let the run close it first" in why) == (409, True)
                store.append(last)
                store.flush()
                for earlier in (first, second)[: number + 1]:
                    code, body = fetch(url, f"api/episodes/{earlier.header.episode_id}")
                    assert (code, len(json.loads(body)["t"])) == (200, earlier.length + 1)


def damage(root: Path) -> None:
    chunk = next((root / "episodes" / f"{DEMO}.zarr" / "executed").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")


def give_up(root: Path) -> None:
    aside = root / "quarantine" / DEMO
    shutil.move(root / "episodes" / f"{DEMO}.zarr", aside)
    (aside / "reason.txt").write_text("the disk was full")


def unseal(root: Path) -> None:
    (root / "episodes" / f"{DEMO}.zarr" / "manifest.json").unlink()


def lose(root: Path) -> None:
    shutil.rmtree(root / "episodes" / f"{DEMO}.zarr")


def no_folder(root: Path) -> None:
    shutil.rmtree(root / "episodes")
    (root / "episodes").write_text("no folder")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (damage, "is broken, must be whole: checksum of"),
        (give_up, "it was set aside: the disk was full"),
        (unseal, "is broken, must be whole: file"),
        (lose, f"episode is '{DEMO}', must be one of the 2 in"),
        (no_folder, f"episode is '{DEMO}', must be one of the 0 in"),
    ],
)
def test_an_episode_that_cannot_be_played_is_refused_in_a_sentence(recorded_cell, spoil, words):
    with served(recorded_cell) as url:
        fetch(url, f"api/episodes/{HELPED}")  # it was looked at before
        spoil(recorded_cell.store)
        for path in (f"api/episodes/{DEMO}", f"api/episodes/{DEMO}/frames/0"):
            code, why = fetch(url, path)
            assert (code, words in why.decode()) == (409, True), why
            assert b"\n" not in why


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"api/episodes/{DEMO}/frames/3", 409),
        (f"api/episodes/{DEMO}/frames/99999999999999999999", 409),
        (f"api/episodes/{DEMO}/frames/-1", 404),
        (f"api/episodes/{DEMO}/frames/x", 404),
        ("api/episodes/..%2f..%2fstore", 404),
        ("api/episodes/..", 409),
        (f"api/episodes/{'9' * 5000}", 409),
        ("api/episodes/%00", 409),
    ],
)
def test_what_is_no_part_of_an_episode_is_refused(recorded_cell, path, code):
    with served(recorded_cell) as url:
        said, why = fetch(url, path)
        assert said == code, why
        assert len(why) < 7000


def test_episodes_are_told_to_nobody_without_the_token(recorded_cell):
    with served(recorded_cell, token=TOKEN) as url:
        for path in (f"api/episodes/{HELPED}", f"api/episodes/{HELPED}/frames/0"):
            code, why = fetch(url, path)
            assert (code, b"token is missing" in why) == (401, True)
            assert fetch(url, path, Authorization="Bearer wrong")[0] == 401
            assert fetch(url, path, Authorization=f"Bearer {TOKEN}")[0] == 200
    with served(recorded_cell) as url:
        assert fetch(url, f"api/episodes/{HELPED}", Host="evil.example")[0] == 403


def test_one_is_read_at_a_time_and_the_live_view_waits_for_none(recorded_cell, held):
    with served(recorded_cell) as url, tab(url) as page, ThreadPoolExecutor(4) as askers:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        names = (DEMO, HELPED, ALONE, DEMO)
        asked = [askers.submit(fetch, url, f"api/episodes/{name}") for name in names]
        assert held.begun.wait(20.0)
        recorded_cell.mode(Mode.POLICY)
        page.shows(lambda now: now["banner"]["mode"] == "policy", "the mode, while the first is read")
        page.say(k="press", what="hold")
        page.shows(lambda _: recorded_cell.done.pressed == ["hold"], "the hold, while the first is read")
        assert len(held.told) == 1
        held.free.set()
        assert [each.result()[0] for each in asked] == [200] * 4
        assert (sorted(held.told), held.most_at_once) == (sorted(names), 1)


def test_more_than_a_few_that_wait_are_refused(recorded_cell, held, monkeypatch):
    monkeypatch.setattr("robot_stack.console.browser.projector.MOST_WAITING", 1)
    with served(recorded_cell) as url, ThreadPoolExecutor(1) as asker:
        first = asker.submit(fetch, url, f"api/episodes/{HELPED}")
        assert held.begun.wait(20.0)
        code, why = fetch(url, f"api/episodes/{DEMO}")
        assert (code, b"1 parts of episodes are asked for, must be fewer" in why) == (400, True)
        held.free.set()
        assert first.result()[0] == 200
        assert fetch(url, f"api/episodes/{DEMO}")[0] == 200


def test_nothing_is_read_for_a_page_that_has_closed_it_again(recorded_cell, held):
    with served(recorded_cell) as url, tab(url) as page, ThreadPoolExecutor(2) as askers:
        page.shows(lambda now: now["writer"] == "you", "the desk")
        first = askers.submit(fetch, url, f"api/episodes/{HELPED}")
        assert held.begun.wait(20.0)
        host = url.removeprefix("http://").partition("/")[0]
        name, _, port = host.partition(":")
        with socket.create_connection((name, int(port))) as gone:
            gone.sendall(f"GET /api/episodes/{DEMO} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            page.say(k="press", what="hold")
            page.shows(lambda _: recorded_cell.done.pressed == ["hold"], "that the question has arrived")
        last = askers.submit(fetch, url, f"api/episodes/{ALONE}")
        page.say(k="press", what="stop")
        page.shows(lambda _: recorded_cell.done.pressed == ["hold", "stop"], "that the page has gone")
        held.free.set()
        assert [first.result()[0], last.result()[0]] == [200, 200]
        assert held.told == [HELPED, ALONE]
