"""The episode browser in a real browser: list, player, verdicts, trims, comparison, and whom it must not lock out."""

from __future__ import annotations

import importlib.util
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.console.browser.viewer import RerunViewer, rerun_program
from robot_stack.replay.annotations import MarkLog
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource
from robot_stack.types.stages import StageMark
from tests.console.browser_rig import (
    WAIT_MS,
    WIDE,
    axe_finds_nothing,
    every_look,
    needs_chromium,
    picture,
    says,
    sync_api,
    until,
)
from tests.console.browser_store import ALONE, DEMO, HELPED, LONG_STEPS, Served, browsing, write_recorded
from tests.datasets.data_rig import changed, contents, made_episode, made_spec, two_arm_spec, write_folder

from robot_stack.datasets.store_view import open_store  # isort: skip

pytestmark = [needs_chromium, pytest.mark.long]

TOKEN = "a-token-of-enough-characters"
LATER_NS = 11_000_000_000
IDS = "() => [...document.querySelectorAll('#list tbody tr')].map((row) => row.dataset.id)"
PAINTED = """() => [...document.querySelectorAll(".cameras canvas")]
    .map((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)
    .map((pixels) => pixels.some((value, index) => index % 4 < 3 && value > 0))"""
HALF_WAY = """() => {
    const scrub = document.getElementById("scrub");
    scrub.value = 500;
    scrub.dispatchEvent(new Event("input"));
}"""
STICKING_OUT = """() => [...document.querySelectorAll("body *")]
    .filter((each) => !each.closest(".scroll, .marks") && each.getBoundingClientRect().right > innerWidth + 1)
    .map((each) => `${each.tagName} ${each.id} ${each.getBoundingClientRect().right}`)"""
PAIRED = """() => [...document.querySelectorAll("#pair canvas")]
    .map((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)
    .map((pixels) => pixels.some((value, index) => index % 4 < 3 && value > 0))"""
PIXELS = "() => document.querySelector('.cameras canvas').toDataURL()"

DOWNS = """window.downs = [];
addEventListener("pointerup", () => window.downs.push(performance.now()), true);"""
AGAIN_MS = 600
"""As in buttons.js: until then a click belongs to the one before."""


