"""Episodes in the report can be played: each frame is the right one, with who moved; in a real browser, offline."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.report import player
from robot_stack.report.episode_table import WATCHED, WATCHED_WELL, episodes_to_watch
from robot_stack.report.run_folder import read_run
from robot_stack.report.thumbnails import fit
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import Source
from robot_stack.types.transition import EndReason, EpisodeKind

PIXELS = "figure => Array.from(figure.querySelector('canvas').getContext('2d').getImageData(0, 0, {w}, {h}).data)"


@pytest.fixture(scope="module")
def page(browser: Any, reported_run: Path) -> Any:
    """The report from disk, with the network off."""
    opened = browser.new_context(offline=True).new_page()
    opened.set_default_timeout(15_000)
    opened.goto((reported_run / "report.html").as_uri())
    return opened


def episode_of(finished_run: Path, figure: Any) -> StoredEpisode:
    stored = read_run(finished_run).stored(figure.get_attribute("id"), images=True)
    assert stored is not None
    return stored


def frame(stored: StoredEpisode, at: int) -> np.ndarray:
    return np.concatenate([fit(stored.arrays[IMAGE_PREFIX + c.name][at]) for c in stored.spec.cameras], axis=1)


def test_every_frame_is_drawn_where_the_slider_says(page: Any, finished_run: Path) -> None:
    figure = page.locator("figure.play").first
    stored = episode_of(finished_run, figure)
    last = int(figure.locator("input").get_attribute("max"))
    assert last == stored.length
    for at in (0, 9, 10, 35, 57, last):
        figure.locator("input").fill(str(at))
        wanted = frame(stored, at)
        height, width = wanted.shape[:2]
        said = figure.evaluate(PIXELS.format(w=width, h=height))
        shown = np.array(said, np.uint8).reshape(height, width, 4)[..., :3]
        assert np.abs(shown.astype(int) - wanted).mean() < 1.5  # neighbours differ by 1 of 255, rows of the sheet by 10
        source = Source(int(stored.arrays["source"][min(at, stored.length - 1)])).name.lower()
        assert figure.locator("output").text_content() == f"{at * stored.spec.period_s:.1f} s  {source}"


def test_it_plays_to_the_end_and_stops_there(page: Any) -> None:
    figure = page.locator("figure.play").first
    slider, button = figure.locator("input"), figure.locator("button")
    last = int(slider.get_attribute("max"))
    slider.fill(str(last - 3))
    said = button.evaluate("button => { button.click(); return button.getAttribute('aria-label') }")
    assert said == "pause"
    page.wait_for_function("button => button.getAttribute('aria-label') === 'play'", arg=button.element_handle())
    assert slider.input_value() == str(last)


def test_the_arrow_keys_step(page: Any) -> None:
    slider = page.locator("figure.play").nth(1).locator("input")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "2"


def test_what_to_watch_is_failures_first_and_some_that_went_well(finished_run: Path) -> None:
    titles = [title for title, _ in episodes_to_watch(read_run(finished_run))]
    assert 0 < len(titles) <= WATCHED + WATCHED_WELL
    bad = ["no success" in title for title in titles]
    assert bad == sorted(bad, reverse=True)
    assert len(set(titles)) == len(titles)


def test_the_newest_that_went_well_are_those_whatever_their_numbers_look_like(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        EpisodeRow(episode_id=f"{number:06d}-online-a", episode_kind=EpisodeKind.ONLINE, steps=9, duration_s=0.9,
                   success=True, declared=True, end=EndReason.SUCCESS)
        for number in range(95, 103)
    ]  # fmt: skip
    record = SimpleNamespace(episodes=lambda kind: rows, model_judges=True)
    titles = [title for title, _ in episodes_to_watch(record)]
    assert [title.split(":")[0] for title in titles] == [f"Episode {102 - at}" for at in range(WATCHED_WELL)]


def test_of_a_long_episode_every_nth_frame_is_shown_at_its_time(
    finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(player, "FRAMES", 50)
    record = read_run(finished_run)
    shown = player.players(record, episodes_to_watch(record)[:1])
    film = json.loads(shown.split("<script type='application/json'>")[1].split("</script>")[0])
    stored = record.stored(episodes_to_watch(record)[0][1].episode_id)
    assert stored is not None
    stride = -(-(stored.length + 1) // 50)
    assert len(film["who"]) == film["last"] + 1 == len(range(0, stored.length + 1, stride))
    assert film["period_s"] == pytest.approx(stride * stored.spec.period_s)
