"""Plots say what their curves are where the reader points, by mouse, touch and key; in a real browser, offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_stack.console.episodes import EpisodeRow as PageRow
from robot_stack.report.comparison import write_comparison
from robot_stack.report.plots.learning import rolling_rate
from robot_stack.report.plots.run import IN_THE_DARK
from robot_stack.report.run_folder import read_run
from robot_stack.report.write import write_report
from robot_stack.types.transition import EpisodeKind
from tests.report.fake_run import write_run

EPISODES = 30
WIDE, PHONE = {"width": 1100, "height": 900}, {"width": 400, "height": 844}


def opened(browser: Any, path: Path, **settings: Any) -> Any:
    page = browser.new_context(offline=True, viewport=WIDE, **settings).new_page()
    page.set_default_timeout(15_000)
    page.goto(path.as_uri())
    return page


@pytest.fixture(scope="module")
def page(browser: Any, reported_run: Path) -> Any:
    return opened(browser, reported_run / "report.html")


def told(folder: Path, name: str) -> list[dict[str, Any]]:
    return json.loads((folder / "plots" / f"{name}.json").read_text(encoding="utf-8"))


def place_of(view: Any, x: float, y: float) -> tuple[float, float]:
    """Where shares of a picture are on the screen."""
    view.scroll_into_view_if_needed()
    area = view.bounding_box()
    return area["x"] + x * area["width"], area["y"] + y * area["height"]


def test_what_is_told_of_an_episode_is_what_is_known_of_it(reported_run: Path) -> None:
    online = read_run(reported_run).episodes(EpisodeKind.ONLINE)
    alone = np.array([row.succeeded and not row.human_steps for row in online])
    rate, low, high = (100 * each for each in rolling_rate(alone))
    (group,) = told(reported_run, "learning")
    minutes = sum(row.duration_s for row in online[:20]) / 60
    number = PageRow(episode_id=online[19].episode_id, kind="online").number
    assert group["where"][19] == f"episode {number}, {minutes:.1f} min of robot time", "as the operator's page tells it"
    curves = {curve["name"]: curve for curve in group["curves"]}
    assert (
        curves["success without an operator"]["values"][19] == f"{rate[19]:.0f} % ({low[19]:.0f} to {high[19]:.0f} %)"
    )
    assert curves["length"]["values"][19].startswith(f"{online[19].duration_s:.1f} s, ")
    assert len(group["x"]) == len(online) == EPISODES


def test_the_marks_are_where_the_curve_is_drawn(reported_run: Path) -> None:
    """Episodes are evenly spaced from edge to edge; 0 and 100 % of 104 are where the panel begins and nearly ends."""
    (group,) = told(reported_run, "learning")
    left, top, right, _ = group["box"]
    np.testing.assert_allclose(group["x"], np.linspace(left, right, EPISODES), atol=2e-4)
    won = next(curve for curve in group["curves"] if curve["name"] == "success, with help or without")
    share = [float(value.split(" %")[0]) for value in won["values"]]
    slope, at_zero = np.polyfit(share, won["y"], 1)
    assert at_zero + 104 * slope == pytest.approx(top, abs=1e-3)
    for name in ("critic", "learner", "progress"):
        for group in told(reported_run, name):
            assert all(group["box"][0] - 1e-3 <= x <= group["box"][2] + 1e-3 for x in group["x"])


def test_the_pointer_reads_the_nearest_episode_and_takes_it_away_again(page: Any, reported_run: Path) -> None:
    (group,) = told(reported_run, "learning")
    view, tip = page.locator("figure.plot > div").first, page.locator("figure.plot .tip").first
    for episode in (1, 12, EPISODES):
        page.mouse.move(*place_of(view, group["x"][episode - 1], 0.6))
        words = [group["where"][episode - 1], *(f"{c['name']} {c['values'][episode - 1]}" for c in group["curves"])]
        assert tip.locator("b, span").all_text_contents() == words
        assert page.locator("figure.plot .dot").count() == len(group["curves"])
        centre = page.locator("figure.plot .line").first.bounding_box()["x"]
        assert centre == pytest.approx(place_of(view, group["x"][episode - 1], 0.6)[0], abs=1.5)
    page.keyboard.press("Escape")
    assert tip.count() == 0
    page.mouse.move(*place_of(view, group["x"][3], 0.6))
    assert tip.count() == 1
    page.mouse.move(2, 2)
    assert tip.count() == 0


def test_keys_read_the_same_and_a_screen_reader_says_it(page: Any, reported_run: Path) -> None:
    (group,) = told(reported_run, "learning")
    slider = page.locator("figure.plot > input").first
    assert slider.get_attribute("aria-label") == "values of the plot: Success and interventions"
    slider.fill("0")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    words = [group["where"][2], *(f"{c['name']} {c['values'][2]}" for c in group["curves"])]
    assert slider.get_attribute("aria-valuetext") == "; ".join(words)
    assert page.locator("figure.plot .tip b").text_content() == group["where"][2]
    page.locator("figure.plot > input").nth(1).focus()
    assert page.locator("figure.plot .tip b").text_content() != group["where"][2]


def test_each_panel_tells_of_itself(page: Any, reported_run: Path) -> None:
    view = page.get_by_alt_text("What the critic knew before it was trained on it").locator("..")
    heads = []
    for group in told(reported_run, "critic"):
        left, top, right, bottom = group["box"]
        page.mouse.move(*place_of(view, (left + right) / 2, (top + bottom) / 2))
        heads.append(view.locator(".tip span").first.text_content().rsplit(" ", 1)[0])
    assert heads[1:3] == ["return that followed", "of an episode, before"]
    assert len(heads) == len(set(heads)) == 4


def test_a_finger_reads_too_and_the_curve_stays_in_sight(browser: Any, reported_run: Path) -> None:
    context = browser.new_context(offline=True, viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto((reported_run / "report.html").as_uri())
    view = page.locator("figure.plot > div").first
    (group,) = told(reported_run, "learning")
    page.touchscreen.tap(*place_of(view, group["x"][9], 0.3))
    tip = page.locator("figure.plot .tip")
    assert tip.locator("b").text_content() == group["where"][9]
    assert tip.bounding_box()["y"] >= view.bounding_box()["y"] + view.bounding_box()["height"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_rules_of_axe_find_nothing_while_a_plot_is_read(browser: Any, reported_run: Path, scheme: str) -> None:
    package = pytest.importorskip("axe_core_python", reason="no axe here: pip install axe-core-python")
    page = opened(browser, reported_run / "report.html", color_scheme=scheme)
    page.locator("figure.plot > input").first.focus()
    page.keyboard.press("ArrowRight")
    page.evaluate(Path(package.__file__).with_name("axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    assert [(each["id"], [node["html"][:90] for node in each["nodes"]][:3]) for each in found] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_rules_of_axe_find_nothing_in_a_comparison(
    browser: Any, own_run: Path, tmp_path: Path, scheme: str
) -> None:
    package = pytest.importorskip("axe_core_python", reason="no axe here: pip install axe-core-python")
    other = tmp_path / "shorter"
    write_run(other, online=12, stored=0, seed=3)
    page = opened(browser, write_comparison([own_run, other]), color_scheme=scheme)
    page.locator("figure.plot > input").first.focus()
    page.keyboard.press("ArrowRight")
    page.evaluate(Path(package.__file__).with_name("axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    assert [(each["id"], [node["html"][:90] for node in each["nodes"]][:3]) for each in found] == []


def test_a_dark_page_has_dark_plots(browser: Any, reported_run: Path) -> None:
    corner = (
        "async img => { const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;"
        "const pen = canvas.getContext('2d'); await img.decode(); pen.drawImage(img, 0, 0, 1, 1, 0, 0, 1, 1);"
        "return Array.from(pen.getImageData(0, 0, 1, 1).data).slice(0, 3) }"
    )
    for scheme, wanted in (("light", "#ffffff"), ("dark", IN_THE_DARK["#ffffff"])):
        page = opened(browser, reported_run / "report.html", color_scheme=scheme)
        shade = page.locator("figure.plot img").first.evaluate(corner)
        assert "#" + bytes(shade).hex() == wanted


def test_nothing_is_lost_without_scripts(browser: Any, reported_run: Path) -> None:
    page = opened(browser, reported_run / "report.html", java_script_enabled=False)
    pictures = page.locator("figure.plot img")
    assert pictures.count() >= 6
    assert all(pictures.nth(number).bounding_box()["height"] > 100 for number in range(pictures.count()))
    assert page.locator("figure.plot > input").count() == 0
    assert "interval" in page.locator(".caption").first.inner_text()


def test_a_comparison_tells_of_every_run_at_one_time(browser: Any, own_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "shorter"
    write_run(other, online=12, stored=0, seed=3)
    text = (other / "run.yaml").read_text()
    (other / "run.yaml").write_text(text.replace("\n    demos: 6", "\n    demos: 7"))
    page = opened(browser, write_comparison([own_run, other]))
    (group,) = told(own_run, "comparison")
    assert [curve["name"] for curve in group["curves"]] == [
        "peg",
        "shorter",
        "human steps, peg",
        "human steps, shorter",
    ]
    view = page.locator("figure.plot > div")
    page.mouse.move(*place_of(view, group["x"][40], 0.3))
    shown = page.locator(".tip span").all_text_contents()
    assert [words.split(" ")[0] for words in shown[:2]] == ["peg", "shorter"]
    assert all("% (" in words for words in shown[:2])
    page.mouse.move(*place_of(view, group["x"][-1], 0.3))  # where the shorter run has ended
    assert [words.split(" %")[0].rsplit(" ", 1)[0] for words in page.locator(".tip span").all_text_contents()] == [
        "peg", "human steps, peg",
    ]  # fmt: skip


def test_words_of_a_run_cannot_end_the_script_that_holds_them(browser: Any, tmp_path: Path) -> None:
    hostile = tmp_path / "<script>alert(1)<"
    write_run(hostile, online=8, stored=0)
    other = tmp_path / "other"
    write_run(other, online=8, stored=0, seed=1)
    page = opened(browser, write_comparison([hostile, other]))
    page.locator("figure.plot > input").focus()
    page.keyboard.press("End")
    assert "<script>alert(1)<" in page.locator(".tip").text_content()


@pytest.mark.slow
def test_a_report_of_250_episodes_is_small(tmp_path: Path) -> None:
    write_run(tmp_path / "peg", online=250, stored=24)
    assert write_report(tmp_path / "peg").stat().st_size < 10e6