def write_proposed(root: Path) -> None:
    """Recorded episodes, in one of which a model proposes where a stage begins."""
    write_recorded(root)
    log = MarkLog(open_store(root).paths.stages)
    log.open()
    log.append(
        StageMark(episode_id=HELPED, stage=2, frame=14, source=LabelSource.MODEL, stamp_unix_s=1.0, name="close")
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    write_recorded(tmp_path / "monday")
    with browsing(tmp_path / "monday") as served:
        yield served


def listed(page, ids: list[str]) -> None:
    until(lambda: page.evaluate(IDS) == ids, f"the rows {ids}", page)


def shown(page, text: str) -> None:
    sync_api.expect(page.locator("#moment")).to_contain_text(text)


def open_episode(page, episode_id: str) -> None:
    page.locator(f"tr[data-id='{episode_id}'] .pick").click()
    says(page, ".film figcaption", episode_id)
    until(lambda: all(page.evaluate(PAINTED)), "the images", page)


def test_the_list_is_filtered_and_sorted(served, tab):
    page = tab(served.url)
    listed(page, [DEMO, HELPED, ALONE])
    says(page, "#counts", "3 episodes: 1 demonstration, 2 online · 2 success")
    says(page, f"tr[data-id='{HELPED}']", "1×")
    for field, value, ids in (
        ("outcome", "failure", [ALONE]), ("kind", "demo", [DEMO]), ("help", "yes", [HELPED]),
        ("help", "no", [DEMO, ALONE]), ("by", "model", [HELPED]),
    ):  # fmt: skip
        page.select_option(f"#f-{field}", value)
        listed(page, ids)
        page.click("#f-clear")
    for field, value, ids in (("least", "3", [ALONE]), ("most", "3", [DEMO, HELPED]), ("text", "ONLINE-B", [ALONE])):
        page.fill(f"#f-{field}", value)
        listed(page, ids)
        page.click("#f-clear")
    listed(page, [DEMO, HELPED, ALONE])
    page.click("[data-sort=s] button")
    page.click("[data-sort=s] button")
    listed(page, [ALONE, DEMO, HELPED])
    sync_api.expect(page.locator("[data-sort=s]")).to_have_attribute("aria-sort", "descending")
    page.fill("#f-text", "no such thing")
    says(page, "#shown", "0 of 3 episodes")


LABELS = """() => {
    const play = document.querySelector("#play");
    window.labels = [];
    const heard = () => labels.push(play.getAttribute("aria-label"));
    new MutationObserver(heard).observe(play, { attributeFilter: ["aria-label"] });
}"""
"""Keeps what the button says: a quarter of a second of playing is over before a slow machine has looked."""


def test_an_episode_is_played_to_its_end_and_stepped_by_frames(served, tab):
    page = tab(served.url)
    open_episode(page, HELPED)
    shown(page, "frame 0 of 20, policy in control")
    first = page.evaluate(PIXELS)
    page.keyboard.press("ArrowRight")
    shown(page, "frame 1 of 20")
    until(lambda: page.evaluate(PIXELS) != first, "the next image", page)
    page.keyboard.press("ArrowLeft")
    shown(page, "frame 0 of 20")
    until(lambda: page.evaluate(PIXELS) == first, "the first image", page)
    page.keyboard.press("Shift+ArrowRight")
    shown(page, "frame 10 of 20, human in control")
    for _ in range(2):
        page.click("#faster")
    says(page, "#speed", "4×")
    page.focus("#player")
    page.evaluate(LABELS)
    page.keyboard.press(" ")
    shown(page, "frame 20 of 20, hold")
    until(lambda: page.evaluate("labels") == ["pause", "play"], "played to its end", page)
    page.keyboard.press("Home")
    shown(page, "frame 0 of 20")
    says(page, ".marks", "⚑ success · ✔ model · ✔ simulator")
    assert page.locator(".strip i").all_text_contents() == ["policy", "human", "", "hold"]
    names = page.locator(".strip i").evaluate_all("all => all.map((each) => each.className)")
    assert names == ["who policy", "who human", "who idle", "who hold"]


def test_the_scrubber_and_the_curves_are_at_one_moment(served, tab):
    page = tab(served.url)
    open_episode(page, ALONE)
    box = page.locator(".strip").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 5)
    shown(page, f"frame {LONG_STEPS // 2} of {LONG_STEPS}")
    cursor = page.locator("#cursor").bounding_box()
    assert abs(cursor["x"] + 1 - box["x"] - box["width"] / 2) <= 2
    over = page.locator(".u-over").first.bounding_box()
    assert abs(over["x"] - box["x"]) <= 1.5
    assert abs(over["width"] - box["width"]) <= 1.5
    says(page, ".plot:first-child figcaption", "Φ 0.44")
    page.select_option("#version", "aa-old")
    says(page, ".plot:first-child figcaption", "Φ 0.24")


def test_a_page_holds_a_few_seconds_of_a_long_episode_and_fetches_the_rest_again(tmp_path, tab):
    episode = made_episode(ALONE, made_spec(side_px=32), steps=139)  # 14 ranges of a second
    write_folder(tmp_path / "long", [episode])
    with browsing(tmp_path / "long") as served:
        page = tab(served.url)
        asked: list[str] = []
        came: list[str] = []
        page.on("request", lambda request: asked.append(request.url.rpartition("/frames/")[2]))
        page.on("requestfinished", lambda request: came.append(request.url.rpartition("/frames/")[2]))
        open_episode(page, ALONE)
        for number in range(1, 14):
            page.keyboard.press("Shift+ArrowRight")
            until(lambda number=number: str(min(number + 2, 13)) in came, f"range {number + 2}", page)
        page.wait_for_load_state("networkidle")
        assert [asked.count(str(number)) for number in range(14)] == [1] * 14, "each once"
        page.keyboard.press("Home")
        until(lambda: asked.count("0") == 2, "the first range again", page)


def test_a_page_that_is_scrubbed_past_a_range_no_longer_waits_for_it(tmp_path, tab):
    write_folder(tmp_path / "long", [made_episode(ALONE, made_spec(side_px=32), steps=139)])
    with browsing(tmp_path / "long") as served:
        page = tab(served.url)
        open_episode(page, ALONE)
        kept_back, came = [], []
        page.on("requestfinished", lambda request: came.append(request.url.rpartition("/frames/")[2]))
        page.route("**/frames/6", lambda route: kept_back.append(route))
        page.evaluate(HALF_WAY)
        shown(page, "frame 69 of 139")
        until(lambda: len(kept_back) == 1, "the question", page)
        page.keyboard.press("End")
        shown(page, "frame 139 of 139")
        page.evaluate(HALF_WAY)
        until(lambda: len(kept_back) == 2, "the question anew", page)
        kept_back[1].continue_()
        until(lambda: "6" in came, "its answer", page)


