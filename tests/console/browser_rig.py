"""The page in a real browser: what the tests that look at it share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")
pytest.importorskip("playwright", reason="no Playwright on this machine: pip install playwright")

from playwright import sync_api

from tests.chromium import CHROMIUM
from tests.console.page_rig import FakeCell

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")

WAIT_MS = 15_000
sync_api.expect.set_options(timeout=WAIT_MS)  # its own 5 s are not enough for a page beside all other tests
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 400, "height": 844}
every_look = pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(WIDE, "light", id="wide-light"),
        pytest.param(PHONE, "dark", id="phone-dark"),
        pytest.param(WIDE, "dark", id="wide-dark", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", id="phone-light", marks=pytest.mark.slow),
    ],
)
"""Both sizes and both schemes; together in `make thorough` alone."""
BEHIND = """
window.behind = false;
Object.defineProperty(document, "hidden", { get: () => window.behind });
const frame = window.requestAnimationFrame.bind(window), waiting = [];
window.requestAnimationFrame = (drawn) => frame((ms) => { window.behind ? waiting.push(drawn) : drawn(ms); });
window.turn = (behind) => {
  window.behind = behind;
  document.dispatchEvent(new Event("visibilitychange"));
  if (!behind) waiting.splice(0).forEach(frame);
};
"""
"""A page that draws nothing while another tab is before it; Playwright keeps every page in view."""
PAD = """() => {
  window.pad = null;
  navigator.getGamepads = () => [window.pad];
  window.hold = (buttons, mapping = "standard") => {
    window.pad = { index: 0, connected: true, mapping, axes: [0, 0, 0, 0],
        buttons: Array.from({ length: 17 }, (_, index) => ({ pressed: buttons.includes(index) })) };
  };
}"""
"""A gamepad of the browser, whose buttons are held by their index."""
PICTURES = os.environ.get("CONSOLE_PICTURES", "")
"""Folder that screenshots are kept in, for an operator to look at."""


def picture(page, name: str) -> None:
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{PICTURES}/{name}.png", full_page=name.startswith(("phone", "setup")))


def word(page, text: str) -> None:
    sync_api.expect(page.locator("#word")).to_have_text(text)


def says(page, selector: str, text: str) -> None:
    sync_api.expect(page.locator(selector)).to_contain_text(text)


def until(fits: Callable[[], object], what: str, page=None, wait_ms: int = WAIT_MS) -> None:
    """Without blocking the browser, which is driven from this thread."""
    deadline_s = time.monotonic() + wait_ms / 1e3
    while not fits():
        assert time.monotonic() < deadline_s, f"{what} not within {wait_ms / 1e3:g} s"
        page.wait_for_timeout(10) if page is not None else time.sleep(0.01)


def look(cell: FakeCell, shade: int) -> None:
    for camera in cell.run.cameras:
        x, y = np.meshgrid(np.arange(64), np.arange(64))
        image = np.stack([4 * x, 4 * y, np.full_like(x, shade)], -1).astype(np.uint8)
        cell.frame(camera, image, cv2.imencode(".jpg", image)[1].tobytes())


def lively(cell: FakeCell) -> None:
    """What the other processes say of themselves."""
    cell.diagnosis("camera_wrist: frames", frequency_hz=30)
    actor = {
        "jitter_p99_ms": 1.2,
        "act_ms": 8.1,
        "params_version": 212,
        "params_age_s": 3.1,
        "link": "up",
        "spooled": 0,
    }
    cell.diagnosis("actor: policy", **actor)


def keep(page, what: str, kept_ms: int) -> None:
    """Keep a button of the keys pressed."""
    button = page.locator(f"#keys [data-what={what}]")
    sync_api.expect(button).to_be_enabled()
    page.evaluate("scrollTo(0, 0)")
    box = button.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.wait_for_timeout(kept_ms)
    page.mouse.up()


def axe_finds_nothing(page) -> None:
    """The rules of axe, which say what a page must keep for whoever sees or moves otherwise."""
    package = pytest.importorskip("axe_core_python", reason="no axe here: pip install axe-core-python")
    page.evaluate((Path(package.__file__).with_name("axe.min.js")).read_text())
    found = page.evaluate("axe.run()")["violations"]
    assert not found, [(each["id"], each["help"], [node["html"] for node in each["nodes"]][:3]) for each in found]