def test_arrows_go_through_the_list_as_it_is_filtered(served, tab):
    page = tab(served.url)
    page.select_option("#f-kind", "online")
    listed(page, [HELPED, ALONE])
    page.focus("#player")
    for key, episode_id in (("ArrowDown", HELPED), ("ArrowDown", ALONE), ("ArrowDown", ALONE), ("ArrowUp", HELPED)):
        page.keyboard.press(key)
        says(page, ".film figcaption", episode_id)


def test_nothing_is_done_with_an_episode_while_the_next_is_on_its_way(served, tab):
    page = tab(served.url)
    open_episode(page, HELPED)
    kept_back = []
    page.route(f"**/episodes/{ALONE}", lambda route: kept_back.append(route))
    page.keyboard.press("ArrowDown")
    until(lambda: len(kept_back) == 1, "the question", page)
    page.keyboard.press("f")
    says(page, "#notice", "is still on its way")
    page.keyboard.press("[")
    for button in ("#say button >> nth=2", "#from", "#write"):
        page.locator(button).dispatch_event("pointerdown")
        page.locator(button).click(force=True, no_wait_after=True)
    page.locator("#say button >> nth=2").focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert served.json("api/list")["waiting"] == {}
    assert page.locator("#trims li").count() == 0
    kept_back[0].continue_()
    says(page, ".film figcaption", ALONE)
    page.keyboard.press("d")
    says(page, f"tr[data-id='{ALONE}'] .outcome", "discard")
    page.route(f"**/episodes/{HELPED}", lambda route: route.abort())
    page.keyboard.press("ArrowUp")
    says(page, "#notice", "does not answer")
    page.keyboard.press("s")
    says(page, f"tr[data-id='{ALONE}'] .outcome", "success")


def test_a_verdict_is_given_by_its_key_and_undone(served, tab):
    page = tab(served.url)
    open_episode(page, HELPED)
    page.keyboard.press("f")
    says(page, f"tr[data-id='{HELPED}'] .outcome", "failure")
    says(page, "#back-in", "2 is failure: written in")
    page.keyboard.press("u")
    says(page, f"tr[data-id='{HELPED}'] .outcome", "success")
    sync_api.expect(page.locator("#back-in")).to_have_text("")
    page.locator("#say button", has_text="discard").click()
    says(page, f"tr[data-id='{HELPED}'] .outcome", "discard")
    served.relabels.bring(time.monotonic_ns() + LATER_NS)
    until(lambda: "discard" in (served.root / "labels.jsonl").read_text(), "the label")
    says(page, "#facts", "discard by operator")


def test_letters_that_are_typed_give_no_verdict(served, tab):
    page = tab(served.url)
    open_episode(page, HELPED)
    page.fill("#f-text", "")
    page.locator("#f-text").press_sequentially("sfd")
    page.wait_for_timeout(200)
    assert served.json("api/list")["waiting"] == {}


def test_a_trim_is_set_at_the_scrubber_and_written_elsewhere(served, tab):
    page = tab(served.url)
    before = contents(served.root)
    open_episode(page, HELPED)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    shown(page, "frame 3 of 20")
    page.keyboard.press("[")
    says(page, "#trims", "2: frames 3 to 20")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("]")
    says(page, "#trims", "2: frames 3 to 13")
    page.keyboard.press("Home")
    page.keyboard.press("]")
    says(page, "#notice", "must be before the last")
    page.click("#write")
    says(page, "#made", str(served.out / "trimmed"))
    says(page, "#made", "robot-stack data view")
    assert open_store(served.out / "trimmed").read(HELPED, images=False).length == 10
    assert contents(served.root) == before


def test_two_episodes_are_compared_by_time_and_by_progress(served, tab):
    page = tab(served.url)
    open_episode(page, HELPED)
    page.locator(f"tr[data-id='{ALONE}'] .beside").click()
    says(page, "#moment", "B 0.00 s")
    until(lambda: page.evaluate(PAINTED) == [True] * 4, "the images of both", page)
    page.keyboard.press("End")
    shown(page, f"A 2.00 s, frame 20 of 20, hold  |  B 4.50 s, frame {LONG_STEPS} of {LONG_STEPS}")
    page.check("#align [value=progress]")
    page.keyboard.press("Home")
    page.evaluate(HALF_WAY)
    shown(page, f"frame 10 of 20, human in control  |  B 2.30 s, frame 23 of {LONG_STEPS}")  # both have half of 0.9
    page.reload()
    says(page, "#moment", "B 0.00 s")
    page.click("#single")
    sync_api.expect(page.locator(".film")).to_have_count(1)


def test_an_export_says_where_it_is_and_how_it_is_opened(served, tab):
    pytest.importorskip("mcap_ros2", reason="mcap is not installed")
    page = tab(served.url)
    page.context.route("https://**", lambda route: route.abort())
    open_episode(page, DEMO)
    page.locator("[data-format=mcap]").click()
    says(page, "#made", str(served.out / f"mcap-{DEMO}"))
    says(page, "#made", "in Foxglove: Open local file")
    says(page, "#made a", "open it in Foxglove")
    axe_finds_nothing(page)


def test_a_program_that_cannot_be_written_for_says_what_it_needs(tmp_path, tab, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "rerun" else found("sys"))
    write_recorded(tmp_path / "monday")
    with browsing(tmp_path / "monday") as served:
        page = tab(served.url)
        open_episode(page, DEMO)
        sync_api.expect(page.locator("[data-format=rerun]")).to_be_disabled()
        assert page.locator("#elsewhere .remedy").all_text_contents() == ["Rerun: pip install 'robot-stack[rerun]'"]
        sync_api.expect(page.locator("[data-format=mcap]")).to_be_enabled()
        sync_api.expect(page.locator("[data-format=lerobot]")).to_be_enabled()
        picture(page, "browser_remedy")


@pytest.mark.long
@pytest.mark.parametrize(("format", "library"), [("rerun", "rerun"), ("lerobot", "av")])
def test_one_click_opens_an_episode_in_reruns_own_viewer(tmp_path, browser, format: str, library: str):
    """The real one: its page is loaded and names the recording; at the end of ours nothing of it is left."""
    pytest.importorskip(library, reason=f"{library} is not installed")
    program = rerun_program()
    if program is None:
        pytest.skip("rerun is not installed")
    write_recorded(tmp_path / "run")
    context = browser.new_context(viewport=WIDE)
    with browsing(tmp_path / "run", viewer=RerunViewer([program], tmp_path / "rerun.log")) as served:
        page = context.new_page()
        page.goto(served.url)
        open_episode(page, DEMO)
        with context.expect_page(timeout=WAIT_MS) as opened:
            page.locator(f"[data-format={format}]").click()
        sync_api.expect(opened.value).to_have_title("Rerun Viewer")
        assert page.locator("#made a").get_attribute("href") == opened.value.url
        says(page, "#made", str(served.out / f"{format}-{DEMO}"))
        address = opened.value.url
        context.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(address, timeout=5)


FOXGLOVE_PAGE = """<title>waits</title><script>
(async () => {
    const address = new URL(location.href).searchParams.get("ds.url");
    const answer = await fetch(address, { headers: { Range: "bytes=0-7" } });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const whole = answer.headers.get("Content-Range").split("/")[1];
    document.title = `${answer.status} ${[...bytes].map((each) => each.toString(16)).join(" ")} of ${whole}`;
})().catch((error) => { document.title = `refused: ${error}`; });
</script>"""
"""Takes Foxglove's place at its address: reads the first bytes of the file as a page of that origin can."""
MCAP_MAGIC = "89 4d 43 41 50 30 d a"


@pytest.mark.long
def test_one_click_opens_an_episode_at_foxgloves_address_whose_page_may_read_it(tmp_path, browser):
    pytest.importorskip("mcap_ros2", reason="mcap is not installed")
    write_recorded(tmp_path / "run")
    context = browser.new_context(viewport=WIDE, permissions=["local-network-access"])  # for which Chrome asks once
    context.route(
        "https://app.foxglove.dev/**", lambda route: route.fulfill(body=FOXGLOVE_PAGE, content_type="text/html")
    )
    with browsing(tmp_path / "run") as served:
        page = context.new_page()
        page.goto(served.url)
        open_episode(page, DEMO)
        with context.expect_page(timeout=WAIT_MS) as opened:
            page.locator("[data-format=mcap]").click()
        size = (served.out / f"mcap-{DEMO}" / f"{DEMO}.mcap").stat().st_size
        sync_api.expect(opened.value).to_have_title(f"206 {MCAP_MAGIC} of {size}")
        says(page, "#made a", "open it in Foxglove")
    context.close()


def test_a_viewer_that_does_not_come_up_is_said_beside_the_command(tmp_path, tab):
    pytest.importorskip("rerun", reason="rerun is not installed")
    broken = tmp_path / "rerun"
    broken.write_text("#!/bin/sh\necho no such file\nexit 3\n")
    broken.chmod(0o755)
    write_recorded(tmp_path / "run")
    with browsing(tmp_path / "run", viewer=RerunViewer([str(broken)], tmp_path / "rerun.log")) as served:
        page = tab(served.url)
        open_episode(page, DEMO)
        page.locator("[data-format=rerun]").click()
        says(page, "#made", "has not come up")
        says(page, "#made", "no such file")
        says(page, "#made code", "rerun ")
        assert page.locator("#made a").count() == 0


def test_what_is_broken_or_running_is_named_and_a_refusal_is_shown(served, tab):
    (served.root / "episodes" / f"{ALONE}.zarr" / "manifest.json").rename(served.root / "aside.json")
    chunk = next((served.root / "episodes" / f"{DEMO}.zarr" / "executed").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    (served.root / "labels.jsonl").touch()
    with browsing(served.root) as again:
        page = tab(again.url)
        says(page, "#aside .running", f"{ALONE} is not closed")
        page.locator(f"tr[data-id='{DEMO}'] .pick").click()
        says(page, "#notice", "must be whole")
        says(page, "#aside .broken", "checksum of")
        listed(page, [HELPED])


def test_an_episode_of_one_frame_is_shown(tmp_path, tab):
    episode = made_episode(DEMO, made_spec(side_px=32))
    short = {name: rows[: len(rows) - episode.length] for name, rows in episode.arrays.items()}
    write_folder(tmp_path / "short", [changed(episode, **short)])
    with browsing(tmp_path / "short") as served:
        page = tab(served.url)
        open_episode(page, DEMO)
        shown(page, "0.00 s, frame 0 of 0, no step")
        page.keyboard.press(" ")
        shown(page, "0.00 s, frame 0 of 0, no step")


def test_each_of_several_arms_has_its_band_and_no_camera_is_needed(tmp_path, tab):
    spec = replace(two_arm_spec(), cameras=())
    episode = made_episode(DEMO, spec)
    who = np.array([[Source.HUMAN, Source.HOLD]] * 12 + [[Source.POLICY, Source.POLICY]] * 8, np.uint8)
    write_folder(tmp_path / "two", [changed(episode, sources=who)])
    with browsing(tmp_path / "two") as served:
        page = tab(served.url)
        page.locator(f"tr[data-id='{DEMO}'] .pick").click()
        shown(page, "frame 0 of 20")
        assert page.locator(".band .side").all_text_contents() == ["left", "right"]
        words = [band.locator("i").all_text_contents() for band in page.locator(".strip").all()]
        assert words == [["human", "policy"], ["hold", "policy"]]
        sync_api.expect(page.locator(".marks")).to_have_count(1)
        for _ in range(3):
            page.click("#faster")
        says(page, "#speed", "8×")
        page.focus("#player")
        page.keyboard.press(" ")
        shown(page, "frame 20 of 20")


def test_a_page_without_the_token_asks_for_it(tmp_path, tab):
    write_recorded(tmp_path / "monday")
    with browsing(tmp_path / "monday", token=TOKEN) as served:
        page = tab(served.url.partition("#")[0])
        page.locator("#token").fill("wrong")
        page.keyboard.press("Enter")
        says(page, "#notice", "token is wrong")
        sync_api.expect(page.locator("#gate")).to_be_visible()
        axe_finds_nothing(page)
        page.locator("#token").fill(served.url)
        page.keyboard.press("Enter")
        open_episode(page, HELPED)
        assert TOKEN not in page.url


@every_look
def test_the_rules_of_axe_find_nothing_and_nothing_sticks_out(served, tab, scheme, size):
    page = tab(served.url, viewport=size, color_scheme=scheme)
    listed(page, [DEMO, HELPED, ALONE])
    for compared in (False, True):
        open_episode(page, HELPED)
        if compared:
            page.locator(f"tr[data-id='{ALONE}'] .beside").click()
            says(page, "#moment", "B 0.00 s")
        else:
            page.keyboard.press("f")
            says(page, "#back-in", "written in")
        axe_finds_nothing(page)
        assert page.evaluate(STICKING_OUT) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_stages_are_marked_at_the_scrubber_accepted_and_removed(tmp_path, tab):
    root = tmp_path / "monday"
    write_proposed(root)
    with browsing(root, stages=("open", "fill", "close")) as served:
        page = tab(served.url)
        open_episode(page, HELPED)
        says(page, ".marks .stage.proposed", "close?")
        page.keyboard.press("Shift+ArrowRight")
        shown(page, "frame 10 of 20")
        page.keyboard.press("g")
        says(page, "#stages", "fill from frame 10")
        page.get_by_role("button", name="accept the mark of close").click()
        until(lambda: len(open_store(root).marks_of(HELPED)) == 2, "the accepted mark", page)
        sync_api.expect(page.locator(".marks .stage.proposed")).to_have_count(0)
        sync_api.expect(page.locator(".marks .stage")).to_have_text(["fill", "close"])
        page.evaluate("scrollTo(0, 0)")
        picture(page, "browser-stages")
        page.keyboard.press("g")
        says(page, "#notice", "stage 1, must be of one that is not marked; that one is at frame 10, remove it first")
        page.wait_for_timeout(AGAIN_MS + 100)  # no second click of the one on *accept*, which was beside it
        page.get_by_role("button", name="remove the mark of fill").click()
        until(lambda: [mark.stage for mark in open_store(root).marks_of(HELPED)] == [2], "the removal", page)


def test_a_double_click_on_accept_removes_nothing(tmp_path, tab):
    """Where *accept* was is ✕ as soon as the mark is there. A pair that a busy machine drew apart is done again."""
    for number in range(10):
        root = tmp_path / f"monday{number}"
        write_proposed(root)
        with browsing(root, stages=("open", "fill", "close")) as served:
            page = tab(served.url)
            page.evaluate(DOWNS)
            open_episode(page, HELPED)
            accept = page.get_by_role("button", name="accept the mark of close")
            remove = page.get_by_role("button", name="remove the mark of close")
            accept.scroll_into_view_if_needed()
            box = accept.bounding_box()
            place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            page.mouse.click(*place)
            until(remove.count, "the accepted mark", page)
            page.mouse.click(*place)
            page.wait_for_timeout(300)
            one, other = page.evaluate("window.downs.slice(-2)")
            if other - one < AGAIN_MS:
                assert [mark.stage for mark in open_store(root).marks_of(HELPED)] == [2]
                assert remove.count() == 1
                return
    raise AssertionError("two clicks were never near each other")


def test_which_got_further_is_answered_by_a_key_or_a_click_and_the_next_pair_comes(served, tab):
    page = tab(served.url)
    listed(page, [DEMO, HELPED, ALONE])
    page.click("#ask")
    until(lambda: page.evaluate(PAIRED) == [True] * 4, "both clips", page)
    says(page, "#asked", "0 answers so far")
    for key, further in (("ArrowRight", "second"), ("ArrowLeft", "first"), ("ArrowDown", "same"), ("?", "unknown")):
        said = len(open_store(served.root).preferences)
        page.keyboard.press(key)
        until(lambda said=said: len(open_store(served.root).preferences) > said, f"the answer {further}", page)
        sync_api.expect(page.locator("#further[aria-busy=false]")).to_be_visible()
        until(lambda: page.evaluate(PAIRED) == [True] * 4, "the next clips", page)
        assert open_store(served.root).preferences[-1].further.value == further
    page.keyboard.press("u")
    page.locator("[data-answer=first]").click()
    until(lambda: len(open_store(served.root).preferences) == 5, "the other answer", page)
    said = open_store(served.root).preferences
    assert (said[4].first, said[4].second, said[4].further.value) == (said[3].first, said[3].second, "first")
    assert len({frozenset((each.first, each.second)) for each in said}) == 4
    assert len({each.by for each in said}) == 1
    picture(page, "browser-further")
    axe_finds_nothing(page)
    page.keyboard.press("Escape")
    sync_api.expect(page.locator("#further")).to_be_hidden()
    page.focus("#player")
    page.keyboard.press("ArrowDown")
    says(page, ".film figcaption", DEMO)
    assert len(open_store(served.root).preferences) == 5, "no key answers any more"
